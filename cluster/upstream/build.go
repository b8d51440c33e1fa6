// Package upstream builds commands of upstream Go modules at pinned versions, once, into a cache: the
// control plane of the embedded provider and everything on a node image.
package upstream

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"

	"github.com/leakrig/leakrig/holders"
	"github.com/leakrig/leakrig/leak"
)

// pins are go.mod and go.sum files under other names, since the contents of a nested module cannot be
// embedded, and the main programs that have no upstream module (<name>-<version>.go.txt). A binary that
// was installed without its source can build a control plane, too.
//
//go:embed pins/*.mod pins/*.sum pins/*.go.txt
var pins embed.FS

// Module is a set of upstream commands that are built with one go.mod.
type Module struct {
	// name and version name the pin: pins/<name>-<version>.mod.
	name, version string
	// generate creates a go.mod if there is no pin; nil if there always is one.
	generate func(ctx context.Context, version string) ([]byte, error)
	// modules are versions that stand in for those of the go.mod, by module path.
	modules map[string]string
	// cgo is set for commands with C in them, tags are build tags.
	cgo  bool
	tags string
	// stamp are the -X flags without which the commands do not know their own version.
	stamp []string
}

// Builder builds commands of upstream modules.
type Builder struct {
	// Cache is the folder for builds.
	Cache    string
	Progress leak.Progress
}

// Build returns the path of a command of m, building it where the cache does not have it. Concurrent
// builders wait for each other.
func (b Builder) Build(ctx context.Context, m Module, pkg, command string) (string, error) {
	p, err := m.pin(ctx)
	if err != nil {
		return "", err
	}
	dir := folder(b.Cache, m, p)
	binary := filepath.Join(dir, command)
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", cacheHint(err)
	}
	unlock, err := Lock(ctx, filepath.Join(dir, ".lock"), func() {
		b.Progress.Log("waiting for another leakrig that is building %s %s", command, m.version)
	})
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	start := time.Now()
	b.Progress.Log("building %s %s from upstream modules, once: this takes some minutes", command, m.version)
	if err := b.compile(ctx, m, dir, p, pkg, command); err != nil {
		return "", fmt.Errorf("build %s %s: %w", command, m.version, err)
	}
	b.Progress.Log("built %s %s in %s", command, m.version, time.Since(start).Round(time.Second))
	return binary, nil
}

func cacheHint(err error) error {
	return leak.WithHint(err, "LEAKRIG_CACHE names another folder for what is built once")
}

// folder returns the folder in the cache for builds with these pins.
func folder(cache string, m Module, p pin) string {
	return filepath.Join(cache, "upstream", m.name+"-"+m.version+"-"+runtime.GOOS+"-"+runtime.GOARCH+"-"+fingerprint(p, m.stamp))
}

// fingerprint identifies builds with the same pins.
func fingerprint(p pin, stamp []string) string {
	parts := [][]byte{p.mod, p.sum, []byte(strings.Join(stamp, " ")), []byte(linking + holders.EndpointHash())}
	if p.main != nil {
		parts = append(parts, p.main)
	}
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d\n", len(part))
		h.Write(part)
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}

func (b Builder) compile(ctx context.Context, m Module, dir string, p pin, pkg, command string) error {
	if err := p.write(dir); err != nil {
		return cacheHint(err)
	}
	mode := "-mod=readonly"
	if p.sum == nil || len(m.modules) > 0 {
		mode = "-mod=mod" // go.sum is written as the checksum database confirms it
	}
	c := compilation{Builder: b, dir: dir, what: command + " " + m.version, cgo: m.cgo}
	packages := 0
	err := c.golang(ctx, func(string) { packages++ }, "list", mode, "-tags", m.tags, "-deps", pkg)
	if err != nil {
		return err
	}
	tmp := filepath.Join(dir, command+".tmp")
	defer os.Remove(tmp)
	args := []string{"build", mode, "-tags", m.tags, "-v", "-trimpath", "-buildvcs=false", "-ldflags", strings.Join(append([]string{linking}, m.stamp...), " "), "-o", tmp}
	// Without the endpoint for heap dumps, the holders of memory are unknown, and everything else works.
	if overlay, err := b.overlay(ctx, dir); err == nil {
		args = append(args, "-overlay="+overlay)
	}
	compiled := 0
	err = c.golang(ctx, func(string) {
		compiled++
		b.Progress.Status("building %s %s: %d of at most %d packages compiled", command, m.version, compiled, packages)
	}, append(args, pkg)...)
	if err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(dir, command))
}

// linking omits DWARF, which is half of a binary. Symbols stay, because they name the global variables that hold memory.
const linking = "-w"

// overlay returns the overlay with the endpoint for heap dumps, for the toolchain that builds in dir.
func (b Builder) overlay(ctx context.Context, dir string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "env", "GOROOT")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off")
	goroot, err := cmd.Output()
	if err != nil {
		return "", err
	}
	return holders.Overlay(strings.TrimSpace(string(goroot)), filepath.Join(b.Cache, "upstream"))
}

// compilation is one command being built.
type compilation struct {
	Builder
	dir, what string
	cgo       bool
}

// golang runs the go command and calls line for each line that names a package. Downloads are reported as progress.
// Other output is kept for the error.
func (c compilation) golang(ctx context.Context, line func(string), args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = c.dir
	// GOFLAGS is not empty, since an empty one lets those of `go env -w` through.
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly", "CGO_ENABLED=0")
	if c.cgo {
		if _, err := exec.LookPath("gcc"); err != nil {
			return leak.WithMachineHint(fmt.Errorf("%s contains C code, and no C compiler is installed", c.what), "apt-get install gcc libc6-dev libseccomp-dev pkg-config")
		}
		cmd.Env = append(cmd.Env, "CGO_ENABLED=1", "CC=gcc")
	}
	cmd.WaitDelay = 2 * time.Second // compilers that outlive an interrupted go command hold the pipe
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	var said []string
	read := make(chan struct{})
	go func() {
		defer close(read)
		downloads := 0
		lines := bufio.NewScanner(r)
		for lines.Scan() {
			text := lines.Text()
			switch {
			case strings.HasPrefix(text, "go: downloading "):
				downloads++
				c.Progress.Status("building %s: %d modules downloaded", c.what, downloads)
			case strings.ContainsAny(text, " :"):
				said = append(said, text)
			default:
				line(text)
			}
		}
		_, _ = io.Copy(io.Discard, r) // a line too long for the scanner must not block the command
	}()
	err := cmd.Run()
	w.Close()
	<-read
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, exec.ErrNotFound) {
		return errNoGo()
	}
	if err != nil {
		last := said[max(0, len(said)-15):]
		hint := "can the Go module proxy be reached? the build goes on where it stopped"
		if slices.ContainsFunc(last, compilerError.MatchString) {
			hint = "these versions do not compile with each other: pin others"
		}
		return leak.WithHint(fmt.Errorf("go %s: %w\n%s", args[0], err, strings.Join(last, "\n")), "%s", hint)
	}
	return nil
}

func errNoGo() error {
	return leak.WithMachineHint(errors.New("the go command is not on the PATH"), "install Go: upstream commands are built from source")
}

// pin is what the go command builds from; sum is nil where mod was generated, main where upstream has
// the main package.
type pin struct{ mod, sum, main []byte }

func (p pin) write(dir string) error {
	err := errors.Join(
		os.WriteFile(filepath.Join(dir, "go.mod"), p.mod, 0o600),
		os.WriteFile(filepath.Join(dir, "go.sum"), p.sum, 0o600))
	if p.main != nil {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, "main.go"), p.main, 0o600))
	}
	return err
}

// pin returns the embedded pin, or a generated go.mod alone.
func (m Module) pin(ctx context.Context) (p pin, err error) {
	p, err = m.pinned()
	if errors.Is(err, fs.ErrNotExist) && m.generate != nil {
		p = pin{}
		p.mod, err = m.generate(ctx, m.version)
	}
	if err == nil && len(m.modules) > 0 {
		p.mod, err = replaced(p.mod, m.modules)
	}
	return p, err
}

// replaced returns a go.mod with replacements for module versions.
func replaced(mod []byte, modules map[string]string) ([]byte, error) {
	f, err := modfile.Parse("go.mod", mod, nil)
	if err != nil {
		return nil, err
	}
	for _, path := range slices.Sorted(maps.Keys(modules)) {
		if err := f.AddReplace(path, "", path, modules[path]); err != nil {
			return nil, err
		}
	}
	f.Cleanup()
	return f.Format()
}

// dependentMod creates a go.mod for the commands of a module at a released version, with the replace directives of
// that module.
func dependentMod(ctx context.Context, name, path, version string) ([]byte, error) {
	upstreamMod, err := downloadMod(ctx, module.Version{Path: path, Version: version})
	if err != nil {
		return nil, err
	}
	f := new(modfile.File)
	err = errors.Join(
		f.AddModuleStmt("leakrig.dev/upstream/"+name),
		f.AddGoStmt("1.26.0"),
		f.AddRequire(path, version))
	for _, r := range upstreamMod.Replace {
		if !strings.HasPrefix(r.New.Path, ".") { // a folder of the module itself
			err = errors.Join(err, f.AddReplace(r.Old.Path, r.Old.Version, r.New.Path, r.New.Version))
		}
	}
	if err != nil {
		return nil, err
	}
	f.Cleanup()
	return f.Format()
}

func (m Module) pinned() (p pin, err error) {
	base := "pins/" + m.name + "-" + m.version
	if p.mod, err = pins.ReadFile(base + ".mod"); err != nil {
		return p, err
	}
	if p.sum, err = pins.ReadFile(base + ".sum"); err != nil {
		return p, err
	}
	if p.main, err = pins.ReadFile(base + ".go.txt"); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return p, err
}

// kubernetesMod makes a go.mod for any released version: Kubernetes requires its staging modules at
// v0.0.0 and replaces them by folders, which a dependent has to replace by the released modules.
func kubernetesMod(ctx context.Context, version string) ([]byte, error) {
	upstreamMod, err := downloadMod(ctx, module.Version{Path: "k8s.io/kubernetes", Version: version})
	if err != nil {
		return nil, err
	}
	f := new(modfile.File)
	if err := errors.Join(
		f.AddModuleStmt("leakrig.dev/upstream/kubernetes"),
		f.AddGoStmt("1.26.0"),
		f.AddRequire("k8s.io/kubernetes", version)); err != nil {
		return nil, err
	}
	staging := "v0." + strings.TrimPrefix(version, "v1.")
	for _, r := range upstreamMod.Replace {
		if strings.HasPrefix(r.New.Path, "./staging/") {
			err = errors.Join(err, f.AddReplace(r.Old.Path, "", r.Old.Path, staging))
		} else {
			err = errors.Join(err, f.AddReplace(r.Old.Path, r.Old.Version, r.New.Path, r.New.Version))
		}
	}
	// Since v1.30 or so the staging modules are replaced by a workspace instead.
	for _, r := range upstreamMod.Require {
		if r.Mod.Version == "v0.0.0" && strings.HasPrefix(r.Mod.Path, "k8s.io/") {
			err = errors.Join(err, f.AddReplace(r.Mod.Path, "", r.Mod.Path, staging))
		}
	}
	for _, g := range upstreamMod.Godebug {
		err = errors.Join(err, f.AddGodebug(g.Key, g.Value))
	}
	if err != nil {
		return nil, err
	}
	f.Cleanup()
	return f.Format()
}

func downloadMod(ctx context.Context, m module.Version) (*modfile.File, error) {
	d, err := download(ctx, m)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(d.GoMod)
	if err != nil {
		return nil, err
	}
	return modfile.Parse(d.GoMod, bytes.TrimSpace(data), nil)
}

// Find returns the path of a command that the cache has, without building it.
func Find(cache string, m Module, command string) (string, bool) {
	p, err := m.pinned()
	if err != nil {
		return "", false
	}
	path := filepath.Join(folder(cache, m, p), command)
	_, err = os.Stat(path)
	return path, err == nil
}

// compilerError is a line in which the compiler says where a source is wrong.
var compilerError = regexp.MustCompile(`\.go:\d+:\d+: `)
