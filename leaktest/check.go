package leaktest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"regexp"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// label marks the goroutines of a test. A goroutine inherits the labels of the one that starts it.
const label = "leaktest"

var checked atomic.Int64

// Check fails t if goroutines that it started, directly or not, are left when it ends. Call it first: cleanups that are
// registered later run before it looks. It works in parallel tests, because it knows goroutines by a pprof label that
// they inherit. Goroutines that end within [Linger] do not count. Of the other options, only [Allow] applies.
func Check(t testing.TB, opts ...Option) {
	t.Helper()
	c := newConfig(opts)
	if c.err != nil {
		t.Fatal(c.err)
	}
	id := strconv.FormatInt(checked.Add(1), 10)
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels(label, id)))
	t.Cleanup(func() {
		pprof.SetGoroutineLabels(context.Background())
		mark := strconv.Quote(label) + ":" + strconv.Quote(id)
		if text := c.left(func(g group) bool { return strings.Contains(g.labels, mark) }); text != "" {
			t.Errorf("leaktest: goroutines of the test are left:\n%s", text)
		}
	})
}

// Main runs the tests and then checks that no goroutine is left. It returns the exit code.
func Main(m *testing.M, opts ...Option) int {
	code := m.Run()
	c := newConfig(opts)
	if c.err != nil {
		fmt.Fprintln(os.Stderr, c.err)
		return 2
	}
	if code != 0 || assigned() != nil {
		return code
	}
	if text := c.left(func(g group) bool { return !g.through("leaktest.Main") && !g.through("os/signal.loop") }); text != "" {
		fmt.Fprintf(os.Stderr, "leaktest: goroutines are left after all tests:\n%s", text)
		return 1
	}
	return 0
}

// left waits until no goroutine that counts is left, and describes those that do not end.
func (c config) left(counts func(group) bool) string {
	deadline := time.Now().Add(c.linger)
	for {
		groups := slices.DeleteFunc(goroutines(), func(g group) bool { return !counts(g) || g.allowed(c.allow) })
		if len(groups) == 0 {
			return ""
		}
		if time.Now().After(deadline) {
			var b strings.Builder
			for _, a := range c.allow {
				if a.Until.Expired(time.Now()) {
					fmt.Fprintf(&b, "the allowance for %s ended on %s (%s)\n", a.Match, a.Until, a.Reason)
				}
			}
			for _, g := range groups {
				fmt.Fprintf(&b, "%d at %s\n", g.count, strings.Join(g.frames, "\n     "))
			}
			return b.String()
		}
		time.Sleep(quiet / 5)
	}
}

// group is a number of goroutines with the same stack and labels.
type group struct {
	count  int
	labels string
	// frames are "function (file:line)", innermost first.
	frames []string
}

func (g group) through(function string) bool {
	return slices.ContainsFunc(g.frames, func(f string) bool { return strings.Contains(f, function) })
}

func (g group) allowed(all []leak.Allowance) bool {
	return slices.ContainsFunc(all, func(a leak.Allowance) bool {
		pattern := regexp.MustCompile(a.Match)
		return !a.Until.Expired(time.Now()) && slices.ContainsFunc(g.frames, func(f string) bool {
			function, position, _ := strings.Cut(strings.TrimSuffix(f, ")"), " (")
			return pattern.MatchString(function) || pattern.MatchString(position)
		})
	})
}

// goroutines reads the goroutine profile of this process in its text form, the largest group first.
func goroutines() []group {
	var text bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&text, 1) // to memory
	var all []group
	for line := range strings.Lines(text.String()) {
		line = strings.TrimSuffix(line, "\n")
		switch count, _, ok := strings.Cut(line, " @ "); {
		case ok:
			n, _ := strconv.Atoi(count)
			all = append(all, group{count: n})
		case len(all) == 0:
		case strings.HasPrefix(line, "# labels: "):
			all[len(all)-1].labels = line
		case strings.HasPrefix(line, "#\t"):
			fields := strings.Split(line, "\t")
			if len(fields) < 4 {
				continue
			}
			function, _, _ := strings.Cut(fields[2], "+0x")
			function = strings.ReplaceAll(function, "%2e", ".") // the linker's escape of dots in the last element of an import path
			g := &all[len(all)-1]
			g.frames = append(g.frames, fmt.Sprintf("%s (%s)", function, strings.TrimSpace(fields[len(fields)-1])))
		}
	}
	slices.SortStableFunc(all, func(a, b group) int { return cmp.Compare(b.count, a.count) })
	return all
}
