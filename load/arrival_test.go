package load

import (
	"context"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// TestArrivalDue compares the schedule of ramps with a numeric integral of the rate.
func TestArrivalDue(t *testing.T) {
	rand := seeded(t)
	for range 300 {
		a := arrival{Rate: 1 + 100*rand.Float64()}
		for range rand.IntN(4) {
			a.Stages = append(a.Stages, stage{1 + 100*rand.Float64(), leak.Duration(rand.Int64N(int64(3 * time.Second)))})
		}
		rate := func(at float64) float64 {
			before := a.Rate
			for _, s := range a.Stages {
				d := s.For.D().Seconds()
				if at < d {
					return before + (s.Rate-before)*at/d
				}
				at, before = at-d, s.Rate
			}
			return before
		}
		due := a.due(1 + 200*rand.Float64())
		x, sum := a.due(0).Seconds(), 0.0
		const step = 1e-4
		for ; x < due.Seconds(); x += step {
			sum += rate(x+step/2) * step
		}
		if back := a.due(sum); math.Abs((back - due).Seconds()) > 3*step {
			t.Fatalf("%+v: %v operations are due after %s, and after %s by the integral", a, sum, due, back)
		}
	}
}

// TestArrivalSplit checks that workers together start as many operations at any time as one load would.
func TestArrivalSplit(t *testing.T) {
	for _, process := range []string{processConstant, processPoisson} {
		whole := pace{Times: 1200, Concurrency: 1, Arrival: arrival{Rate: 10, Process: process, MaxInFlight: 40, Stages: []stage{{200, leak.Duration(4 * time.Second)}}}}
		var all []time.Duration
		inFlight := 0
		for _, mine := range whole.split(1, 7) {
			p := whole
			p.take(mine)
			next := p.Arrival.schedule(mine.First, p.Phase)
			for range p.Times {
				all = append(all, next())
			}
			inFlight += p.Arrival.MaxInFlight
		}
		slices.Sort(all)
		if len(all) != 1200 || inFlight != 40 {
			t.Fatalf("%d operations, %d in flight", len(all), inFlight)
		}
		most := 3.5 // operations of the seven workers fall between those of one load
		if process == processPoisson {
			most = 4 * math.Sqrt(1200)
		}
		for i, at := range all {
			want := 0.0
			for whole.Arrival.due(want) < at {
				want++
			}
			if math.Abs(want-float64(i)) > most {
				t.Fatalf("%s: operation %d starts after %s, the schedule has %v by then", process, i, at, want)
			}
		}
	}
}

// A Poisson process has exponential intervals: their standard deviation equals their mean. All variants get the same.
func TestArrivalPoisson(t *testing.T) {
	a := arrival{Rate: 100, Process: processPoisson}
	const n = 20_000
	next, again := a.schedule(1, 0), a.schedule(1, 0)
	before, sum, squares := 0.0, 0.0, 0.0
	for range n {
		at := next()
		if at != again() {
			t.Fatal("the same operations have another schedule")
		}
		d := at.Seconds() - before
		before, sum, squares = at.Seconds(), sum+d, squares+d*d
	}
	mean := sum / n
	deviation := math.Sqrt(squares/n - mean*mean)
	if math.Abs(mean*100-1) > 0.03 || math.Abs(deviation/mean-1) > 0.03 {
		t.Errorf("intervals of %v s ± %v s", mean, deviation)
	}
	if other := a.schedule(2, 0); other() == a.schedule(1, 0)() {
		t.Error("every round has the same schedule")
	}
}

// TestArrivalLatency checks that operations that are due during a stall count it, and that a closed load hides it.
func TestArrivalLatency(t *testing.T) {
	const stall, times = 400 * time.Millisecond, 200
	stalling := func() *server {
		var once sync.Once
		var mu sync.Mutex
		return serve(t, func(_ http.ResponseWriter, r *http.Request) {
			if opOf(r) < 50 {
				return
			}
			once.Do(func() {
				mu.Lock()
				time.Sleep(stall)
				mu.Unlock()
			})
			mu.Lock()
			defer mu.Unlock()
		})
	}
	tally := run(t, post(func(p *Post) { p.Times, p.Arrival.Rate = times, 200 }), stalling(), 1)
	// 80 operations are due during the stall. The tenth of them that waits longest waits for more than 0.3 s.
	if l := tally.Latency; l.P90 < 0.2 || l.Max < stall.Seconds() || tally.Succeeded != times {
		t.Errorf("open: %+v", tally)
	}
	if o := tally.Open; o == nil || o.InFlight < 40 || o.Waited != 0 || math.Abs(o.Rate-200) > 2 {
		t.Errorf("schedule: %+v", o)
	}
	closed := run(t, post(func(p *Post) { p.Times, p.Concurrency, p.Rate = times, 1, 200 }), stalling(), 1)
	if closed.Latency.P90 > 0.2 || closed.Open != nil {
		t.Errorf("closed: %+v", closed)
	}
}

// TestArrivalMaxInFlight checks the bound on unfinished operations, and that those that waited are counted with their
// wait.
func TestArrivalMaxInFlight(t *testing.T) {
	const times, most = 30, 3
	var got seen
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		got.begin(opOf(r))
		time.Sleep(20 * time.Millisecond)
		got.end()
	})
	tally := run(t, post(func(p *Post) {
		p.Times, p.Arrival = times, arrival{Rate: 1000, MaxInFlight: most}
	}), s, 1)
	got.numbers(t, 1, times)
	o := tally.Open
	if o.InFlight != most || o.Waited < times-2*most || o.Waited > times-most {
		t.Errorf("%+v", o)
	}
	// The last operation is due after 29 ms, and ends after ten turns of 20 ms.
	if tally.Latency.Max < 0.170 {
		t.Errorf("%+v", tally.Latency)
	}
}

// An interrupt ends the schedule, also while the maximum is in flight.
func TestArrivalCancelled(t *testing.T) {
	for name, a := range map[string]arrival{"between arrivals": {Rate: 0.01}, "at the maximum": {Rate: 1000, MaxInFlight: 1}} {
		ctx, cancel := context.WithCancel(t.Context())
		s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
			cancel()
			<-r.Context().Done()
		})
		start := time.Now()
		tally, err := post(func(p *Post) { p.Times, p.Arrival = 100, a }).Run(ctx, s.Target, 1)
		if err != nil || tally.Attempted != 1 || tally.Failed != 1 || time.Since(start) > 20*time.Second {
			t.Errorf("%s: %+v, %v", name, tally, err)
		}
	}
}

func TestArrivalValidate(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Post)
		want   string
	}{
		{"a rate", func(p *Post) { p.Arrival.Rate = 200 }, ""},
		{"a ramp from nothing", func(p *Post) { p.Arrival.Stages = []stage{{200, 0}} }, ""},
		{"no rate", func(p *Post) { p.Arrival.MaxInFlight = 5 }, "arrival.rate"},
		{"a rate that is none", func(p *Post) { p.Arrival.Rate = math.NaN() }, "arrival.rate"},
		{"an unknown process", func(p *Post) { p.Arrival = arrival{Rate: 1, Process: "weibull"} }, "arrival.process"},
		{"too many in flight", func(p *Post) { p.Arrival = arrival{Rate: 1, MaxInFlight: maxConcurrency + 1} }, "arrival.maxInFlight"},
		{"a ramp to nothing", func(p *Post) { p.Arrival = arrival{Rate: 1, Stages: []stage{{0, 1}}} }, "arrival.stages"},
		{"a stage without end", func(p *Post) { p.Arrival = arrival{Rate: 1, Stages: []stage{{1, -1}}} }, "arrival.stages"},
		{"a closed load, too", func(p *Post) { p.Arrival.Rate, p.Concurrency, p.Rate = 1, 3, 5 }, "concurrency rate"},
	} {
		problemFields(t, c.name, post(c.change).Validate(), c.want)
	}
}

// TestArrivalOrder checks that workers get the schedule, and that what they report adds up.
func TestArrivalOrder(t *testing.T) {
	p := post(func(p *Post) {
		p.Times, p.Arrival = 40, arrival{Rate: 100, Process: processPoisson, MaxInFlight: 8, Stages: []stage{{200, leak.Duration(time.Second)}}}
	})
	target := leak.Target{InCluster: func(context.Context) (string, error) { return "http://10.0.0.1:80", nil }}
	text, err := newOrder(t.Context(), postKind.Name, p, target, p.split(1, 2))
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := readOrder(text, 1)
	if err != nil {
		t.Fatal(err)
	}
	want := arrival{Rate: 50, Process: processPoisson, MaxInFlight: 4, Stages: []stage{{100, leak.Duration(time.Second)}}}
	if a := got.(*Post).Arrival; !reflect.DeepEqual(a, want) {
		t.Errorf("%+v", a)
	}
	a, b := &leak.OpenLoad{Rate: 50, Waited: 1, InFlight: 4, LateSeconds: 2}, &leak.OpenLoad{Rate: 50, Waited: 2, InFlight: 3, LateSeconds: 1}
	if both := a.With(b); *both != (leak.OpenLoad{Rate: 100, Waited: 3, InFlight: 7, LateSeconds: 2}) {
		t.Errorf("%+v", both)
	}
	if one := a.Then(nil); one != a || (*leak.OpenLoad)(nil).With(nil) != nil {
		t.Error("a load that is missing is not one of zero")
	}
	if !strings.Contains(string(text), `"process":"poisson"`) {
		t.Errorf("not as in a scenario: %s", text)
	}
}
