package nodeimage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/leakrig/leakrig/cluster/tarfile"
	"github.com/leakrig/leakrig/cluster/upstream"
	"github.com/leakrig/leakrig/leak"
)

// overlayLabel is on images made of another node image, and on the containers that they are made in.
const overlayLabel = "leakrig.dev/overlay"

// overlaidCommands are what a pin may name, with the commands that its module brings.
var overlaidCommands = map[string]func(version string) (upstream.Module, []func(upstream.Module) command){
	"containerd": func(version string) (upstream.Module, []func(upstream.Module) command) {
		var commands []func(upstream.Module) command
		for _, name := range []string{"containerd", "containerd-shim-runc-v2", "ctr"} {
			commands = append(commands, func(m upstream.Module) command { return containerdCommand(m, name) })
		}
		return upstream.Containerd(version), commands
	},
	"kubelet": func(version string) (upstream.Module, []func(upstream.Module) command) {
		return upstream.Kubernetes(version), []func(upstream.Module) command{func(m upstream.Module) command {
			return command{m, "k8s.io/kubernetes/cmd/kubelet", "usr/bin/kubelet"}
		}}
	},
	"runc": func(version string) (upstream.Module, []func(upstream.Module) command) {
		return upstream.Runc(version), []func(upstream.Module) command{func(m upstream.Module) command {
			return command{m, "github.com/opencontainers/runc", "usr/local/sbin/runc"} // first on the PATH of every node
		}}
	},
}

// CheckPin validates a pin without checking that its versions exist.
func CheckPin(p leak.NodePin) error {
	if overlaidCommands[p.Command] == nil {
		return leak.WithHint(fmt.Errorf("%q is not a command of a node", p.Command), "it is one of: %s", strings.Join(sortedKeys(overlaidCommands), ", "))
	}
	m, _ := overlaidCommands[p.Command](p.Version)
	return m.With(p.Modules).Check()
}

// pinned lists the commands of the pins.
func pinned(pins []leak.NodePin) ([]command, error) {
	var commands []command
	for _, p := range pins {
		if err := CheckPin(p); err != nil {
			return nil, err
		}
		m, list := overlaidCommands[p.Command](p.Version)
		for _, make := range list {
			commands = append(commands, make(m.With(p.Modules)))
		}
	}
	return commands, nil
}

// PinnedPaths returns the paths of the commands of a pin on a node.
func PinnedPaths(p leak.NodePin) ([]string, error) {
	commands, err := pinned([]leak.NodePin{p})
	var paths []string
	for _, c := range commands {
		paths = append(paths, "/"+c.path)
	}
	return paths, err
}

// Overlay returns the reference of an image that is base with the commands of the pins laid over it, and
// makes it unless the engine has it. base may be any node image that the engine has.
func Overlay(ctx context.Context, o Options, base string, pins []leak.NodePin) (ref string, err error) {
	commands, err := pinned(pins)
	if err != nil {
		return "", err
	}
	id, err := o.ask(ctx, "image", "inspect", "--format", "{{.Id}}", base)
	if err != nil {
		return "", err
	}
	parts := []string{id}
	for _, c := range commands {
		f, err := c.module.Fingerprint()
		if err != nil {
			return "", err
		}
		parts = append(parts, f, c.pkg, c.path)
	}
	id = hash(parts...)
	ref = Repository + ":overlay-" + id
	if err := os.MkdirAll(o.Cache, 0o700); err != nil {
		return "", err
	}
	unlock, err := upstream.Lock(ctx, layingFile(o.Cache, id), func() { o.Progress.Log("node image: waiting for another run that makes %s", ref) })
	if err != nil {
		return "", err
	}
	defer unlock()
	if present, err := o.has(ctx, ref); present || err != nil {
		return ref, err
	}
	start := time.Now()
	u := upstream.Builder{Cache: o.Cache, Progress: o.Progress}
	var entries []tarfile.Entry
	for _, c := range commands {
		path, err := u.Build(ctx, c.module, c.pkg, c.name())
		if err != nil {
			return "", err
		}
		e, err := tarfile.Copy(c.path, 0o755, path)
		if err != nil {
			return "", err
		}
		entries = append(entries, e)
	}
	if err := o.lay(ctx, base, ref, o.laying()+id, entries); err != nil {
		return "", fmt.Errorf("lay %s over %s: %w", describe(pins), base, err)
	}
	o.Progress.Log("node image: %s is %s with %s, made in %s", ref, base, describe(pins), time.Since(start).Round(time.Second))
	return ref, nil
}

// laying begins the names of the containers that images are made in: those of one cache, which has their locks, since
// the engine may serve others.
func (o Options) laying() string { return "leakrig-overlay-" + hash(o.Cache)[:6] + "-" }

// layingFile is locked by the process that makes the image.
func layingFile(cache, id string) string { return filepath.Join(cache, ".overlay-"+id+".lock") }

// SweepOverlays removes the containers in which images were to be made by processes that were killed.
func SweepOverlays(ctx context.Context, o Options) (removed []string, err error) {
	out, err := o.ask(ctx, "ps", "-a", "--filter", "label="+overlayLabel, "--filter", "name="+o.laying(), "--format", "{{.Names}}")
	if err != nil {
		return nil, err
	}
	var errs []error
	for name := range strings.FieldsSeq(out) {
		unlock, free := upstream.TryLock(layingFile(o.Cache, strings.TrimPrefix(name, o.laying())))
		if !free {
			continue
		}
		err := o.removeContainer(ctx, name)
		unlock()
		if err == nil {
			removed = append(removed, name)
		}
		errs = append(errs, err)
	}
	return removed, errors.Join(errs...)
}

// removeContainer removes a container, whether it is there or not.
func (o Options) removeContainer(ctx context.Context, name string) error {
	ctx = context.WithoutCancel(ctx)
	out, err := o.ask(ctx, "ps", "-a", "-q", "--filter", "name=^"+name+"$")
	if err == nil && out != "" {
		_, err = o.ask(ctx, "rm", "--force", "--volumes", name)
	}
	return err
}

// lay commits a container of base with the entries copied into it. The container never starts. The caller holds the
// lock of its name.
func (o Options) lay(ctx context.Context, base, ref, container string, entries []tarfile.Entry) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, loadTime, fmt.Errorf("%s did not take the files in %s", o.Engine, loadTime))
	defer cancel()
	if err := o.removeContainer(ctx, container); err != nil { // of a process that was killed
		return err
	}
	// An interrupted command may have been executed.
	defer func() { err = errors.Join(err, o.removeContainer(ctx, container)) }()
	if _, err := o.run(ctx, nil, "create", "--name="+container, "--network=none", "--label="+overlayLabel, base); err != nil {
		return err
	}
	r := tarfile.Stream(ctx, entries)
	defer r.Close()
	if _, err := o.run(ctx, r, "cp", "-", container+":/"); err != nil {
		return err
	}
	_, err = o.run(ctx, nil, "commit", "--change=LABEL "+overlayLabel+"=1", container, ref)
	return err
}

// describe names the pins for a person.
func describe(pins []leak.NodePin) string {
	var parts []string
	for _, p := range pins {
		part := p.Command + " " + p.Version
		for _, path := range sortedKeys(p.Modules) {
			part += ", its " + path + " " + p.Modules[path]
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ")
}
