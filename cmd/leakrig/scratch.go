package main

import (
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/leakrig/leakrig/cluster/upstream"
	"github.com/leakrig/leakrig/leak"
)

// scratchPattern names the folders for what a run needs while it lasts; each holds a file that is locked
// while its run lives.
const (
	scratchPattern = "leakrig-*"
	scratchLock    = ".in-use"
	// scratchYoung is the age below which a folder may be one that is just being made.
	scratchYoung = time.Minute
)

// newScratch makes such a folder, after those of runs that were killed were removed.
func newScratch() (dir string, remove func(), err error) {
	sweepScratch()
	dir, err = os.MkdirTemp("", scratchPattern)
	if err != nil {
		return "", nil, leak.WithHint(err, "TMPDIR names another folder for temporary files")
	}
	unlock, err := upstream.Share(filepath.Join(dir, scratchLock))
	if err != nil {
		os.RemoveAll(dir)
		return "", nil, err
	}
	return dir, func() {
		os.RemoveAll(dir)
		unlock()
	}, nil
}

// sweepScratch removes the folders of runs that were killed and returns what it removed, in words.
func sweepScratch() []string {
	locks, err := filepath.Glob(filepath.Join(os.TempDir(), scratchPattern, scratchLock))
	if err != nil {
		return nil
	}
	var removed []string
	for _, lock := range locks {
		info, err := os.Lstat(lock)
		if err != nil || !info.Mode().IsRegular() || time.Since(info.ModTime()) < scratchYoung {
			continue
		}
		if !mine(filepath.Dir(lock)) {
			continue
		}
		if unlock, free := upstream.TryLock(lock); free {
			if os.RemoveAll(filepath.Dir(lock)) == nil {
				removed = append(removed, "folder "+filepath.Dir(lock))
			}
			unlock()
		}
	}
	return removed
}

// mine tells whether this user made the folder.
func mine(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid()
}
