package main

import (
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain runs the scripts in testdata/script, which run the real command line, each in a temporary folder, with
// real child processes and without a cluster.
func TestMain(m *testing.M) {
	// They mostly wait, so more of them than processors get on together.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	testscript.Main(m, map[string]func(){"leakrig": main})
}

func TestScripts(t *testing.T) { runScripts(t, "testdata/script") }

func runScripts(t *testing.T, dir string) {
	t.Parallel()
	goCache := goEnv(t, "GOCACHE")
	// Separate programs: this test binary takes a second to start under the race detector, and the scripts start them
	// hundreds of times.
	tools := t.TempDir()
	build := exec.Command("go", "build", "-o", tools, "./testdata/tools/exits", "./testdata/tools/get", "./testdata/tools/served", "./testdata/tools/phoenix")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	testscript.Run(t, testscript.Params{
		Dir: dir,
		Setup: func(env *testscript.Env) error {
			env.Setenv("GOCACHE", goCache)
			env.Setenv("PATH", tools+string(filepath.ListSeparator)+env.Getenv("PATH"))
			env.Setenv("LEAKRIG_CACHE", filepath.Join(env.WorkDir, "cache"))
			env.Setenv("TMPDIR", env.WorkDir)
			for _, name := range []string{"PORT1", "PORT2", "PORT3"} { // free ports
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					return err
				}
				env.Setenv(name, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
				if err := l.Close(); err != nil {
					return err
				}
			}
			return os.CopyFS(filepath.Join(env.WorkDir, "faulty"), os.DirFS("testdata/faulty"))
		},
		Condition: func(name string) (bool, error) {
			if name != "tmpfs" {
				return false, fmt.Errorf("unknown condition %s", name)
			}
			return canMount(t), nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"await":    await,
			"exits":    exits,
			"listen":   listen,
			"proxy":    proxy,
			"searches": searches,
			"tiny":     tiny,
			"subst":    subst,
		},
	})
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out[:len(out)-1])
}

// exits CODE COMMAND ARG... runs the program of that name, which scripts that a shell runs call, too.
func exits(ts *testscript.TestScript, _ bool, args []string) { ts.Check(ts.Exec("exits", args...)) }

// await FILE VAR waits for a file and puts what it holds into a variable.
func await(ts *testscript.TestScript, _ bool, args []string) {
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if data, err := os.ReadFile(ts.MkAbs(args[0])); err == nil && len(data) > 0 {
			ts.Setenv(args[1], strings.TrimSpace(string(data)))
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s never came", args[0])
		}
	}
}

// listen VAR occupies a port on loopback for the rest of the script.
func listen(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { l.Close() })
	ts.Setenv(args[0], strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
}

// canMount reports whether this process may mount a file system. In CI it must.
func canMount(t *testing.T) bool {
	dir := t.TempDir()
	out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", dir).CombinedOutput()
	if err == nil {
		out, err = exec.Command("umount", dir).CombinedOutput()
	}
	if err != nil && os.Getenv("CI") != "" {
		t.Errorf("mount: %v %s", err, out)
	}
	return err == nil
}

// tiny DIR OPTIONS mounts a small file system on DIR, until the script ends.
func tiny(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o700))
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", args[1], "tmpfs", dir).CombinedOutput(); err != nil {
		ts.Fatalf("mount: %s", out)
	}
	ts.Defer(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "umount %s: %s", dir, out)
		}
	})
}

// subst FILE replaces $VARIABLES in a file by their values.
func subst(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		text := os.Expand(ts.ReadFile(name), ts.Getenv)
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(text), 0o600))
	}
}
