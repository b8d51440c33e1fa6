package binaries

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/mod/semver"
	"sigs.k8s.io/controller-runtime/tools/setup-envtest/remote"
	"sigs.k8s.io/controller-runtime/tools/setup-envtest/versions"

	"github.com/leakrig/leakrig/cluster/upstream"
	"github.com/leakrig/leakrig/leak"
)

// IndexVariable names another index of envtest's releases, for example of a mirror.
const IndexVariable = "LEAKRIG_ENVTEST_INDEX"

// Limits of downloads. If a limit is reached, auto builds instead.
const (
	// indexTimeout is short: without a network, the build must start soon.
	indexTimeout = 5 * time.Second
	// stallTimeout is how long a download may transfer nothing.
	stallTimeout    = 10 * time.Second
	downloadTimeout = 3 * time.Minute
	// patience multiplies all limits if building is no alternative.
	patience   = 4.0
	maxArchive = 512 << 20
	maxBinary  = 1 << 30
)

// download returns binaries of a release of envtest, which it downloads into the cache.
func (s Source) download(ctx context.Context, w Want) (Pair, error) {
	p, err := s.fetch(ctx, w)
	if ctx.Err() != nil {
		return Pair{}, context.Cause(ctx)
	}
	if err != nil {
		err = leak.WithHint(fmt.Errorf("download kube-apiserver %s: %w", w.Version, err),
			"--control-plane build compiles it; %s names the index of a mirror", IndexVariable)
	}
	return p, err
}

// root is the folder of downloads. Each release has a folder, which also names the index.
func (s Source) root() string { return filepath.Join(s.Cache, "envtest") }

func (s Source) folder(version string) string {
	return filepath.Join(s.root(), version+"-"+runtime.GOOS+"-"+runtime.GOARCH)
}

// originFile has the origin of the binaries in the same folder. It is written last.
const originFile = "origin"

// downloaded returns binaries of an earlier download, the newest release first.
func (s Source) downloaded(w Want) (Pair, bool) {
	releases := []string{w.Version}
	if w.Minor {
		folders, _ := filepath.Glob(s.folder(semver.MajorMinor(w.Version) + ".*")) // the pattern is well-formed
		for _, f := range folders {
			releases = append(releases, strings.TrimSuffix(filepath.Base(f), "-"+runtime.GOOS+"-"+runtime.GOARCH))
		}
		semver.Sort(releases[1:])
		slices.Reverse(releases[1:])
	}
	for _, version := range releases {
		dir := s.folder(version)
		p := pairIn(dir)
		origin, err := os.ReadFile(filepath.Join(dir, originFile))
		_, err1 := os.Stat(p.APIServer)
		_, err2 := os.Stat(p.Etcd)
		if p.Origin = string(origin); errors.Join(err, err1, err2) == nil {
			return p, true
		}
	}
	return Pair{}, false
}

// fetch downloads a release of envtest and verifies its checksum.
func (s Source) fetch(ctx context.Context, w Want) (Pair, error) {
	index, err := checkedIndex(s.Index)
	if err != nil {
		return Pair{}, err
	}
	client := &remote.HTTPClient{Log: logr.Discard(), IndexURL: index}
	limit := s.limit(indexTimeout)
	looking, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %s", limit))
	defer cancel()
	s.Progress.Status("looking for kube-apiserver %s at %s", w.Version, index)
	sets, err := client.ListVersions(looking)
	if err != nil {
		return Pair{}, causeOf(looking, err)
	}
	r, err := choose(sets, w)
	if err != nil {
		return Pair{}, fmt.Errorf("%s: %w", index, err)
	}
	version := r.version()
	dir := s.folder(version)
	if err := os.MkdirAll(s.root(), 0o700); err != nil {
		return Pair{}, err
	}
	unlock, err := upstream.Lock(ctx, dir+".lock", func() { s.Progress.Log("waiting for another leakrig that is downloading kube-apiserver %s", version) })
	if err != nil {
		return Pair{}, err
	}
	defer unlock()
	if p, ok := s.downloaded(Want{Version: version}); ok {
		return p, nil
	}
	work, err := os.MkdirTemp(s.root(), ".download-")
	if err != nil {
		return Pair{}, err
	}
	defer os.RemoveAll(work)
	start := time.Now()
	s.Progress.Log("downloading kube-apiserver %s and etcd, as listed at %s", version, index)
	archive, err := s.archive(ctx, client, r, filepath.Join(work, "archive.tar.gz"))
	if err != nil {
		return Pair{}, err
	}
	files := filepath.Join(work, "files")
	if err := unpack(archive, files); err != nil {
		return Pair{}, fmt.Errorf("unpack: %w", err)
	}
	if got, err := versionOf(ctx, filepath.Join(files, "kube-apiserver")); err != nil || got != version {
		return Pair{}, errors.Join(err, fmt.Errorf("the archive of %s has kube-apiserver %q", version, got))
	}
	origin := "downloaded, as listed at " + index
	if err := os.WriteFile(filepath.Join(files, originFile), []byte(origin), 0o600); err != nil {
		return Pair{}, err
	}
	if err := errors.Join(os.RemoveAll(dir), os.Rename(files, dir)); err != nil { // it was incomplete
		return Pair{}, err
	}
	s.Progress.Log("downloaded kube-apiserver %s and etcd in %s", version, time.Since(start).Round(time.Second))
	p := pairIn(dir)
	p.Origin = origin
	return p, nil
}

// limit returns how long something may take.
func (s Source) limit(d time.Duration) time.Duration {
	if s.scale > 0 {
		return time.Duration(s.scale * float64(d))
	}
	if s.Mode == Download {
		return time.Duration(patience * float64(d))
	}
	return d
}

// checkedIndex returns the URL of the index. Checksums are in the index, so its transport must be authentic.
func checkedIndex(index string) (string, error) {
	if index == "" {
		return remote.DefaultIndexURL, nil
	}
	u, err := url.Parse(index)
	if err == nil && u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())) {
		err = errors.New("the scheme must be https, or http on this machine")
	}
	if err != nil {
		return "", leak.WithHint(fmt.Errorf("index of control planes %q: %w", index, err), "correct %s", IndexVariable)
	}
	return index, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// release is an archive in the index.
type release struct {
	versions.Concrete
	platform versions.PlatformItem
}

func (r release) version() string { return "v" + r.String() }

// choose returns the release to download: the wanted version, or else the newest one that is accepted.
func choose(sets []versions.Set, w Want) (release, error) {
	here := versions.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH}
	var best *release
	elsewhere := false
	for _, set := range sets { // newest first
		r := release{Concrete: set.Version}
		if r.version() != w.Version && !(w.Minor && semver.MajorMinor(r.version()) == semver.MajorMinor(w.Version)) {
			continue
		}
		i := slices.IndexFunc(set.Platforms, func(p versions.PlatformItem) bool { return p.Platform == here })
		if i < 0 {
			elsewhere = true
			continue
		}
		if r.platform = set.Platforms[i]; r.version() == w.Version {
			return r, nil
		}
		if best == nil {
			best = &r
		}
	}
	switch {
	case best != nil:
		return *best, nil
	case elsewhere:
		return release{}, fmt.Errorf("no binaries for %s/%s", here.OS, here.Arch)
	case w.Minor:
		return release{}, fmt.Errorf("no release of %s", semver.MajorMinor(w.Version))
	}
	return release{}, errors.New("no such release")
}

// archive downloads the archive of a release into a file. It fails if the checksum differs from that of the index.
func (s Source) archive(ctx context.Context, client remote.Client, r release, file string) (string, error) {
	limit := s.limit(downloadTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not complete within %s", limit))
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	defer out.Close()
	w := &limited{to: out, left: maxArchive}
	go w.watch(ctx, s.limit(stallTimeout), stop, func(bytes int64) {
		s.Progress.Status("downloading kube-apiserver %s and etcd: %d MiB", r.version(), bytes>>20)
	})
	if err := client.GetVersion(ctx, r.Concrete, r.platform, w); err != nil {
		return "", causeOf(ctx, err)
	}
	return file, out.Close()
}

// causeOf returns why ctx ended, or err if it has not ended.
func causeOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// limited is a writer that accepts a limited number of bytes, and counts them.
type limited struct {
	to    io.Writer
	left  int64
	count atomic.Int64
}

func (l *limited) Write(p []byte) (int, error) {
	if l.left -= int64(len(p)); l.left < 0 {
		return 0, errors.New("the archive is too large")
	}
	n, err := l.to.Write(p)
	l.count.Add(int64(n))
	return n, err
}

// watch reports progress, and ends a download that transfers nothing for as long as limit.
func (l *limited) watch(ctx context.Context, limit time.Duration, stop context.CancelCauseFunc, report func(bytes int64)) {
	tick := time.NewTicker(min(time.Second, limit/4))
	defer tick.Stop()
	last, since := int64(0), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		switch now := l.count.Load(); {
		case now != last:
			last, since = now, time.Now()
			report(now)
		case time.Since(since) > limit:
			stop(fmt.Errorf("nothing was transferred for %s", limit))
			return
		}
	}
}

// unpack extracts kube-apiserver and etcd from an archive of envtest into a new folder.
func unpack(archive, dir string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	zipped, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	missing := []string{"kube-apiserver", "etcd"}
	for in := tar.NewReader(zipped); len(missing) > 0; {
		header, err := in.Next()
		if err == io.EOF {
			return fmt.Errorf("the archive has no %s", strings.Join(missing, " and no "))
		}
		if err != nil {
			return err
		}
		name := path.Base(header.Name)
		if header.Typeflag != tar.TypeReg || !slices.Contains(missing, name) {
			continue
		}
		if header.Size > maxBinary {
			return fmt.Errorf("%s is too large", name)
		}
		if err := extract(in, filepath.Join(dir, name)); err != nil {
			return err
		}
		missing = slices.DeleteFunc(missing, func(m string) bool { return m == name })
	}
	return nil
}

func extract(from io.Reader, file string) error {
	out, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o500)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, from)
	return errors.Join(err, out.Close())
}
