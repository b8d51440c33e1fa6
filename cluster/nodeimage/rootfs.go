package nodeimage

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/leakrig/leakrig/cluster/tarfile"
	"github.com/leakrig/leakrig/leak"
)

// debian is what the rootfs is made of. Its hash is the rootfs' name in the cache.
type debian struct {
	suite    string
	mirror   string // a URL; empty is debootstrap's own
	packages []string
	// dropped are patterns of what the node does not need, or must not bring from this machine.
	dropped []string
}

// bookworm has systemd 252; newer ones refuse cgroup v1.
var bookworm = debian{
	suite: "bookworm",
	packages: []string{
		"systemd",                                                                   // runs the node
		"conntrack", "ethtool", "iproute2", "iptables", "kmod", "mount", "nftables", // the kubelet and kube-proxy call these
		"containernetworking-plugins", "libseccomp2", "runc",
		"bash", "ca-certificates", "curl", "e2fsprogs", "jq", "pigz", "procps", "util-linux", // kind's scripts and logs collection, volumes
	},
	dropped: []string{
		// Mounted, or written by the engine, at every start.
		"dev/*", "proc/*", "sys/*", "run/*", "tmp/*", "etc/hostname", "etc/resolv.conf", "etc/machine-id",
		// Caches and logs of the installation.
		"var/cache/*/*", "var/lib/apt/lists/*", "var/log/*", "etc/*-", "var/lib/dpkg/*-old", "debootstrap",
		"usr/share/doc/*", "usr/share/info/*", "usr/share/locale/*", "usr/share/man/*",
		// Units that make no sense in a container, as kind's own image leaves them out.
		"etc/systemd/system/*.wants/*", "usr/lib/systemd/system/multi-user.target.wants/*",
		"usr/lib/systemd/system/local-fs.target.wants/*", "usr/lib/systemd/system/basic.target.wants/*",
		"usr/lib/systemd/system/sockets.target.wants/*udev*", "usr/lib/systemd/system/sockets.target.wants/*initctl*",
		"usr/lib/systemd/system/sysinit.target.wants/systemd-tmpfiles-setup.service",
	},
}

// mirrorVariable names the mirror. One that never changes, as a snapshot of Debian's archive, pins the version of every
// package.
const mirrorVariable = "LEAKRIG_DEBIAN_MIRROR"

// from returns d, out of another mirror.
func (d debian) from(mirror string) debian {
	d.mirror = mirror
	return d
}

func (d debian) hash() string {
	return hash("rootfs 1", runtime.GOARCH, d.suite, d.mirror, strings.Join(d.packages, " "), strings.Join(d.dropped, " "))
}

// debootstrapTime bounds a debootstrap whose mirror answers too slowly to ever end.
const debootstrapTime = 20 * time.Minute

// rootfs returns the path of a tar with Debian's root file system, from the cache if it is there.
func (b *builder) rootfs(ctx context.Context) (string, error) {
	file := filepath.Join(b.dir, "rootfs-"+b.recipe.debian.hash()+".tar")
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	debootstrap, err := requirements()
	if err != nil {
		return "", err
	}
	start := time.Now()
	b.Progress.Log("node image: making a rootfs from Debian packages, once: this takes a minute or two")
	root, err := os.MkdirTemp(b.dir, "tmp-rootfs-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(root)
	ctx, cancel := context.WithTimeoutCause(ctx, debootstrapTime, fmt.Errorf("debootstrap did not end in %s", debootstrapTime))
	defer cancel()
	if err := b.debootstrap(ctx, debootstrap, root); err != nil {
		return "", err
	}
	entries, err := b.recipe.debian.entries(root)
	if err != nil {
		return "", err
	}
	if err := tarfile.WriteFile(ctx, file, entries); err != nil {
		return "", err
	}
	b.Progress.Log("node image: made the rootfs in %s", time.Since(start).Round(time.Second))
	return file, nil
}

// requirements returns the path of debootstrap, or an error with the missing packages.
func requirements() (string, error) {
	const hint = "build the image on a Debian machine, then carry it over with `docker save` and `docker load`"
	if runtime.GOOS != "linux" {
		return "", leak.WithMachineHint(fmt.Errorf("a node image needs Linux, not %s", runtime.GOOS), hint)
	}
	if os.Geteuid() != 0 {
		return "", leak.WithMachineHint(errors.New("a node image needs root: debootstrap does"), "run `sudo leakrig node-image build` once, with go on root's PATH: the engine then has the image for everyone")
	}
	// A user's PATH often lacks the last two.
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/sbin") {
		if file := filepath.Join(dir, "debootstrap"); executable(file) {
			return file, nil
		}
	}
	return "", leak.WithMachineHint(errors.New("a node image needs debootstrap, which is not on the PATH"), "apt-get install debootstrap, or "+hint)
}

func executable(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// debootstrap installs the packages below root. It runs isolated: its mounts and its children end with it.
func (b *builder) debootstrap(ctx context.Context, program, root string) error {
	d := b.recipe.debian
	args := []string{"--variant=minbase", "--include=" + strings.Join(d.packages, ","), d.suite, root}
	if d.mirror != "" {
		args = append(args, d.mirror)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	// The date in /etc/shadow and the like is that of the epoch, not of today.
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=0", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	said := make(chan []string)
	go func() { said <- b.follow(r) }()
	err := runIsolated(cmd)
	w.Close()
	last := <-said
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return leak.WithHint(fmt.Errorf("debootstrap %s: %w\n%s", d.suite, err, strings.Join(last, "\n")),
			"can Debian's mirror be reached (%s names another), and may root mount and make device files here?", mirrorVariable)
	}
	return nil
}

// follow turns what debootstrap says into progress and returns the last lines.
func (b *builder) follow(r io.Reader) (last []string) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		last = append(last, lines.Text())
		last = last[max(0, len(last)-15):]
		b.Progress.Status("node image: Debian packages: %s", strings.TrimPrefix(lines.Text(), "I: "))
	}
	_, _ = io.Copy(io.Discard, r) // a line too long for the scanner must not block debootstrap
	return last
}

// entries lists what the node needs of a rootfs.
func (d debian) entries(root string) (entries []tarfile.Entry, err error) {
	err = filepath.WalkDir(root, func(file string, de fs.DirEntry, err error) error {
		if err != nil || file == root {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(file, root+string(filepath.Separator)))
		if d.drops(name) {
			if de.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		e, err := asOnDisk(name, file)
		entries = append(entries, e)
		return err
	})
	return entries, err
}

func (d debian) drops(name string) bool {
	for _, pattern := range d.dropped {
		if ok, _ := path.Match(pattern, name); ok {
			return true
		}
	}
	return false
}

// asOnDisk keeps owner, mode and target.
func asOnDisk(name, file string) (tarfile.Entry, error) {
	info, err := os.Lstat(file)
	if err != nil {
		return tarfile.Entry{}, err
	}
	e := tarfile.Entry{Name: name, Mode: info.Mode()}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok {
		e.UID, e.GID = int(owner.Uid), int(owner.Gid)
	}
	switch {
	case info.IsDir():
	case info.Mode()&fs.ModeSymlink != 0:
		e.Link, err = os.Readlink(file)
	case info.Mode().IsRegular():
		e.Size = info.Size()
		e.Open = func() (io.ReadCloser, error) { return os.Open(file) }
	default:
		err = fmt.Errorf("%s: neither file, folder nor link", name)
	}
	return e, err
}
