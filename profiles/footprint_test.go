package profiles

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// Reading a subject leaves nothing of the rig in the groups: neither the handler nor the goroutine that
// net/http has beside it; and the subject's own handlers in flight keep theirs.
func TestOwnFootprint(t *testing.T) {
	const inFlight = 3
	release := make(chan struct{})
	mux := http.NewServeMux()
	mux.Handle("/debug/pprof/", itself())
	arrived := make(chan struct{}, inFlight)
	mux.HandleFunc("/hang", func(http.ResponseWriter, *http.Request) { arrived <- struct{}{}; <-release })
	s := serve(t, mux)
	defer close(release)
	base := strings.TrimSuffix(s.Pprof, "/debug/pprof")
	for range inFlight {
		go func() {
			if resp, err := http.Get(base + "/hang"); err == nil {
				resp.Body.Close()
			}
		}()
		<-arrived
	}
	eventually(t, func() string {
		r, err := (&Goroutine{DumpLimit: 1000}).read(t.Context(), s.Target)
		if err != nil {
			t.Fatal(err)
		}
		for name, g := range map[string]*groups{"dump": r.dump, "profile": r.profile} {
			handlers, watchers := int64(0), int64(0)
			for id, stack := range g.stacks {
				for _, f := range stack.Frames {
					if strings.Contains(f.Func, "TestOwnFootprint") && strings.HasSuffix(f.Func, "func1") {
						handlers += g.count[id].Count
					}
				}
				if watchesConnection(stack) {
					watchers += g.count[id].Count
				}
				if servesProfile(stack) {
					return fmt.Sprintf("%s: the handler is left in: %v", name, stack)
				}
			}
			if handlers != inFlight || watchers != inFlight {
				return fmt.Sprintf("%s: %d handlers in flight, %d watch their connections", name, handlers, watchers)
			}
		}
		return ""
	})
}

// A snapshot of 2,000 goroutines may cost the rig 50 ms: reading, parsing and grouping both forms.
func BenchmarkSnapshot(b *testing.B) {
	end := make(chan struct{})
	defer close(end)
	for range 2000 {
		go func() { <-end }()
	}
	dump := make([]byte, 16<<20)
	dump = dump[:runtime.Stack(dump, true)]
	proto := profileOf(b, "goroutine")
	for b.Loop() {
		if _, err := parseDump(dump); err != nil {
			b.Fatal(err)
		}
		p, err := parsePprof(proto)
		if err == nil {
			_, err = goroutineGroups(p)
		}
		if err != nil {
			b.Fatal(err)
		}
		if _, err := compress(dump); err != nil {
			b.Fatal(err)
		}
	}
	if perSnapshot := b.Elapsed() / time.Duration(b.N); perSnapshot > 50*time.Millisecond {
		b.Errorf("%v a snapshot", perSnapshot)
	}
}

// A few KiB may decompress to 64 MiB that decode to several GiB. They are refused before that.
func TestDecodingBomb(t *testing.T) {
	for name, message := range map[string][]byte{
		"empty samples":            {0x12, 0},
		"empty locations":          {0x22, 0},
		"empty strings":            {0x32, 0},
		"samples of many frames":   append([]byte{0x12, 0x80, 0x08, 0x0a, 0xfd, 0x07}, bytes.Repeat([]byte{1}, 1021)...),
		"locations of empty lines": append([]byte{0x22, 0x80, 0x08}, bytes.Repeat([]byte{0x22, 0}, 512)...),
	} {
		var small bytes.Buffer
		z, _ := gzip.NewWriterLevel(&small, gzip.BestSpeed)
		_, _ = z.Write(bytes.Repeat(message, maxProfile/len(message)-1))
		z.Close()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Parse(small.Bytes())
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), "would take more than 512 MiB") {
			t.Errorf("%s: %v", name, err)
		}
		// Reading 64 MiB doubles a buffer on the way.
		if used := after.TotalAlloc - before.TotalAlloc; used > 512<<20 {
			t.Errorf("%s: refusing %d KiB took %d MiB", name, small.Len()>>10, used>>20)
		}
	}
	// As text: 64 MiB of goroutines that are all different.
	text, w := io.Pipe()
	go func() {
		for i := range maxStacks + 1 {
			fmt.Fprintf(w, "goroutine %d [state%d]:\n\n", i+1, i)
		}
		w.Close()
	}()
	data, _ := io.ReadAll(text)
	if _, err := Parse(data); err == nil || !strings.Contains(err.Error(), "different stacks") {
		t.Errorf("text: %v", err)
	}
	// What is real passes: the profile of this process, and a thousand times its samples.
	p, err := parsePprof(profileOf(t, "goroutine"))
	if err != nil {
		t.Fatal(err)
	}
	p.Sample = slices.Repeat(p.Sample, 1000)
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	if _, err := Parse(b.Bytes()); err != nil {
		t.Errorf("real: %v", err)
	}
}
