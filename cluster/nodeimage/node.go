package nodeimage

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/leakrig/leakrig/cluster/tarfile"
	"github.com/leakrig/leakrig/cluster/upstream"
)

// nodeConfig is that of kind's own node images.
var nodeConfig = v1.Config{
	Env:        []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "container=docker"}, // systemd looks for container=
	Entrypoint: []string{"/usr/local/bin/entrypoint", "/sbin/init"},
	StopSignal: "SIGRTMIN+3", // systemd's word for an orderly halt
}

// kindFiles are the base files of kind that the node takes over. kind's containerd configuration is not
// among them, and neither is what needs its snapshotter or its package manager.
var kindFiles = []string{
	"etc/crictl.yaml",
	"etc/default/*",
	"etc/sysctl.d/*",
	"etc/systemd/system/containerd.service",
	"etc/systemd/system/kubelet.service",
	"etc/systemd/system/kubelet.service.d/*",
	"etc/systemd/system/kubelet.slice",
	"etc/systemd/system/undo-mount-hacks.service",
	"kind/bin/*",
	"usr/local/bin/entrypoint",
}

// nodeFiles lists everything on the node that Debian does not bring.
func (b *builder) nodeFiles(ctx context.Context, binaries map[string]string) ([]tarfile.Entry, error) {
	var entries []tarfile.Entry
	for _, c := range b.recipe.commands {
		e, err := tarfile.Copy(c.path, 0o755, binaries[c.name()])
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	ofKind, err := kindEntries(ctx)
	if err != nil {
		return nil, err
	}
	own, err := b.ownEntries()
	if err != nil {
		return nil, err
	}
	spec, err := runtimeSpec(ctx, binaries["ctr"])
	if err != nil {
		return nil, err
	}
	entries = append(entries, ofKind...)
	entries = append(entries, own...)
	entries = append(entries, units()...)
	return append(entries,
		tarfile.Text("etc/containerd/cri-base.json", 0o644, spec),
		tarfile.Text("kind/version", 0o644, []byte(b.Kubernetes+"\n")),
		tarfile.Folder("etc/cni/net.d"),
		tarfile.Folder("etc/kubernetes/manifests"), // a Kubernetes package would make it
		tarfile.Symlink("opt/cni/bin", "/usr/lib/cni"),
		tarfile.Symlink("usr/sbin/init", "/usr/lib/systemd/systemd"),
	), nil
}

// units enables units as systemctl would, and masks one that would write to the machine's kernel.
func units() []tarfile.Entry {
	entries := []tarfile.Entry{tarfile.Symlink("etc/systemd/system/systemd-binfmt.service", "/dev/null")}
	for _, unit := range []string{"containerd", "kubelet", "leakrig-images", "leakrig-network", "undo-mount-hacks"} {
		entries = append(entries, tarfile.Symlink("etc/systemd/system/multi-user.target.wants/"+unit+".service", "/etc/systemd/system/"+unit+".service"))
	}
	return entries
}

// kindEntries takes kind's base files out of its module.
func kindEntries(ctx context.Context) ([]tarfile.Entry, error) {
	source, err := upstream.Source(ctx, kindModule, kindVersion, kindSum)
	if err != nil {
		return nil, err
	}
	root := filepath.Join(source, "images", "base", "files")
	var entries []tarfile.Entry
	for _, pattern := range kindFiles {
		found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil || len(found) == 0 {
			return nil, fmt.Errorf("%s %s has no %s: %w", kindModule, kindVersion, pattern, fs.ErrNotExist)
		}
		for _, file := range found {
			if info, err := os.Stat(file); err != nil || info.IsDir() {
				continue
			}
			name := filepath.ToSlash(strings.TrimPrefix(file, root+string(filepath.Separator)))
			e, err := tarfile.Copy(name, modeOf(name), file) // the module cache keeps no modes
			if err != nil {
				return nil, err
			}
			entries = append(entries, e)
		}
	}
	return entries, nil
}

func modeOf(name string) fs.FileMode {
	if path.Base(path.Dir(name)) == "bin" {
		return 0o755
	}
	return 0o644
}

// ownEntries are leakrig's own files.
func (b *builder) ownEntries() (entries []tarfile.Entry, err error) {
	files, err := fs.Sub(b.recipe.files, "files")
	if err != nil {
		return nil, err
	}
	pause := []byte(b.recipe.image("pause").ref())
	err = fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, name)
		entries = append(entries, tarfile.Text(name, 0o644, bytes.ReplaceAll(data, []byte("SANDBOX_IMAGE"), pause)))
		return err
	})
	return entries, err
}

// runtimeSpec returns the base of container specs: containerd's default without the resource limits of the current
// machine. It omits kind's hook that hides the machine's product name from pods, because the hook runs a shell for
// every container.
func runtimeSpec(ctx context.Context, ctr string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, ctr, "oci", "spec").Output()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("ctr oci spec: %w", err)
	}
	var spec map[string]any
	if err := json.Unmarshal(out, &spec); err != nil {
		return nil, fmt.Errorf("ctr oci spec: %w", err)
	}
	if process, ok := spec["process"].(map[string]any); ok {
		delete(process, "rlimits")
	}
	return json.MarshalIndent(spec, "", "  ")
}

// imagesLayer holds the archive that the node imports at its first start.
func imagesLayer(ctx context.Context, images map[string]v1.Image) (*layer, error) {
	entries, err := archive(images)
	if err != nil {
		return nil, err
	}
	whole, err := newLayer(ctx, entries) // for its size, which a tar tells before the content
	if err != nil {
		return nil, err
	}
	return newLayer(ctx, []tarfile.Entry{{Name: "kind/images/control-plane.tar", Mode: 0o644, Size: whole.size, Open: whole.open}})
}
