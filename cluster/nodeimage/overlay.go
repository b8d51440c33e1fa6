package nodeimage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

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

// CheckPin tells what is wrong with a pin, without asking anybody whether its versions exist.
func CheckPin(p leak.NodePin) error {
	if overlaidCommands[p.Command] == nil {
		return leak.WithHint(fmt.Errorf("%q is no command of a node", p.Command), "it is one of: %s", strings.Join(sortedKeys(overlaidCommands), ", "))
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

// Overlay returns the reference of an image that is base with the commands of the pins laid over it, and
// makes it unless the engine has it. base may be any node image that the engine has.
func Overlay(ctx context.Context, o Options, base string, pins []leak.NodePin) (ref string, err error) {
	commands, err := pinned(pins)
	if err != nil {
		return "", err
	}
	id, err := run(ctx, nil, o.Engine, "image", "inspect", "--format", "{{.Id}}", base)
	if err != nil {
		return "", err
	}
	parts := []string{strings.TrimSpace(id)}
	for _, c := range commands {
		f, err := c.module.Fingerprint()
		if err != nil {
			return "", err
		}
		parts = append(parts, f, c.pkg, c.path)
	}
	ref = Repository + ":overlay-" + hash(parts...)
	out, err := run(ctx, nil, o.Engine, "images", "--quiet", ref)
	if err != nil || strings.TrimSpace(out) != "" {
		return ref, err
	}
	start := time.Now()
	u := upstream.Builder{Cache: o.Cache, Progress: o.Progress}
	var entries []entry
	for _, c := range commands {
		path, err := u.Build(ctx, c.module, c.pkg, c.name())
		if err != nil {
			return "", err
		}
		e, err := copyOf(c.path, 0o755, path)
		if err != nil {
			return "", err
		}
		entries = append(entries, e)
	}
	if err := o.lay(ctx, base, ref, entries); err != nil {
		return "", fmt.Errorf("lay %s over %s: %w", describe(pins), base, err)
	}
	o.Progress.Log("node image: %s is %s with %s, made in %s", ref, base, describe(pins), time.Since(start).Round(time.Second))
	return ref, nil
}

// lay commits a container of base with the entries copied into it. The container is never started.
func (o Options) lay(ctx context.Context, base, ref string, entries []entry) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, loadTime, fmt.Errorf("%s did not take the files in %s", o.Engine, loadTime))
	defer cancel()
	out, err := run(ctx, nil, o.Engine, "create", "--network=none", "--label="+overlayLabel, base)
	if err != nil {
		return err
	}
	container := strings.TrimSpace(out)
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTime)
		defer cancel()
		_, gone := run(ctx, nil, o.Engine, "rm", "--force", "--volumes", container)
		err = errors.Join(err, gone)
	}()
	r := stream(ctx, entries)
	defer r.Close()
	if _, err := run(ctx, r, o.Engine, "cp", "-", container+":/"); err != nil {
		return err
	}
	_, err = run(ctx, nil, o.Engine, "commit", "--change=LABEL "+overlayLabel+"=1", container, ref)
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
