//go:build e2e

package e2e

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

// engine returns a command of the container engine that the tests use: the one in kind's environment variable, or the
// first that answers.
func engine(args ...string) *exec.Cmd {
	name := os.Getenv("KIND_EXPERIMENTAL_PROVIDER")
	if name == "" {
		name = firstEngine()
	}
	return exec.Command(name, args...)
}

var firstEngine = sync.OnceValue(func() string {
	if exec.Command("docker", "info").Run() != nil && exec.Command("podman", "info").Run() == nil {
		return "podman"
	}
	return "docker"
})

// needsKind skips a test with a visible message if no engine answers. In CI it fails the test instead.
func needsKind(t *testing.T) {
	t.Helper()
	if out, err := engine("info").CombinedOutput(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("no container engine answers: %v\n%s", err, out)
		}
		t.Skip("SKIPPED: no container engine answers, nothing was run on kind")
	}
	if out, err := exec.Command(leakrig, "node-image", "build").CombinedOutput(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("node image: %v\n%s", err, out)
		}
		t.Skipf("SKIPPED: no node image, nothing was run on kind: %s", out)
	}
	t.Cleanup(func() {
		if left := containers(t); left != "" {
			t.Errorf("containers are left: %s", left)
		}
		if filepath.Base(engine().Path) == "podman" { // podman does not remove volumes with their containers
			if left := output(t, engine("volume", "ls", "--format", "{{.Labels}}")); strings.Contains(left, "leakrig-") {
				t.Errorf("volumes are left: %s", left)
			}
		}
	})
}

// containers lists the containers of leakrig's clusters.
func containers(t *testing.T) string {
	t.Helper()
	out, err := engine("ps", "-a", "--filter", "name=leakrig-", "--format", "{{.Names}}").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// onNetwork lists the containers on kind's network in docker, including removed ones.
func onNetwork(t *testing.T) string {
	t.Helper()
	if filepath.Base(engine().Path) == "podman" { // podman does not list them
		return ""
	}
	out, err := engine("network", "inspect", "kind", "--format", "{{range .Containers}}{{.Name}} {{end}}").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// TestKindSmoke runs the leaky and the fixed variant of watch-then-delete, each as a pod. It is the only kind test
// that runs on every change. TestKind checks more of the same run.
func TestKindSmoke(t *testing.T) {
	needsKind(t)
	privateTmp(t)
	runs := t.TempDir()
	r := run(t, "run", "watch-then-delete", "--cluster", "kind", "--variant", "leaky,fixed", "--rounds", "6", "--runs-dir", runs)
	if r.code != leak.ExitMet {
		t.Fatal(r)
	}
	met("kind")
	record, verdict := readRecord(t, runDir(t, runs)), readVerdict(t, runDir(t, runs))
	for _, v := range record.Variants {
		if v.Subject.Placement != leak.PlacementPod {
			t.Errorf("%s ran as a %s", v.Name, v.Subject.Placement)
		}
	}
	if f := findingOf(t, variantVerdict(t, verdict, "leaky"), "receive"); f.Outcome != leak.Leaking || f.PerOperation < 0.95 || f.PerOperation > 1 {
		t.Errorf("leaky: %s", f.Summary)
	}
	if f := findingOf(t, variantVerdict(t, verdict, "fixed"), "receive"); f.Outcome != leak.Clean || f.PerOperation != 0 {
		t.Errorf("fixed: %s", f.Summary)
	}
}

// TestKind checks that the same scenario gives the same verdict and growth everywhere: on the embedded control plane,
// as a pod and as a process on kind, and as a process on an existing cluster. A kept cluster serves the runs on kind
// and on the existing cluster.
func TestKind(t *testing.T) {
	needsKind(t)
	own := privateTmp(t)
	defer run(t, "clean")
	growth := map[string]float64{}
	measure := func(name, placement string, args ...string) result {
		runs := t.TempDir()
		r := run(t, append([]string{"run", "watch-then-delete", "--variant", "leaky,fixed", "--rounds", "6", "--runs-dir", runs}, args...)...)
		if r.code != leak.ExitMet {
			t.Fatalf("%s: %s", name, r)
		}
		dir := runDir(t, runs)
		record, verdict := readRecord(t, dir), readVerdict(t, dir)
		if got := record.Variants[0].Subject.Placement; got != placement {
			t.Errorf("%s: the subject ran as a %s", name, got)
		}
		if values := record.Variants[0].Final().Sample("process").Values; values["rss"] < 1<<20 || values["threads"] < 2 || values["descriptors"] < 3 {
			t.Errorf("%s: process %v", name, values)
		}
		growth[name] = findingOf(t, variantVerdict(t, verdict, "leaky"), "receive").PerOperation
		return r
	}
	measure("process on embedded", "process", "--cluster", "embedded")
	r := measure("pod on kind", "pod", "--cluster", "kind", "--keep")
	met("kind")
	kept := regexp.MustCompile(`kubeconfig (\S+)`).FindStringSubmatch(r.stderr)
	if kept == nil {
		t.Fatalf("the kept cluster's kubeconfig is not named: %s", r)
	}
	began := time.Now()
	measure("process on kind", "process", "--cluster", "kind", "--reuse", "--placement", "process")
	t.Logf("a run that reuses the cluster took %s", time.Since(began).Round(time.Second))
	dependenciesAsPods(t)
	// A leakrig killed under load there leaves its namespace to the next run.
	onExisting := []string{"--cluster", "existing", "--kubeconfig", kept[1]}
	setenv(t, "TMPDIR", t.TempDir()) // its scratch folder is too young for the next run to remove
	killed := start(t, append([]string{"run", "watch-then-delete", "--variant", "fixed", "--runs-dir", t.TempDir()}, onExisting...)...)
	killed.until(t, `fixed: round 1/8`)
	if err := killed.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.cmd.Wait()
	setenv(t, "TMPDIR", own)
	if r := measure("process on existing", "process", onExisting...); !regexp.MustCompile(`removed what a run that was killed has left: .*namespace leakrig-`).MatchString(r.stderr) {
		t.Errorf("the namespace of a killed leakrig: %s", r)
	}
	for name, per := range growth {
		if math.Abs(per-growth["pod on kind"]) > 0.05 {
			t.Errorf("%s: %g an operation, pod on kind: %g", name, per, growth["pod on kind"])
		}
	}
	// The kept cluster finishes the deletion of the namespaces after the run.
	node := containers(t)
	waitFor(t, func() bool {
		out, err := engine("exec", node, "kubectl", "--kubeconfig", "/etc/kubernetes/admin.conf", "get", "namespaces", "-o", "name").CombinedOutput()
		return err == nil && !strings.Contains(string(out), "leakrig-")
	})
	if r := run(t, "run", "watch-then-delete", "--cluster", "existing", "--kubeconfig", productionKubeconfig(t, kept[1])); r.code != leak.ExitUsage || !strings.Contains(r.stderr, "looks like production") {
		t.Errorf("ran on production: %s", r)
	}
	if r := run(t, "clean"); r.code != 0 || !strings.Contains(r.stdout, "removed cluster leakrig-kept-") {
		t.Error(r)
	}
}

// dependenciesAsPods runs a subject as a pod on the kept cluster with two dependencies. It reaches the first one through the
// second one, before and after the second one was restarted.
func dependenciesAsPods(t *testing.T) {
	t.Helper()
	file, runs := filepath.Join(root, "internal", "e2e", "testdata", "relay.yaml"), t.TempDir()
	r := run(t, "run", file, "--cluster", "kind", "--reuse", "--runs-dir", runs)
	if r.code != leak.ExitMet && r.code != leak.ExitInconclusive { // some operations fail, as they should
		t.Fatal(r)
	}
	dir := runDir(t, runs)
	for _, s := range readRecord(t, dir).Variants[0].Snapshots[1:] {
		// Three seconds before the restart are 30 operations.
		if posts, restarts := s.Load[0], s.Load[1]; posts.Failed == 0 || posts.Succeeded < 60 || restarts.Succeeded != 1 {
			t.Errorf("round %d: %+v", s.Round, s.Load)
		}
	}
	for _, name := range []string{"first", "second"} {
		if info, err := os.Stat(dir.Path("only", name+".log")); err != nil || info.Size() == 0 {
			t.Errorf("log of %s: %v", name, err)
		}
	}
}

// productionKubeconfig returns a kubeconfig of the same cluster under a name that looks like production.
func productionKubeconfig(t *testing.T, kubeconfig string) string {
	t.Helper()
	text := regexp.MustCompile(`kind-leakrig-kept-\w+`).ReplaceAllString(string(readFile(t, kubeconfig)), "eu-prod-1")
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestKindInterrupt checks that Ctrl-C at any stage leaves no container, no process and no kubeconfig.
func TestKindInterrupt(t *testing.T) {
	needsKind(t)
	for name, stage := range map[string]func(t *testing.T, r *rig, runs string){
		"while the containers are made": func(t *testing.T, _ *rig, _ string) {
			waitFor(t, func() bool { return containers(t) != "" })
		},
		"while kubeadm runs": func(t *testing.T, _ *rig, _ string) {
			waitFor(t, func() bool {
				node := containers(t)
				return node != "" && engine("exec", node, "pidof", "kubeadm").Run() == nil
			})
		},
		"under load": func(t *testing.T, r *rig, _ string) { r.until(t, `fixed: round 1/6`) },
		"while it is deleted": func(t *testing.T, r *rig, runs string) {
			r.until(t, `fixed: idling`)
			dir := runDir(t, runs)
			waitFor(t, func() bool {
				record, err := dir.ReadRecord()
				return err == nil && len(record.Variants) == 1 && record.Variants[0].Idle != nil
			})
			node := containers(t)
			waitFor(t, func() bool { return engine("exec", node, "true").Run() != nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			privateTmp(t)
			runs := t.TempDir()
			r := start(t, "run", "watch-then-delete", "--cluster", "kind", "--runs-dir", runs, "--variant", "fixed", "--rounds", "6")
			stage(t, r, runs)
			if err := syscall.Kill(-r.cmd.Process.Pid, syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			got := r.wait(t)
			if got.code != leak.ExitInterrupted {
				t.Errorf("%s", got)
			}
			if !readRecord(t, runDir(t, runs)).Interrupted {
				t.Error("the record does not say interrupted")
			}
			if left := containers(t) + onNetwork(t); left != "" {
				t.Errorf("containers or their network's ends are left: %s", left)
			}
			met("kind")
		})
	}
}

// TestKindKilled checks that the next run removes the cluster of a killed leakrig.
func TestKindKilled(t *testing.T) {
	needsKind(t)
	for name, stage := range map[string]func(t *testing.T, r *rig){
		"while the containers are made": func(t *testing.T, _ *rig) {
			waitFor(t, func() bool { return containers(t) != "" })
		},
		"under load": func(t *testing.T, r *rig) { r.until(t, `fixed: round 1/8`) },
	} {
		t.Run(name, func(t *testing.T) {
			setenv(t, "TMPDIR", t.TempDir()) // a folder this young is not removed yet
			defer run(t, "clean")            // the engine may create a container after its client is killed
			args := []string{"run", "watch-then-delete", "--cluster", "kind", "--runs-dir", t.TempDir(), "--variant", "fixed"}
			killed := start(t, args...)
			stage(t, killed)
			if err := killed.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = killed.cmd.Wait()
			left := containers(t)
			next := start(t, args...)
			next.until(t, `removed what a run that was killed has left: cluster leakrig-`)
			if now := containers(t); strings.Contains(now, left) {
				t.Errorf("%s is still there: %s", left, now)
			}
			if err := syscall.Kill(-next.cmd.Process.Pid, syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			if got := next.wait(t); got.code != leak.ExitInterrupted {
				t.Error(got)
			}
		})
	}
}

// TestKindCannotBoot checks that a run is not measured if its cluster cannot be created. leakrig keeps the nodes'
// logs but not the nodes.
func TestKindCannotBoot(t *testing.T) {
	needsKind(t)
	privateTmp(t)
	runs := t.TempDir()
	r := start(t, "run", "watch-then-delete", "--cluster", "kind", "--runs-dir", runs, "--variant", "fixed")
	waitFor(t, func() bool {
		node := containers(t)
		return node != "" && engine("exec", node, "mv", "/usr/bin/kubeadm", "/usr/bin/kubeadm.gone").Run() == nil
	})
	got := r.wait(t)
	if got.code != leak.ExitUnmeasured || !strings.Contains(got.stderr+got.stdout, "create kind cluster") ||
		!strings.Contains(strings.Join(strings.Fields(got.stdout), " "), "executable file not found") {
		t.Errorf("%s", got)
	}
	logs, err := filepath.Glob(filepath.Join(string(runDir(t, runs)), "cluster", "*", "*.log"))
	if err != nil || len(logs) == 0 {
		t.Errorf("no logs of the node: %v %v", logs, err)
	}
	if left := containers(t) + onNetwork(t); left != "" {
		t.Errorf("left: %s", left)
	}
	met("kind")
}

// TestKindStopsAnswering checks that a short pause of the cluster costs a run only time. If the cluster stops for
// good, the run ends as not measured and keeps its rounds. The second cluster boots before leakrig gives up the
// first.
func TestKindStopsAnswering(t *testing.T) {
	needsKind(t)
	privateTmp(t)
	var others []string
	var ends []func()
	to := func(verb string) func(node string) *exec.Cmd {
		return func(node string) *exec.Cmd { return engine(verb, node) }
	}
	inside := func(script string) func(node string) *exec.Cmd {
		return func(node string) *exec.Cmd { return engine("exec", node, "sh", "-c", script) }
	}
	for _, c := range []struct {
		name, said        string
		stop, resume, end func(node string) *exec.Cmd
	}{
		{
			name: "its node is paused", said: "paused",
			stop: to("pause"), resume: to("unpause"), end: to("pause"),
		},
		{
			name: "its API server is killed", said: "API server no longer answers",
			stop: inside("kill -STOP $(pidof kube-apiserver)"), resume: inside("kill -CONT $(pidof kube-apiserver)"),
			// The kubelet restarts a static pod as long as its manifest exists.
			end: inside("rm /etc/kubernetes/manifests/kube-apiserver.yaml && kill -9 $(pidof kube-apiserver)"),
		},
	} {
		runs := t.TempDir()
		r := start(t, "run", "watch-then-delete", "--cluster", "kind", "--runs-dir", runs, "--variant", "fixed")
		r.until(t, `fixed: round 1/8`)
		node := slices.DeleteFunc(strings.Fields(containers(t)), func(name string) bool { return slices.Contains(others, name) })[0]
		others = append(others, node)
		does := func(command func(node string) *exec.Cmd) {
			t.Helper()
			if out, err := command(node).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
		does(c.stop)
		time.Sleep(3 * time.Second)
		does(c.resume)
		r.until(t, `fixed: round 3/8`)
		does(c.end)
		ends = append(ends, func() {
			got := r.wait(t)
			if got.code != leak.ExitUnmeasured || !strings.Contains(got.stdout, c.said) || !strings.Contains(got.stdout, "hint:") {
				t.Errorf("%s: %s", c.name, got)
			}
			twoRoundsKept(t, runDir(t, runs))
			for _, s := range readRecord(t, runDir(t, runs)).Variants[0].Snapshots[1:] {
				for _, tally := range s.Load {
					if tally.Failed > 0 {
						t.Errorf("%s for a moment: round %d: %+v", c.name, s.Round, tally)
					}
				}
			}
			// A paused node has no logs.
			if logs, err := filepath.Glob(runDir(t, runs).Path("cluster", "*")); err != nil || len(logs) == 0 && c.said != "paused" {
				t.Errorf("%s: no logs of the cluster were kept: %v", c.name, err)
			}
			met("kind")
		})
	}
	for _, end := range ends {
		end()
	}
}

// twoRoundsKept fails if the record of an aborted run lacks the first two rounds, or judge cannot read it.
func twoRoundsKept(t *testing.T, dir rundir.Dir) {
	t.Helper()
	if have := len(readRecord(t, dir).Variants[0].Snapshots) - 1; have < 2 {
		t.Errorf("%d rounds were kept", have)
	}
	if r := run(t, "judge", string(dir)); r.code != leak.ExitUnmeasured || !strings.Contains(r.stdout, "of 8 planned rounds") {
		t.Error(r)
	}
}

// TestKindEngineStops stops the engine in the middle of round 3. That affects every other user of the machine, so the
// test runs only in CI, which started the engine. The test restarts it.
func TestKindEngineStops(t *testing.T) {
	restart := os.Getenv("LEAKRIG_TEST_ENGINE_SCRIPT")
	if restart == "" {
		t.Skip("SKIPPED: the engine is stopped only where LEAKRIG_TEST_ENGINE_SCRIPT starts it again, as in CI")
	}
	needsKind(t)
	privateTmp(t)
	runs := t.TempDir()
	r := start(t, "run", "watch-then-delete", "--cluster", "kind", "--runs-dir", runs, "--variant", "fixed")
	r.until(t, `fixed: round 2/8`)
	stopEngine(t)
	got := r.wait(t)
	defer run(t, "clean")
	startEngine(t, restart)
	if got.code != leak.ExitUnmeasured || !strings.Contains(got.stdout, "vanished") || !strings.Contains(got.stdout, "hint:") {
		t.Error(got)
	}
	twoRoundsKept(t, runDir(t, runs))
	if r := run(t, "clean"); r.code != 0 {
		t.Error(r)
	}
	met("kind")
}

// startEngine removes the test's temporary folder from the engine's environment, because the engine outlives the
// test.
func startEngine(t *testing.T, script string) {
	t.Helper()
	cmd := exec.Command(script)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "TMPDIR=") })
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the engine did not start again: %v\n%s", err, out)
	}
}

func stopEngine(t *testing.T) {
	t.Helper()
	var pid int
	if _, err := fmt.Sscan(string(readFile(t, "/var/run/docker.pid")), &pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

// TestKindTwoAtOnce checks that two runs that start at the same time both succeed.
func TestKindTwoAtOnce(t *testing.T) {
	needsKind(t)
	privateTmp(t)
	var both sync.WaitGroup
	results := make([]result, 2)
	rigs, runs := []*rig{}, t.TempDir()
	for range results {
		rigs = append(rigs, start(t, "run", "watch-then-delete", "--cluster", "kind", "--variant", "fixed", "--rounds", "6", "--runs-dir", runs))
	}
	for i, r := range rigs {
		both.Go(func() { results[i] = r.wait(t) })
	}
	both.Wait()
	for i, r := range results {
		if r.code != leak.ExitMet {
			t.Errorf("run %d: %s", i, r)
		}
	}
	if dirs, err := filepath.Glob(filepath.Join(runs, "watch-then-delete", "2*", rundir.VerdictFile)); err != nil || len(dirs) != 2 {
		t.Errorf("their run directories: %v %v", dirs, err)
	}
	met("kind")
}
