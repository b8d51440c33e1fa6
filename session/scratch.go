package session

import (
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/leakrig/leakrig/cluster/upstream"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/subjects"
)

// scratchPattern names temporary folders of runs, which contain keys of the control plane. Each has a file that is
// locked during its run. The file is locked before it gets that name. So a folder with a free lock is always of a
// killed run, however recent.
const (
	scratchPattern = "leakrig-*"
	scratchLock    = ".in-use"
	scratchMaking  = ".in-the-making"
)

// NewScratch creates such a folder and removes those of killed runs.
func NewScratch() (dir string, remove func(), err error) {
	sweepKilled()
	dir, err = os.MkdirTemp("", scratchPattern)
	if err != nil {
		return "", nil, leak.WithHint(err, "TMPDIR names another folder for temporary files")
	}
	making := filepath.Join(dir, scratchMaking)
	unlock, err := upstream.Share(making)
	if err == nil {
		err = os.Rename(making, filepath.Join(dir, scratchLock)) // the lock stays with the renamed file
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

// mine reports whether this user created the folder.
func mine(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid()
}
