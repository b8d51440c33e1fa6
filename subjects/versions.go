package subjects

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/leakrig/leakrig/cluster/upstream"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

// ResolveError says that the dependencies for other module versions are unavailable: nothing was compiled.
type ResolveError struct{ Err error }

func (e *ResolveError) Error() string { return e.Err.Error() }

// Unwrap returns the problem itself.
func (e *ResolveError) Unwrap() error { return e.Err }

// goMod is the part of `go mod edit -json` that matters here.
type goMod struct {
	Require []struct {
		Path, Version string
		Indirect      bool
	}
	Replace []struct{ Old, New leak.Module }
}

// resolve creates a modfile below dir with the recipe's modules at their versions, once, and returns its path. It
// does not change the subject's folder. It recomputes indirect requirements, so that each version gets the
// dependencies that it requires itself.
func (r Recipe) resolve(ctx context.Context, dir string) (string, error) {
	mod, sum, err := r.modfiles()
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	for _, part := range [][]byte{[]byte(r.Folder), mod, sum, fmt.Append(nil, r.With)} {
		fmt.Fprintf(hash, "%d\n%s", len(part), part)
	}
	dir = filepath.Join(dir, "with-"+hex.EncodeToString(hash.Sum(nil)[:8]))
	done := filepath.Join(dir, "build.mod")
	if _, err := os.Stat(done); err == nil {
		return done, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return "", err
	}
	// It is renamed when complete, so that no build uses half of it.
	making, err := os.MkdirTemp(filepath.Dir(dir), ".resolving-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(making)
	modfile := filepath.Join(making, "build.mod")
	err = errors.Join(rundir.WriteFile(modfile, mod), rundir.WriteFile(filepath.Join(making, "build.sum"), sum))
	if err == nil {
		r.With, err = r.edit(ctx, modfile)
	}
	if err == nil {
		err = r.choose(ctx, modfile)
	}
	if err != nil {
		return "", err
	}
	if err := os.Rename(making, dir); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return done, nil
}

// edit puts the versions into a modfile, and removes requirements that exist only for other modules. It returns the
// modules that the patterns expand to.
func (r Recipe) edit(ctx context.Context, modfile string) ([]leak.Module, error) {
	out, err := r.golang(ctx, "mod", "edit", "-json", modfile)
	if err != nil {
		return nil, err
	}
	var now goMod
	if err := json.Unmarshal([]byte(out), &now); err != nil {
		return nil, fmt.Errorf("go mod edit: %w", err)
	}
	args := []string{"edit"}
	for _, q := range now.Require {
		if q.Indirect {
			args = append(args, "-droprequire="+q.Path)
		}
	}
	name, versions := cmp.Or(r.Modfile, "go.mod"), now.versions()
	if first := r.With[0].Path; versions[first] == "" {
		return nil, usage(fmt.Errorf("%s does not require %s", name, first), "name a module that the subject is built with")
	}
	with := expand(r.With, versions)
	for _, m := range with {
		for _, p := range now.Replace {
			switch {
			case p.Old.Path != m.Path:
			case p.New.Path == m.Path:
				args = append(args, "-replace="+spec(p.Old)+"="+m.Path+"@"+m.Version)
			default:
				return nil, usage(fmt.Errorf("%s is replaced by %s in %s", m.Path, p.New.Path, name), "versions of a module that is replaced by something else cannot be chosen")
			}
		}
		if slices.Contains(r.With, m) || now.requires(m.Path) {
			args = append(args, "-require="+m.Path+"@"+m.Version)
		}
	}
	_, err = r.golang(ctx, "mod", append(args, modfile)...)
	return with, err
}

func (g goMod) requires(path string) bool {
	for _, q := range g.Require {
		if q.Path == path && !q.Indirect {
			return true
		}
	}
	return false
}

// versions returns the versions of the modules in a modfile after replacement; a folder is "replaced".
func (g goMod) versions() map[string]string {
	all := map[string]string{}
	for _, q := range g.Require {
		all[q.Path] = q.Version
	}
	for _, p := range g.Replace {
		all[p.Old.Path] = cmp.Or(p.New.Version, "replaced")
	}
	return all
}

// expand puts the modules that a pattern, as in k8s.io/*, means into its place: those of the modfile that have
// the version of the first module now, or that with v0 for v1, as the parts of Kubernetes have it. They move as
// it does.
func expand(with []leak.Module, versions map[string]string) []leak.Module {
	twin := func(version string) string {
		if rest, ok := strings.CutPrefix(version, "v1."); ok {
			return "v0." + rest
		}
		return version
	}
	first := with[0]
	var all []leak.Module
	for _, m := range with {
		prefix, pattern := strings.CutSuffix(m.Path, "*")
		if !pattern {
			all = append(all, m)
			continue
		}
		for _, path := range slices.Sorted(maps.Keys(versions)) {
			if !strings.HasPrefix(path, prefix) || slices.ContainsFunc(with, func(m leak.Module) bool { return m.Path == path }) {
				continue
			}
			switch now := versions[path]; now {
			case versions[first.Path]:
				all = append(all, leak.Module{Path: path, Version: m.Version})
			case twin(versions[first.Path]):
				all = append(all, leak.Module{Path: path, Version: twin(m.Version)})
			}
		}
	}
	return all
}

func usage(err error, hint string) error {
	return &leak.UsageError{Err: leak.WithHint(err, "%s", hint)}
}

// spec is a module as go mod edit takes it; without a version it means all of them.
func spec(m leak.Module) string {
	if m.Version == "" {
		return m.Path
	}
	return m.Path + "@" + m.Version
}

// choose lets the go command choose all other versions, and looks whether those asked for were chosen.
func (r Recipe) choose(ctx context.Context, modfile string) error {
	const format = `{{with .Module}}{{.Path}} {{with .Replace}}{{if .Version}}{{.Version}}{{else}}{{.Path}}{{end}}{{else}}{{.Version}}{{end}}{{end}}`
	out, err := r.golang(ctx, "list", "-mod=mod", "-modfile="+modfile, "-deps", "-f", format, ".")
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return leak.WithHint(&ResolveError{err}, "can the Go module proxy be reached, and do modules that belong together move together (--with)?")
	}
	linked := map[string]string{}
	for line := range strings.Lines(out) {
		if path, version, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			linked[path] = version
		}
	}
	for i, m := range r.With {
		switch version := linked[m.Path]; {
		case version == "" && i == 0:
			return usage(&ResolveError{fmt.Errorf("no package of %s is linked into %s", m.Path, filepath.Base(r.Folder))}, "name a module that the subject uses")
		case version != "" && version != m.Version:
			return usage(&ResolveError{fmt.Errorf("%s %s was chosen instead of %s: another module needs it", m.Path, version, m.Version)},
				"name that module, too, so that both move together (--with)")
		}
	}
	return nil
}

// Listed is a version of a module as listed by the proxy.
type Listed struct {
	leak.Module
	// Time is when it was made, as RFC 3339; "" where unknown.
	Time string
	// Retracted is the author's reason for the retraction, "" if the version is not retracted.
	Retracted string
	// Problem is why the version is unavailable, "" if it appears to be available.
	Problem string
}

// Versions returns the versions that the module proxy lists, including retracted ones. The list may be incomplete.
func Versions(ctx context.Context, path string) ([]string, error) {
	// The ones that were taken back too: they are named in the answer.
	out, err := listModules(ctx, "-retracted", "-versions", "-f", `{{join .Versions "\n"}}`, path)
	if err != nil {
		return nil, leak.WithHint(fmt.Errorf("list the versions of %s: %s", path, telling(err)), "is it the path of a module, and can the Go module proxy be reached?")
	}
	return strings.Fields(out), nil
}

// Resolve asks the proxy for versions of modules, concurrently, and returns them in the given order.
func Resolve(ctx context.Context, modules []leak.Module) ([]Listed, error) {
	args := []string{"-e", "-retracted", "-json"}
	for _, m := range modules {
		args = append(args, m.Path+"@"+m.Version)
	}
	out, err := listModules(ctx, args...)
	if err != nil {
		return nil, leak.WithHint(fmt.Errorf("resolve %s: %s", modules[0].Path, telling(err)), "can the Go module proxy be reached?")
	}
	known := map[leak.Module]Listed{}
	for d := json.NewDecoder(strings.NewReader(out)); ; {
		var m struct {
			Path, Version, Query, Time string
			Retracted                  []string
			Error                      *struct{ Err string }
		}
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		l := Listed{Module: leak.Module{Path: m.Path, Version: m.Version}, Time: m.Time, Retracted: strings.Join(m.Retracted, "; ")}
		if m.Error != nil {
			l.Problem = problem(m.Error.Err)
		}
		known[l.Module] = l
	}
	all := make([]Listed, len(modules))
	for i, m := range modules {
		l, ok := known[m]
		if !ok {
			l = Listed{Module: m, Problem: "the go command does not list it"}
		}
		all[i] = l
	}
	return all, nil
}

// problem is what matters of the words of the go command.
func problem(said string) string {
	var lines []string
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "server response: "))
		if line != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, " ")
}

// listModules runs go list -m outside of every module.
func listModules(ctx context.Context, args ...string) (string, error) {
	dir, err := os.MkdirTemp("", "leakrig-list-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	unlock, err := upstream.Share(filepath.Join(dir, ".in-use")) // so that the folder of a killed process is known to be unused
	if err != nil {
		return "", err
	}
	defer unlock()
	// Write a go.mod, so that one in a parent folder is ignored.
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module leakrig.dev/list\n\ngo 1.26.0\n"), 0o600); err != nil {
		return "", err
	}
	return Recipe{Folder: dir}.golang(ctx, "list", append([]string{"-mod=mod", "-m"}, args...)...)
}

// importer matches the position of an import, which the go command prints before an error.
var importer = regexp.MustCompile(`^\S+\.go:\d+(:\d+)?: `)

// Reason says in a line why a build failed.
func Reason(err error) string {
	var unresolved *ResolveError
	if errors.As(err, &unresolved) {
		return "does not resolve: " + importer.ReplaceAllString(telling(unresolved.Err), "")
	}
	return "does not compile: " + telling(err)
}

// telling is the first line of an error of the go command that says why: the rest is advice, downloads, and noise.
func telling(err error) string {
	for line := range strings.Lines(err.Error()) {
		text := strings.TrimPrefix(strings.TrimSpace(line), "go: ")
		noise := text == "" || strings.HasPrefix(text, "#") || strings.HasPrefix(text, "downloading ") || strings.HasPrefix(text, "finding ") ||
			strings.HasSuffix(text, "exit status 1") || strings.HasSuffix(text, "exit status 2")
		if !noise {
			return text
		}
	}
	return err.Error()
}
