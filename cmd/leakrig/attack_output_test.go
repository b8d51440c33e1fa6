//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
	"github.com/leakrig/leakrig/rundir"
)

// attacked runs leakrig in a temporary folder and returns its output, its exit code and its peak memory in MiB.
func attacked(t *testing.T, dir string, args ...string) (stdout, stderr string, code, peak int) {
	t.Helper()
	var out, err bytes.Buffer
	c := exec.CommandContext(t.Context(), "leakrig", args...)
	c.Dir, c.Stdout, c.Stderr = dir, &out, &err
	c.Env = append(os.Environ(), "TMPDIR="+t.TempDir(), "LEAKRIG_CACHE="+t.TempDir())
	var exit *exec.ExitError
	if e := c.Run(); e != nil && !errors.As(e, &exit) {
		t.Fatal(e)
	}
	if usage, ok := c.ProcessState.SysUsage().(*syscall.Rusage); ok {
		peak = int(usage.Maxrss >> 10)
	}
	return out.String(), err.String(), c.ProcessState.ExitCode(), peak
}

func write(t *testing.T, path string, data string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

// harmless refuses what a CI system or a terminal would obey.
func harmless(t *testing.T, what, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "::") || strings.Contains(line, "##[") || strings.Contains(line, "##vso[") || strings.ContainsAny(line, "\x1b\r\u202e\u009b") {
			t.Errorf("%s: %.200q", what, line)
		}
	}
	if len(text) > display.MaxOutput {
		t.Errorf("%s: %d bytes", what, len(text))
	}
}

const evil = "::stop-commands::x\n  ::error file=a::b\n\x1b[2J##[error]gone \u202e\u009b2J\n##vso[task.complete result=Succeeded]ok\n"

// TestAttackLogCommands checks that last words of a subject and responses of a server are never a command in the log
// of a CI system, neither at column 0 nor after blanks, and that no escape reaches a terminal.
func TestAttackLogCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "evil"), evil)
	write(t, filepath.Join(dir, "s.yaml"), `apiVersion: leakrig.dev/v1
kind: Scenario
metadata: {name: evil}
spec:
  subject: {command: [sh, -c, "cat `+filepath.Join(dir, "evil")+`; exit 3"], readyTimeout: 5s}
  variants: [{name: only, expect: clean}]
  rounds: 3
  round: [post: {path: /work}]
  probes: [goroutine]
  checks: [delta: {probe: goroutine, max: 3}]
`)
	stdout, stderr, code, _ := attacked(t, dir, "run", "./s.yaml")
	if code != leak.ExitUnmeasured || !strings.Contains(stdout+stderr, "stop-commands::x") {
		t.Errorf("exit %d:\n%s%s", code, stdout, stderr)
	}
	harmless(t, "standard output", stdout)
	harmless(t, "standard error", stderr)
	for line := range strings.Lines(stdout + stderr) {
		if strings.Contains(line, "stop-commands") && (strings.HasPrefix(line, "stop") || strings.HasPrefix(line, `\u003a`)) {
			t.Errorf("at column 0: %q", line)
		}
	}
	runs, err := filepath.Glob(filepath.Join(dir, "runs", "evil", "2*"))
	if err != nil || len(runs) == 0 {
		t.Fatal(runs, err)
	}
	for _, file := range []string{rundir.SummaryFile, rundir.JUnitFile, rundir.HTMLFile} {
		data, err := os.ReadFile(filepath.Join(runs[0], file))
		if err != nil {
			t.Fatal(err)
		}
		harmless(t, file, string(data))
	}
	// A server's own words: its status, and the text of its error.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			fmt.Fprintf(conn, "HTTP/1.1 500 \x1b[2J##[error]::x\r\nContent-Length: 0\r\n\r\n")
			conn.Close()
		}
	}))
	defer server.Close()
	stdout, stderr, code, _ = attacked(t, dir, "observe", server.URL, "--", "true")
	if code != leak.ExitUnmeasured {
		t.Errorf("exit %d:\n%s%s", code, stdout, stderr)
	}
	harmless(t, "standard output", stdout)
	harmless(t, "standard error", stderr)
}

// A subject that answers with a redirect is not read from where it leads: no other process is judged in its place. So
// for one process, and for a fleet with its metrics.
func TestAttackRedirects(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { asked.Add(1) }))
	defer other.Close()
	subject := httptest.NewServer(http.RedirectHandler(other.URL+"/debug/pprof/goroutine", http.StatusFound))
	defer subject.Close()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "hosts"), subject.URL+"\n")
	for _, args := range [][]string{
		{"observe", subject.URL, "--", "true"},
		{"fleet", "--targets", "hosts", "--every", "100ms", "--for", "300ms", "--counter", "requests"},
	} {
		stdout, stderr, code, _ := attacked(t, dir, args...)
		if code != leak.ExitUnmeasured || !strings.Contains(stdout+stderr, "redirected to "+other.URL) {
			t.Errorf("%q: exit %d\n%s%s", args, code, stdout, stderr)
		}
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("the other server was asked %d times", n)
	}
}

// TestAttackDiffOutput diffs two dumps with invented names and stacks: text and JSON have at most 20 MiB, and so has
// the page, with at most 600 MiB of memory. No name is a command.
func TestAttackDiffOutput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var text strings.Builder
	long := strings.Repeat("<&>", 1000)
	for i := range 12_000 {
		fmt.Fprintf(&text, "goroutine %d [x]:\n::set-output name=%d.##[error]%s()\n\t\x1b[2J%s:1 +0x1\n\n", i+1, i, long[:len(long)/2], long[:len(long)/4])
	}
	write(t, filepath.Join(dir, "before"), "goroutine 1 [x]:\nmain.main()\n\t/a.go:1 +0x1\n")
	write(t, filepath.Join(dir, "after"), text.String())
	for _, args := range [][]string{{}, {"--format", "json"}, {"--html", "page.html"}, {"--top", "100000", "--whole"}} {
		start := time.Now()
		stdout, stderr, code, peak := attacked(t, dir, append([]string{"diff", "before", "after"}, args...)...)
		t.Logf("%q: exit %d, %d KiB of output, %d MiB, %s", args, code, len(stdout)>>10, peak, time.Since(start).Round(time.Millisecond))
		harmless(t, fmt.Sprint(args), stdout)
		harmless(t, fmt.Sprint(args), stderr)
		if peak > 600 {
			t.Errorf("%q: %d MiB", args, peak)
		}
		switch {
		case len(args) == 3: // more than there is room for is an error
			if code == leak.ExitMet || !strings.Contains(stderr, "larger than 20 MiB") {
				t.Errorf("%q: exit %d, %s", args, code, stderr)
			}
		case code != leak.ExitMet:
			t.Errorf("%q: exit %d, %s", args, code, stderr)
		case len(args) > 0 && args[1] == "json":
			var d leak.Diff
			if err := json.Unmarshal([]byte(stdout), &d); err != nil || len(d.Stacks)+d.Omitted != 12_001 || d.Omitted == 0 {
				t.Errorf("%v: %d stacks, %d omitted", err, len(d.Stacks), d.Omitted)
			}
		case len(args) > 0 && args[0] == "--html":
			page, err := os.ReadFile(filepath.Join(dir, "page.html"))
			if err != nil {
				t.Fatal(err)
			}
			harmless(t, "the page", string(page))
		}
	}
}

// TestAttackExplainOutput explains a dump with invented names on stacks of the catalogue: text and JSON have at most
// 20 MiB, and no name is a command.
func TestAttackExplainOutput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var text strings.Builder
	long := strings.Repeat("<&>", 1000)
	for i := range 6000 {
		fmt.Fprintf(&text, "goroutine %d [x]:\n::set-output name=%d.##[error]%s()\n\t\x1b[2J%s:1 +0x1\n", i+1, i, long, long)
		if i%2 == 0 {
			fmt.Fprint(&text, "net/http.(*persistConn).writeLoop(0x1)\n\t/usr/local/go/src/net/http/transport.go:1 +0x1\n")
		}
		fmt.Fprintf(&text, "main.::error::(0x1)\n\t/build/\x1b[2J%s.go:1 +0x1\n\n", long)
	}
	write(t, filepath.Join(dir, "dump"), text.String())
	for _, args := range [][]string{{}, {"--format", "json"}, {"--top", "100000"}} {
		stdout, stderr, code, peak := attacked(t, dir, append([]string{"explain", "dump"}, args...)...)
		harmless(t, fmt.Sprint(args), stdout)
		harmless(t, fmt.Sprint(args), stderr)
		if code != leak.ExitMet || peak > 600 {
			t.Errorf("%q: exit %d, %d MiB, %s", args, code, peak, stderr)
		}
	}
}
