package terminal

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/leakrig/leakrig/internal/screen"
	"github.com/leakrig/leakrig/leak"
)

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
		s := screen.New(width)
		width, log := width, "log"[:min(3, width)]
		p := &Progress{w: s, width: func() int { return width }}
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
		s.Width = width
		p.Watch(measured)
		p.Done()
		p.Done()
		if got := s.String(); got != log+"\n"+log+"\n" || len(s.Odd) > 0 {
			t.Errorf("%d columns: %q %q", width, got, s.Odd)
		}
	}
}

// TestProgressInALog checks that without a terminal nothing is redrawn, and that a line is written only after a
// silence.
func TestProgressInALog(t *testing.T) {
	s := screen.New(200)
	p := &Progress{w: s, last: time.Now()}
	p.Watch(measured)
	p.Status("building")
	p.Log("built\x1b[31m")
	p.last = time.Now().Add(-quietInterval)
	p.Watch(measured)
	p.Watch(measured)
	p.Done()
	if got, want := s.String(), "built\\u001b[31m\nleaky: round 4/8, settling  123 op/s\n"; got != want || len(s.Odd) > 0 {
		t.Errorf("got %q %q, want %q", got, s.Odd, want)
	}
}

// TestProgressKeepsTalking checks that a log has a line every 15 seconds while one thing takes long, with what runs at
// the same time.
func TestProgressKeepsTalking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := screen.New(200)
		p := &Progress{w: s, last: time.Now()}
		side := p.Side()
		p.Status("leaky: building")
		side.Status("building kube-apiserver")
		time.Sleep(31 * time.Second)
		side.Status("")
		time.Sleep(14 * time.Second)
		p.Done()
		time.Sleep(time.Minute)
		want := "leaky: building; building kube-apiserver (for 13s)\nleaky: building; building kube-apiserver (for 26s)\nleaky: building (for 39s)\n"
		if got := s.String(); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})
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
