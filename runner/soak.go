package runner

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

// clock is the schedule of a soak: a round may begin at intervals from begin on, which moves by the time in which
// leakrig did not run.
type clock struct {
	begin time.Time
	// slot is the next of these moments, from 0.
	slot int
}

// due returns how long to wait for the next round, and how many rounds were missed because the last one took too
// long. A late round begins at once, and missed ones are skipped. ok is false if the soak is over.
func (c *clock) due(spec leak.SoakSpec) (wait time.Duration, late bool, missed int, ok bool) {
	every, now := spec.Every.D(), time.Since(c.begin)
	slot := c.slot
	if behind := now - time.Duration(slot)*every; slot > 0 && behind > 0 {
		late, missed = true, int(behind/every)
		slot += missed
	}
	at := time.Duration(slot) * every
	if at >= spec.For.D() || now >= spec.For.D() {
		return 0, false, 0, false
	}
	c.slot = slot + 1
	return at - now, late, missed, true
}

// operationsApart is how far the numbers of operations leap when a soak is resumed, so that those of the round
// that was lost, at most so many, are not used again.
const operationsApart = 1_000_000

// maxResumed limits how many resumptions the record lists.
const maxResumed = 20

// soak measures rounds by time.
func (m *measurement) soak(ctx context.Context) error {
	spec, s := *m.Scenario.Spec.Soak, m.record.Soak
	m.clock = &clock{begin: time.Now().Add(-time.Duration(s.Seconds * float64(time.Second))), slot: s.Slots}
	if s.Rounds > 0 { // resumed, perhaps before it could look at its last round
		if why, err := m.beyondDoubt(ctx, s.Rounds); why != "" || err != nil {
			return err
		}
	}
	for {
		wait, late, missed, ok := m.clock.due(spec)
		if !ok {
			break
		}
		if late {
			s.Late++
			s.Missed += missed
		}
		i := s.Rounds + 1
		m.watch("round %d/%d, waiting", i, spec.Rounds())
		if err := sleep(ctx, wait); err != nil {
			return err
		}
		if err := m.one(ctx, i); err != nil {
			return fmt.Errorf("round %d: %w", i, err)
		}
		if why, err := m.beyondDoubt(ctx, i); why != "" || err != nil {
			return err
		}
	}
	if n := spec.Rounds(); s.Rounds < n {
		m.record.Stopped = fmt.Sprintf("its %s are over: %d of %d rounds were measured, %d of them late", spec.For, s.Rounds, n, s.Late)
	}
	return m.idle(ctx)
}

// beyondDoubt returns why a soak ends early, "" if it continues. It confirms a leak after idling, because growth that
// drains is no leak, and a soak of days should not end for it.
func (m *measurement) beyondDoubt(ctx context.Context, round int) (why string, err error) {
	if m.enough(round) == "" {
		return "", nil
	}
	if err := m.idle(ctx); err != nil {
		return "", err
	}
	if why = m.enough(round); why != "" {
		m.stopped(round, why)
		return why, nil
	}
	for _, one := range m.each() {
		one.record.Idle = nil
	}
	return "", nil
}

// checkpoint brings the record of a soak up to date after a round, thinned, and returns the raw files that it
// no longer refers to.
func (m *measurement) checkpoint(ctx context.Context, round int) (gone []string) {
	if m.Scenario.Spec.Soak == nil {
		return nil
	}
	s := m.record.Soak
	if s == nil {
		s = &leak.SoakRecord{Stride: 1}
		m.record.Soak = s
	}
	s.Rounds, s.Next, s.Time = round, m.next, time.Now().UTC().Truncate(time.Millisecond)
	if m.clock != nil {
		s.Slots, s.Seconds = m.clock.slot, time.Since(m.clock.begin).Seconds()
	}
	m.mark(ctx, s)
	var metrics []metric
	for _, p := range m.Scenario.Spec.AllProbes() {
		metrics = append(metrics, metric{p.Name, m.Metrics[p.Name][0].Name})
	}
	for _, one := range m.each() {
		before := filesOf(one.record)
		s.Stride = thinRecord(one.record, s.Stride, metrics)
		after := filesOf(one.record)
		maps.DeleteFunc(before, func(name string, _ bool) bool { return after[name] })
		maps.DeleteFunc(one.files, func(_, name string) bool { return before[name] })
		gone = append(gone, slices.Sorted(maps.Keys(before))...)
	}
	return gone
}

// mark records the identity of the processes. If a process has none, or leakrig is interrupted, the previous identity
// stays valid.
func (m *measurement) mark(ctx context.Context, s *leak.SoakRecord) {
	if m.Identity == nil {
		return
	}
	var marks []leak.ProcessMark
	for i, one := range m.each() {
		mark, err := m.Identity.Mark(ctx, one.subject.Target())
		switch {
		case err == nil:
			marks = append(marks, mark)
		case i < len(s.Processes):
			marks = append(marks, s.Processes[i])
		default:
			return
		}
	}
	s.Processes = marks
}

// once returns the name of a raw file of a soak's round, and whether a round with the same content has already stored
// it.
func (m *measurement) once(name string, f leak.File) (kept string, have bool) {
	if m.Scenario.Spec.Soak == nil || !strings.Contains(name, "/round-") {
		return name, false // a soak idles again and again, into the same folder
	}
	what := f.Same
	if what == "" {
		what = fmt.Sprintf("%x", sha256.Sum256(f.Data))
	}
	_, where, _ := strings.Cut(name[strings.Index(name, "/round-")+1:], "/") // COMPONENT/FILE or FILE
	what = where + " " + what
	if m.files == nil {
		m.files = map[string]string{}
	}
	if kept, have = m.files[what]; !have {
		kept = name
		m.files[what] = name
	}
	return kept, have
}

// remove removes raw files, and their folders if they are empty. A file that cannot be removed only costs space.
func (m *measurement) remove(files []string) {
	for _, name := range files {
		if info, err := os.Stat(m.Dir.Path(name)); err == nil && os.Remove(m.Dir.Path(name)) == nil {
			_ = m.room.file(-info.Size())
			m.forgetHash(name)
		}
		for dir := path.Dir(name); strings.Contains(dir, "/round-"); dir = path.Dir(dir) {
			if os.Remove(m.Dir.Path(dir)) != nil {
				break
			}
		}
	}
}

// reopen takes up the record of a soak that was cut short. It keeps the version that it was begun with: one that
// had no seal then does not get one for its first rounds by being resumed.
func (r *run) reopen() {
	r.record = r.Resume
	maps.Copy(r.hashes, r.record.Hashes)
	r.record.Leakrig, r.record.Finished, r.record.Interrupted = r.Version, time.Time{}, false
	if f := r.record.Failure; f != nil {
		r.record.Failure = nil
		r.record.Warnings = append(r.record.Warnings, "went on after: "+f.Message)
	}
	for i := range r.record.Variants {
		v := &r.record.Variants[i]
		if f := v.Failure; f != nil {
			v.Failure, v.Idle = nil, nil
			if len(v.Warnings) < maxWarnings {
				v.Warnings = append(v.Warnings, "went on after: "+f.Message)
			}
		}
	}
}

// resume goes on with the soak of a variant, if its processes are still the same.
func (m *measurement) resume(ctx context.Context) error {
	s := m.record.Soak
	if m.Identity == nil || len(s.Processes) != len(m.each()) {
		return &leak.AnotherProcessError{Reason: "nothing was noted by which its process could be known again"}
	}
	how := ""
	for i, one := range m.each() {
		same, err := m.Identity.Same(ctx, one.subject.Target(), s.Processes[i])
		if err != nil {
			return fmt.Errorf("resume after round %d: %w", s.Rounds, err)
		}
		how = same
		// Of several replicas some may have been read in a round that the others were not.
		one.record.Snapshots = slices.DeleteFunc(one.record.Snapshots, func(s leak.Snapshot) bool { return s.Round > m.record.Soak.Rounds })
		one.counted = one.record.Final().Operations
	}
	if err := m.sweep(); err != nil {
		return &rundir.DiskError{Err: err}
	}
	m.next = (s.Next/operationsApart+1)*operationsApart + 1
	s.Next = m.next
	now := time.Now().UTC().Truncate(time.Millisecond)
	s.Resumptions++
	s.Resumed = append(s.Resumed, leak.Resumption{Time: now, After: s.Rounds, Seconds: now.Sub(s.Time).Seconds(), Leakrig: m.Version, Same: how})
	s.Resumed = s.Resumed[max(0, len(s.Resumed)-maxResumed):]
	const lost = "resumed "
	m.record.Warnings = slices.DeleteFunc(m.record.Warnings, func(w string) bool { return strings.HasPrefix(w, lost) })
	m.record.Warnings = append(m.record.Warnings, fmt.Sprintf(lost+"%d times, last after round %d: the operations of a round that was in flight when leakrig ended are not counted", s.Resumptions, s.Rounds))
	m.Progress.Log("%s: resumed after round %d of %d: %s", m.variant.Name, s.Rounds, m.Scenario.Spec.MostRounds(), how)
	if err := m.save(); err != nil { // or a killed leakrig in its first round would number its operations as this one
		return &rundir.DiskError{Err: err}
	}
	return nil
}

// sweep removes what a killed leakrig has left of a round in flight, and files half written.
func (m *measurement) sweep() error {
	used := map[string]bool{}
	for _, one := range m.each() {
		maps.Copy(used, filesOf(one.record))
	}
	var left []string
	err := filepath.WalkDir(string(m.Dir), func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(string(m.Dir), file)
		name = filepath.ToSlash(name)
		mine := strings.HasPrefix(name, m.variant.Name+"/") && strings.Contains(name, "/round-")
		if err == nil && (mine && !used[name] || strings.HasPrefix(d.Name(), rundir.Unfinished)) {
			left = append(left, name)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	m.remove(left)
	return nil
}
