package main

import (
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/leakrig/leakrig/cluster/upstream"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/subjects"
)

// scratchPattern names the folders for what a run needs while it lasts, keys of its control plane among it; each
// holds a file that is locked while its run lives. The file is locked before it has that name, so that a folder whose
// lock is free is one of a run that was killed, however young.
const (
	scratchPattern = "leakrig-*"
	scratchLock    = ".in-use"
	scratchMaking  = ".in-the-making"
)

// newScratch makes such a folder, after what killed runs have left was removed.
func newScratch() (dir string, remove func(), err error) {
	sweepKilled()
	dir, err = os.MkdirTemp("", scratchPattern)
	if err != nil {
		return "", nil, leak.WithHint(err, "TMPDIR names another folder for temporary files")
	}
	making := filepath.Join(dir, scratchMaking)
	unlock, err := upstream.Share(making)
	if err == nil {
		err = os.Rename(making, filepath.Join(dir, scratchLock)) // the lock is the file's, whatever its name
	}
	if err != nil {
		os.RemoveAll(dir)
		return "", nil, err
	}
	return dir, func() {
		os.RemoveAll(dir)
		unlock()
	}, nil
}

// sweepKilled ends the processes and removes the folders that runs which were killed have left, and returns what, in
// words.
func sweepKilled() []string {
	gone := subjects.SweepProcesses()
	for _, name := range []string{scratchLock, scratchMaking} {
		locks, err := filepath.Glob(filepath.Join(os.TempDir(), scratchPattern, name))
		if err != nil {
			continue
		}
		for _, lock := range locks {
			info, err := os.Lstat(lock)
			if err != nil || !info.Mode().IsRegular() || !mine(filepath.Dir(lock)) {
				continue
			}
			if name == scratchMaking && time.Since(info.ModTime()) < time.Minute {
				continue // its lock may come yet; nothing else is in the folder
			}
			if unlock, free := upstream.TryLock(lock); free {
				if os.RemoveAll(filepath.Dir(lock)) == nil {
					gone = append(gone, "folder "+filepath.Dir(lock))
				}
				unlock()
			}
		}
	}
	return gone
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
