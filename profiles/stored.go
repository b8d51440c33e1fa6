package profiles

import (
	"fmt"
	"os"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

// ParseStored reads a profile that a profiler has stored: goroutines, or the heap in use, of which it may have only the
// bytes. An empty profile has no stacks.
func ParseStored(data []byte, heap bool) (*Profile, error) {
	if len(data) == 0 {
		return &Profile{Source: SourceProfile}, nil
	}
	p, err := parsePprof(data)
	if err != nil {
		return nil, err
	}
	if !heap {
		for _, t := range p.SampleType {
			if t.Type == "goroutines" { // as Pyroscope's client for Go names it
				t.Type = "goroutine"
			}
		}
	}
	return grouped(p)
}

// OpenStored reads a pprof file and the time at which it was taken: that in the profile or, without it, that of the file.
func OpenStored(path string) (*Profile, time.Time, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer f.Close()
	data, err := rundir.ReadBounded(f, maxBody)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("%s: %w", path, err)
	}
	p, err := parsePprof(data)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("%s: %w", path, err)
	}
	at := time.Unix(0, p.TimeNanos)
	if p.TimeNanos <= 0 {
		info, err := f.Stat()
		if err != nil {
			return nil, time.Time{}, err
		}
		at = info.ModTime()
	}
	g, err := grouped(p)
	if err != nil {
		return nil, time.Time{}, leak.WithHint(fmt.Errorf("%s: %w", path, err), "leave only goroutine and heap profiles in the folder")
	}
	return g, at, nil
}
