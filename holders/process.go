package holders

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leakrig/leakrig/holders/heapdump"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
	"github.com/leakrig/leakrig/leak/httpclient"
)

// dumpTimeout bounds one dump: its pause, its transfer and its analysis.
const dumpTimeout = 2 * time.Minute

// maxReason bounds the text of a process that refuses a dump, in bytes.
const maxReason = 200

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
	pause  time.Duration
	binary *Binary // nil without an executable that can be read
}

// Dump has a process dump its heap, and reads the dump while it arrives. Names come from the executable of a process on
// this machine, which is read only once if there is an earlier dump of the process, the baseline.
func Dump(ctx context.Context, t leak.Target, baseline leak.HeapDump) (leak.HeapDump, error) {
	ctx, cancel := context.WithTimeout(ctx, dumpTimeout)
	defer cancel()
	client := httpclient.New(t.Transport())
	client.Timeout = dumpTimeout
	defer client.CloseIdleConnections()
	resp, err := request(ctx, client, t.Pprof)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	rate, _ := strconv.Atoi(resp.Header.Get(heapdump.RateHeader)) // 0 is the default
	pause, _ := time.ParseDuration(resp.Header.Get(heapdump.PauseHeader))
	binary := executable(t, baseline)
	summary, err := Read(resp.Body, binary, Options{MemProfileRate: rate})
	if err != nil {
		return nil, err
	}
	return processDump{summary, pause, binary}, nil
}

// request asks for a dump at each address that may have the endpoint. The caller closes the body.
func request(ctx context.Context, client *http.Client, pprof string) (*http.Response, error) {
	addresses, err := endpoints(pprof)
	if err != nil {
		return nil, err
	}
	answer := ErrNoEndpoint
	for _, address := range addresses {
		resp, err := httpclient.Get(ctx, client, address, nil)
		switch {
		case err != nil:
			return nil, err
		case resp.StatusCode == http.StatusOK && resp.Header.Get(heapdump.PauseHeader) != "":
			return resp, nil
		case resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusNotFound:
			why, _ := io.ReadAll(io.LimitReader(resp.Body, maxReason))
			answer = fmt.Errorf("heap dump: %s: %s", resp.Status, strings.TrimSpace(display.Name(string(why))))
		}
		resp.Body.Close()
	}
	return nil, answer
}

// endpoints returns where a process may serve heap dumps: where the package registers itself, and in place of the
// heap profile if leakrig built it in.
func endpoints(pprof string) ([]string, error) {
	u, err := url.Parse(pprof)
	if err != nil {
		return nil, err
	}
	profiles := strings.TrimSuffix(u.Path, "/")
	root, ok := strings.CutSuffix(profiles, "/debug/pprof")
	if !ok {
		root = ""
	}
	var addresses []string
	u.Path, u.RawPath = root+heapdump.Path, ""
	addresses = append(addresses, u.String())
	u.Path, u.RawQuery = profiles+"/heap", heapdump.Parameter+"=1"
	return append(addresses, u.String()), nil
}

// executable returns the symbols of the process, those of its baseline if there is one. They are nil if its executable
// cannot be read: then globals have no names.
func executable(t leak.Target, baseline leak.HeapDump) *Binary {
	if d, ok := baseline.(processDump); ok {
		return d.binary
	}
	var file fs.File
	var err error
	switch {
	case t.Program != "":
		file, err = os.Open(t.Program)
	case t.Proc != nil:
		file, err = t.Proc.Open("exe")
	default:
		return nil
	}
	if err != nil {
		return nil
	}
	defer file.Close()
	r, ok := file.(io.ReaderAt)
	if !ok {
		return nil
	}
	b, err := OpenBinary(r)
	if err != nil {
		return nil
	}
	return b
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
		held := leak.Held{
			Stack: ids[siteKey(g.Frames)], Site: allocatedAt(g.Frames), Holder: g.Holder(), Path: g.Path,
			Bytes: g.Bytes, Objects: g.Objects, Sampled: g.Sampled, Share: g.Share,
		}
		if len(g.Holders) == 1 && g.More == 0 {
			switch only := g.Holders[0]; {
			case only.Kind == KindGoroutines:
				held.Goroutines = goroutinesOf(only, stacks)
			case only.Name == unnamedGlobal:
				held.Unnamed = true
			}
		}
		h.Growth = append(h.Growth, held)
	}
	for _, r := range d.Roots {
		if r.Holder.Kind == KindGoroutines {
			h.Goroutines = addRetained(h.Goroutines, leak.Retained{Stack: goroutinesOf(r.Holder, stacks), At: r.Holder.Name, Count: r.Holder.Count, Bytes: float64(r.Bytes)})
		}
	}
	return h
}

// addRetained adds what goroutines hold to those with the same stack in the record.
func addRetained(list []leak.Retained, one leak.Retained) []leak.Retained {
	if i := slices.IndexFunc(list, func(r leak.Retained) bool { return r.Stack == one.Stack && one.Stack != "" }); i >= 0 {
		list[i].Count += one.Count
		list[i].Bytes += one.Bytes
		return list
	}
	if len(list) == maxGoroutines {
		return list
	}
	return append(list, one)
}

var waits = regexp.MustCompile(`^(runtime|sync|time|internal/(runtime|sync|poll)[a-z/]*)\.`)

var closureName = regexp.MustCompile(`\.func\d+(\.\d+)*$`)

// goroutinesOf returns the ID of the stack of the record that goroutines of a dump have, "" if there is none. Stacks of
// goroutine dumps have a creator, and stacks of profiles do not.
func goroutinesOf(h Holder, stacks map[string]leak.Stack) string {
	wanted := shown(h.Stack)
	if len(wanted) == 0 {
		return ""
	}
	for _, creator := range []string{h.Creator, ""} {
		var found []string
		for id, stack := range stacks {
			of := ""
			if stack.Creator != nil {
				of = stack.Creator.Func
			}
			if stack.State != "" && of == creator && hasAll(stack.Frames, wanted) {
				found = append(found, id)
			}
		}
		switch len(found) {
		case 0:
		case 1:
			return found[0]
		default:
			return "" // they differ in inlined functions
		}
	}
	return ""
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

// shown returns the functions that the record has under the same name. The record omits functions that only wait. The name
// of a closure includes the function into which the compiler inlined it, and a dump does not have that one.
func shown(functions []string) []string {
	var kept []string
	for _, f := range functions {
		if !waits.MatchString(f) && !isWrapper(f) && !closureName.MatchString(f) {
			kept = append(kept, f)
		}
	}
	return kept
}
