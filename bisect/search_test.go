package bisect

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

// world is what the versions are really like: an oracle without programs.
type world struct {
	candidates []Candidate
	// states are what each measurement of a version says, in turn; the last one stays.
	states map[string][]State
	asked  map[string]int
	// guessed counts how often the next version was among those that were to be built ahead.
	ahead       []Candidate
	guessed     int
	interrupted int // ends the search before this measurement
	failed      int
	cancel      context.CancelFunc
	steps       int
}

func (w *world) Measure(ctx context.Context, c Candidate, ahead []Candidate) (Step, error) {
	w.steps++
	if w.steps == w.interrupted {
		w.cancel()
		return Step{}, context.Cause(ctx)
	}
	if w.steps == w.failed {
		return Step{}, leak.WithHint(errors.New("the cluster does not boot"), "look at it")
	}
	if slices.ContainsFunc(w.ahead, func(a Candidate) bool { return a == c }) {
		w.guessed++
	}
	w.ahead = ahead
	states := w.states[c.Version]
	state := states[min(w.asked[c.Version], len(states)-1)]
	w.asked[c.Version]++
	return Step{State: state, Reason: "because"}, nil
}

type quiet struct{}

func (quiet) Log(string, ...any)    {}
func (quiet) Status(string, ...any) {}

// row makes a world of n versions, of which those from the boundary on are in another state.
func row(n, boundary int, first, then State) *world {
	w := &world{states: map[string][]State{}, asked: map[string]int{}}
	for i := range n {
		v := fmt.Sprintf("v1.%d.0", i)
		w.candidates = append(w.candidates, Candidate{Version: v, Line: Line(v)})
		w.states[v] = []State{first}
		if i >= boundary {
			w.states[v] = []State{then}
		}
	}
	return w
}

func (w *world) question() Question {
	first, last := w.candidates[0].Version, w.candidates[len(w.candidates)-1].Version
	q := Question{Bad: first, Good: last, Repeats: 1, Spots: 2}
	if w.states[first][0] == Clean {
		q.Bad, q.Good = last, first
	}
	return q
}

func (w *world) record(q Question) *Record {
	return &Record{Schema: Schema, Candidates: w.candidates, Question: q}
}

func search1(t *testing.T, w *world, r *Record) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w.cancel = cancel
	if err := Run(ctx, config(w, r)); err != nil {
		t.Fatal(err)
	}
}

func config(w *world, r *Record) Config {
	return Config{Record: r, Oracle: w, Save: func(*Record) error { return nil }, Progress: quiet{}, Now: time.Now}
}

func only(t *testing.T, r *Record) Answer {
	t.Helper()
	if len(r.Answers) != 1 {
		t.Fatalf("%d answers: %s", len(r.Answers), r.Sentence)
	}
	return r.Answers[0]
}

// Every boundary of every range is found, in both directions, within the budget, and each neighbour was
// measured twice.
func TestEveryBoundary(t *testing.T) {
	for _, n := range []int{2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65} {
		for boundary := 1; boundary < n; boundary++ {
			for _, then := range []State{Clean, Leaky} {
				first, kind := Leaky, Fixed
				if then == Leaky {
					first, kind = Clean, Broken
				}
				w := row(n, boundary, first, then)
				r := w.record(w.question())
				search1(t, w, r)
				a := only(t, r)
				before, after := w.candidates[boundary-1].Version, w.candidates[boundary].Version
				leaky, clean := before, after
				if then == Leaky {
					leaky, clean = after, before
				}
				if a.Kind != kind || a.Leaky != leaky || a.Clean != clean || a.Result != leak.Met || len(a.Against) > 0 {
					t.Fatalf("%d of %d: %+v", boundary, n, a)
				}
				if w.asked[leaky] != 2 || w.asked[clean] != 2 {
					t.Errorf("%d of %d: the neighbours were measured %d and %d times", boundary, n, w.asked[leaky], w.asked[clean])
				}
				if r.Measured() > Budget(n) {
					t.Errorf("%d of %d: %d steps, more than %d", boundary, n, r.Measured(), Budget(n))
				}
				// Except for the first, the next step is one of the two that were built ahead.
				if w.guessed < len(r.Steps)-5 {
					t.Errorf("%d of %d: %d of %d steps were foreseen", boundary, n, w.guessed, len(r.Steps))
				}
			}
		}
	}
}

// Versions that do not build are gone around, named where they lie between the neighbours, and cost no
// measured steps to speak of.
func TestSkips(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 400 {
		n := 4 + random.IntN(60)
		boundary := 1 + random.IntN(n-1)
		w := row(n, boundary, Leaky, Clean)
		// A row of neighbours, and some by themselves.
		from := 1 + random.IntN(n-2)
		for i := from; i < min(n-1, from+random.IntN(12)); i++ {
			w.states[w.candidates[i].Version] = []State{Skipped}
		}
		w.states[w.candidates[1+random.IntN(n-2)].Version] = []State{Skipped}
		r := w.record(w.question())
		search1(t, w, r)
		a := only(t, r)
		lo := slices.IndexFunc(w.candidates, func(c Candidate) bool { return c.Version == a.Leaky })
		hi := slices.IndexFunc(w.candidates, func(c Candidate) bool { return c.Version == a.Clean })
		if a.Kind != Fixed || a.Result != leak.Met || lo >= boundary || hi < boundary || len(a.Between) != hi-lo-1 {
			t.Fatalf("%d of %d: %+v", boundary, n, a)
		}
		for i := lo + 1; i < hi; i++ {
			if w.states[w.candidates[i].Version][0] != Skipped {
				t.Fatalf("%s lies between %s and %s", w.candidates[i].Version, a.Leaky, a.Clean)
			}
		}
		if hi-lo > 1 && !strings.Contains(a.Sentence, "unavailable or undecided between them: "+w.candidates[lo+1].Version) {
			t.Errorf("%s", a.Sentence)
		}
		if r.Measured() > Budget(n)+1 {
			t.Errorf("%d measured steps for %d", r.Measured(), n)
		}
	}
}

// A long row that does not build is left after a few tries where the boundary is elsewhere.
func TestSkippedRowIsLeft(t *testing.T) {
	w := row(100, 20, Leaky, Clean)
	for i := 35; i < 65; i++ {
		w.states[w.candidates[i].Version] = []State{Skipped}
	}
	r := w.record(w.question())
	search1(t, w, r)
	if skipped := len(r.Steps) - r.Measured(); only(t, r).Clean != "v1.20.0" || skipped > 6 {
		t.Errorf("%d tries; %s", skipped, r.Sentence)
	}
}

// TestUnsure checks that an undecided version is measured again, and skipped if it stays undecided.
func TestUnsure(t *testing.T) {
	w := row(9, 4, Leaky, Clean)
	w.states["v1.4.0"] = []State{Unsure, Clean}
	r := w.record(w.question())
	search1(t, w, r)
	if a := only(t, r); a.Clean != "v1.4.0" || a.Result != leak.Met {
		t.Errorf("%+v", a)
	}
	w = row(9, 4, Leaky, Clean)
	w.states["v1.4.0"] = []State{Unsure}
	r = w.record(w.question())
	search1(t, w, r)
	a := only(t, r)
	if a.Clean != "v1.5.0" || len(a.Between) != 1 || a.Between[0].Version != "v1.4.0" || w.asked["v1.4.0"] != 2 {
		t.Errorf("%+v, asked %d times", a, w.asked["v1.4.0"])
	}
}

// A leak that comes now and then: a clean neighbour that leaks when it is measured again moves the boundary on.
func TestComesAndGoes(t *testing.T) {
	w := row(9, 6, Leaky, Clean)
	w.states["v1.4.0"] = []State{Clean, Leaky}
	r := w.record(w.question())
	search1(t, w, r)
	a := only(t, r)
	if a.Leaky != "v1.5.0" || a.Clean != "v1.6.0" || a.Result != leak.Met {
		t.Errorf("%+v", a)
	}
	// The leaky neighbour itself: the answer stands, and is not sure.
	w = row(9, 6, Leaky, Clean)
	w.states["v1.5.0"] = []State{Leaky, Clean}
	r = w.record(w.question())
	search1(t, w, r)
	a = only(t, r)
	if a.Leaky != "v1.5.0" || a.Result != leak.Undecided || !strings.Contains(a.Sentence, "v1.5.0 leaked in 1 of 2 measurements") {
		t.Errorf("%+v", a)
	}
}

// More repeats make surer, and the leak that stays away once is found.
func TestRepeats(t *testing.T) {
	w := row(5, 3, Leaky, Clean)
	w.states["v1.3.0"] = []State{Clean, Clean, Clean, Leaky}
	q := w.question()
	q.Repeats = 4
	r := w.record(q)
	search1(t, w, r)
	if a := only(t, r); a.Leaky != "v1.3.0" || a.Clean != "v1.4.0" || a.CleanOf != 5 {
		t.Errorf("%+v", a)
	}
}

// TestNotOneBoundary checks that a measurement far from the boundary reveals a fix that was lost again.
func TestNotOneBoundary(t *testing.T) {
	w := row(32, 20, Leaky, Clean)
	for i := 5; i < 10; i++ {
		w.states[w.candidates[i].Version] = []State{Clean} // fixed, and broken again
	}
	r := w.record(w.question())
	search1(t, w, r)
	a := only(t, r)
	if a.Leaky != "v1.19.0" || a.Clean != "v1.20.0" || a.Result != leak.Undecided || !slices.Equal(a.Against, []string{"v1.8.0"}) ||
		!strings.Contains(a.Sentence, "not the only boundary: v1.8.0 does not go with its side") || w.asked["v1.8.0"] != 2 {
		t.Errorf("%+v", a)
	}
	// Without these measurements, the search would miss it.
	w = row(32, 20, Leaky, Clean)
	w.states["v1.8.0"] = []State{Clean}
	q := w.question()
	q.Spots = 0
	r = w.record(q)
	search1(t, w, r)
	if a := only(t, r); a.Result != leak.Met || w.asked["v1.8.0"] > 0 {
		t.Errorf("%+v", a)
	}
}

// TestEnds checks that the given ends are verified before anything else.
func TestEnds(t *testing.T) {
	for name, test := range map[string]struct {
		first, last []State
		kind        string
		result      leak.Result
		says        string
		steps       int
	}{
		"a good that leaks":           {[]State{Leaky}, []State{Leaky}, Wrong, leak.NotMet, "v1.8.0 was given as good, but it leaks", 2},
		"a bad that does not":         {[]State{Clean}, []State{Clean}, Wrong, leak.NotMet, "v1.0.0 was given as bad, but it does not leak", 3},
		"the other way round":         {[]State{Clean}, []State{Leaky}, Wrong, leak.NotMet, "the other way round: v1.8.0 leaks, and v1.0.0 does not", 3},
		"an unavailable bad version":  {[]State{Skipped}, []State{Clean}, Untold, leak.Unmeasured, "v1.0.0, an end of the range, was unavailable: because", 1},
		"an undecided good version":   {[]State{Leaky}, []State{Unsure}, Untold, leak.Undecided, "v1.8.0, an end of the range, was undecided", 3},
		"a bad that leaks now and by": {[]State{Clean, Leaky}, []State{Clean}, Fixed, leak.Undecided, "v1.0.0 leaked in 1 of 2", 7},
	} {
		w := row(9, 1, Leaky, Clean)
		w.states["v1.0.0"], w.states["v1.8.0"] = test.first, test.last
		r := w.record(Question{Bad: "v1.0.0", Good: "v1.8.0", Repeats: 1})
		search1(t, w, r)
		if a := only(t, r); a.Kind != test.kind || a.Result != test.result || !strings.Contains(a.Sentence, test.says) || len(r.Steps) != test.steps {
			t.Errorf("%s: %d steps: %+v", name, len(r.Steps), a)
		}
	}
}

// TestAllLines searches each release line separately: a fix in one is independent of the others.
func TestAllLines(t *testing.T) {
	w := &world{states: map[string][]State{}, asked: map[string]int{}}
	for _, line := range []string{"v0.18.8 L", "v0.18.9 L", "v0.19.0 L", "v0.19.1 -", "v0.20.0 L", "v0.20.1 L", "v0.20.2 C", "v0.20.3 C", "v0.21.0-beta.0 L", "v0.21.0-beta.1 C", "v0.21.0 C", "v0.22.0 C", "v0.23.0 -"} {
		v, state, _ := strings.Cut(line, " ")
		w.candidates = append(w.candidates, Candidate{Version: v, Line: Line(v)})
		w.states[v] = []State{map[string]State{"L": Leaky, "C": Clean, "-": Skipped}[state]}
	}
	r := w.record(Question{Bad: "v0.18.8", Good: "v0.22.0", AllLines: true, Repeats: 1})
	search1(t, w, r)
	var kinds []string
	for _, a := range r.Answers {
		kinds = append(kinds, a.Line+" "+a.Kind+" "+a.Leaky+" "+a.Clean)
	}
	want := []string{"v0.18 all leak  ", "v0.19 all leak  ", "v0.20 fixed v0.20.1 v0.20.2", "v0.21 fixed v0.21.0-beta.0 v0.21.0-beta.1", "v0.22 none leaks  ", "v0.23 undecided  "}
	if !slices.Equal(kinds, want) {
		t.Errorf("%q", kinds)
	}
	for _, part := range []string{"v0.18: never fixed: v0.18.8 and v0.18.9, the first and the last available version, leak", "v0.19: never fixed: v0.19.0, the only available version, leaks", "v0.22: clean: v0.22.0, the only", "v0.20: fixed in v0.20.2; last leaky v0.20.1"} {
		if !strings.Contains(r.Sentence, part) {
			t.Errorf("%s\nlacks %s", r.Sentence, part)
		}
	}
	if r.Result != leak.Unmeasured {
		t.Errorf("an undecided line: %s", r.Result)
	}
	// The given ends are verified nevertheless.
	r = w.record(Question{Bad: "v0.18.8", Good: "v0.19.0", AllLines: true, Repeats: 1})
	r.Candidates = r.Candidates[:3]
	search1(t, w, r)
	if r.Result != leak.NotMet || !strings.Contains(r.Sentence, "v0.19.0 was given as good, but it leaks") {
		t.Errorf("%s: %s", r.Result, r.Sentence)
	}
}

// Interrupted before any step, the search goes on from its record and comes to the same end with the same
// measurements.
func TestResumes(t *testing.T) {
	whole := row(40, 23, Leaky, Clean)
	r := whole.record(whole.question())
	search1(t, whole, r)
	for at := 1; at <= len(r.Steps); at++ {
		w := row(40, 23, Leaky, Clean)
		w.interrupted = at
		again := w.record(w.question())
		search1(t, w, again)
		if !again.Interrupted || !again.Open() || len(again.Steps) != at-1 || again.Sentence != "" {
			t.Fatalf("interrupted before step %d: %d steps, %q", at, len(again.Steps), again.Sentence)
		}
		dir := t.TempDir()
		if err := Write(dir, again); err != nil {
			t.Fatal(err)
		}
		read, err := Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		read.Resume()
		search1(t, w, read)
		if read.Open() || read.Interrupted || read.Sentence != r.Sentence || len(read.Steps) != len(r.Steps) {
			t.Errorf("interrupted before step %d: %d steps, not %d: %s", at, len(read.Steps), len(r.Steps), read.Sentence)
		}
	}
}

// An error ends the session with its hint in the record, and what could not be built is tried again later.
func TestFails(t *testing.T) {
	w := row(9, 4, Leaky, Clean)
	w.states["v1.4.0"] = []State{Skipped, Clean}
	w.failed = 5
	r := w.record(w.question())
	err := Run(context.Background(), config(w, r))
	if err == nil || leak.Hint(err) != "look at it" || r.Failure == nil || r.Failure.Hint != "look at it" || !strings.Contains(err.Error(), "step 5: v1.") || !r.Open() {
		t.Fatalf("%v %+v", err, r.Failure)
	}
	if len(r.Steps) != 4 || r.Measured() != 3 {
		t.Fatalf("%+v", r.Steps)
	}
	r.Resume()
	search1(t, w, r)
	if a := only(t, r); a.Clean != "v1.4.0" || a.Leaky != "v1.3.0" || r.Failure != nil {
		t.Errorf("%+v", a)
	}
}

// TestMissingIsNamed checks that versions missing from the proxy are named if they lie between the neighbours, and
// only then.
func TestMissingIsNamed(t *testing.T) {
	w := row(5, 3, Leaky, Clean)
	r := w.record(w.question())
	r.Missing = []Missing{{"v1.2.7", "403"}, {"v1.1.4", "403"}, {"v1.3.0-rc.1", "404"}, {"v1.3.1", "404"}}
	search1(t, w, r)
	a := only(t, r)
	if want := "fixed in v1.3.0; last leaky v1.2.0; unavailable or undecided between them: v1.2.7, v1.3.0-rc.1"; a.Sentence != want {
		t.Errorf("%s", a.Sentence)
	}
}

func TestReadRefuses(t *testing.T) {
	for text, says := range map[string]string{"": "damaged", "{}": "no schema", `{"schema": 99}`: "this build reads up to"} {
		dir := t.TempDir()
		if err := rundir.WriteFile(dir+"/"+RecordFile, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(dir); err == nil || !strings.Contains(err.Error()+leak.Hint(err), says) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := Read(t.TempDir()); err == nil || !strings.Contains(leak.Hint(err), "bisect-<time>") {
		t.Error(err)
	}
}
