package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/leakrig/leakrig/internal/screen"
)

// A real run on a real terminal, of 40 columns: it shows the rounds and the series, and leaves the lines
// that it logged and nothing else. With NO_COLOR the same run is as plain as in a log.
func TestRunOnATerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "faulty"), os.DirFS("testdata/faulty")); err != nil {
		t.Fatal(err)
	}
	scenario := `
apiVersion: leakrig.dev/v1
kind: Scenario
metadata: {name: fine}
spec:
  subject: {build: ./faulty, args: [slow]}
  variants: [{name: only, expect: clean}]
  rounds: 2
  round: [post: {path: /work, times: 5, concurrency: 5}]
  settle: {quiet: 50ms, timeout: 5s}
  probes: [goroutine]
  checks: [delta: {probe: goroutine, max: 9}]
`
	if err := os.WriteFile(filepath.Join(dir, "fine.yaml"), []byte(scenario), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, plain := range []bool{false, true} {
		cmd := exec.Command(os.Args[0], "run", "./fine.yaml")
		cmd.Args[0], cmd.Dir = "leakrig", dir
		cmd.Env = append(os.Environ(), "TERM=xterm", "CI=", "NO_COLOR=", "LEAKRIG_CACHE="+filepath.Join(dir, "cache"))
		if plain {
			cmd.Env = append(cmd.Env, "NO_COLOR=1")
		}
		f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 60})
		if err != nil {
			t.Skip("no terminal here: ", err)
		}
		out, _ := io.ReadAll(f) // the end of a terminal is an error
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		s := screen.New(1000)
		_, _ = s.Write(regexp.MustCompile(`\x1b\[3?\dm`).ReplaceAll(out, nil))
		if coloured := strings.Contains(string(out), "\x1b[32m✓\x1b[0m fine: clean, as expected"); coloured == plain {
			t.Errorf("plain %v, coloured %v:\n%q", plain, coloured, out)
		}
		if got := s.String(); !strings.Contains(got, "\nonly: round 2/2  post 5/5 ok") || strings.Contains(got, "settling") || len(s.Odd) > 0 {
			t.Errorf("plain %v: what stays: %q\n%s", plain, s.Odd, got)
		}
		if drawn := strings.Contains(string(out), "\x1b["); drawn == plain {
			t.Errorf("plain %v, drawn %v:\n%q", plain, drawn, out)
		}
		if want := "\r\x1b[?7lonly: round 2/2  goroutine.count "; !plain && !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%q", want, out)
		}
	}
}
