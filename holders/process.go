package holders

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/leakrig/leakrig/holders/heapdump"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/httpclient"
)

// dumpTimeout bounds one dump: its pause, its transfer and its analysis.
const dumpTimeout = 2 * time.Minute

// Most holders and groups of goroutines that a record keeps.
const (
	maxGrowth     = 200
	maxGoroutines = 50
)

// ErrNoEndpoint is the error of Dump if the process does not serve heap dumps.
var ErrNoEndpoint = leak.WithHint(errors.New("the process serves no heap dumps"),
	"import _ \"github.com/leakrig/leakrig/holders/heapdump\" next to net/http/pprof")

// processDump is the dump of a running process.
type processDump struct {
	*Summary
	pause time.Duration
}

// Dump has a process dump its heap, and reads the dump while it arrives. Names come from the executable of a process on
// this machine.
func Dump(ctx context.Context, t leak.Target) (leak.HeapDump, error) {
	ctx, cancel := context.WithTimeout(ctx, dumpTimeout)
	defer cancel()
	address, err := endpoint(t.Pprof)
	if err != nil {
		return nil, err
	}
	client := httpclient.New(t.Transport())
	client.Timeout = dumpTimeout
	defer client.CloseIdleConnections()
	resp, err := httpclient.Get(ctx, client, address, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return nil, ErrNoEndpoint
	default:
		return nil, fmt.Errorf("heap dump: %s", resp.Status)
	}
	rate, _ := strconv.Atoi(resp.Header.Get(heapdump.RateHeader)) // 0 is the default
	pause, _ := time.ParseDuration(resp.Header.Get(heapdump.PauseHeader))
	binary, release := executable(t)
	defer release()
	summary, err := Read(resp.Body, binary, Options{MemProfileRate: rate})
	if err != nil {
		return nil, err
	}
	return processDump{summary, pause}, nil
}

// endpoint returns the address of the heap dump next to that of pprof.
func endpoint(pprof string) (string, error) {
	u, err := url.Parse(pprof)
	if err != nil {
		return "", err
	}
	base, _ := strings.CutSuffix(strings.TrimSuffix(u.Path, "/"), "/debug/pprof")
	if base == u.Path {
		base = ""
	}
	u.Path, u.RawPath = base+heapdump.Path, ""
	return u.String(), nil
}

// executable returns the symbols of the process until release. They are nil if its executable cannot be read: then globals
// have no names.
func executable(t leak.Target) (b *Binary, release func()) {
	release = func() {}
	if t.Proc == nil {
		return nil, release
	}
	file, err := t.Proc.Open("exe")
	if err != nil {
		return nil, release
	}
	if r, ok := file.(io.ReaderAt); ok {
		if b, err = OpenBinary(r); err == nil {
			return b, func() { file.Close() }
		}
	}
	file.Close()
	return nil, release
}

// Since returns who holds what grew since the baseline.
func (d processDump) Since(baseline leak.HeapDump, stacks map[string]leak.Stack) *leak.Holders {
	base, ok := baseline.(processDump)
	if !ok {
		return &leak.Holders{Problem: "there is no dump of the baseline"}
	}
	h := &leak.Holders{Pauses: []float64{base.pause.Seconds(), d.pause.Seconds()}}
	ids := map[string]string{} // allocation stacks of the record by their site in the dump
	for id, stack := range stacks {
		if site := d.Site(stack); site != nil {
			ids[siteKey(site.Frames)] = id
		}
	}
	for _, g := range Compare(base.Summary, d.Summary) {
		if len(h.Growth) == maxGrowth {
			break
		}
		h.Growth = append(h.Growth, leak.Held{
			Stack: ids[siteKey(g.Frames)], Site: allocatedAt(g.Frames), Holder: g.Holder(), Path: g.Path,
			Bytes: g.Bytes, Objects: g.Objects, Sampled: g.Sampled, Share: g.Share,
		})
	}
	for _, r := range d.Roots {
		if r.Holder.Kind == KindGoroutines && len(h.Goroutines) < maxGoroutines {
			h.Goroutines = append(h.Goroutines, leak.Retained{Stack: goroutinesOf(r.Holder, stacks), At: r.Holder.Name, Count: r.Holder.Count, Bytes: float64(r.Bytes)})
		}
	}
	return h
}

// goroutinesOf returns the ID of the stack of the record that goroutines of a dump stand on, "" if there is none.
func goroutinesOf(h Holder, stacks map[string]leak.Stack) string {
	wanted := withoutRuntime(h.Stack)
	found := ""
	for id, stack := range stacks {
		if stack.State == "" || len(wanted) == 0 || !hasAll(stack.Frames, wanted) {
			continue
		}
		if found != "" {
			return "" // two stacks that differ in inlined functions: which one is unknown
		}
		found = id
	}
	return found
}

// hasAll reports whether a stack has all functions, in order. Stacks of profiles have inlined functions in addition.
func hasAll(frames []leak.Frame, functions []string) bool {
	for _, f := range frames {
		if len(functions) > 0 && f.Func == functions[0] {
			functions = functions[1:]
		}
	}
	return len(functions) == 0
}

func withoutRuntime(functions []string) []string {
	var kept []string
	for _, f := range functions {
		if !strings.HasPrefix(f, "runtime.") && !strings.HasPrefix(f, "internal/runtime/") {
			kept = append(kept, f)
		}
	}
	return kept
}
