package runner

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leakrig/leakrig/leak"
)

var settleSpec = leak.SettleSpec{Quiet: leak.Duration(time.Second), Timeout: leak.Duration(30 * time.Second)}

// polled makes a poll out of counts by group; the group's name is its stack's ID.
func polled(source string, counts map[string]int64) leak.Poll {
	p := leak.Poll{Source: source, Stacks: map[string]leak.Stack{}}
	for id, n := range counts {
		if n > 0 {
			p.Total += n
			p.Groups = append(p.Groups, leak.Group{Stack: id, Count: n})
			p.Stacks[id] = leak.Stack{State: "select", Frames: []leak.Frame{{Func: "main." + id}}}
		}
	}
	return p
}

// The clock is synctest's: a window of one second holds exactly five polls, and takes no time.
func TestSettle(t *testing.T) {
	one := func(f func(i int64) int64) func(int64) leak.Poll {
		return func(i int64) leak.Poll { return polled("dump", map[string]int64{"a": f(i)}) }
	}
	for _, c := range []struct {
		name    string
		poll    func(i int64) leak.Poll // i counts from 0
		settled bool
		polls   int
		reason  string
		total   int64            // of the last window
		counts  map[string]int64 // of the last window
	}{
		{
			"nothing moves: two windows are enough", one(func(int64) int64 { return 7 }),
			true, 10, "no group of goroutines shrank", 7,
			map[string]int64{"a": 7},
		},
		{
			"no goroutines at all", func(int64) leak.Poll { return leak.Poll{Source: "dump"} },
			true, 10, "no group", 0, nil,
		},
		{
			"goroutines of the load end, one per second", one(func(i int64) int64 { return max(20-i/5, 3) }),
			// The minimum falls until window 17; window 18 is the first without a lower one.
			true, 19 * 5, "no group", 3,
			map[string]int64{"a": 3},
		},
		{
			"a late end, in the second window", one(func(i int64) int64 { return map[bool]int64{true: 9, false: 4}[i < 7] }),
			true, 15, "no group", 4,
			map[string]int64{"a": 4},
		},
		{
			"without end: one goroutine fewer at every poll", one(func(i int64) int64 { return 400 - i }),
			false, 30 * 5, "after 30s 1 groups of goroutines were still shrinking, one from 256 to 251 in 1s: select at main.a", 251,
			map[string]int64{"a": 251},
		},
		{
			"growth does not hold it up", one(func(i int64) int64 { return i }),
			true, 10, "no group", 5,
			map[string]int64{"a": 5},
		},
		{
			"a group that comes and goes: its minimum is nothing", one(func(i int64) int64 { return i % 2 * 50 }),
			true, 10, "no group", 0, nil,
		},
		{
			"background work on top of what stays", one(func(i int64) int64 { return 5 + i%3 }),
			true, 10, "no group", 5,
			map[string]int64{"a": 5},
		},
		{"goroutines that move from one group to another", func(i int64) leak.Poll {
			return polled("dump", map[string]int64{"a": max(10-i, 0), "b": min(i, 10)})
		}, true, 20, "no group", 10, map[string]int64{"b": 10}}, // the total alone would have settled at once
		{"the source changes once", func(i int64) leak.Poll {
			if i < 7 {
				return polled("dump", map[string]int64{"a": 9})
			}
			return polled("profile", map[string]int64{"x": 2})
			// Window 1, two polls of window 2 that are thrown away, windows 2 and 3.
		}, true, 5 + 2 + 5 + 5, "no group", 2, map[string]int64{"x": 2}},
		{"the source changes at every poll", func(i int64) leak.Poll {
			return polled([]string{"dump", "profile"}[i%2], map[string]int64{"a": 1})
			// 151 polls up to the timeout, and two more for a window to compare with.
		}, false, 153, "after 30s goroutines were still read now as a text dump and now as a profile", 1, map[string]int64{"a": 1}},
		{"the source changes with every window", func(i int64) leak.Poll {
			return polled([]string{"dump", "profile"}[i/5%2], map[string]int64{"a": 1})
		}, false, 30 * 5, "after 30s goroutines were still read now as", 1, map[string]int64{"a": 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun, i := time.Now(), int64(0)
				s, err := settle(t.Context(), settleSpec, leak.Poll{}, func(context.Context, leak.Poll) (leak.Poll, error) {
					i++
					return c.poll(i - 1), nil
				})
				if err != nil {
					t.Fatal(err)
				}
				r := s.result
				if r.Settled != c.settled || !strings.HasPrefix(r.Reason, c.reason) {
					t.Errorf("settled %v: %s", r.Settled, r.Reason)
				}
				if r.Polls != int(i) || r.Polls != c.polls || r.Seconds != time.Since(begun).Seconds() {
					t.Errorf("result %+v; there were %d polls in %s, want %d", r, i, time.Since(begun), c.polls)
				}
				if s.last.total != c.total || len(s.last.counts) != len(c.counts) {
					t.Errorf("last window: total %d of %v, want %d of %v", s.last.total, s.last.counts, c.total, c.counts)
				}
				for id, n := range c.counts {
					if s.last.counts[id] != n || s.stacks[id].State != "select" {
						t.Errorf("last window: %v (%v)", s.last.counts, s.stacks[id])
					}
				}
			})
		})
	}
}

func TestSettleEndsEarly(t *testing.T) {
	broken, interrupted := errors.New("broken"), errors.New("interrupted")
	for _, at := range []int{0, 3, 5, 12} { // at once, within a window, between two, later on
		synctest.Test(t, func(t *testing.T) {
			i := -1
			_, err := settle(t.Context(), settleSpec, leak.Poll{}, func(context.Context, leak.Poll) (leak.Poll, error) {
				if i++; i == at {
					return leak.Poll{}, broken
				}
				return polled("dump", map[string]int64{"a": int64(100 - i)}), nil
			})
			if !errors.Is(err, broken) || i != at {
				t.Errorf("poll %d of %d fails: %v", at, i, err)
			}
		})
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			i, begun := -1, time.Now()
			_, err := settle(ctx, settleSpec, leak.Poll{}, func(context.Context, leak.Poll) (leak.Poll, error) {
				if i++; i == at {
					begun = time.Now()
					cancel(interrupted)
				}
				return polled("dump", map[string]int64{"a": int64(100 - i)}), nil
			})
			if !errors.Is(err, interrupted) || time.Since(begun) != 0 {
				t.Errorf("interrupted in poll %d: %v, %s later", at, err, time.Since(begun))
			}
		})
	}
}

// TestMinimaOfEverySource checks that the profile, which flame graphs draw, has the same settled goroutines as the text
// dump, which is polled and judged.
func TestMinimaOfEverySource(t *testing.T) {
	stack := func(state, fn string, line int) leak.Stack {
		return leak.Stack{State: state, Frames: []leak.Frame{{Func: fn, Line: line}}}
	}
	// The load left 5 workers in two states. At the sample, 2 transient ones stand there, too, and a request is served.
	stacks := map[string]leak.Stack{
		"d1": stack("select", "main.work", 1), "d2": stack("chan receive", "main.work", 2), "d3": stack("running", "main.serve", 3),
		"p1": stack("", "main.work", 1), "p2": stack("", "main.work", 2), "p3": stack("", "main.serve", 3), "p4": stack("", "main.other", 4),
	}
	reading := leak.Reading{Stacks: stacks, Sample: leak.Sample{Probe: "goroutine", Values: map[string]float64{}, Groups: map[string][]leak.Group{
		"dump":    {{Stack: "d1", Count: 4}, {Stack: "d2", Count: 3}, {Stack: "d3", Count: 1}},
		"profile": {{Stack: "p1", Count: 4}, {Stack: "p2", Count: 3}, {Stack: "p3", Count: 1}, {Stack: "p4", Count: 2}},
	}}}
	m := &measurement{run: &run{Config: Config{Metrics: map[string][]leak.Metric{"goroutine": {{Name: "count"}}}}}}
	m.useMinima(&reading, settled{stacks: stacks, last: &window{source: "dump", total: 5, counts: map[string]int64{"d1": 3, "d2": 2}}})
	for source, want := range map[string][]leak.Group{
		"dump":    {{Stack: "d1", Count: 3}, {Stack: "d2", Count: 2}},
		"profile": {{Stack: "p1", Count: 4}, {Stack: "p2", Count: 1}, {Stack: "p4", Count: 2}}, // the dump does not have main.other
	} {
		if got := reading.Sample.Groups[source]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", source, got, want)
		}
	}
}

// TestSettleLargeProgram checks that a program with many goroutines is polled less often, and that the poll of the
// settling before says which source it needs.
func TestSettleLargeProgram(t *testing.T) {
	for _, c := range []struct {
		total int64
		polls int
	}{{many, 2 * pollsPerWindow}, {many + 1, 2 * pollsOfMany}} {
		bubble(t, "", func(t *testing.T) {
			first := true
			s, err := settle(t.Context(), settleSpec, leak.Poll{Source: "dump", Total: c.total}, func(_ context.Context, before leak.Poll) (leak.Poll, error) {
				if first && (before.Source != "dump" || before.Total != c.total) {
					t.Errorf("the first poll got %+v", before)
				}
				first = false
				return polled("dump", map[string]int64{"stays": c.total}), nil
			})
			if err != nil || !s.result.Settled || s.result.Polls != c.polls {
				t.Errorf("%d goroutines: %v, %+v, want %d polls", c.total, err, s.result, c.polls)
			}
			if want := 2 * settleSpec.Quiet.D().Seconds(); s.result.Seconds != want {
				t.Errorf("%d goroutines: settled in %v s, want %v", c.total, s.result.Seconds, want)
			}
		})
	}
}
