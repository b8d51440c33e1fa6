// Package engine runs the command line of a container engine, docker or podman, and lists and deletes kind clusters in
// it.
package engine

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// Engine is the command line of a container engine: docker or podman.
type Engine string

// KindVariable is the environment variable with which kind selects its engine.
const KindVariable = "KIND_EXPERIMENTAL_PROVIDER"

// Detect returns the first engine that answers, docker before podman as kind has them, or the one that kind's
// variable names.
func Detect(ctx context.Context) (Engine, error) {
	engines := []Engine{"docker", "podman"}
	if name := Engine(os.Getenv(KindVariable)); slices.Contains(engines, name) {
		engines = []Engine{name}
	} else if name != "" {
		return "", leak.Usage("docker and podman are", "%s=%s: no engine that leakrig uses", KindVariable, name)
	}
	var errs []error
	for _, e := range engines {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		_, err := e.Run(ctx, "info")
		if err == nil && e == "docker" {
			err = e.isDocker(ctx)
		}
		cancel()
		if err == nil {
			return e, nil
		}
		errs = append(errs, err)
	}
	return "", leak.WithMachineHint(fmt.Errorf("no container engine answers: %w", errors.Join(errs...)),
		"start docker or podman, or use --cluster embedded")
}

// isDocker returns an error where the command is another engine's under docker's name, which kind would not take for it
// either.
func (e Engine) isDocker(ctx context.Context) error {
	version, err := e.Run(ctx, "--version")
	if err == nil && !strings.HasPrefix(version, "Docker version") {
		err = fmt.Errorf("docker says that it is %q", version)
	}
	return err
}

// Run runs one command of the engine and returns its trimmed output.
func (e Engine) Run(ctx context.Context, args ...string) (string, error) {
	out, err := e.Output(ctx, args...)
	return strings.TrimSpace(string(out)), err
}

// engineTimeout bounds one command of the engine: a daemon that is stopped, and not gone, takes requests and never
// answers.
const engineTimeout = 2 * time.Minute

// Output runs one command of the engine and returns its output. It ends with ctx, or after engineTimeout, also if the
// daemon does not answer.
func (e Engine) Output(ctx context.Context, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, engineTimeout, fmt.Errorf("the engine has not answered for %s", engineTimeout))
	defer cancel()
	return e.OutputNoTimeout(ctx, args...)
}

// OutputNoTimeout returns the output of a command without a timeout of its own; ctx limits it.
func (e Engine) OutputNoTimeout(ctx context.Context, args ...string) ([]byte, error) {
	return e.Pipe(ctx, nil, args...)
}

// Pipe is OutputNoTimeout for a command that reads in as its standard input.
func (e Engine) Pipe(ctx context.Context, in io.Reader, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, string(e), args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &stdout, &stderr
	cmd.WaitDelay = time.Second // an input that blocks must not outlive the command
	if err := cmd.Run(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return nil, leak.WithMachineHint(fmt.Errorf("%s is not on the PATH", e), "install docker or podman")
		}
		// The runtime reports a failed exec on standard output.
		said := cmp.Or(firstLine(stderr.String()), firstLine(stdout.String()))
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("%s %s: %w %s", e, args[0], err, said)
	}
	return stdout.Bytes(), nil
}

// firstLine returns the first line that is neither blank nor one of podman's warnings.
func firstLine(said string) string {
	for line := range strings.Lines(said) {
		if line = strings.TrimSpace(line); line != "" && !strings.Contains(line, "level=warning") {
			return line
		}
	}
	return ""
}

// ClusterLabel is on every container that kind makes.
const ClusterLabel = "io.x-k8s.kind.cluster"

// containers lists the containers of a kind cluster, running or not.
func (e Engine) containers(ctx context.Context, cluster string) ([]string, error) {
	out, err := e.Run(ctx, "ps", "-a", "-q", "--no-trunc", "--filter", "label="+ClusterLabel+"="+cluster)
	return strings.Fields(out), err
}

// nodeName is how kind calls the nodes of a cluster.
var nodeName = regexp.MustCompile(`^(.+)-(?:control-plane|worker)\d*$`)

// Clusters lists the kind clusters with objects in the engine. It inspects the label of each container, because not
// all versions of podman can print it in a list.
func (e Engine) Clusters(ctx context.Context) ([]string, error) {
	out, err := e.Run(ctx, "ps", "-a", "--filter", "label="+ClusterLabel, "--format", "{{.Names}}")
	volumes, err2 := e.Volumes(ctx)
	found := slices.Collect(maps.Keys(volumes))
	for _, node := range strings.Fields(out) {
		if m := nodeName.FindStringSubmatch(node); m != nil {
			found = append(found, m[1])
		}
	}
	slices.Sort(found)
	return slices.Compact(found), errors.Join(err, err2)
}

// Volumes lists the volumes of each kind cluster that do not go with its containers: kind makes them before a node
// where the engine is podman, with the node's name as a label.
func (e Engine) Volumes(ctx context.Context) (map[string][]string, error) {
	if e != "podman" {
		return nil, nil
	}
	out, err := e.Output(ctx, "volume", "ls", "--format", "json")
	if err != nil {
		return nil, err
	}
	var volumes []struct {
		Name   string
		Labels map[string]string
	}
	if err := json.Unmarshal(out, &volumes); err != nil {
		return nil, fmt.Errorf("volumes of %s: %w", e, err)
	}
	found := map[string][]string{}
	for _, v := range volumes {
		for label := range v.Labels {
			if m := nodeName.FindStringSubmatch(label); m != nil {
				found[m[1]] = append(found[m[1]], v.Name)
			}
		}
	}
	return found, nil
}

// Remove deletes all containers of a kind cluster, and their volumes. A create that was killed may have left requests
// with the daemon that it still carries out, so the listing has to stay empty for a while.
func (e Engine) Remove(ctx context.Context, cluster string, quietFor time.Duration) error {
	empty := time.Time{}
	for {
		ids, err := e.containers(ctx, cluster)
		volumes, err2 := e.Volumes(ctx)
		err = errors.Join(err, err2)
		switch {
		case err != nil:
		case len(ids) > 0:
			empty = time.Time{}
			_, err = e.Run(ctx, append([]string{"rm", "-f", "-v"}, ids...)...)
		case len(volumes[cluster]) > 0:
			empty = time.Time{}
			_, err = e.Run(ctx, append([]string{"volume", "rm", "-f"}, volumes[cluster]...)...)
		case empty.IsZero():
			empty = time.Now()
		}
		if err == nil && !empty.IsZero() && time.Since(empty) >= quietFor {
			return nil
		}
		select {
		case <-ctx.Done():
			return leak.WithHint(fmt.Errorf("delete cluster %s: %w", cluster, errors.Join(context.Cause(ctx), err)),
				"`leakrig clean`, or %s rm -f -v $(%s ps -aq --filter label=%s=%s)", e, e, ClusterLabel, cluster)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
