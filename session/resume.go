package session

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/leakrig/leakrig/cluster/upstream"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

// soakLock is the file of a run directory that a soak holds while it runs, so that no other resumes it.
const soakLock = ".soaking"

// recorded measures a run in a new folder, or with --resume in that of the interrupted soak. release unlocks the
// folder.
func (f *Options) recorded(s *leak.Scenario, text []byte, progress leak.Progress, measure func(rundir.Dir) error) (dir rundir.Dir, release func(), err error) {
	if f.Resume {
		dir, release, err = f.reopen(s, text, progress)
		if err != nil {
			return dir, release, err
		}
	}
	if f.earlier != nil {
		f.made = append(f.made, dir)
		err = measure(dir)
		var another *leak.AnotherProcessError
		if !errors.As(err, &another) {
			return dir, release, err
		}
		release()
		progress.Log("starts over: %s; the earlier measurements stay in %s", another.Reason, dir)
		f.earlier = nil
	}
	if dir, release, err = f.newPlace(s, text); err != nil {
		return dir, release, err
	}
	f.made = append(f.made, dir)
	return dir, release, measure(dir)
}

// newPlace makes a run directory with the scenario in it; that of a soak is locked.
func (f *Options) newPlace(s *leak.Scenario, text []byte) (dir rundir.Dir, release func(), err error) {
	release = func() {}
	if dir, err = NewRunDir(f.RunsDir, s.Metadata.Name); err != nil {
		return dir, release, err
	}
	if err := dir.WriteFile(rundir.ScenarioFile, text); err != nil || s.Spec.Soak == nil {
		return dir, release, err
	}
	unlock, free := upstream.TryLock(dir.Path(soakLock))
	if !free {
		return dir, release, leak.WithHint(fmt.Errorf("run directory: %s cannot be locked", dir), "--runs-dir names another folder")
	}
	return dir, unlock, nil
}

// reopen finds the soak to resume and locks it: the newest run of the same scenario, if it was interrupted. f.earlier
// is its record, nil to start a new one.
func (f *Options) reopen(s *leak.Scenario, text []byte, progress leak.Progress) (dir rundir.Dir, release func(), err error) {
	f.earlier, release = nil, func() {}
	if s.Spec.Soak == nil {
		return dir, release, &leak.UsageError{Err: leak.WithHint(errors.New("--resume: the scenario is not a soak"), "`leakrig soak` runs any scenario as a soak")}
	}
	dir = f.newest(s, text)
	if dir == "" {
		return dir, release, nil
	}
	unlock, free := upstream.TryLock(dir.Path(soakLock))
	if !free {
		return dir, release, leak.WithHint(fmt.Errorf("resume: %s is being measured by another leakrig", dir), "wait for it or end it; without --resume, a separate soak starts")
	}
	record, seal, err := dir.ReadSealed(rundir.OfFiles)
	switch {
	case err != nil:
		unlock()
		return dir, release, leak.WithHint(fmt.Errorf("resume: %s: %w", dir, err), "without --resume a new one is started")
	case record.SoakOver():
		unlock()
		return dir, release, nil
	case len(seal.Altered) > 0:
		unlock()
		progress.Log("starts anew: %s: %s", dir, seal)
		return dir, release, nil
	case !record.SoakWhole():
		unlock()
		progress.Log("starts over: the record in %s is damaged: not all of its %d rounds can be read", dir, roundsOf(record))
		return dir, release, nil
	case len(s.Spec.Subject.Addresses()) == 0:
		unlock()
		progress.Log("starts over: only a process observed by URL can be identified again; the %d earlier rounds stay in %s", roundsOf(record), dir)
		return dir, release, nil
	}
	f.earlier = record
	return dir, unlock, nil
}

// roundsOf is how many rounds of all variants were measured.
func roundsOf(r *leak.Record) int {
	n := 0
	for _, v := range r.Variants {
		if v.Soak != nil {
			n += v.Soak.Rounds
		}
	}
	return n
}

// chosen are the names of the variants that are run, in order.
func (f *Options) chosen(s *leak.Scenario) []string {
	var names []string
	for _, v := range s.Spec.Variants {
		if len(f.Variants) == 0 || slices.Contains(f.Variants, v.Name) {
			names = append(names, v.Name)
		}
	}
	return names
}

// newest returns the newest run directory of the same scenario with the same parameters and variants, "" if there is
// none.
func (f *Options) newest(s *leak.Scenario, text []byte) rundir.Dir {
	entries, err := os.ReadDir(filepath.Join(f.RunsDir, s.Metadata.Name))
	if err != nil {
		return ""
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && runDirName.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int { return -byTime(a, b) })
	for _, name := range names {
		dir := rundir.Dir(filepath.Join(f.RunsDir, s.Metadata.Name, name))
		old, err := os.ReadFile(dir.Path(rundir.ScenarioFile))
		if err != nil || !bytes.Equal(old, text) {
			continue
		}
		record, err := dir.ReadRecord()
		if errors.Is(err, fs.ErrNotExist) {
			continue // it never began
		}
		sameSoak := err == nil && record.Plan.Soak != nil && *record.Plan.Soak == *s.Spec.Soak
		if err != nil || sameSoak && sameParameters(record.Parameters, s.Spec.Parameters) && slices.Equal(record.Plan.Variants, f.chosen(s)) {
			return dir
		}
	}
	return ""
}

// sameParameters compares what a record has kept: secrets are not among it.
func sameParameters(old, now map[string]string) bool {
	if len(old) != len(now) {
		return false
	}
	for name, value := range now {
		if kept, ok := old[name]; !ok || kept != value && kept != rundir.Redacted && !rundir.LooksSecret(name) {
			return false
		}
	}
	return true
}
