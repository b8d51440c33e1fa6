package profiles

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/httpclient"
)

// maxBody limits a response as transferred, maxProfile a decompressed profile. google/pprof needs many times as much
// memory to decode it.
const (
	maxBody    = 64 << 20
	maxProfile = 64 << 20
)

// dumpEnd is where runtime/pprof cuts a text dump off, without a word.
const dumpEnd = 64 << 20

// fetchTimeout bounds one request: a deadlocked subject must not hang leakrig.
const fetchTimeout = 30 * time.Second

// ErrNotServed is in the error of a profile that the subject does not serve.
var ErrNotServed = errNotServed

// errNotServed is a 404: the subject does not have this profile.
var errNotServed = errors.New("not served (404)")

// fetch reads one pprof path over a separate connection, and closes the connection: an open one would be a goroutine of
// the subject.
func fetch(ctx context.Context, t leak.Target, path string) ([]byte, error) {
	return fetchAtMost(ctx, t, path, maxBody)
}

// fetchAtMost is fetch for a body of at most limit bytes.
func fetchAtMost(ctx context.Context, t leak.Target, path string, limit int64) (data []byte, err error) {
	err = get(ctx, t, path, func(ctx context.Context, body io.Reader) error {
		data, err = readBounded(ctx, body, limit)
		return err
	})
	return data, err
}

// get hands the body of one pprof path to read.
func get(ctx context.Context, t leak.Target, path string, read func(context.Context, io.Reader) error) error {
	if t.Transport == nil {
		return errors.New("the subject serves no pprof")
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	client := httpclient.New(t.Transport())
	defer client.CloseIdleConnections()
	// Measure the body as served; transparent decompression would hide its size.
	resp, err := httpclient.Get(ctx, client, t.Pprof+path, http.Header{"Accept-Encoding": {"identity"}})
	if err != nil {
		return late(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotFound {
		return pprofHint(fmt.Errorf("GET %s: %w", t.Pprof+path, errNotServed))
	}
	if resp.StatusCode != http.StatusOK {
		return pprofHint(fmt.Errorf("GET %s: status %s", t.Pprof+path, resp.Status))
	}
	if err := read(ctx, resp.Body); err != nil {
		return late(fmt.Errorf("GET %s: %w", t.Pprof+path, err))
	}
	return nil
}

// late adds a hint to the error of a subject that did not answer in time.
func late(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return leak.WithHint(err, "it did not answer for %s: is the subject stopped, out of CPU or too large to be profiled? subject.log has its last words", fetchTimeout)
	}
	return err
}

func pprofHint(err error) error {
	return leak.WithHint(err, "does the subject serve net/http/pprof there? subject.pprof in the scenario changes the path")
}
