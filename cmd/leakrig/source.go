package main

import (
	"maps"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/reports"
	"github.com/leakrig/leakrig/subjects"
)

// maxSources bounds the excerpts of one run.
const maxSources = 200

// sources are the source lines that a report shows: those that the run directory has, and what is at hand
// on this machine. A machine that has none of them still renders what the run's had. own is what was built
// for this very run, nil later: a folder has no version. No line shows one of the secrets.
func sources(dir leak.RunDir, in reports.Input, write bool, own *subjects.OwnSource, secrets leak.Secrets) (leak.Sources, error) {
	known, err := dir.ReadSources()
	if err != nil {
		return nil, err
	}
	all := leak.Sources{}
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
