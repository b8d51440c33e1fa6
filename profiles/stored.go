package profiles

import (
	"fmt"
	"os"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

// ParseStored reads a profile that a profiler has stored: goroutines, or the heap in use, of which it may have only the
// bytes. It also returns the sum of all samples, which includes those that leakrig leaves out: the goroutine that wrote
// the profile. An empty profile has no stacks.
func ParseStored(data []byte, heap bool) (*Profile, float64, error) {
	if len(data) == 0 {
		return &Profile{Source: SourceProfile}, 0, nil
	}
	p, err := parsePprof(data)
	if err != nil {
		return nil, 0, err
	}
	values := "inuse_space"
	if !heap {
		values = "goroutine"
		for _, t := range p.SampleType {
			if t.Type == "goroutines" { // as Pyroscope's client for Go names it
				t.Type = values
			}
		}
	}
	index, err := valueIndex(p, values)
	if err != nil {
		return nil, 0, err
	}
	sum := 0.
	for _, s := range p.Sample {
		sum += float64(s.Value[index])
	}
	g, err := grouped(p)
	return g, sum, err
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
