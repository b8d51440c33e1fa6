// Package packed holds the sources of leakrig's own subjects, so that an installed binary can build them. The go command
// embeds no file of a nested module, so each subject is in one text archive.
package packed

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"golang.org/x/tools/txtar"

	"github.com/leakrig/leakrig/leak"
)

//go:generate go test -count=1 -run ^TestCurrent$ -update .

// archives has one archive per subject. Names in an archive start at the top of the checkout.
//
//go:embed *.txtar
var archives embed.FS

// files returns the content of all archives, by path from the top of the checkout.
func files() (map[string][]byte, error) {
	names, err := fs.Glob(archives, "*.txtar")
	if err != nil {
		return nil, err
	}
	all := map[string][]byte{}
	for _, name := range names {
		data, err := archives.ReadFile(name)
		if err != nil {
			return nil, err
		}
		for _, f := range txtar.Parse(data).Files {
			all[f.Name] = f.Data
		}
	}
	return all, nil
}

// Has reports whether the archives have a subject, also in a group such as subjects/museum/.
func Has(name string) bool {
	_, err := fs.Stat(archives, cmp.Or(name, ".")+".txtar")
	return err == nil && path.Base(name) == name
}

// Unpack writes the sources of all subjects into a folder of cache that is named after their content, and returns the
// folder, which contains subjects/ as a checkout does. It replaces a folder that was changed or not completed.
func Unpack(cache string) (string, error) {
	all, err := files()
	if err != nil {
		return "", err
	}
	if cache, err = filepath.Abs(cache); err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "sources-"+hash(all))
	if same(dir, all) {
		return dir, nil
	}
	dir, err = replace(dir, all)
	return dir, leak.WithHint(err, "LEAKRIG_CACHE names another folder for builds; --source names a checkout")
}

// replace writes a folder next to dir and renames it to dir, so that a process that is killed leaves no partial folder.
func replace(dir string, all map[string][]byte) (string, error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), ".sources-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	tmp := filepath.Join(work, "new")
	for name, data := range all {
		file := filepath.Join(tmp, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, data, 0o400)); err != nil {
			return "", err
		}
	}
	// Another leakrig may have been faster.
	for try := range 3 {
		if err = os.Rename(tmp, dir); err == nil || same(dir, all) {
			return dir, nil
		}
		if err := os.Rename(dir, filepath.Join(work, fmt.Sprintf("old-%d", try))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", err
}

// same reports whether a folder has exactly these files.
func same(dir string, all map[string][]byte) bool {
	left := maps.Clone(all)
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		want, ok := left[filepath.ToSlash(name)]
		if !ok || !d.Type().IsRegular() {
			return fmt.Errorf("%s is not of this folder", name)
		}
		delete(left, filepath.ToSlash(name))
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
			return errors.Join(err, fmt.Errorf("%s was changed", name))
		}
		return nil
	})
	return err == nil && len(left) == 0
}

// hash identifies the names and contents of files.
func hash(all map[string][]byte) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(h, "%s\n%d\n%s", name, len(all[name]), all[name])
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
