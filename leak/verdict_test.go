package leak

import (
	"encoding/json"
	"slices"
	"testing"
)

func TestZeroNeverPasses(t *testing.T) {
	var o Outcome
	if o != Inconclusive || o.String() != "inconclusive" {
		t.Errorf("the zero outcome is %v", o)
	}
	var r Result
	if r != Undecided || ExitCode(false, false, false, r) != ExitInconclusive {
		t.Errorf("the zero result is %v", r)
	}
	if got := ExitCode(false, false, false); got != ExitInconclusive {
		t.Errorf("no results at all: exit %d", got)
	}
	if got := ExitCode(false, false, false, Result(99), Met); got != ExitInconclusive {
		t.Errorf("a result that does not exist: exit %d", got)
	}
	// Unknown values print as the value that does not pass.
	if Outcome(99).String() != "inconclusive" || Outcome(-1).String() != "inconclusive" || Result(99).String() != "undecided" {
		t.Errorf("out of range: %v, %v, %v", Outcome(99), Outcome(-1), Result(99))
	}
}

func TestWordsRoundTrip(t *testing.T) {
	for _, o := range []Outcome{Inconclusive, Clean, Leaking} {
		roundTrip(t, o)
	}
	for _, r := range []Result{Undecided, Met, NotMet, Unmeasured} {
		roundTrip(t, r)
	}
	for _, bad := range []string{`"cleann"`, `""`, `"Clean"`, `1`} {
		o := Leaking
		if err := json.Unmarshal([]byte(bad), &o); err == nil || o != Leaking {
			t.Errorf("outcome %s is accepted as %v", bad, o)
		}
	}
}

func roundTrip[T comparable](t *testing.T, v T) {
	t.Helper()
	b, err := json.Marshal(v)
	var again T
	if err2 := json.Unmarshal(b, &again); err != nil || err2 != nil || again != v {
		t.Errorf("%v is written as %s and read as %v (%v, %v)", v, b, again, err, err2)
	}
}

// All combinations of the three flags and of up to three results against the order as the design
// states it: the exit code that stands first in it wins.
func TestExitCode(t *testing.T) {
	order := []int{130, 2, 3, 1, 4, 0}
	code := map[Result]int{Unmeasured: 3, NotMet: 1, Undecided: 4, Met: 0}
	all := []Result{Undecided, Met, NotMet, Unmeasured}
	lists := [][]Result{nil}
	for start, n := 0, 0; n < 3; n++ {
		end := len(lists)
		for _, list := range lists[start:end] {
			for _, r := range all {
				lists = append(lists, append(slices.Clone(list), r))
			}
		}
		start = end
	}
	if len(lists) != 1+4+16+64 {
		t.Fatalf("%d lists of results", len(lists))
	}
	for _, results := range lists {
		for flags := range 8 {
			interrupted, usage, failed := flags&1 != 0, flags&2 != 0, flags&4 != 0
			codes := []int{}
			if interrupted {
				codes = append(codes, 130)
			}
			if usage {
				codes = append(codes, 2)
			}
			if failed {
				codes = append(codes, 3)
			}
			for _, r := range results {
				codes = append(codes, code[r])
			}
			if len(codes) == 0 {
				codes = []int{4}
			}
			want := slices.MinFunc(codes, func(a, b int) int { return slices.Index(order, a) - slices.Index(order, b) })
			if got := ExitCode(interrupted, usage, failed, results...); got != want {
				t.Errorf("ExitCode(%v, %v, %v, %v) = %d, want %d", interrupted, usage, failed, results, got, want)
			}
		}
	}
}

func TestWorst(t *testing.T) {
	for _, c := range []struct {
		results []Result
		want    Result
	}{
		{nil, Undecided},          // nothing was decided
		{[]Result{Met, Met}, Met}, // only all together are met
		{[]Result{Met, Undecided}, Undecided},
		{[]Result{NotMet, Undecided}, NotMet},      // what is known to be wrong beats what is not known
		{[]Result{NotMet, Unmeasured}, Unmeasured}, // a failed measurement outranks both
	} {
		if got := Worst(c.results...); got != c.want {
			t.Errorf("Worst(%v) = %v, want %v", c.results, got, c.want)
		}
	}
}
