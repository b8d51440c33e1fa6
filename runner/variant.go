package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
	"github.com/leakrig/leakrig/rundir"
)

// measurement is one variant being measured, or one of several replicas of it.
type measurement struct {
	*run
	variant leak.Variant
	// index is the variant's place in the record of the run, and after the number of variants that follow.
	index, after int
	// name is what progress calls it, dir its folder of the run directory.
	name, dir string
	record    *leak.VariantRecord
	subject   leak.Subject
	// next is the number of the next operation, from 1, alike for all variants.
	next int
	// counted is operations since the baseline, of the action that growth is counted per: of a replica, those
	// that it got.
	counted int
	pace    pace
	// replicas are all of them, this one first, which leads; nil where the subject is one alone. turns are the
	// invocations that each got of an action, by its name.
	replicas []*measurement
	turns    map[string][]int
	// clock is the schedule of a soak, nil in other runs. files are the kept raw files by their content.
	clock *clock
	files map[string]string
	// vitals are the last vitals of each process, by component. activity is their activity during the load of this
	// round, and reading their activity while only their counters were read before it.
	vitals            map[string]leak.Vitals
	activity, reading []leak.Activity
	// polled has the source and total of the last poll, by probe.
	polled map[string]leak.Poll
	// began is when the time budget began, and size how many times the actions' operations the round has; both are
	// for a scenario that has one.
	began time.Time
	size  int
}

// variant measures the i-th variant on a fresh subject.
func (r *run) variant(ctx context.Context, i int, v leak.Variant, record *leak.VariantRecord) (err error) {
	log := path.Join(v.Name, "subject.log")
	if r.record.Plan.Replicas == 0 { // replicas have a file each
		if err := r.Dir.WriteFile(log, nil); err != nil {
			return &rundir.DiskError{Err: err}
		}
	}
	subject, err := r.Launcher.Start(ctx, v, r.cluster, r.Dir.Path(log))
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		err = errors.Join(err, subject.Stop(stop))
	}()
	m := &measurement{
		run: r, variant: v, index: i, after: r.runnableAfter(i), name: v.Name, dir: v.Name, record: record, subject: subject, next: 1,
	}
	again := r.Resume != nil && record.Soak != nil
	if !again {
		record.Warmup, record.Control, record.Replicas = nil, nil, nil // of a start that did not get to its baseline
	}
	m.split()
	if again {
		if err := m.resume(ctx); err != nil {
			return err
		}
	}
	record.Subject = m.subject.Info()
	if c, ok := subject.(leak.Composed); ok {
		record.Components = c.Components()
	}

	// Everything ends at once when the subject does, or the cluster, with the reason why.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-subject.Done():
			cancel(subject.Err())
		case <-ctx.Done():
		}
	}()
	watched := r.cluster
	go func() { cancel(r.watchCluster(ctx, watched)) }()
	m.pace = pace{round: r.tookRound(0), warmup: r.Scenario.Spec.Warmup.Rounds}
	err = m.blame(ctx, subject, m.rounds(ctx))
	r.tookRound(m.pace.round)
	return err
}

// watchCluster returns when the cluster has not answered twice in a row, with the reason, or when ctx
// ends. Without it, every operation of a round would wait for its own deadline.
func (r *run) watchCluster(ctx context.Context, c leak.Cluster) error {
	if c == nil {
		<-ctx.Done()
		return nil
	}
	for failed := 0; ; {
		if err := sleep(ctx, r.CheckEvery); err != nil {
			return nil
		}
		err := c.Check(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			failed = 0
		case failed > 0:
			return err
		default:
			failed++
		}
	}
}

// blame prefers the death of the subject to the error that followed from it, which may come first.
func (m *measurement) blame(ctx context.Context, subject leak.Subject, err error) error {
	if err == nil {
		return nil
	}
	select {
	case <-subject.Done():
	case <-ctx.Done(): // by an interrupt, or by the death itself
	case <-time.After(300 * time.Millisecond):
	}
	if death := subject.Err(); death != nil {
		return fmt.Errorf("%s: %w", m.stage(), death)
	}
	return err
}

// stage names the current step of the measurement.
func (m *measurement) stage() string {
	last := m.record.Final()
	if last == nil {
		return "before the baseline"
	}
	return fmt.Sprintf("after round %d", last.Round)
}

func (m *measurement) rounds(ctx context.Context) error {
	if err := m.begin(ctx); err != nil {
		return err
	}
	m.began = time.Now()
	if m.record.Soak == nil {
		if err := m.baseline(ctx); err != nil {
			return err
		}
	}
	before := m.dump(ctx)
	if err := m.measured(ctx); err != nil {
		return err
	}
	m.whoHolds(ctx, before)
	return nil
}

// measured measures the rounds after the baseline, and idles.
func (m *measurement) measured(ctx context.Context) error {
	if m.Scenario.Spec.Soak != nil {
		return m.soak(ctx)
	}
	if m.Scenario.Spec.For > 0 {
		return m.scaled(ctx)
	}
	most := m.Scenario.Spec.MostRounds()
	for i := 1; i <= most; i++ {
		if err := m.one(ctx, i); err != nil {
			return fmt.Errorf("round %d: %w", i, err)
		}
		if why := m.enough(i); why != "" {
			m.stopped(i, why)
			break
		}
	}
	return m.idle(ctx)
}

// stopped notes why the rounds that are left were not needed.
func (m *measurement) stopped(round int, why string) {
	m.record.Stopped = why
	m.Progress.Log("%s: stopped after round %d of %d: %s", m.variant.Name, round, m.Scenario.Spec.MostRounds(), why)
}

// baseline warms up, measures the control rounds, and takes the snapshot that growth counts from.
func (m *measurement) baseline(ctx context.Context) error {
	spec, took := m.Scenario.Spec, time.Duration(0)
	for i := range spec.Warmup.Rounds {
		start := time.Now()
		m.watch("warm-up %d/%d", i+1, spec.Warmup.Rounds)
		actions := spec.Warmup.Round
		if len(actions) == 0 {
			actions = spec.Round
		}
		tallies, err := m.load(ctx, actions)
		if err != nil {
			return fmt.Errorf("warm-up: %w", err)
		}
		m.warm(tallies)
		took = time.Since(start)
		m.pace.warmed(took + 2*spec.Settle.Quiet.D())
	}
	if spec.For > 0 {
		var err error
		if took, err = m.warmScaled(ctx); err != nil {
			return fmt.Errorf("warm-up: %w", err)
		}
	}
	if err := m.control(ctx, took); err != nil {
		return fmt.Errorf("control: %w", err)
	}
	for _, one := range m.each() {
		one.counted = 0
	}
	if err := m.keep(ctx, 0, nil); err != nil {
		return fmt.Errorf("baseline: %w", err)
	}
	return nil
}

// one measures one round.
func (m *measurement) one(ctx context.Context, i int) error {
	most := m.Scenario.Spec.MostRounds()
	m.pace.begin()
	m.watch("round %d/%d", i, most)
	tallies, err := m.loadWatched(ctx, i)
	m.pace.loaded(tallies)
	if err == nil {
		m.watch("round %d/%d, settling", i, most)
		err = m.keep(ctx, i, tallies)
	}
	if err == nil {
		err = m.healthy(ctx)
	}
	m.pace.end()
	return m.restarted(ctx, err)
}

// load runs the actions of one round.
func (m *measurement) load(ctx context.Context, actions []leak.Block[leak.Action]) ([]leak.Tally, error) {
	var tallies []leak.Tally
	for _, block := range actions {
		if fault(block) != nil {
			continue
		}
		tally, injected, err := m.underFaults(ctx, block, faultsDuring(actions, block.Name))
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", block.Name, err)
		}
		tally.Action = block.Name
		m.next += tally.Attempted
		if m.Scenario.Spec.Counts(block.Name) {
			for i, one := range m.each() {
				one.counted += tally.Share(i).Attempted
			}
		}
		for _, one := range injected { // of a fault that is the operation
			if m.Scenario.Spec.Counts(one.Action) {
				for _, each := range m.each() {
					each.counted += one.Attempted
				}
			}
		}
		tallies = append(append(tallies, tally), injected...)
	}
	return tallies, nil
}

// keep settles, takes the snapshot of a round and writes it to disk.
func (m *measurement) keep(ctx context.Context, round int, load []leak.Tally) error {
	if err := m.together(func(i int, one *measurement) error { return one.keepOne(ctx, round, shares(load, i)) }); err != nil {
		return err
	}
	gone := m.checkpoint(ctx, round)
	if err := m.save(); err != nil {
		return &rundir.DiskError{Err: err}
	}
	if m.Scenario.Spec.Soak != nil {
		m.room.recount(m.run.record)
	}
	m.remove(gone) // the record on disk no longer refers to them
	all := m.each()
	if len(all) > linesApart {
		m.Progress.Log("%s", condensed(all))
		return nil
	}
	for _, one := range all {
		m.Progress.Log("%s", one.line(one.record.Final()))
	}
	return nil
}

// linesApart is how many replicas have a line of progress each.
const linesApart = 4

// condensed is one line of many replicas: that of the one which grew most, and how many had trouble.
func condensed(all []*measurement) string {
	worst, trouble := all[0], 0
	for _, one := range all {
		final := one.record.Final()
		if !final.Settle.Settled || slices.ContainsFunc(final.Load, func(t leak.Tally) bool { return t.Failed > 0 }) {
			trouble++
		}
		if one.grown() > worst.grown() {
			worst = one
		}
	}
	text := worst.line(worst.record.Final())
	if len(worst.record.Snapshots) > 1 {
		text += fmt.Sprintf("  (the most of %d replicas)", len(all))
	} else {
		text += fmt.Sprintf("  (the first of %d replicas)", len(all))
	}
	if trouble > 0 {
		text += fmt.Sprintf("  %d with failed operations or unsettled", trouble)
	}
	return text
}

// grown is what the default metric of the first probe gained since the baseline.
func (m *measurement) grown() float64 {
	base, final := m.record.Snapshots[0], m.record.Final()
	if len(final.Samples) == 0 {
		return 0
	}
	sample := final.Samples[0]
	was := base.Sample(sample.Probe)
	if was == nil {
		return 0
	}
	metric := m.Metrics[sample.Probe][0].Name
	return sample.Values[metric] - was.Values[metric]
}

// keepOne settles and takes the snapshot of a round.
func (m *measurement) keepOne(ctx context.Context, round int, load []leak.Tally) error {
	snapshot, err := m.snapshot(ctx, round, path.Join(m.dir, fmt.Sprintf("round-%d", round)))
	if err != nil {
		return err
	}
	snapshot.Load, snapshot.Activity, snapshot.Reading = load, m.activity, m.reading
	m.activity, m.reading = nil, nil
	if m.LookAgain && timedOut(load) {
		if err := m.lookAgain(ctx, &snapshot); err != nil {
			if ctx.Err() != nil {
				return err
			}
			// The readings are kept. The check that needs the second dump is then undecided.
			if m.Scenario.Spec.Soak == nil || len(m.record.Warnings) < maxWarnings {
				m.record.Warnings = append(m.record.Warnings, fmt.Sprintf("round %d: second dump: %v", round, err))
			}
		}
	}
	m.record.Snapshots = append(m.record.Snapshots, snapshot)
	return nil
}

// idle measures once more after a long wait without load.
func (m *measurement) idle(ctx context.Context) error {
	wait := idleFactor * m.Scenario.Spec.Settle.Quiet.D()
	m.Progress.Log("%s: idling %s, then measuring once more", m.variant.Name, wait)
	m.pace.idles()
	m.watch("idling")
	if err := m.rest(ctx, wait); err != nil {
		return fmt.Errorf("idle: %w", err)
	}
	all := m.each()
	idle := make([]leak.Snapshot, len(all))
	err := m.together(func(i int, one *measurement) error {
		var err error
		if idle[i], err = one.snapshot(ctx, one.record.Final().Round, path.Join(one.dir, "idle")); err != nil {
			return fmt.Errorf("idle: %w", err)
		}
		return nil
	})
	if err != nil {
		return err // of none: a soak that is resumed is over where the first of them was idle
	}
	for i, one := range all {
		one.record.Idle = &idle[i]
	}
	return nil
}

// snapshot settles and takes all samples, of a process that is the same one before and after.
func (m *measurement) snapshot(ctx context.Context, round int, dir string) (leak.Snapshot, error) {
	shot, err := m.take(ctx, round, dir)
	if err == nil {
		_, err = m.look(ctx)
		return shot, err
	}
	soon, cancel := context.WithTimeout(ctx, whyTimeout)
	defer cancel()
	if _, restarted := m.look(soon); isRestart(restarted) {
		err = restarted // which is why the reading failed
	}
	return shot, err
}

// whyTimeout bounds the question why a process could not be read.
const whyTimeout = 2 * time.Second

func (m *measurement) take(ctx context.Context, round int, dir string) (leak.Snapshot, error) {
	s, err := m.settle(ctx)
	if err != nil {
		return leak.Snapshot{}, fmt.Errorf("settle: %w", err)
	}
	snapshot := leak.Snapshot{
		Round: round, Time: time.Now().UTC().Truncate(time.Millisecond), Operations: m.counted, Settle: s.worst,
	}
	for _, probe := range m.Scenario.Spec.AllProbes() {
		reading, err := probe.Value.Sample(ctx, m.target(probe))
		if err != nil {
			return leak.Snapshot{}, fmt.Errorf("capture %s: %w", probe.Name, err)
		}
		reading.Sample.Probe = probe.Name
		if watched, ok := s.probes[probe.Name]; ok {
			m.useMinima(&reading, watched)
		}
		for _, f := range reading.Files {
			name := path.Join(dir, probe.Component, f.Name)
			name, have := m.once(name, f)
			if !have {
				if err := m.room.file(int64(len(f.Data))); err != nil {
					return leak.Snapshot{}, fmt.Errorf("capture %s: %w", probe.Name, err)
				}
				if err := m.keepFile(name, f.Data); err != nil {
					return leak.Snapshot{}, &rundir.DiskError{Err: err}
				}
			}
			reading.Sample.Files = append(reading.Sample.Files, name)
		}
		added := m.intern(reading.Sample, reading.Stacks, s.stacks) + sampleSize(&reading.Sample)
		if err := m.room.record(added); err != nil {
			return leak.Snapshot{}, fmt.Errorf("capture %s: %w", probe.Name, err)
		}
		snapshot.Samples = append(snapshot.Samples, reading.Sample)
	}
	return snapshot, nil
}

// target is what a probe reads.
func (m *measurement) target(p leak.ProbeOf) leak.Target {
	if c, ok := m.subject.(leak.Composed); ok && p.Component != "" {
		return c.Component(p.Component)
	}
	return m.subject.Target()
}

// enough returns why no more rounds are needed, "" if they are.
func (m *measurement) enough(round int) string {
	if m.Enough == nil || round == m.Scenario.Spec.MostRounds() {
		return ""
	}
	return m.Enough(m.variant, *m.record)
}

// settlement is how the probes that can be polled settled, by name, and the one that did worst.
type settlement struct {
	probes map[string]settled
	worst  leak.SettleResult
	stacks map[string]leak.Stack
}

// settle waits with every probe that can be polled cheaply, one after another; without any it waits for
// one quiet window. A subject that only writes dumps is not asked for more of them than the snapshot needs.
func (m *measurement) settle(ctx context.Context) (settlement, error) {
	spec := m.Scenario.Spec.Settle
	all := settlement{probes: map[string]settled{}, stacks: map[string]leak.Stack{}}
	for _, probe := range m.Scenario.Spec.AllProbes() {
		target := m.target(probe)
		poller, ok := probe.Value.(leak.Poller)
		if !ok || target.Dump != nil {
			continue
		}
		s, err := settle(ctx, spec, m.polled[probe.Name], func(ctx context.Context, before leak.Poll) (leak.Poll, error) {
			return poller.Poll(ctx, target, before)
		})
		if err != nil {
			return all, fmt.Errorf("%s: %w", probe.Name, err)
		}
		if m.polled == nil {
			m.polled = map[string]leak.Poll{}
		}
		m.polled[probe.Name] = leak.Poll{Total: s.before.Total, Source: s.before.Source}
		seconds, polls := all.worst.Seconds+s.result.Seconds, all.worst.Polls+s.result.Polls
		if len(all.probes) == 0 || all.worst.Settled && !s.result.Settled {
			all.worst = s.result
			if probe.Component != "" {
				all.worst.Reason = probe.Name + ": " + s.result.Reason
			}
		}
		all.worst.Seconds, all.worst.Polls = seconds, polls
		all.probes[probe.Name] = s
		maps.Copy(all.stacks, s.stacks)
	}
	if len(all.probes) > 0 {
		return all, nil
	}
	all.worst = leak.SettleResult{
		Settled: true, Seconds: spec.Quiet.D().Seconds(),
		Reason: fmt.Sprintf("waited %s; none of the probes can be polled", spec.Quiet),
	}
	return all, sleep(ctx, spec.Quiet.D())
}

// useMinima replaces the groups of the sample by the minima of the last settle window. The raw files stay as read.
func (m *measurement) useMinima(reading *leak.Reading, s settled) {
	sample := &reading.Sample
	sample.Values[m.Metrics[sample.Probe][0].Name] = float64(s.last.total)
	if len(s.last.counts) == 0 {
		return // each of the few goroutines of an idle program was in another state at some look: the sample stands
	}
	seen := map[string]leak.Group{}
	for _, g := range sample.Groups[s.last.source] {
		seen[g.Stack] = g
	}
	minima := make([]leak.Group, 0, len(s.last.counts))
	for id, n := range s.last.counts {
		g := seen[id] // with who stands there, and for how long
		g.Stack, g.Count = id, n
		minima = append(minima, g)
	}
	slices.SortFunc(minima, func(a, b leak.Group) int {
		if a.Count != b.Count {
			return int(b.Count - a.Count)
		}
		if a.Stack < b.Stack {
			return -1
		}
		return 1
	})
	least := map[string]int64{}
	for _, g := range sample.Groups[s.last.source] {
		least[functions(reading.Stacks[g.Stack])] = 0 // unless a minimum says more
	}
	for id, n := range s.last.counts {
		least[functions(s.stacks[id])] += n
	}
	for source, groups := range sample.Groups {
		if source != s.last.source {
			sample.Groups[source] = lowered(groups, reading.Stacks, maps.Clone(least))
		}
	}
	sample.Groups[s.last.source] = minima
}

// functions identifies a stack in every source: only text dumps have creators and all wait states.
func functions(s leak.Stack) string { return leak.Stack{Frames: s.Frames}.Key() }

// lowered returns groups of a source that was not watched, without the goroutines that exceed the minimum of their
// functions, so that all sources agree. It keeps groups whose functions the watched source does not have.
func lowered(groups []leak.Group, stacks map[string]leak.Stack, least map[string]int64) []leak.Group {
	kept := make([]leak.Group, 0, len(groups))
	for _, g := range groups {
		key := functions(stacks[g.Stack])
		if n, ok := least[key]; ok {
			g.Count = min(g.Count, n)
			least[key] -= g.Count
		}
		if g.Count > 0 {
			kept = append(kept, g)
		}
	}
	return kept
}

// intern stores the stacks of the sample's groups once per variant, and returns the size of the new ones.
func (m *measurement) intern(sample leak.Sample, known ...map[string]leak.Stack) (added int64) {
	for _, groups := range sample.Groups {
		for _, g := range groups {
			for _, stacks := range known {
				if stack, ok := stacks[g.Stack]; ok {
					if _, ok := m.record.Stacks[g.Stack]; !ok {
						added += stackSize(stack)
					}
					m.record.Stacks[g.Stack] = stack
					break
				}
			}
		}
	}
	return added
}

// line formats a snapshot in one line: the default metric of every probe, and its growth.
func (m *measurement) line(s *leak.Snapshot) string {
	text := fmt.Sprintf("%s: baseline", m.name)
	if s.Round > 0 {
		text = fmt.Sprintf("%s: round %d/%d", m.name, s.Round, m.Scenario.Spec.MostRounds())
		for _, t := range s.Load {
			text += fmt.Sprintf("  %s %d/%d ok in %.2fs", t.Action, t.Succeeded, t.Attempted, t.Seconds)
			switch n := len(t.Workers); n {
			case 0:
			case 1:
				text += " from 1 worker"
			default:
				text += fmt.Sprintf(" from %d workers", n)
			}
			if len(t.Errors) > 0 {
				text += " (" + t.Errors[0].Message + ")"
			}
		}
	}
	for _, sample := range s.Samples {
		metric := m.Metrics[sample.Probe][0]
		value, ok := sample.Values[metric.Name]
		if !ok {
			text += fmt.Sprintf("  %s.%s n/a", sample.Probe, metric.Name)
			continue
		}
		text += fmt.Sprintf("  %s.%s %s", sample.Probe, metric.Name, display.Value(value, metric.Unit))
		if base := m.record.Snapshots[0].Sample(sample.Probe); s.Round > 0 && base != nil {
			text += " (" + display.Delta(value-base.Values[metric.Name], metric.Unit) + ")"
		}
	}
	if !s.Settle.Settled {
		text += "  UNSETTLED: " + s.Settle.Reason
	}
	return text
}
