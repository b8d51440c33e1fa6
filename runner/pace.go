package runner

import (
	"fmt"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// pace is the speed of a measurement, for progress output.
type pace struct {
	round  time.Duration // what a round takes, load and settling together
	warmup int           // rounds of the warm-up still to come
	done   int           // measured rounds
	began  time.Time     // of the round under way
	rate   float64       // operations per second of the last load
	idling bool
}

// warmed takes what a round of the warm-up took, and settling may, for a guess, until a round was measured.
func (p *pace) warmed(took time.Duration) { p.round, p.warmup = took, p.warmup-1 }

func (p *pace) begin() { p.began = time.Now() }

// end takes the mean of the rounds so far.
func (p *pace) end() {
	p.done++
	p.round += (time.Since(p.began) - p.round) / time.Duration(p.done)
	p.began = time.Time{}
}

func (p *pace) idles() { p.idling = true }

// loaded keeps the rate of the actions of a round, which ran one after another.
func (p *pace) loaded(tallies []leak.Tally) {
	operations, seconds := 0, 0.0
	for _, t := range tallies {
		if t.Fault == "" {
			operations, seconds = operations+t.Attempted, seconds+t.Seconds
		}
	}
	if seconds > 0 {
		p.rate = float64(operations) / seconds
	}
}

// left estimates the rest of the run: the rest of this variant, and the same duration as this variant for each further
// one. Rounds that may not be needed count; builds and boots do not.
func (p *pace) left(spec leak.Spec, variants int) time.Duration {
	if p.round == 0 {
		return -1
	}
	idle := (idleFactor + 2) * spec.Settle.Quiet.D()
	whole := time.Duration(spec.Warmup.Rounds+spec.MostRounds())*p.round + idle
	rest := idle
	if !p.idling {
		rest += time.Duration(p.warmup+spec.MostRounds()-p.done) * p.round
	}
	if !p.began.IsZero() {
		rest -= min(time.Since(p.began), p.round)
	}
	return rest + time.Duration(variants)*whole
}

// left estimates what is left of the run.
func (m *measurement) left() time.Duration {
	soak := m.Scenario.Spec.Soak
	if soak == nil || m.clock == nil {
		return m.pace.left(m.Scenario.Spec, m.turnsAfter())
	}
	return max(0, soak.For.D()-time.Since(m.clock.begin)) + time.Duration(m.after)*soak.For.D()
}

// turnsAfter returns how many variants follow one after another.
func (m *measurement) turnsAfter() int {
	atOnce := m.Scenario.Spec.AtOnce()
	return (m.after + atOnce - 1) / atOnce
}

// watch reports progress.
func (m *measurement) watch(format string, args ...any) {
	doing := fmt.Sprintf(format, args...)
	w, ok := m.Progress.(leak.Watcher)
	if !ok {
		m.Progress.Status("%s: %s", m.variant.Name, doing)
		return
	}
	w.Watch(leak.Standing{
		Variant: m.variant.Name, Doing: doing, Rate: m.pace.rate, Series: m.series(), Left: m.left(),
	})
}

// series returns the default metrics of the probes so far, without samples that lack theirs.
func (m *measurement) series() []leak.Series {
	var all []leak.Series
	for _, probe := range m.Scenario.Spec.AllProbes() {
		metric := m.Metrics[probe.Name][0]
		s := leak.Series{Name: probe.Name + "." + metric.Name, Unit: metric.Unit}
		for i := range m.record.Snapshots {
			if sample := m.record.Snapshots[i].Sample(probe.Name); sample != nil {
				if value, ok := sample.Values[metric.Name]; ok {
					s.Values = append(s.Values, value)
				}
			}
		}
		all = append(all, s)
	}
	return all
}
