// Package subjects builds and starts the programs under observation. Each is in a folder next to this file, a
// separate module with one main package and one modfile per variant.
//
// It neither loads them (package load) nor reads them (package profiles).
package subjects

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/leakrig/leakrig/holders"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/packed"
)

// Builder builds subjects from source.
type Builder struct {
	// Source is the checkout that holds subjects/. If it is "", Folder searches from the working directory up, and then
	// uses the sources that are part of leakrig.
	Source string
	// ScenarioDir is the folder of the scenario file, for subjects named by a path; "" for a built-in one.
	ScenarioDir string
	// LeakProfile asks for the runtime's goroutine leak profile, which Go 1.26 has as an experiment.
	LeakProfile bool
	// HeapDump builds the endpoint for heap dumps into programs.
	HeapDump bool
	// Cache is where binaries are kept, so that go build skips the link when nothing has changed.
	Cache string
	// Progress learns how many packages are compiled; nil learns nothing.
	Progress leak.Progress
	// Nice leaves the processors to others, where the machine has the nice command.
	Nice bool
}

// Folder finds the source folder of build, the scenario's subject.build.
func (b Builder) Folder(build string) (string, error) {
	if strings.HasPrefix(build, "./") || strings.HasPrefix(build, "../") {
		dir := filepath.Join(b.ScenarioDir, build)
		return dir, isModule(dir)
	}
	source := b.Source
	if source == "" {
		var err error
		if source, err = b.findSource(build); err != nil {
			return "", err
		}
	}
	dir := named(source, build)
	return dir, isModule(dir)
}

// named returns the folder of the subject in subjects/, or in one of its groups, such as subjects/museum/.
func named(source, build string) string {
	dir := filepath.Join(source, leak.SourceDir, build)
	if isModule(dir) == nil {
		return dir
	}
	grouped, err := filepath.Glob(filepath.Join(source, leak.SourceDir, "*", build, "go.mod"))
	if err != nil || len(grouped) == 0 { // the error is only for a malformed pattern
		return dir
	}
	return filepath.Dir(grouped[0])
}

// isModule refuses a folder without a go.mod: it would silently be part of the enclosing module and use its versions.
func isModule(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		return leak.WithHint(fmt.Errorf("subject: no go.mod in %s", dir),
			"a subject is a separate module; --source DIR sets the checkout that contains subjects/")
	}
	return nil
}

// findSource returns the checkout around the working directory, or the unpacked sources that are part of leakrig.
func (b Builder) findSource(build string) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if isModule(named(dir, build)) == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			break
		}
		dir = parent
	}
	if !packed.Has(build) {
		return "", leak.WithHint(fmt.Errorf("subject: leakrig has no source of %s, and there is no %s/%s here or in any folder above", build, leak.SourceDir, build),
			"--source DIR names a checkout with %s/; a path to a folder starts with ./ or ../", leak.SourceDir)
	}
	return packed.Unpack(b.Cache)
}

// Recipe says what to build: the main package in Folder with Modfile ("" for its go.mod). Rewrite is a file in Folder
// that re-enacts one function of a module, "" for none. With lists modules at other versions than those of the modfile.
type Recipe struct {
	Folder, Modfile, Rewrite string
	With                     []leak.Module

	env  []string // for the go command, on top of what every build gets
	nice bool
	// compiled learns how many packages a build has compiled, nil if no one asks.
	compiled func(packages int)
}

func (r Recipe) String() string {
	s := filepath.Base(r.Folder)
	if r.Modfile != "" {
		s += " with " + r.Modfile
	}
	if r.Rewrite != "" {
		s += " rewritten by " + r.Rewrite
	}
	for i, m := range r.With {
		s += []string{", ", " and "}[min(i, 1)] + m.Path + " " + m.Version
	}
	return s
}

// in is a file of the folder, or one that lies elsewhere.
func (r Recipe) in(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(r.Folder, name)
}

// check returns an error if files of the recipe are missing.
func (r Recipe) check() error {
	for _, f := range []struct{ field, name string }{{"modfile", r.Modfile}, {"rewrite", r.Rewrite}} {
		if f.name == "" {
			continue
		}
		if _, err := os.Stat(filepath.Join(r.Folder, f.name)); err != nil {
			return leak.WithHint(fmt.Errorf("%s %s is not in %s", f.field, f.name, r.Folder), "the variant's %s is a file in the subject's folder", f.field)
		}
	}
	return nil
}

// Built is a binary, and how it differs from its sources.
type Built struct {
	Path     string
	Rewrite  *leak.Rewrite
	HeapDump bool
}

// Build compiles a recipe. Stacks contain no paths of this machine (-trimpath), and a build that would change the modfile
// fails.
func (b Builder) Build(ctx context.Context, r Recipe) (Built, error) {
	var err error
	if r.Folder, err = filepath.Abs(r.Folder); err != nil {
		return Built{}, err
	}
	r.nice = b.Nice
	if err := r.check(); err != nil {
		return Built{}, fmt.Errorf("build: %w", err)
	}
	if b.LeakProfile && r.needsExperiment(ctx) {
		r.env = []string{"GOEXPERIMENT=" + strings.TrimPrefix(os.Getenv("GOEXPERIMENT")+",goroutineleakprofile", ",")}
	}
	built, what := Built{}, r.String()
	if built.Path, err = b.binary(r); err != nil {
		return Built{}, err
	}
	args := []string{"-trimpath", "-buildvcs=false", "-o", built.Path}
	if len(r.With) > 0 {
		if r.Modfile, err = r.resolve(ctx, b.Cache); err != nil {
			return Built{}, fmt.Errorf("build %s: %w", what, err)
		}
	}
	modfile := r.Modfile
	if r.Rewrite != "" {
		if modfile, built.Rewrite, err = r.rewrite(ctx, b.Cache); err != nil {
			return Built{}, fmt.Errorf("build %s: %w", what, err)
		}
	}
	if modfile != "" {
		args = append(args, "-modfile="+modfile)
	}
	if b.HeapDump {
		// A toolchain whose net/http/pprof is too different builds a program without the endpoint. Holders are then unknown.
		if goroot, err := r.golang(ctx, "env", "GOROOT"); err == nil {
			overlay, err := holders.Overlay(strings.TrimSpace(goroot), b.Cache)
			if built.HeapDump = err == nil; built.HeapDump {
				args = append(args, "-overlay="+overlay)
			}
		}
	}
	r.compiled = func(packages int) {
		if b.Progress != nil {
			b.Progress.Status("building %s: %d packages compiled", what, packages)
		}
	}
	if _, err := r.golang(ctx, "build", append(args, "-v", ".")...); err != nil {
		return Built{}, fmt.Errorf("build %s: %w", what, err)
	}
	return built, nil
}

// needsExperiment reports whether the toolchain of the folder needs an experiment for the goroutine leak profile.
// Older toolchains do not have it, newer ones always do.
func (r Recipe) needsExperiment(ctx context.Context) bool {
	version, err := r.golang(ctx, "env", "GOVERSION")
	return err == nil && strings.HasPrefix(version, "go1.26")
}

// rewrite returns a modfile that builds with the rewritten function.
func (r Recipe) rewrite(ctx context.Context, cache string) (modfile string, done *leak.Rewrite, err error) {
	file, err := readRewrite(filepath.Join(r.Folder, r.Rewrite))
	if err != nil {
		return "", nil, err
	}
	return file.apply(ctx, cache, r)
}

// list runs go list with the recipe's modfile.
func (r Recipe) list(ctx context.Context, args ...string) (string, error) {
	if r.Modfile != "" {
		args = append([]string{"-modfile=" + r.Modfile}, args...)
	}
	return r.golang(ctx, "list", args...)
}

// modfiles returns the modfile and its sums, which are empty if the modfile has none.
func (r Recipe) modfiles() (mod, sum []byte, err error) {
	name := r.in(cmp.Or(r.Modfile, "go.mod"))
	if mod, err = os.ReadFile(name); err != nil {
		return nil, nil, err
	}
	sum, err = os.ReadFile(strings.TrimSuffix(name, ".mod") + ".sum")
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return mod, sum, err
}

// golang runs the go command in the folder and returns its standard output.
func (r Recipe) golang(ctx context.Context, command string, args ...string) (string, error) {
	argv := append([]string{"go", command}, args...)
	if _, err := exec.LookPath("nice"); err == nil && r.nice {
		argv = append([]string{"nice", "-n", "19"}, argv...)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = r.Folder
	// A workspace, flags or a vendor folder would build something other than the modfile says. GOFLAGS must not be
	// empty, because then the go command uses the value of `go env -w`.
	cmd.Env = append(append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly", "CGO_ENABLED=0"), r.env...)
	cmd.WaitDelay = 5 * time.Second // the compilers that a killed go command leaves hold the output open
	var output, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &said
	if r.compiled != nil {
		cmd.Stderr = &packageCounter{to: &said, report: r.compiled}
	}
	if err := cmd.Run(); err != nil {
		return "", goFailure(ctx, err, said.String(), r.Folder, cmd.Args)
	}
	return output.String(), nil
}

// packageCounter counts the lines of go build -v that name a package, and passes on everything else.
type packageCounter struct {
	to     *bytes.Buffer
	report func(packages int)
	rest   []byte
	count  int
}

func (c *packageCounter) Write(p []byte) (int, error) {
	c.rest = append(c.rest, p...)
	for {
		line, rest, ok := bytes.Cut(c.rest, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		if c.rest = rest; bytes.ContainsAny(line, " :\t") || len(line) == 0 {
			c.to.Write(append(line, '\n'))
			continue
		}
		c.count++
		c.report(c.count)
	}
}

func goFailure(ctx context.Context, err error, said, folder string, args []string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, exec.ErrNotFound) {
		return leak.WithMachineHint(errors.New("the go command is not on the PATH"), "subjects are built from source; install Go")
	}
	return leak.WithHint(fmt.Errorf("%w\n%s", err, lastLines(said, 15)), "try it by hand: cd %s && %s", folder, strings.Join(args, " "))
}

// binary names a file for each recipe. The folder's base is the program's name.
func (b Builder) binary(r Recipe) (string, error) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s\x00%t%t%v", r.Folder, r.Modfile, r.Rewrite, b.LeakProfile, b.HeapDump, r.With))
	dir := filepath.Join(b.Cache, hex.EncodeToString(sum[:8]))
	return filepath.Join(dir, filepath.Base(r.Folder)), os.MkdirAll(dir, 0o700)
}

// Info reads the build information of the binary, like go version -m.
func Info(binary string) leak.SubjectInfo {
	var info leak.SubjectInfo
	if f, err := os.Open(binary); err == nil {
		defer f.Close()
		info = leak.ReadBinary(f)
	}
	info.Command = []string{filepath.Base(binary)}
	return info
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
