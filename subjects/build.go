// Package subjects builds and starts the programs under observation. Each lives in a folder beside this
// file, a module of its own with one main package and one modfile a variant.
//
// It does not put load on them (package load) and does not read them (package profiles).
package subjects

import (
	"bytes"
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

	"github.com/leakrig/leakrig/leak"
)

// Builder builds subjects from source.
type Builder struct {
	// Source is the checkout that holds subjects/, "" to look for it from the working directory up.
	Source string
	// ScenarioDir is the folder of the scenario file, for subjects named by a path; "" for a built-in one.
	ScenarioDir string
	// LeakProfile asks for the runtime's goroutine leak profile, which Go 1.26 has as an experiment.
	LeakProfile bool
	// Cache is where binaries are kept, so that go build skips the link when nothing has changed.
	Cache string
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
		if source, err = findSource(build); err != nil {
			return "", err
		}
	}
	dir := filepath.Join(source, leak.SourceDir, build)
	return dir, isModule(dir)
}

// isModule refuses a folder without a go.mod of its own: it would join the module around it in
// silence, and be built with that one's versions.
func isModule(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		return leak.WithHint(fmt.Errorf("subject: no go.mod in %s", dir),
			"a subject is a module of its own; --source DIR names the checkout that holds subjects/")
	}
	return nil
}

func findSource(build string) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, leak.SourceDir, build, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", leak.WithHint(fmt.Errorf("subject: no %s/%s here or in any folder above", leak.SourceDir, build),
				"run inside a checkout of leakrig, or name it with --source DIR")
		}
		dir = parent
	}
}

// Build compiles the main package in folder with modfile ("" for its go.mod) and returns the binary's
// path. Sources are what they are: -trimpath keeps paths of this machine out of stacks, and the build
// fails rather than change a modfile.
func (b Builder) Build(ctx context.Context, folder, modfile string) (string, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return "", err
	}
	if err := hasModfile(folder, modfile); err != nil {
		return "", fmt.Errorf("build: %w", err)
	}
	binary, err := b.binary(folder, modfile)
	if err != nil {
		return "", err
	}
	args := []string{"build", "-trimpath", "-buildvcs=false", "-o", binary}
	if modfile != "" {
		args = append(args, "-modfile="+modfile)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, ".")...)
	cmd.Dir = folder
	// A workspace, flags or a vendor folder would build something else than what the modfile says. An empty
	// GOFLAGS would let those of `go env -w` through.
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly", "CGO_ENABLED=0")
	if b.LeakProfile && b.needsExperiment(ctx, folder) {
		cmd.Env = append(cmd.Env, "GOEXPERIMENT="+strings.TrimPrefix(os.Getenv("GOEXPERIMENT")+",goroutineleakprofile", ","))
	}
	cmd.WaitDelay = 5 * time.Second // the compilers that a killed go command leaves hold the output open
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		if errors.Is(err, exec.ErrNotFound) {
			return "", leak.WithHint(errors.New("build: the go command is not on the PATH"), "subjects are built from source; install Go")
		}
		return "", leak.WithHint(fmt.Errorf("build %s%s: %w\n%s", filepath.Base(folder), withModfile(modfile), err, lastLines(output.String(), 15)),
			"try it by hand: cd %s && go %s", folder, strings.Join(append(args, "."), " "))
	}
	return binary, nil
}

// needsExperiment tells whether the toolchain that builds folder has the goroutine leak profile as an
// experiment: older ones do not know it, newer ones have it anyway.
func (b Builder) needsExperiment(ctx context.Context, folder string) bool {
	cmd := exec.CommandContext(ctx, "go", "env", "GOVERSION")
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	return err == nil && strings.HasPrefix(string(out), "go1.26")
}

func hasModfile(folder, modfile string) error {
	if modfile == "" {
		return nil
	}
	if _, err := os.Stat(filepath.Join(folder, modfile)); err != nil {
		return leak.WithHint(fmt.Errorf("modfile %s is not in %s", modfile, folder), "the variant's modfile is a file in the subject's folder")
	}
	return nil
}

func withModfile(modfile string) string {
	if modfile == "" {
		return ""
	}
	return " with " + modfile
}

// binary names a file for each folder and modfile. The folder's base is the program's name.
func (b Builder) binary(folder, modfile string) (string, error) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%t", folder, modfile, b.LeakProfile))
	dir := filepath.Join(b.Cache, hex.EncodeToString(sum[:8]))
	return filepath.Join(dir, filepath.Base(folder)), os.MkdirAll(dir, 0o700)
}

// Info reads what the binary says of itself, as go version -m does.
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
