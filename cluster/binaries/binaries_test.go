package binaries

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leakrig/leakrig/internal/mirror"
	"github.com/leakrig/leakrig/leak"
)

// progress keeps the lines that stay.
type progress struct {
	mu    sync.Mutex
	lines []string
}

func (p *progress) Log(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, fmt.Sprintf(format, args...))
}
func (p *progress) Status(string, ...any) {}

// archive returns an archive with programs that print a version.
func archive(t *testing.T, version string, names ...string) []byte {
	t.Helper()
	dir := t.TempDir()
	for i, name := range names {
		names[i] = filepath.Join(dir, name)
		if err := os.WriteFile(names[i], []byte("#!/bin/sh\necho Kubernetes "+version+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data, err := mirror.Pack(names...)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// start serves a mirror and returns the URL of its index.
func start(t *testing.T, m mirror.Mirror) string {
	t.Helper()
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	return server.URL + mirror.IndexPath
}

// TestDownload downloads from local mirrors, healthy and faulty. After a failure, the cache has no binaries.
func TestDownload(t *testing.T) {
	t.Setenv(assetsVariable, "")
	const version = "v1.34.1"
	good := archive(t, version, "etcd", "kube-apiserver", "kubectl")
	for _, row := range []struct {
		comment string
		mirror  mirror.Mirror
		want    Want
		failure string // "" if the download succeeds
	}{
		{"the exact release", mirror.Mirror{Version: version, Archive: good}, Want{Version: version}, ""},
		{"another release of the minor version", mirror.Mirror{Version: version, Archive: good}, Want{Version: "v1.34.4", Minor: true}, ""},
		{"only another release", mirror.Mirror{Version: version, Archive: good}, Want{Version: "v1.34.4"}, "no such release"},
		{"only another minor version", mirror.Mirror{Version: version, Archive: good}, Want{Version: "v1.33.0", Minor: true}, "no release of v1.33"},
		{"only another platform", mirror.Mirror{Version: version, Platform: "plan9-amd64", Archive: good}, Want{Version: version}, "no binaries for "},
		{"a wrong checksum", mirror.Mirror{Version: version, Archive: good, Sum: strings.Repeat("0", 128)}, Want{Version: version}, "checksum mismatch"},
		{"no checksum", mirror.Mirror{Version: version, Archive: good, Sum: `""`}, Want{Version: version}, "checksum mismatch"},
		{"a truncated archive", mirror.Mirror{Version: version, Archive: good, ServeArchive: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(good)))
			_, _ = w.Write(good[:len(good)/2])
		}}, Want{Version: version}, "unexpected EOF"},
		{"a shorter archive", mirror.Mirror{Version: version, Archive: good, ServeArchive: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(good[:len(good)/2])
		}}, Want{Version: version}, "checksum mismatch"},
		{"a redirect", mirror.Mirror{Version: version, Archive: good, ServeArchive: func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/elsewhere" {
				http.Redirect(w, r, "/elsewhere", http.StatusFound)
				return
			}
			_, _ = w.Write(good)
		}}, Want{Version: version}, ""},
		{"no archive", mirror.Mirror{Version: version, Archive: good, ServeArchive: func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }}, Want{Version: version}, "404"},
		{"no index", mirror.Mirror{ServeIndex: func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }}, Want{Version: version}, "404"},
		{"an index that is none", mirror.Mirror{ServeIndex: func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "[") }}, Want{Version: version}, "index"},
		{"an archive of another version", mirror.Mirror{Version: version, Archive: archive(t, "v1.30.0", "etcd", "kube-apiserver")}, Want{Version: version}, `"v1.30.0"`},
		{"an archive without etcd", mirror.Mirror{Version: version, Archive: archive(t, version, "kube-apiserver")}, Want{Version: version}, "no etcd"},
		{"an archive that is none", mirror.Mirror{Version: version, Archive: []byte("text")}, Want{Version: version}, "unpack"},
	} {
		t.Run(row.comment, func(t *testing.T) {
			s := Source{Mode: Download, Index: start(t, row.mirror), Cache: t.TempDir(), Progress: &progress{}}
			p, err := s.Get(t.Context(), row.want)
			if row.failure != "" {
				if err == nil || !strings.Contains(err.Error(), row.failure) || leak.Hint(err) == "" {
					t.Errorf("%v, hint %q", err, leak.Hint(err))
				}
				if left, err := filepath.Glob(filepath.Join(s.root(), "*", "*")); err != nil || len(left) > 0 {
					t.Errorf("left: %v %v", left, err)
				}
				return
			}
			if err != nil || !strings.Contains(p.Origin, s.Index) {
				t.Fatal(p, err)
			}
			if got, err := versionOf(t.Context(), p.APIServer); err != nil || got != version {
				t.Error(got, err)
			}
			if _, err := os.Stat(p.Etcd); err != nil {
				t.Error(err)
			}
			// The next run needs no mirror.
			s.Index = "http://127.0.0.1:1/"
			if again, err := s.Get(t.Context(), row.want); err != nil || again != p {
				t.Error(again, err)
			}
		})
	}
}

// TestDownloadSlow checks that slow mirrors end the download, and that Ctrl-C does.
func TestDownloadSlow(t *testing.T) {
	t.Parallel()
	data := archive(t, "v1.34.1", "etcd", "kube-apiserver")
	hang := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		_, _ = w.Write(data[:10])
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	stalled := start(t, mirror.Mirror{Version: "v1.34.1", Archive: data, ServeArchive: hang})
	silent := start(t, mirror.Mirror{ServeIndex: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }})
	for _, row := range []struct {
		comment, index, failure string
		within                  time.Duration
	}{
		{"an archive that stalls", stalled, "nothing was transferred", stallTimeout},
		{"an index that does not answer", silent, "no answer", indexTimeout},
	} {
		t.Run(row.comment, func(t *testing.T) {
			t.Parallel()
			s := Source{Mode: Auto, Index: row.index, Cache: t.TempDir(), Progress: &progress{}, scale: 0.1}
			begun := time.Now()
			if _, err := s.download(t.Context(), Want{Version: "v1.34.1"}); err == nil || !strings.Contains(err.Error(), row.failure) {
				t.Error(err)
			}
			if took := time.Since(begun); took > row.within {
				t.Errorf("after %s", took)
			}
		})
	}
	t.Run("interrupted", func(t *testing.T) {
		t.Parallel()
		reason := errors.New("interrupted")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(300*time.Millisecond, func() { cancel(reason) })
		s := Source{Mode: Auto, Index: stalled, Cache: t.TempDir(), Progress: &progress{}}
		if _, err := s.Get(ctx, Want{Version: "v1.34.1"}); !errors.Is(err, reason) {
			t.Error(err)
		}
		if left, err := filepath.Glob(filepath.Join(s.root(), ".download-*")); err != nil || len(left) > 0 {
			t.Errorf("left: %v %v", left, err)
		}
	})
}

// TestAuto checks the decision between download and build, which is logged in one line.
func TestAuto(t *testing.T) {
	t.Setenv(assetsVariable, "")
	t.Setenv("PATH", "/bin:/usr/bin") // without Go, so nothing is built
	index := start(t, mirror.Mirror{Version: "v1.34.1", Archive: archive(t, "v1.34.1", "etcd", "kube-apiserver")})
	for _, row := range []struct {
		comment string
		s       Source
		want    Want
		failure string // "" if the binaries are downloaded
		line    string
	}{
		{"a mirror that works", Source{Mode: Auto, Index: index}, Want{Version: "v1.34.1"}, "", "downloading kube-apiserver v1.34.1"},
		{"offline, without Go", Source{Mode: Auto, Index: "http://127.0.0.1:1/index.yaml"}, Want{Version: "v1.34.1"}, "cannot be downloaded, and cannot be built without Go", ""},
		{"build only", Source{Mode: Build, Index: index}, Want{Version: "v1.34.1"}, "go command is not on the PATH", ""},
		{"a scenario that observes kube-apiserver", Source{Mode: Auto, Index: index}, Want{Version: "v1.34.1", HeapDump: true}, "go command is not on the PATH", "downloaded ones serve no heap dumps"},
		{"a mirror without TLS on another machine", Source{Mode: Download, Index: "http://mirror.example/index.yaml"}, Want{Version: "v1.34.1"}, "the scheme must be https", ""},
	} {
		p := &progress{}
		row.s.Cache, row.s.Progress = t.TempDir(), p
		begun := time.Now()
		_, err := row.s.Get(t.Context(), row.want)
		if (err == nil) != (row.failure == "") || err != nil && (!strings.Contains(err.Error(), row.failure) || leak.Hint(err) == "") {
			t.Errorf("%s: %v, hint %q", row.comment, err, leak.Hint(err))
		}
		if took := time.Since(begun); took > indexTimeout {
			t.Errorf("%s: decided after %s", row.comment, took)
		}
		if all := strings.Join(p.lines, "\n"); !strings.Contains(all, row.line) {
			t.Errorf("%s: %s", row.comment, all)
		}
	}
}

// TestAutoOffline checks that auto explains in one line why it builds.
func TestAutoOffline(t *testing.T) {
	t.Setenv(assetsVariable, "")
	t.Setenv("GOMODCACHE", t.TempDir()) // the build ends at once
	t.Setenv("GOPROXY", "off")
	p := &progress{}
	s := Source{Mode: Auto, Index: "http://127.0.0.1:1/index.yaml", Cache: t.TempDir(), Progress: p}
	if _, err := s.Get(t.Context(), Want{Version: "v1.34.4"}); err == nil || !strings.Contains(err.Error(), "build kube-apiserver v1.34.4") {
		t.Error(err)
	}
	if len(p.lines) == 0 || !strings.HasPrefix(p.lines[0], "building kube-apiserver v1.34.4 and etcd from upstream modules: download") || !strings.Contains(p.lines[0], "connection refused") || strings.Contains(p.lines[0], "\n") {
		t.Errorf("%q", p.lines)
	}
}

// TestAssets checks that KUBEBUILDER_ASSETS is used if it has the wanted version.
func TestAssets(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "kube-apiserver"), []byte("#!/bin/sh\necho Kubernetes v1.34.1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv(assetsVariable, dir)
	s := Source{Mode: Download, Index: "http://127.0.0.1:1/index.yaml", Cache: t.TempDir(), Progress: &progress{}}
	if p, err := s.Get(t.Context(), Want{Version: "v1.34.1"}); err != nil || p.Origin != assetsVariable {
		t.Error(p, err)
	}
	if _, err := s.Get(t.Context(), Want{Version: "v1.34.2"}); err == nil {
		t.Error("another version was used")
	}
}
