// Package mirror serves an index of control planes with one release, as envtest's index does, for tests and measurements.
package mirror

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha512"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
)

// IndexPath is the path of the index.
const IndexPath = "/index.yaml"

// Mirror is a handler. Its zero fields have the values that fit.
type Mirror struct {
	// Version is the release, and Archive its archive.
	Version string
	Archive []byte
	// Platform and Sum are what the index says about the archive.
	Platform, Sum string
	// ServeIndex and ServeArchive stand in for the index and the archive.
	ServeIndex, ServeArchive http.HandlerFunc
}

func (m Mirror) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path != IndexPath && m.ServeArchive != nil:
		m.ServeArchive(w, r)
	case r.URL.Path != IndexPath:
		_, _ = w.Write(m.Archive)
	case m.ServeIndex != nil:
		m.ServeIndex(w, r)
	default:
		name := "envtest-" + m.Version + "-" + cmp.Or(m.Platform, runtime.GOOS+"-"+runtime.GOARCH) + ".tar.gz"
		sum := cmp.Or(m.Sum, fmt.Sprintf("%x", sha512.Sum512(m.Archive)))
		fmt.Fprintf(w, "releases:\n  %s:\n    %s:\n      hash: %s\n      selfLink: http://%s/%s\n", m.Version, name, sum, r.Host, name)
	}
}

// Pack returns an archive with the layout of envtest's.
func Pack(programs ...string) ([]byte, error) {
	var b bytes.Buffer
	zip, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	out := tar.NewWriter(zip)
	for _, program := range programs {
		data, err := os.ReadFile(program)
		if err != nil {
			return nil, err
		}
		name := filepath.Base(program)
		err = out.WriteHeader(&tar.Header{Name: "controller-tools/envtest/" + name, Mode: 0o755, Size: int64(len(data)), Typeflag: tar.TypeReg})
		if _, err2 := out.Write(data); err != nil || err2 != nil {
			return nil, errors.Join(err, err2)
		}
	}
	err = errors.Join(out.Close(), zip.Close())
	return b.Bytes(), err
}
