package runner

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// watcher is a lab that is watched.
type watcher struct {
	*lab
	seen  []leak.Standing
	times []time.Time
}

func (w *watcher) Watch(s leak.Standing) {
	w.seen, w.times = append(w.seen, s), append(w.times, time.Now())
}

// TestWatched checks that progress has the current step, the series so far, and the remaining time.
func TestWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		w := &watcher{lab: l}
		l.Progress = w
		if _, err := l.run(t, t.Context()); err != nil {
			t.Fatal(err)
		}
		end := time.Now()
		var doing []string
		for i, s := range w.seen {
			doing = append(doing, s.Variant+": "+s.Doing)
			left := end.Sub(w.times[i])
			switch {
			case i == 0 && s.Left >= 0:
				t.Errorf("%s before anything is known", s.Left)
			case i == 8 && s.Left < left:
				t.Errorf("%s left, at the start of the second variant reported %s", left, s.Left)
			case i > 0 && s.Doing != "warm-up 1/1" && (s.Left < left*8/10 || s.Left > left*12/10):
				t.Errorf("%s: %s left, reported %s", doing[i], left, s.Left)
			}
		}
		want := []string{"warm-up 1/1", "round 1/3", "round 1/3, settling", "round 2/3", "round 2/3, settling", "round 3/3", "round 3/3, settling", "idling"}
		for i := range want {
			want = append(want, "fixed: "+want[i])
			want[i] = "leaky: " + want[i]
		}
		if !slices.Equal(doing, want) {
			t.Errorf("got %q, want %q", doing, want)
		}
		last := w.seen[7]
		if len(last.Series) != 2 || last.Series[1].Name != "goroutine.count" || !slices.Equal(last.Series[1].Values, []float64{14, 18, 22, 26}) {
			t.Errorf("series %+v", last.Series)
		}
		if last.Rate != 16 || w.seen[1].Rate != 0 { // four in a quarter of a second
			t.Errorf("rates %v and %v", w.seen[1].Rate, last.Rate)
		}
	})
}
