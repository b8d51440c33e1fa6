//go:build e2e && linux

package nodeimage

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/leakrig/leakrig/cluster/engine"
	"github.com/leakrig/leakrig/cluster/tarfile"
	"github.com/leakrig/leakrig/cluster/upstream"
	"github.com/leakrig/leakrig/leak"
)

// testCache is the folder that `leakrig node-image build` uses.
func testCache(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("LEAKRIG_CACHE"); dir != "" {
		return dir
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "leakrig")
}

// missing skips a test, or fails it where CI promised that everything is there.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(what)
	}
	t.Skip("SKIPPED: " + what)
}

func options(t *testing.T) Options {
	t.Helper()
	for _, e := range []string{cmp.Or(os.Getenv("KIND_EXPERIMENTAL_PROVIDER"), "docker"), "podman"} {
		if exec.Command(e, "info").Run() == nil {
			return Options{Kubernetes: version, Engine: engine.Engine(e), Cache: testCache(t), Progress: silent{}}
		}
	}
	missing(t, "no container engine answers, so no node image was looked at")
	return Options{}
}

// inImage runs a shell command in a container of the image.
func inImage(t *testing.T, o Options, ref, script string) string {
	t.Helper()
	out, err := o.run(context.Background(), nil, "run", "--rm", "--network=none", "--entrypoint=/bin/sh", ref, "-euc", script)
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return strings.TrimSpace(out)
}

// The image has the files and versions that it claims, and is not built a second time.
func TestKindImage(t *testing.T) {
	o := options(t)
	ref, err := Build(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 1)
	o.Progress = silent{said}
	if again, err := Build(context.Background(), o); err != nil || again != ref || len(said) > 0 {
		t.Errorf("again: %s, %v, and it worked for it: %d", again, err, len(said))
	}
	for script, want := range map[string]string{
		"cat /kind/version":                             version,
		"kubeadm version -o short":                      version,
		"kubelet --version":                             "Kubernetes " + version,
		"kubectl version --client":                      "Client Version: " + version,
		"command -v containerd && containerd --version": "/usr/local/bin/containerd\ncontainerd github.com/containerd/containerd v1.7.35",
		"containerd-shim-runc-v2 -v":                    "containerd-shim-runc-v2:\n  Version:  v1.7.35",
		"ctr --version":                                 "ctr github.com/containerd/containerd v1.7.35",
		"crictl --version":                              "crictl version v1.30.0",
		"runc --version":                                "runc version 1.1.",
		"systemctl --version":                           "systemd 252",
		"readlink -f /sbin/init":                        "/usr/lib/systemd/systemd",
		"stat -c %a /usr/local/bin/entrypoint /kind/bin/*.sh | sort -u": "755",
		"cd /opt/cni/bin && ls host-local loopback portmap ptp":         "host-local\nloopback\nportmap\nptp",
		"grep sandbox_image /etc/containerd/config.toml":                `sandbox_image = "leakrig.local/pause:3.10.1"`,
		"jq -c .process.rlimits /etc/containerd/cri-base.json":          "null",
		// Debian's containerd has another deadlock.
		"ls /usr/bin /usr/sbin | grep -c containerd || true": "0",
	} {
		if got := inImage(t, o, ref, script); !strings.HasPrefix(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", script, got, want)
		}
	}
	if !t.Failed() {
		fmt.Println("MET node-image")
	}
}

// Debian's packages installed once more, and all put together once more, are the image that the engine has, byte
// for byte.
func TestNightlyImageIsReproducible(t *testing.T) {
	if _, err := requirements(); err != nil {
		missing(t, err.Error())
	}
	o := options(t)
	ref, err := Build(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	fresh := func() (rootfs, id string) {
		t.Helper()
		o := o
		o.Cache = t.TempDir()
		own, unlock, err := newBuilder(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer unlock()
		if rootfs, err = own.rootfs(t.Context()); err != nil {
			t.Fatal(err)
		}
		own.Cache = testCache(t) // for the commands
		image, err := own.assemble(t.Context(), rootfs)
		if err != nil {
			t.Fatal(err)
		}
		hash, err := image.ConfigName()
		if err != nil {
			t.Fatal(err)
		}
		return rootfs, hash.String()
	}
	rootfs, again := fresh()
	first, err := o.run(t.Context(), nil, "image", "inspect", "--format={{.Id}}", ref)
	if err != nil {
		t.Fatal(err)
	}
	first = strings.TrimSpace(first)
	if !strings.Contains(first, ":") { // as podman says it
		first = "sha256:" + first
	}
	if versions := inTar(t, rootfs, "var/lib/dpkg/status"); versions != inImage(t, o, ref, "cat /var/lib/dpkg/status") {
		t.Log("Debian's mirror serves other versions than when the image was made")
		_, first = fresh()
	}
	if again != first {
		t.Errorf("made again it is %s, not %s", again, first)
	}
}

func inTar(t *testing.T, file, name string) string {
	t.Helper()
	out, err := exec.Command("tar", "-xOf", file, name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// The images on the node are those that its kubeadm asks for.
func TestKindControlPlaneImages(t *testing.T) {
	o := options(t)
	ref, err := Build(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	wanted := strings.Fields(inImage(t, o, ref, "kubeadm config images list --kubernetes-version "+version+" --image-repository "+ControlPlane+" 2>/dev/null"))
	var manifest tarball.Manifest
	if err := json.Unmarshal([]byte(inImage(t, o, ref, "tar -xOf /kind/images/control-plane.tar manifest.json")), &manifest); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, image := range manifest {
		got = append(got, image.RepoTags...)
	}
	slices.Sort(wanted)
	slices.Sort(got)
	if len(wanted) == 0 || !slices.Equal(got, wanted) {
		t.Errorf("the node has\n%v\nkubeadm asks for\n%v", got, wanted)
	}
}

// What kube-proxy's image takes from Debian runs on its own.
func TestKindPacketFiltersRun(t *testing.T) {
	if os.Geteuid() != 0 {
		missing(t, "chroot needs root, so kube-proxy's iptables was not run")
	}
	o := options(t)
	if _, err := Build(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	rootfs := filepath.Join(o.Cache, "node-image", "rootfs-"+testRecipe().debian.hash()+".tar")
	base, err := tarfile.Open(rootfs)
	if errors.Is(err, os.ErrNotExist) {
		missing(t, "the image was not built here, so the rootfs is missing")
	}
	if err != nil {
		t.Fatal(err)
	}
	entries, err := packetFilters(base)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	untar := exec.Command("tar", "-x", "-C", root)
	untar.Stdin = bytes.NewReader(written(t, entries))
	if out, err := untar.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for program, want := range map[string]string{"iptables": "iptables v1.8.9 (nf_tables)", "ip6tables": "ip6tables v1.8.9 (nf_tables)", "nft": "nftables v1."} {
		out, err := exec.Command("chroot", root, "/usr/sbin/"+program, "--version").CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), want) {
			t.Errorf("%s: %v: %s", program, err, out)
		}
	}
}

// A real debootstrap that is interrupted half-way leaves nothing in the cache and nothing mounted.
func TestKindInterruptedRootfs(t *testing.T) {
	if _, err := requirements(); err != nil {
		missing(t, err.Error())
	}
	said := make(chan string)
	b, unlock, err := newBuilder(context.Background(), Options{Kubernetes: version, Cache: t.TempDir(), Progress: silent{said}})
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	interrupted := errors.New("interrupted")
	go func() {
		for line := range said {
			if strings.Contains(line, ": Unpacking") { // /proc is mounted, dpkg runs
				cancel(interrupted)
				return
			}
		}
	}()
	if _, err := b.rootfs(ctx); !errors.Is(err, interrupted) {
		t.Fatalf("%v", err)
	}
	if left, err := filepath.Glob(filepath.Join(b.dir, "[^.]*")); err != nil || len(left) > 0 {
		t.Errorf("left in the cache: %v, %v", left, err)
	}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(mounts), b.dir) {
		t.Errorf("something is mounted below %s: %v", b.dir, err)
	}
	if left := processes(t, b.dir); len(left) > 0 {
		t.Errorf("still there: %v", left)
	}
}

// TestKindMirrorGone checks that the error of an unreachable mirror names its variable.
func TestKindMirrorGone(t *testing.T) {
	if _, err := requirements(); err != nil {
		missing(t, err.Error())
	}
	t.Setenv(mirrorVariable, "http://127.0.0.1:1/debian")
	b, unlock, err := newBuilder(t.Context(), Options{Kubernetes: version, Cache: t.TempDir(), Progress: silent{}})
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if _, err := b.rootfs(t.Context()); err == nil || !strings.Contains(leak.Hint(err), mirrorVariable) {
		t.Errorf("%v, hint %q", err, leak.Hint(err))
	}
}

// A container in which a killed leakrig was making an image is removed, and one that is in use is not.
func TestKindSweepOverlays(t *testing.T) {
	o := options(t)
	ref, err := Build(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	o.Cache = t.TempDir()
	const id = "e2e"
	if _, err := o.run(t.Context(), nil, "create", "--name="+o.laying()+id, "--network=none", "--label="+overlayLabel, ref); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := o.removeContainer(t.Context(), o.laying()+id); err != nil {
			t.Error(err)
		}
	}()
	unlock, free := upstream.TryLock(layingFile(o.Cache, id))
	if !free {
		t.Fatal("not free")
	}
	if removed, err := SweepOverlays(t.Context(), o); err != nil || len(removed) > 0 {
		t.Errorf("in use: %v %v", removed, err)
	}
	unlock()
	if removed, err := SweepOverlays(t.Context(), o); err != nil || !slices.Equal(removed, []string{o.laying() + id}) {
		t.Errorf("left: %v %v", removed, err)
	}
}
