package session

import (
	"maps"

	"github.com/leakrig/leakrig/reports"
	"github.com/leakrig/leakrig/rundir"
	"github.com/leakrig/leakrig/subjects"
)

// maxSources bounds the excerpts of one run.
const maxSources = 200

// sources returns the source lines of a report: those in the run directory and those available on this machine. A
// machine without them still renders those of the run. own is the folder that was built for this run, nil later: a
// folder has no version. No line contains a secret.
func sources(dir rundir.Dir, in reports.Input, write bool, own *subjects.OwnSource, secrets rundir.Secrets) (rundir.Sources, error) {
	known, err := dir.ReadSources()
	if err != nil {
		return nil, err
	}
	all := rundir.Sources{}
	maps.Copy(all, known)
	redact := secrets.TextRedactor()
	finder := subjects.NewSourceFinder().WithOwn(own)
	for _, f := range reports.SourceFrames(in) {
		key := f.Subject.SourceKey(f.Frame)
		if _, ok := all[key]; ok || key == "" || len(all) >= maxSources {
			continue
		}
		if e, ok := finder.Excerpt(f.Subject, f.Frame); ok {
			for i := range e.Lines {
				e.Lines[i] = redact(e.Lines[i])
			}
			all[key] = e
		}
	}
	if write && len(all) > len(known) {
		err = dir.WriteSources(all)
	}
	return all, err
}
