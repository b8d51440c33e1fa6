package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// The scripts in testdata/script run the real command line, each in a folder of its own, against real
// child processes; they need no cluster.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"leakrig": main,
		"exits":   exits,
		"served":  served,
		"get":     get,
	})
}

func TestScripts(t *testing.T) {
	goCache := goEnv(t, "GOCACHE")
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("GOCACHE", goCache)
			env.Setenv("LEAKRIG_CACHE", filepath.Join(env.WorkDir, "cache"))
			env.Setenv("TMPDIR", env.WorkDir)
			return os.CopyFS(filepath.Join(env.WorkDir, "faulty"), os.DirFS("testdata/faulty"))
		},
		Condition: func(name string) (bool, error) {
			if name != "tmpfs" {
				return false, fmt.Errorf("unknown condition %s", name)
			}
			return canMount(t), nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"await":  await,
			"listen": listen,
			"tiny":   tiny,
			"subst":  subst,
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

// exits CODE COMMAND ARG... succeeds when the command ends with exactly that code.
func exits() {
	want, err := strconv.Atoi(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	cmd := exec.Command(os.Args[2], os.Args[3:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if got := cmd.ProcessState.ExitCode(); got != want {
		fmt.Fprintf(os.Stderr, "exit code %d, want %d\n", got, want)
		os.Exit(1)
	}
}

// listen VAR occupies a port on loopback for the rest of the script.
func listen(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { l.Close() })
	ts.Setenv(args[0], strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
}

// canMount tells whether this process may mount a file system. In CI it must.
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
