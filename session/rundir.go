package session

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

// latest is the link to the newest run directory in the folder of a scenario.
const latest = "latest"

// NewRunDir makes a folder that no other run has, and makes the link latest point to it. A file system without links
// has none.
func NewRunDir(runs, scenario string) (rundir.Dir, error) {
	dir, err := NewDir(runs, scenario, "")
	if err != nil {
		return "", err
	}
	link := filepath.Join(runs, scenario, latest)
	temporary := link + ".tmp-" + filepath.Base(string(dir))
	if info, err := os.Lstat(link); err == nil && info.Mode()&os.ModeSymlink == 0 {
		return dir, nil // a file of the user's
	}
	if os.Symlink(filepath.Base(string(dir)), temporary) == nil && os.Rename(temporary, link) != nil {
		os.Remove(temporary)
	}
	return dir, nil
}

// FindRun returns the run directory that a user means: path itself, the target of a link such as runs/NAME/latest, or
// the newest run directory in runs/NAME.
func FindRun(path string) rundir.Dir {
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSymlink != 0 {
		if to, err := os.Readlink(path); err == nil && !filepath.IsAbs(to) {
			path = filepath.Join(filepath.Dir(path), to)
		}
	}
	recorded := func(dir string) bool {
		return slices.ContainsFunc([]string{rundir.RecordFile, "fleet.json", BisectionFile}, func(name string) bool {
			_, err := os.Stat(filepath.Join(dir, name))
			return err == nil
		})
	}
	entries, err := os.ReadDir(path)
	if err != nil || recorded(path) {
		return rundir.Dir(path)
	}
	newest := ""
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() && runDirName.MatchString(name) && recorded(filepath.Join(path, name)) && (newest == "" || byTime(name, newest) > 0) {
			newest = name
		}
	}
	return rundir.Dir(filepath.Join(path, newest))
}

// NewDir makes a folder below that of a scenario which no other run has. Its name is the time after a prefix.
func NewDir(runs, scenario, prefix string) (rundir.Dir, error) {
	parent := filepath.Join(runs, scenario)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", leak.WithHint(fmt.Errorf("run directory: %w", err), "is the disk full or the folder read-only? --runs-dir names another one")
	}
	stamp := prefix + time.Now().UTC().Format("20060102T150405Z")
	for i := 1; ; i++ {
		name := stamp
		if i > 1 {
			name = fmt.Sprintf("%s-%d", stamp, i)
		}
		dir := filepath.Join(parent, name)
		err := os.Mkdir(dir, 0o700)
		if err == nil {
			return rundir.Dir(dir), nil
		}
		if !errors.Is(err, os.ErrExist) {
			return "", leak.WithHint(fmt.Errorf("run directory: %w", err), "is the disk full or the folder read-only? --runs-dir names another one")
		}
	}
}

var numbered = regexp.MustCompile(`^(.*Z)(?:-(\d+))?$`)

// byTime orders the names of run directories: those of one second are numbered.
func byTime(a, b string) int {
	x, y := numbered.FindStringSubmatch(a), numbered.FindStringSubmatch(b)
	if x == nil || y == nil {
		return strings.Compare(a, b)
	}
	i, _ := strconv.Atoi(x[2])
	k, _ := strconv.Atoi(y[2])
	return cmp.Or(strings.Compare(x[1], y[1]), cmp.Compare(i, k))
}

// runDirName is what newRunDir calls a run directory.
var runDirName = regexp.MustCompile(`^\d{8}T\d{6}Z(-\d+)?$`)

// CacheDir returns the folder for builds.
func CacheDir() (string, error) {
	dir := os.Getenv("LEAKRIG_CACHE")
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", leak.WithHint(err, "LEAKRIG_CACHE names a folder for what is built once and used again")
		}
		dir = filepath.Join(user, "leakrig")
	}
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return "", leak.WithHint(fmt.Errorf("cache: %w", err), "LEAKRIG_CACHE names another folder for what is built once and used again")
	}
	return dir, nil
}

// openCache sets the folder for builds.
func (f *Options) openCache() (err error) {
	if f.Clusters.Cache == "" {
		f.Clusters.Cache, err = CacheDir()
	}
	return err
}
