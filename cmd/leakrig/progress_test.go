package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/creack/pty"

	"github.com/leakrig/leakrig/leak"
)

// screen is a terminal: the visible text, not the bytes sent to it.
type screen struct {
	width  int
	rows   [][]rune
	column int
	noWrap bool
	escape string // the sequence under way
	odd    []string
}

func newScreen(width int) *screen { return &screen{width: width, rows: [][]rune{nil}} }

func (s *screen) Write(b []byte) (int, error) {
	for _, r := range string(b) {
		s.put(r)
	}
	return len(b), nil
}

func (s *screen) put(r rune) {
	row := len(s.rows) - 1
	switch {
	case s.escape != "":
		s.escape += string(r)
		if r >= '@' && r != '[' {
			s.control(s.escape)
			s.escape = ""
		}
	case r == '\x1b':
		s.escape = string(r)
	case r == '\r':
		s.column = 0
	case r == '\n':
		s.rows, s.column = append(s.rows, nil), 0
	case r < ' ':
		s.odd = append(s.odd, fmt.Sprintf("%q", r))
	default:
		if s.column >= s.width {
			if s.noWrap {
				s.column = s.width - 1
			} else {
				s.rows, s.column = append(s.rows, nil), 0
				row++
			}
		}
		for len(s.rows[row]) <= s.column {
			s.rows[row] = append(s.rows[row], ' ')
		}
		s.rows[row][s.column] = r
		s.column++
	}
}

func (s *screen) control(sequence string) {
	row := len(s.rows) - 1
	switch sequence {
	case "\x1b[K":
		s.rows[row] = s.rows[row][:min(len(s.rows[row]), s.column)]
	case "\x1b[?7l", "\x1b[?7h":
		s.noWrap = sequence == "\x1b[?7l"
	default:
		s.odd = append(s.odd, fmt.Sprintf("%q", sequence))
	}
}

func (s *screen) String() string {
	lines := make([]string, len(s.rows))
	for i, r := range s.rows {
		lines[i] = strings.TrimRight(string(r), " ")
	}
	return strings.Join(lines, "\n")
}

var measured = leak.Standing{
	Variant: "leaky", Doing: "round 4/8, settling", Rate: 123.4, Left: 90 * time.Second,
	Series: []leak.Series{
		{Name: "goroutine.count", Unit: "goroutines", Values: []float64{1, 21, 41, 61}},
		{Name: "heap.alloc", Unit: "bytes", Values: []float64{2048, 2048, 2048}},
		{Name: "process.rss", Unit: "bytes"},
	},
}

func TestStanding(t *testing.T) {
	for _, row := range []struct {
		comment string
		width   int
		want    string
	}{
		{"room for all", 200, "leaky: round 4/8, settling  123 op/s  goroutine.count 61 ▁▃▅█  heap.alloc 2.0 KiB ▁▁▁  about 1m28s left"},
		{"an unknown width", 0, "leaky: round 4/8, settling  123 op/s  goroutine.count 61 ▁▃▅█  heap.alloc 2.0 KiB ▁▁▁  about 1m28s left"},
		{"the other series go first", 80, "leaky: round 4/8, settling  123 op/s  goroutine.count 61 ▁▃▅█  about 1m28s left"},
		{"then the rate", 75, "leaky: round 4/8, settling  goroutine.count 61 ▁▃▅█  about 1m28s left"},
		{"then the first", 52, "leaky: round 4/8, settling  about 1m28s left"},
		{"then the time", 40, "leaky: round 4/8, settling  123 op/s"},
		{"less than where it is", 12, "leaky: roun"},
		{"one column", 1, ""},
	} {
		if got := standing(row.width, measured, 2*time.Second); got != row.want {
			t.Errorf("%s:\ngot  %q\nwant %q", row.comment, got, row.want)
		}
	}
	// A log has no values that change with time.
	if got := standing(0, measured, -1); got != "leaky: round 4/8, settling  123 op/s" {
		t.Errorf("plain: %q", got)
	}
	for width := 1; width < 150; width++ {
		if n := utf8.RuneCountInString(standing(width, measured, 0)); n >= width {
			t.Errorf("%d columns of %d", n, width)
		}
	}
	nothing := leak.Standing{Variant: "leaky", Doing: "warm-up 1/2", Left: -1}
	if got := standing(80, nothing, 0); got != "leaky: warm-up 1/2" {
		t.Errorf("before anything is known: %q", got)
	}
}

func TestFormatLeft(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Minute: "nearly done", 59 * time.Second: "about 59s left", 61 * time.Second: "about 1m01s left", 25 * time.Hour: "about 25h00m left",
	} {
		if got := formatLeft(d); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}

// TestProgressRewritesItsOwnLineOnly checks that one line is redrawn, that logged lines stay, and that nothing else
// is left at the end, on a terminal of any and changing width.
func TestProgressRewritesItsOwnLineOnly(t *testing.T) {
	for _, width := range []int{1, 7, 39, 80, 200} {
		s := newScreen(width)
		width, log := width, "log"[:min(3, width)]
		p := &progress{w: s, width: func() int { return width }}
		p.Log("%s", log)
		for range 3 {
			p.Status("building %s", strings.Repeat("very-long-", 30))
			p.Watch(measured)
			if shown := strings.Split(s.String(), "\n"); len(shown) != 2 || shown[0] != log {
				t.Fatalf("%d columns:\n%s", width, s)
			}
		}
		p.Log("%s", log)
		width = max(1, width/2) // the line was fitted to the wider one
		s.width = width
		p.Watch(measured)
		p.Done()
		p.Done()
		if got := s.String(); got != log+"\n"+log+"\n" || len(s.odd) > 0 {
			t.Errorf("%d columns: %q %q", width, got, s.odd)
		}
	}
}

// TestProgressInALog checks that without a terminal nothing is redrawn, and that a line is written only after a
// silence.
func TestProgressInALog(t *testing.T) {
	s := newScreen(200)
	p := &progress{w: s, last: time.Now()}
	p.Watch(measured)
	p.Status("building")
	p.Log("built\x1b[31m")
	p.last = time.Now().Add(-quietInterval)
	p.Watch(measured)
	p.Watch(measured)
	p.Done()
	if got, want := s.String(), "built\\u001b[31m\nleaky: round 4/8, settling  123 op/s\n"; got != want || len(s.odd) > 0 {
		t.Errorf("got %q %q, want %q", got, s.odd, want)
	}
}

func TestWantsPlain(t *testing.T) {
	for _, row := range []struct {
		env  map[string]string
		want bool
	}{
		{nil, false},
		{map[string]string{"TERM": "xterm"}, false},
		{map[string]string{"TERM": "dumb"}, true},
		{map[string]string{"NO_COLOR": "1"}, true},
		{map[string]string{"CI": "true"}, true},
		{map[string]string{"CI": "false"}, false},
	} {
		if got := wantsPlain(func(name string) string { return row.env[name] }); got != row.want {
			t.Errorf("%v: %v", row.env, got)
		}
	}
}

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
		s := newScreen(1000)
		_, _ = s.Write(regexp.MustCompile(`\x1b\[3?\dm`).ReplaceAll(out, nil))
		if coloured := strings.Contains(string(out), "\x1b[32m✓\x1b[0m fine: as expected"); coloured == plain {
			t.Errorf("plain %v, coloured %v:\n%q", plain, coloured, out)
		}
		if got := s.String(); !strings.Contains(got, "\nonly: round 2/2  post 5/5 ok") || strings.Contains(got, "settling") || len(s.odd) > 0 {
			t.Errorf("plain %v: what stays: %q\n%s", plain, s.odd, got)
		}
		if drawn := strings.Contains(string(out), "\x1b["); drawn == plain {
			t.Errorf("plain %v, drawn %v:\n%q", plain, drawn, out)
		}
		if want := "\r\x1b[?7lonly: round 2/2  goroutine.count "; !plain && !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%q", want, out)
		}
	}
}
