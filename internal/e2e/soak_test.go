//go:build e2e

package e2e

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

// soakScenario observes a running service that does not leak, with rounds of the minimum length.
const soakScenario = `apiVersion: leakrig.dev/v1
kind: Scenario
metadata: {name: compressed-soak, description: A soak of days in minutes.}
spec:
  subject: {url: %q}
  variants: [{name: healthy, expect: clean}]
  soak: {every: 200ms, for: %s}
  round: [{post: {path: /work, times: 5}}]
  settle: {quiet: 50ms}
  probes: [goroutine, heap]
  checks:
    - growth: {name: goroutines, probe: goroutine, maxPerOp: 0.05}
    - stack: {name: any-stack, match: ., each: true, maxPerOp: 0.05}
    - growth: {name: heap, probe: heap, maxPerOp: 4KiB}
`

// waitForRounds waits until the soak with the record $1 has $2 more rounds.
const waitForRounds = `rounds() { grep -B1 '"stride"' "$1" | sed -n 's/.*"rounds": \([0-9]*\),/\1/p'; }
end=$(($(rounds "$1") + $2))
until [ "$(rounds "$1")" -ge "$end" ]; do sleep 0.1; done
`

// maxSoakDir is the maximum size of the run directory of this soak, for any duration.
const maxSoakDir = 4 << 20

// TestSoak compresses a soak of days. It kills leakrig at ten random moments, and each time loses at most the round
// in progress. The run directory stays small. A second leakrig observes the first, and must not find a leak.
// LEAKRIG_SOAK=12m sets the length of the soak, which is then observed throughout; docs/scale.md has the output.
func TestSoak(t *testing.T) {
	setenv(t, "TMPDIR", t.TempDir()) // a killed leakrig leaves its scratch folder to runs that start a minute later
	runs, long := t.TempDir(), time.Duration(0)
	if text := os.Getenv("LEAKRIG_SOAK"); text != "" {
		var err error
		if long, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	length := 10 * time.Minute // longer than this test runs
	if long > 0 {
		length = long
	}
	scenario := filepath.Join(t.TempDir(), "soak.yaml")
	if err := os.WriteFile(scenario, fmt.Appendf(nil, soakScenario, serving(t, built(t, "subjects/calibration", ".")), length), 0o600); err != nil {
		t.Fatal(err)
	}
	command := []string{"run", scenario, "--runs-dir", runs, "--resume"}

	seed := uint64(time.Now().UnixNano())
	t.Logf("random seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	rounds := 0
	for i := range 10 {
		r := start(t, command...)
		r.until(t, `: (baseline|resumed after)`)
		time.Sleep(time.Duration(rng.IntN(2000)) * time.Millisecond)
		if err := r.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		said := r.wait(t).stderr
		rounds = checkKilled(t, i, rounds, said, runDir(t, runs))
	}

	pprof := freeAddress(t)
	r := startWith(t, []string{"LEAKRIG_PPROF=" + pprof}, command...)
	dir := runDir(t, runs)
	waitFor(t, func() bool { return soaked(t, dir).Soak.Rounds >= 105 }) // then the record has its maximum number of snapshots
	// An operation is a round of the soak. A leakrig that keeps every round would grow by about 3 KiB per operation,
	// which is not clean here.
	wait := filepath.Join(t.TempDir(), "wait.sh")
	if err := os.WriteFile(wait, []byte(waitForRounds), 0o600); err != nil {
		t.Fatal(err)
	}
	observe := []string{"--rounds", "7", "--max-rounds", "21", "--operations", "15", "--max-heap", "2KiB", "--", "sh", wait, dir.Path(rundir.RecordFile), "15"}
	if long > 0 { // an operation is a tenth of a second
		slice := (long - 90*time.Second) / 14
		observe = []string{"--rounds", "12", "--operations", strconv.Itoa(int(slice / (100 * time.Millisecond))), "--max-heap", "512", "--", "sleep", fmt.Sprintf("%.0f", slice.Seconds())}
	}
	before := soaked(t, dir).Soak.Rounds
	watched := t.TempDir()
	seen := run(t, append([]string{"observe", "http://" + pprof, "--runs-dir", watched, "--quiet", "100ms", "--times", "1"}, observe...)...)
	observed := soaked(t, dir).Soak.Rounds - before
	t.Logf("leakrig observes leakrig over %d rounds:\n%s", observed, seen.stdout)
	// The command only waits, and leakrig is equally active without it. This is not evidence of load, so the run is
	// not clean.
	if seen.code != leak.ExitMet && seen.code != leak.ExitInconclusive || observed < 50 {
		t.Fatalf("%d rounds went by\n%s", observed, seen)
	}
	for _, f := range variantVerdict(t, readVerdict(t, runDir(t, watched)), "observed").Findings {
		if f.Outcome == leak.Leaking || f.Unit == "bytes" && f.PerOperation > 2<<10 {
			t.Errorf("leakrig grows over %d rounds: %s", observed, f.Summary)
		}
	}

	want := leak.ExitMet
	if long == 0 {
		want = leak.ExitInterrupted
		if err := r.cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
	}
	if end := r.wait(t); end.code != want {
		t.Error(end)
	} else {
		t.Logf("the soak:\n%s", end.stdout)
	}
	v, size := soaked(t, dir), sizeOf(t, dir)
	if record := readRecord(t, dir); record.SoakOver() != (long > 0) {
		t.Errorf("over: %v", record.SoakOver())
	}
	info, err := os.Stat(dir.Path(rundir.RecordFile))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d rounds in %.0f s (%d late, %d missed), %d snapshots kept, %d resumptions; run directory %d KiB, run.json %d KiB",
		v.Soak.Rounds, v.Soak.Seconds, v.Soak.Late, v.Soak.Missed, len(v.Snapshots), v.Soak.Resumptions, size>>10, info.Size()>>10)
	if v.Soak.Resumptions < 10 || size > maxSoakDir {
		t.Errorf("%d resumptions, %d bytes", v.Soak.Resumptions, size)
	}
	met("soak")
}

var loggedRound = regexp.MustCompile(`: round (\d+)/\d+  `)

// checkKilled checks the record of a killed leakrig. The record has all earlier rounds, all reported ones and at most
// one more, with all their operations. It returns the number of rounds.
func checkKilled(t *testing.T, i, before int, said string, dir rundir.Dir) (rounds int) {
	t.Helper()
	v := soaked(t, dir)
	rounds = v.Soak.Rounds
	resumed := regexp.MustCompile(`resumed after round (\d+) of`).FindStringSubmatch(said)
	if i > 0 && (resumed == nil || resumed[1] != strconv.Itoa(before)) || rounds < before {
		t.Errorf("kill %d: resumed after %q, there were %d rounds, and now %d", i, resumed, before, rounds)
	}
	if told := loggedRound.FindAllStringSubmatch(said, -1); len(told) > 0 {
		first, _ := strconv.Atoi(told[0][1])
		last, _ := strconv.Atoi(told[len(told)-1][1])
		if rounds < last || rounds > last+1 || len(told) != last-first+1 {
			t.Errorf("kill %d: %d rounds in the record, reported %d to %d", i, rounds, first, last)
		}
		if first != before+1 {
			t.Errorf("kill %d: went on with round %d, there were %d", i, first, before)
		}
	}
	next, attempted := 0, 0
	for _, s := range v.Snapshots {
		if s.First() != next {
			t.Errorf("kill %d: round %d begins with %d, want %d", i, s.Round, s.First(), next)
		}
		next = s.Round + 1
		for _, tally := range s.Load {
			attempted += tally.Succeeded
		}
	}
	if v.Final().Round != rounds || attempted != 5*rounds || v.Final().Operations != attempted {
		t.Errorf("kill %d: %d operations of %d rounds, the last is %d", i, attempted, rounds, v.Final().Round)
	}
	for _, s := range v.Snapshots {
		for _, sample := range s.Samples {
			for _, f := range sample.Files {
				if _, err := os.Stat(dir.Path(f)); err != nil {
					t.Errorf("kill %d: round %d: %v", i, s.Round, err)
				}
			}
		}
	}
	if size := sizeOf(t, dir); size > maxSoakDir {
		t.Errorf("kill %d: the run directory takes %d bytes", i, size)
	}
	return rounds
}

// TestSoakEndsEarly checks that a soak of a leaking service ends as soon as the leak is certain, not after its ten
// minutes.
func TestSoakEndsEarly(t *testing.T) {
	t.Parallel()
	runs := t.TempDir()
	scenario := filepath.Join(t.TempDir(), "soak.yaml")
	text := strings.Replace(soakScenario, "name: healthy", "name: leaking", 1)
	if err := os.WriteFile(scenario, fmt.Appendf(nil, text, serving(t, built(t, "subjects/calibration", "."), "-plant=goroutine"), 10*time.Minute), 0o600); err != nil {
		t.Fatal(err)
	}
	got := run(t, "run", scenario, "--runs-dir", runs)
	if got.code != leak.ExitNotMet {
		t.Fatal(got)
	}
	met("soak")
	v := readRecord(t, runDir(t, runs)).Variant("leaking")
	if v.Stopped == "" || v.Idle == nil || v.Soak.Rounds < 10 || v.Soak.Rounds > 160 {
		t.Errorf("stopped %q after %d rounds: %s", v.Stopped, v.Soak.Rounds, got.stdout)
	}
}

// soaked returns the record of the only variant of the soak.
func soaked(t *testing.T, dir rundir.Dir) *leak.VariantRecord {
	t.Helper()
	v := readRecord(t, dir).Variant("healthy")
	if v == nil || v.Soak == nil {
		t.Fatalf("%s has no soak", dir)
	}
	return v
}

// sizeOf returns the total size of the files in a folder, in bytes.
func sizeOf(t *testing.T, dir rundir.Dir) (size int64) {
	t.Helper()
	err := filepath.WalkDir(string(dir), func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if info, err := d.Info(); err == nil { // a file that is being renamed may be gone
			size += info.Size()
		}
		return nil
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return size
}
