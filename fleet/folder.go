package fleet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/profiles"
)

// folder has pprof files below a folder. Files in the same subfolder are of one target. Their time is in the profile.
type folder struct {
	path    string
	from    time.Time
	every   time.Duration
	buckets int
}

// maxFiles limits the number of files in a folder of profiles.
const maxFiles = 2_000_000

// list reads the total of every file.
func (f *folder) list(ctx context.Context) ([]*stored, error) {
	byName := map[string]*stored{}
	var targets []*stored
	files := 0
	err := filepath.WalkDir(f.path, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if files++; files > maxFiles {
			return fmt.Errorf("more than %d files", maxFiles)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		p, at, err := profiles.OpenStored(path)
		if err != nil {
			return err
		}
		bucket := int(math.Floor(at.Sub(f.from).Seconds() / f.every.Seconds()))
		k := slices.Index([]string{profiles.SourceProfile, profiles.SourceHeap}, p.Source)
		if bucket < 0 || bucket >= f.buckets || k < 0 {
			return nil // of another time, or of another kind
		}
		name, err := filepath.Rel(f.path, filepath.Dir(path))
		if err != nil {
			return err
		}
		t := byName[name]
		if t == nil {
			t = &stored{name: name, totals: make([][]float64, len(kinds)), key: map[[2]int]string{}}
			byName[name] = t
			targets = append(targets, t)
		}
		if t.totals[k] == nil {
			t.totals[k] = slices.Repeat([]float64{math.NaN()}, f.buckets)
		}
		t.totals[k][bucket] = float64(p.Total()) / kinds[k].scale
		t.key.(map[[2]int]string)[[2]int{k, bucket}] = path // the last one in the bucket
		return nil
	})
	if errors.Is(err, os.ErrNotExist) {
		err = leak.WithHint(err, "--profiles is a folder with pprof files, those of a target in a subfolder")
	}
	return targets, err
}

// read reads the file of a bucket.
func (f *folder) read(_ context.Context, t *stored, k, bucket int) (leak.Poll, error) {
	p, _, err := profiles.OpenStored(t.key.(map[[2]int]string)[[2]int{k, bucket}])
	if err != nil {
		return leak.Poll{}, err
	}
	return averaged(p, 1), nil
}
