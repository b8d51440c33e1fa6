package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

type silent struct{}

func (silent) Log(string, ...any)    {}
func (silent) Status(string, ...any) {}
func (silent) Watch(leak.Standing)   {}

// listed is a Lister of a function of the number of the sweep.
type listed struct {
	n  int
	of func(sweep int) ([]Target, error)
}

func (l *listed) List(context.Context) ([]Target, error) {
	l.n++
	return l.of(l.n - 1)
}

// polled is a Poller of a function of where the target is and how long the survey goes on.
type polled func(ctx context.Context, at string) (goroutines int64, err error)

func (p polled) Poll(ctx context.Context, t leak.Target, _ leak.Poll) (leak.Poll, error) {
	n, err := p(ctx, t.Pprof)
	s := leak.Stack{State: "chan send", Frames: []leak.Frame{{Func: "main.forgotten", File: "main.go", Line: 7}}}
	return leak.Poll{Total: n + 3, Groups: []leak.Group{{Stack: s.ID(), Count: n}}, Stacks: map[string]leak.Stack{s.ID(): s}}, err
}

func target(id string) Target {
	return Target{ID: id, Name: "ns/" + strings.Split(id, "/")[0], Subject: leak.Target{Pprof: id}}
}

func targets(ids ...string) (all []Target) {
	for _, id := range ids {
		all = append(all, target(id))
	}
	return all
}

// survey runs one every minute, in time that is made up.
func surveyed(t *testing.T, ctx context.Context, l *listed, p polled, sweeps int) *Record {
	t.Helper()
	saved := 0
	r, err := Run(ctx, Config{
		Lister: l, Poller: p, Every: time.Minute, For: time.Duration(sweeps-1) * time.Minute, Timeout: 10 * time.Second, Concurrency: 4,
		Save: func(*Record) error { saved++; return nil }, Progress: silent{},
	})
	if err != nil {
		t.Fatal(err)
	}
	if saved < len(r.Sweeps) {
		t.Errorf("saved %d times in %d sweeps", saved, len(r.Sweeps))
	}
	return r
}

// TestChurn has pods that appear, disappear and restart, one that never answers, and an API server that is
// unavailable for a moment. Each life is a separate target. Targets with too few readings are not judged, and the
// verdict says so.
func TestChurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		l := &listed{of: func(sweep int) ([]Target, error) {
			switch {
			case sweep == 5:
				return nil, errors.New("the API server is away")
			case sweep < 3:
				return targets("leaky/0", "fine/0", "short/0", "dead/0", "crashes/0"), nil
			case sweep < 26:
				return targets("leaky/0", "fine/0", "dead/0", "crashes/1"), nil
			}
			return targets("leaky/0", "fine/0", "dead/0", "crashes/1", "late/0"), nil
		}}
		r := surveyed(t, t.Context(), l, func(ctx context.Context, at string) (int64, error) {
			minutes := int64(time.Since(start).Round(time.Second).Minutes())
			switch at {
			case "leaky/0", "crashes/0":
				return minutes, nil
			case "crashes/1":
				return 2 * (minutes - 3), nil
			case "dead/0":
				<-ctx.Done()
				return 0, ctx.Err()
			}
			return 1, nil
		}, 30)
		v := Judge(r, usual)
		want := Tally{Seen: 7, Judged: 3, Leaking: 2, Clean: 1, NotJudged: 4, Gone: 2}
		if v.Targets != want {
			t.Errorf("%+v", v.Targets)
		}
		var leaks []string
		for _, g := range v.Stacks[0].Targets {
			leaks = append(leaks, fmt.Sprintf("%s %d→%d %.0f", g.Target, g.From, g.To, g.PerHour))
		}
		if !slices.Equal(leaks, []string{"ns/crashes 0→52 120", "ns/leaky 0→29 60"}) {
			t.Errorf("%q", leaks)
		}
		why := fmt.Sprint(v.NotJudged)
		for _, part := range []string{"short 3 points", "it ended before", "dead 0 points", "did not answer for 10s", "late 4 points", "it came late", "crashes 3 points"} {
			if !strings.Contains(why, part) {
				t.Errorf("%q is not reported: %s", part, why)
			}
		}
		if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "sweep 6: ") || v.ExitCode != leak.ExitNotMet {
			t.Errorf("%q, exit %d", r.Warnings, v.ExitCode)
		}
		if n := len(r.Targets[0].Seconds); n != 30 {
			t.Errorf("%d points", n)
		}
	})
}

// TestInterrupted checks that an interruption ends the sweep, that earlier sweeps are judged, and that interrupted
// reads are not failures.
func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		l := &listed{of: func(int) ([]Target, error) { return targets("leaky/0", "fine/0"), nil }}
		r := surveyed(t, ctx, l, func(ctx context.Context, at string) (int64, error) {
			minutes := int64(time.Since(start).Minutes())
			if minutes == 14 && at == "fine/0" {
				cancel()
				<-ctx.Done()
				return 0, ctx.Err()
			}
			if at == "fine/0" {
				return 1, nil
			}
			return minutes, nil
		}, 60)
		v := Judge(r, usual)
		if !r.Interrupted || v.ExitCode != leak.ExitInterrupted || v.Targets.Leaking != 1 || v.Targets.Clean != 1 || r.Targets[1].Failures != 0 || len(r.Sweeps) != 14 {
			t.Errorf("%d sweeps, %+v, %+v", len(r.Sweeps), v.Targets, r.Targets[1])
		}
	})
}

// TestAttackFleetRestarts restarts a process behind the same URL before each sweep, so that its growth never shows.
func TestAttackFleetRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := target("http://10.0.0.7:6060")
		at.Address = true
		l := &listed{of: func(int) ([]Target, error) { return []Target{at}, nil }}
		lives := int64(100)
		r, err := Run(t.Context(), Config{
			Lister: l, Poller: polled(func(context.Context, string) (int64, error) { return 1, nil }),
			Vitals: func(context.Context, leak.Target) (leak.Vitals, error) {
				lives--
				return leak.Vitals{Known: true, Mallocs: lives, Collections: 1}, nil
			},
			Every: time.Minute, For: 20 * time.Minute, Timeout: time.Second, Concurrency: 1,
			Save: func(*Record) error { return nil }, Progress: silent{},
		})
		if err != nil {
			t.Fatal(err)
		}
		if v := Judge(r, usual); v.ExitCode == leak.ExitMet || v.Targets.Clean != 0 || v.Targets.Seen != 21 || v.Targets.Gone != 20 {
			t.Errorf("%+v, exit %d: %s", v.Targets, v.ExitCode, v.Sentence)
		}
	})
}

// TestSlow checks that unresponsive targets cost at most the timeout, in parallel, and that a late sweep skips missed
// ones with a warning.
func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int32
		var ids []string
		for i := range 40 {
			ids = append(ids, fmt.Sprintf("pod%d/0", i))
		}
		l := &listed{of: func(int) ([]Target, error) { return targets(ids...), nil }}
		r := surveyed(t, t.Context(), l, func(ctx context.Context, at string) (int64, error) {
			defer now.Add(-1)
			for n := now.Add(1); ; {
				if old := most.Load(); n <= old || most.CompareAndSwap(old, n) {
					break
				}
			}
			if at == "pod0/0" {
				return 1, nil
			}
			<-ctx.Done()
			return 0, ctx.Err()
		}, 20)
		if most.Load() != 4 {
			t.Errorf("%d at once", most.Load())
		}
		for _, s := range r.Sweeps {
			if s.Took > 101 || s.Failed != 39 || s.Read != 1 {
				t.Errorf("%+v", s)
			}
		}
		if len(r.Sweeps) >= 20 || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "longer than 1m0s") {
			t.Errorf("%d sweeps, %q", len(r.Sweeps), r.Warnings)
		}
		if v := Judge(r, usual); v.Outcome != leak.Inconclusive {
			t.Errorf("%s", v.Sentence)
		}
	})
}

// Where nothing answers, or there is nothing, nothing could be measured.
func TestNobody(t *testing.T) {
	for _, tt := range []struct {
		targets []Target
		err     error
		want    string
	}{
		{nil, nil, "no target"},
		{nil, errors.New("forbidden"), "forbidden"},
		{targets("a/0", "b/0"), nil, "none of 2 targets could be read: ns/a: connection refused"},
	} {
		l := &listed{of: func(int) ([]Target, error) { return tt.targets, tt.err }}
		r := surveyed(t, t.Context(), l, func(context.Context, string) (int64, error) { return 0, errors.New("connection refused") }, 30)
		if v := Judge(r, usual); v.ExitCode != leak.ExitUnmeasured || !strings.Contains(v.Sentence, tt.want) || l.n != 1 {
			t.Errorf("%s, exit %d", v.Sentence, v.ExitCode)
		}
	}
}

// TestCounterReset checks that a counter that falls means a restarted process behind the same URL.
func TestCounterReset(t *testing.T) {
	r := &Record{}
	s := r.add("a", "a", 0)
	s.add(0, 100, 5, nil)
	if s.restarted(100) || s.restarted(101) || s.restarted(math.NaN()) || !s.restarted(99) {
		t.Error("a counter only goes up")
	}
	s.add(1, math.NaN(), 5, nil)
	if s.Operations != nil || s.restarted(1) {
		t.Error("operations are known of all points or of none")
	}
}

// Restarts are lives, too: no more of them are kept than there is room for, and warnings end somewhere.
func TestLivesAndWarningsAreBounded(t *testing.T) {
	s := &survey{record: &Record{Targets: make([]*Series, maxTargets)}}
	s.begin("a restarted", "a", 3).add(0, 0, 5, []count{{0, 5}})
	if len(s.record.Targets) != maxTargets || s.record.Beyond != 1 {
		t.Errorf("%d targets, %d beyond", len(s.record.Targets), s.record.Beyond)
	}
	for range 3 * maxWarnings {
		s.record.warn("away")
	}
	if n := len(s.record.Warnings); n != maxWarnings+1 || s.record.Warnings[n-1] != "and more of the like" {
		t.Errorf("%d warnings", n)
	}
}

// counting is a Poller that tells the largest number of a label, too.
type counting struct {
	polled
	count func(at string) float64
}

func (c counting) Poll(ctx context.Context, t leak.Target, before leak.Poll) (leak.Poll, error) {
	poll, err := c.polled.Poll(ctx, t, before)
	poll.Count = c.count(t.Pprof)
	return poll, err
}

// TestCounterLabel counts operations by a label that goroutines carry while they work. The goroutine with the largest
// number may be gone, and all of them may be gone between two requests. A target without the label is judged by time,
// with a note.
func TestCounterLabel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		minutes := func() int64 { return int64(time.Since(start).Round(time.Second).Minutes()) }
		r, err := Run(t.Context(), Config{
			Lister: &listed{of: func(int) ([]Target, error) { return targets("busy/0", "mute/0"), nil }},
			Poller: counting{func(context.Context, string) (int64, error) { return minutes(), nil }, func(at string) float64 {
				if n := minutes(); at == "busy/0" && n%3 != 0 {
					return float64(10 * n)
				}
				return 0
			}},
			Every: time.Minute, For: 29 * time.Minute, Timeout: 10 * time.Second, Concurrency: 4, Counter: "op", Label: true,
			Save: func(*Record) error { return nil }, Progress: silent{},
		})
		if err != nil {
			t.Fatal(err)
		}
		if busy := r.Targets[0]; !slices.Equal(busy.Operations[:8], []float64{0, 10, 20, 20, 40, 50, 50, 70}) || busy.NoCounter != "" {
			t.Errorf("%v, %s", busy.Operations, busy.NoCounter)
		}
		if mute := r.Targets[1]; !strings.Contains(mute.NoCounter, "no goroutine carries") {
			t.Errorf("%v, %s", mute.Operations, mute.NoCounter)
		}
		v := Judge(r, usual)
		if v.Targets.Leaking != 2 || len(v.Warnings) != 1 || !strings.Contains(v.Warnings[0], "judged per hour, without the counter op: 1 target; ns/mute: no goroutine carries") {
			t.Errorf("%+v %q", v.Targets, v.Warnings)
		}
	})
}

// TestBounded checks the limits on points and stacks of one target.
func TestBounded(t *testing.T) {
	r := &Record{Schema: RecordSchema}
	s := r.add("a", "a", 0)
	const sweeps = 10_000
	for i := range sweeps {
		counts := []count{{0, int32(i)}}
		for k := 1; k < 2*maxGroups; k++ {
			counts = append(counts, count{k, int32(1 + i%2)})
		}
		s.add(float64(i), float64(10*i), int64(i), counts)
	}
	if n := len(s.Seconds); n < maxPoints/2 || n > maxPoints || len(s.Total) != n || len(s.Operations) != n {
		t.Errorf("%d points, %d totals, %d operations", n, len(s.Total), len(s.Operations))
	}
	if len(s.Groups) != maxGroups+1 || s.Groups[maxGroups].Stack != Other {
		t.Errorf("%d groups", len(s.Groups))
	}
	for _, g := range s.Groups {
		if len(g.Counts) != len(s.Seconds) {
			t.Fatalf("group %d has %d counts", g.Stack, len(g.Counts))
		}
	}
	if first := s.Groups[1].Counts; first[0] != 1 {
		t.Errorf("the least of what comes and goes is %d", first[0])
	}
	in := newInterned(&r.Stacks)
	for i := range maxInterned + 10 {
		stack := leak.Stack{Frames: []leak.Frame{{Func: fmt.Sprintf("main.f%d", i)}}}
		if k := in.index(stack.ID(), stack); (k == Other) != (i >= maxInterned) {
			t.Fatalf("stack %d is %d", i, k)
		}
	}
}

// TestMergedNoise checks that noise does not rise when points are merged: each point stands for the same number of
// sweeps.
func TestMergedNoise(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	s := (&Record{}).add("a", "a", 0)
	for i := range 1000 {
		n := poisson(rng, 20)
		s.add(float64(i), float64(i), int64(n), []count{{0, n}})
	}
	mean := func(counts Counts) (sum float64) {
		for _, n := range counts {
			sum += float64(n) / float64(len(counts))
		}
		return sum
	}
	n := len(s.Total)
	for name, counts := range map[string]Counts{"total": s.Total, "group": s.Groups[0].Counts} {
		if early, late := mean(counts[:n/3]), mean(counts[2*n/3:]); len(counts) != n || math.Abs(late-early) > 1.5 {
			t.Errorf("%s: from %.1f to %.1f in %d points", name, early, late, len(counts))
		}
	}
	if last := s.Operations[n-1]; n < maxPoints/2 || last < 980 || s.restarted(999) || !s.restarted(998) {
		t.Errorf("%d points, the last at %g operations", n, last)
	}
	// A stack that comes in the middle of a point had none before it.
	for len(s.Seconds) != n+1 {
		s.add(1000, 1000, 20, []count{{0, 20}})
	}
	s.add(1001, 1001, 25, []count{{0, 20}, {7, 5}})
	if g := s.Groups[1]; len(g.Counts) != n+1 || g.Counts[n] != 0 || s.Total[n] != 20 {
		t.Errorf("%v of %d points, total %d", g.Counts[max(0, len(g.Counts)-2):], n+1, s.Total[n])
	}
}

// A counter that could not be read once does not take the operations of all other readings.
func TestCounterFailsOnce(t *testing.T) {
	n := 0
	fails := func(n int) bool { return n == 3 }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n++; fails(n) {
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, "# TYPE ops counter\nops %d\n", 10*n)
	}))
	defer server.Close()
	target := Target{ID: "a", Name: "a", Metrics: server.URL, Subject: leak.Target{Transport: func() http.RoundTripper { return &http.Transport{} }}}
	c := Config{
		Lister: &listed{of: func(int) ([]Target, error) { return []Target{target}, nil }}, Poller: polled(func(context.Context, string) (int64, error) { return 5, nil }),
		Counter: "ops", Every: 20 * time.Millisecond, For: time.Minute, Timeout: 5 * time.Second, Concurrency: 1, Progress: silent{},
	}
	// run ends the survey after ten sweeps, which may take any time.
	run := func() (*Record, error) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c.Save = func(r *Record) error {
			if len(r.Sweeps) >= 10 {
				cancel()
			}
			return nil
		}
		return Run(ctx, c)
	}
	r, err := run()
	if err != nil {
		t.Fatal(err)
	}
	if s := r.Targets[0]; len(r.Targets) != 1 || s.Failures != 1 || !strings.Contains(s.LastError, "503") || len(s.Operations) != len(s.Seconds) || len(s.Seconds) < 5 || s.NoCounter != "" {
		t.Errorf("%d targets, %+v", len(r.Targets), s)
	}
	// One that fails for good is gone on without: the goroutines are still counted.
	n, fails = 0, func(n int) bool { return n > 4 }
	if r, err = run(); err != nil {
		t.Fatal(err)
	}
	if s := r.Targets[0]; s.Failures != maxUncounted || s.Operations != nil || len(s.Seconds) < len(r.Sweeps)-maxUncounted || !strings.Contains(s.NoCounter, "503") {
		t.Errorf("%d sweeps, %+v", len(r.Sweeps), s)
	}
}

// TestStaleTarget checks that a target is not clean if it was listed but no longer read.
func TestStaleTarget(t *testing.T) {
	r := recordOf(1, 40, healthy["quiet"](), healthy["quiet"](), healthy["quiet"](), leaking(1, 0))
	for _, s := range r.Targets[1:] {
		s.Seconds, s.Total = s.Seconds[:25], s.Total[:25]
		for _, g := range s.Groups {
			g.Counts = g.Counts[:25]
		}
	}
	r.Targets[1].LastError, r.Targets[2].Gone = "connection refused", true
	v := Judge(r, usual)
	if v.Targets.Clean != 2 || v.Targets.NotJudged != 1 || v.Targets.Leaking != 1 || len(v.NotJudged) != 1 || v.NotJudged[0].Target != "pod-1" || !strings.Contains(v.NotJudged[0].Reason, "it was not read after 24m1s: connection refused") {
		t.Errorf("%+v %+v", v.Targets, v.NotJudged)
	}
}

// Two builds of one program have the same stack, and a stack that comes late had no goroutines before.
func TestInterned(t *testing.T) {
	var stacks []leak.Stack
	in := newInterned(&stacks)
	old := leak.Stack{Frames: []leak.Frame{{Func: "app.Serve.func1", File: "app/a.go", Line: 10}}}
	young := leak.Stack{Frames: []leak.Frame{{Func: "app.Serve.func2", File: "app/a.go", Line: 12}}}
	p := leak.Poll{Groups: []leak.Group{{Stack: old.ID(), Count: 2}, {Stack: young.ID(), Count: 3}}, Stacks: map[string]leak.Stack{old.ID(): old, young.ID(): young}}
	if got := in.counts(p); len(got) != 1 || got[0].n != 5 || len(stacks) != 1 {
		t.Errorf("%+v", got)
	}
	r := &Record{}
	s := r.add("a", "a", 0)
	s.add(0, 0, 1, nil)
	s.add(1, 0, 6, []count{{0, 5}})
	s.add(2, 0, 1, nil)
	if got := s.Groups[0].Counts; !slices.Equal(got, Counts{0, 5, 0}) {
		t.Errorf("%v", got)
	}
}

// TestRecordOnDisk checks that a record is read as it was written.
func TestRecordOnDisk(t *testing.T) {
	dir := rundir.Dir(t.TempDir())
	r := recordOf(1, 15, leaking(1, 0), healthy["requests"](), healthy["quiet"]())
	r.Targets[0].Operations = slices.Clone(r.Targets[0].Seconds)
	if err := r.Write(dir); err != nil {
		t.Fatal(err)
	}
	got, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	want, now := Judge(r, usual), Judge(got, usual)
	if !reflect.DeepEqual(want, now) || now.Targets.Leaking != 1 {
		t.Errorf("%+v\n%+v", want, now)
	}
	written, err := os.ReadFile(dir.Path(RecordFile))
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(written) - 1 {
		if _, err := parse(written[:cut]); err == nil {
			t.Errorf("cut after %d of %d bytes, it is read", cut, len(written))
		}
	}
	for name, text := range map[string]string{
		"newer":      `{"schema":99}`,
		"none":       `{}`,
		"cut":        `{"schema":1,"targets":[{"name":"a","seconds":[1,2],`,
		"mismatched": `{"schema":1,"targets":[{"name":"a","seconds":[1,2,3],"total":[1,2],"groups":[]}]}`,
		"no target":  `{"schema":1,"targets":[null]}`,
		"no group":   `{"schema":1,"targets":[{"name":"a","seconds":[1],"total":[1],"groups":[null]}]}`,
		"no stack":   `{"schema":1,"targets":[{"name":"a","seconds":[1],"total":[1],"groups":[{"stack":0,"counts":[1]}]}]}`,
		"less":       `{"schema":1,"targets":[{"name":"a","seconds":[1],"total":[1],"groups":[{"stack":-2,"counts":[1]}]}]}`,
		"recounted":  regexp.MustCompile(`"total":"`).ReplaceAllString(string(written), `"total":"1 `),
		"unlike":     `{"schema":3,"targets":[{"name":"a","seconds":[1,2],"total":1,"groups":[],"sameAs":1}]}`,
		"half":       `{"schema":3,"targets":[{"name":"a","seconds":[1,2],"total":1,"groups":[],"constant":[1]}]}`,
		"repeated":   `{"schema":3,"targets":[{"name":"a","seconds":[1,2],"total":"1 z99999999","groups":[]}]}`,
	} {
		if err := os.WriteFile(dir.Path(RecordFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(dir); err == nil {
			t.Errorf("%s is read", name)
		}
	}
}

// FuzzRecord checks that any record is read and judged, or refused.
func FuzzRecord(f *testing.F) {
	dir := rundir.Dir(f.TempDir())
	if err := recordOf(1, 13, leaking(1, 0), healthy["requests"]()).Write(dir); err != nil {
		f.Fatal(err)
	}
	written, err := os.ReadFile(dir.Path(RecordFile))
	if err != nil {
		f.Fatal(err)
	}
	bare, _, _ := bytes.Cut(written, []byte(digest)) // so that what is made of it is parsed
	f.Add(append(bytes.Clone(bare), "]}"...))
	f.Add([]byte(`{"schema":1,"stacks":[{}],"targets":[{"name":"a","seconds":[1,2],"total":3,"groups":[{"stack":0,"counts":[1,2]}]}]}`))
	none := recordOf(1, 13, healthy["requests"]())
	none.Sweeps = nil
	unswept, err := json.Marshal(none)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(unswept)
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parse(data)
		if err != nil {
			return
		}
		if err := Text(io.Discard, Judge(r, usual)); err != nil {
			t.Error(err)
		}
	})
}

// FuzzSumOf checks that any metrics page gives a number of operations or an error.
func FuzzSumOf(f *testing.F) {
	f.Add([]byte(metrics), "http_requests_total")
	f.Add([]byte(metrics), "latency")
	f.Fuzz(func(t *testing.T, page []byte, name string) {
		n, err := sumOf(bytes.NewReader(page), name)
		if err == nil && (math.IsNaN(n) || math.IsInf(n, 0) || n < 0) {
			t.Errorf("%v operations", n)
		}
	})
}

const metrics = `# HELP http_requests_total x
# TYPE http_requests_total counter
http_requests_total{code="200"} 1000
http_requests_total{code="500"} 7
http_requests_total_other 5
# TYPE in_flight gauge
in_flight 3
# TYPE latency histogram
latency_bucket{le="1"} 8
latency_bucket{le="+Inf"} 9
latency_sum 3.5
latency_count 9
untyped 4
broken NaN
`

func TestSumOf(t *testing.T) {
	for _, tt := range []struct {
		name, err string
		want      float64
	}{
		{"http_requests_total", "", 1007},
		{"latency", "", 9},
		{"latency_count", "", 9},
		{"untyped", "", 4},
		{"in_flight", "is a gauge", 0},
		{"nosuch", "no metric nosuch", 0},
		{"broken", "is NaN", 0},
	} {
		got, err := sumOf(strings.NewReader(metrics), tt.name)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v %v", tt.name, got, err)
		}
	}
	if _, err := sumOf(strings.NewReader("a {{{\n"), "a"); err == nil {
		t.Error("nonsense is read")
	}
}

func TestReadCounter(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/metrics":
			_, _ = w.Write([]byte(metrics))
		case "/endless":
			_, _ = w.Write([]byte(metrics))
			for line := []byte("# " + strings.Repeat("x", 1<<14) + "\n"); ; {
				if _, err := w.Write(line); err != nil {
					return
				}
			}
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	subject := leak.Target{Transport: func() http.RoundTripper { return &http.Transport{} }}
	if n, err := readCounter(t.Context(), Target{Subject: subject, Metrics: server.URL + "/metrics"}, "http_requests_total"); n != 1007 || err != nil {
		t.Errorf("%v %v", n, err)
	}
	if _, err := readCounter(t.Context(), Target{Subject: subject, Metrics: server.URL}, "x"); err == nil || !strings.Contains(leak.Hint(err), "--metrics") {
		t.Errorf("%v", err)
	}
	if _, err := readCounter(t.Context(), Target{Subject: subject, Metrics: server.URL + "/endless"}, "http_requests_total"); err == nil || !strings.Contains(err.Error(), "larger than 16 MiB") {
		t.Errorf("%v", err)
	}
	if _, err := readCounter(t.Context(), Target{Subject: subject}, "x"); err == nil {
		t.Error("no metrics, and no error")
	}
}

func TestList(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hosts")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	asked := 0
	reach := func(address string) (Target, error) {
		mu.Lock()
		defer mu.Unlock()
		asked++
		return Target{Subject: leak.Target{Pprof: address}}, nil
	}
	l := &List{File: file, Reach: reach}
	write("# the fleet\nhttp://a:6060\n\n  http://me:secret@b:6060/admin \n")
	got, err := l.List(t.Context())
	if err != nil || len(got) != 2 || got[1].Name != "http://me:xxxxx@b:6060/admin" || got[1].Subject.Pprof != "http://me:secret@b:6060/admin" {
		t.Errorf("%+v %v", got, err)
	}
	write("http://a:6060\nhttps://c\n")
	if got, err = l.List(t.Context()); err != nil || len(got) != 2 || got[1].ID != "https://c" || asked != 3 {
		t.Errorf("%+v %v, reached %d", got, err, asked)
	}
	write("http://a\nhttp://a\nftp://b\n:secret:\n")
	_, err = l.List(t.Context())
	for _, part := range []string{":2: it stands in line 1, too", ":3: ftp://b is not an address", ":4: not a URL"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %v", part, err)
		}
	}
	if _, err := (&List{File: file + "x", Reach: reach}).List(t.Context()); err == nil || leak.Hint(err) == "" {
		t.Errorf("%v", err)
	}
	in := &List{File: "-", Stdin: strings.NewReader("http://a\n"), Reach: reach}
	for range 2 {
		if got, err := in.List(t.Context()); len(got) != 1 || err != nil {
			t.Errorf("%v %v", got, err)
		}
	}
}

// The page has the same, escaped, with a line for each target, and asks for nothing from anywhere.
func TestHTML(t *testing.T) {
	r := recordOf(1, 20, leaking(1, 0), leaking(2, 0), healthy["quiet"](), healthy["quiet"]())
	r.Stacks[2] = leak.Stack{State: "chan send", Frames: []leak.Frame{{Func: "example.org/queue.(*Q).Put<script>alert(1)</script>", File: "q.go", Line: 9}}}
	r.Targets[3].Seconds, r.Targets[3].Total = r.Targets[3].Seconds[:2], r.Targets[3].Total[:2]
	r.Targets[3].LastError, r.Targets[3].Failures = "<b>refused", 18
	var b strings.Builder
	v := Judge(r, usual)
	v.RunDir = "runs/fleet/x"
	if err := HTML(&b, v); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, part := range []string{"leakrig explain runs/fleet/x", "<nav ", "<footer>", "2 of 4 targets leak goroutines", "pod-1", "+120 per hour", "2 of 3", "q.go:9", "&lt;b&gt;refused", "Mann–Kendall", "Content-Security-Policy"} {
		if !strings.Contains(page, part) {
			t.Errorf("%q is not in the page", part)
		}
	}
	if n := strings.Count(page, "<polyline"); n != 2 {
		t.Errorf("%d lines", n)
	}
	for _, part := range []string{"<script>alert", "<b>refused", "src=", "http://", "ZgotmplZ"} {
		if strings.Contains(page, part) {
			t.Errorf("%q is in the page", part)
		}
	}
	b.Reset()
	if err := HTML(&b, Judge(&Record{}, usual)); err != nil || !strings.Contains(b.String(), "No stack grows.") {
		t.Errorf("of nothing: %v", err)
	}
}

// TestText checks that the text starts with the verdict, names the worst target, and is printable for any profile.
func TestText(t *testing.T) {
	r := recordOf(1, 20, leaking(1, 0), leaking(2, 0), healthy["quiet"](), healthy["quiet"]())
	r.Stacks[2] = leak.Stack{State: "chan send", Frames: []leak.Frame{{Func: "example.org/queue.(*Q).Put\x1b[2J", File: "q.go", Line: 9}}}
	r.Targets[3].Seconds, r.Targets[3].Total = r.Targets[3].Seconds[:2], r.Targets[3].Total[:2]
	v := Judge(r, usual)
	v.RunDir = "runs/fleet/x"
	var b strings.Builder
	if err := Text(&b, v); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		"✗ fleet: leaking\n  2 of 4 targets leak goroutines: at worst +120 per hour, in pod-1, chan send at queue.(*Q).Put",
		"2 of 3", "pod-1: 0 → 38, +120 per hour", "q.go:9", "not judged: pod-3: 2 points", "only 3 of 4 targets were judged",
		"4 targets: 2 leaking, 1 clean, 0 undecided, 1 not judged", "--counter measures growth per operation", "run directory: runs/fleet/x\n", "runs/fleet/x/report.html",
	} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("%q is not in\n%s", part, b.String())
		}
	}
	if strings.Contains(b.String(), "\x1b") {
		t.Error("an escape came through")
	}
}
