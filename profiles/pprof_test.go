package profiles

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/leakrig/leakrig/leak"
)

// TestUnpark checks that the wait state follows from the runtime's innermost frames, which are removed.
func TestUnpark(t *testing.T) {
	for _, c := range []struct{ name, frames, state, rest string }{
		{"a channel", "runtime.gopark runtime.chansend runtime.chansend1 main.f main.main", "chan send", "main.f main.main"},
		{"the network", "runtime.gopark runtime.netpollblock internal/poll.runtime_pollWait internal/poll.(*FD).Read", "IO wait", "internal/poll.runtime_pollWait internal/poll.(*FD).Read"},
		{"a mutex", "runtime.gopark runtime.semacquire1 internal/sync.runtime_SemacquireMutex main.f", "sync.Mutex.Lock", "internal/sync.runtime_SemacquireMutex main.f"},
		{"a descriptor that another goroutine writes to", "runtime.gopark runtime.semacquire1 internal/poll.runtime_Semacquire net.(*conn).Write", "semacquire", "internal/poll.runtime_Semacquire net.(*conn).Write"},
		{"runnable or running: unknown", "main.f main.main", "", "main.f main.main"},
		{"a wait further out is not this goroutine's state", "main.f time.Sleep", "", "main.f time.Sleep"},
		{"nothing but the runtime", "runtime.gopark runtime.bgsweep", "", "runtime.bgsweep"},
		{"nothing", "", "", ""},
	} {
		var frames []leak.Frame
		for _, f := range strings.Fields(c.frames) {
			frames = append(frames, leak.Frame{Func: f})
		}
		state, rest := unpark(frames)
		var got []string
		for _, f := range rest {
			got = append(got, f.Func)
		}
		if state != c.state || strings.Join(got, " ") != c.rest {
			t.Errorf("%s: %q at %q, want %q at %q", c.name, state, got, c.state, c.rest)
		}
	}
}

// encode writes a profile with one sample per value, or one without values.
func encode(t testing.TB, kind string, values ...int64) []byte {
	t.Helper()
	fn := &profile.Function{ID: 1, Name: "main.f", Filename: "/m.go"}
	location := &profile.Location{ID: 1, Line: []profile.Line{{Function: fn, Line: 3}, {Function: fn, Line: 4}}}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: kind, Unit: "count"}},
		Location:   []*profile.Location{location}, Function: []*profile.Function{fn},
	}
	for _, v := range values {
		p.Sample = append(p.Sample, &profile.Sample{Value: []int64{v}, Location: []*profile.Location{location}})
	}
	var b bytes.Buffer
	if err := p.WriteUncompressed(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestGoroutineGroups(t *testing.T) {
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"not gzipped, with an inlined call", encode(t, "goroutine", 3), "3 : main.f /m.go:3 < main.f"},
		{"samples that differ in their labels alone are one group", encode(t, "goroutine", 3, 4), "7 : main.f /m.go:3 < main.f"},
		{"no goroutine but leakrig's", encode(t, "goroutine"), ""},
		{"other values", encode(t, "contentions", 3), "error"},
		{"counts below zero, as in a difference of two profiles", encode(t, "goroutine", -3), "error"},
	} {
		got := "error"
		if p, err := parsePprof(c.data); err == nil {
			if g, err := goroutineGroups(p); err == nil {
				got = render(g)
			}
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// A profile cut anywhere is an error: its end holds the checksum.
func TestParsePprofTruncated(t *testing.T) {
	whole := profileOf(t, "goroutine")
	for n := range whole {
		if _, err := parsePprof(whole[:n]); err == nil {
			t.Fatalf("cut after %d of %d bytes, and accepted", n, len(whole))
		} else if leak.Hint(err) == "" {
			t.Fatalf("no hint with %v", err)
		}
	}
}

func FuzzPprof(f *testing.F) {
	for _, name := range []string{"goroutine", "heap"} {
		data := profileOf(f, name)
		f.Add(data)
		if raw, err := gunzip(data, maxProfile); err == nil {
			f.Add(raw)
		}
	}
	f.Add(encode(f, "goroutine", 1, 2))
	f.Add(encode(f, "goroutine", -1))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := parsePprof(data)
		if err != nil {
			return
		}
		if g, err := goroutineGroups(p); err == nil {
			checkGroups(t, g)
		}
		if g, err := heapGroups(p); err == nil {
			checkGroups(t, g)
		}
	})
}

func TestParseMemStats(t *testing.T) {
	figures := "# HeapAlloc = 123\n# HeapObjects = 7\n# Stack = 65536 / 98304\n"
	for _, c := range []struct{ name, text, want string }{
		{"as written", "heap profile: 1: 2 [3: 4] @ heap/1048576\n1: 2 [3: 4] @ 0x1\n#\t0x1\tmain.f+0x1\t/m.go:1\n\n# runtime.MemStats\n# Alloc = 9\n" + figures + "# NumGC = 3\n", "map[alloc:123 objects:7 stack:65536]"},
		{"cut off", figures[:len(figures)/2], "not a heap profile in text form: 1 of 3"},
		{"the binary form", "\x1f\x8b\x08", "0 of 3"},
		{"not a number", strings.Replace(figures, "123", "many", 1), "HeapAlloc: "},
		{"negative", strings.Replace(figures, "123", "-1", 1), "HeapAlloc: "},
		{"one endless line", strings.Repeat("x", 2<<20), "too long"},
	} {
		values, err := parseMemStats([]byte(c.text))
		got := fmt.Sprint(values)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func FuzzMemStats(f *testing.F) {
	f.Add(profileOf(f, "heap?debug=1"))
	f.Add([]byte("# HeapAlloc = 123\n# HeapObjects = 7\n# Stack = 65536 / 98304\n"))
	f.Add([]byte("# HeapAlloc = \n# HeapObjects = 99999999999999999999\n# Stack = / 1\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		values, err := parseMemStats(text)
		if err != nil {
			return
		}
		for name, v := range values {
			if !(v >= 0) {
				t.Errorf("%s is %v", name, v)
			}
		}
	})
}

// BenchmarkPprof decodes a profile of 2,000 goroutines with distinct stacks, the most expensive kind.
func BenchmarkPprof(b *testing.B) {
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "goroutine", Unit: "count"}}}
	for i := range 2000 {
		s := &profile.Sample{Value: []int64{1}}
		for depth := range 12 {
			id := uint64(i*12 + depth + 1)
			fn := &profile.Function{ID: id, Name: fmt.Sprintf("k8s.io/client-go/tools/cache.(*controller).step%d", id), Filename: "k8s.io/client-go@v0.34.4/tools/cache/controller.go"}
			location := &profile.Location{ID: id, Line: []profile.Line{{Function: fn, Line: int64(depth)}}}
			p.Function, p.Location, s.Location = append(p.Function, fn), append(p.Location, location), append(s.Location, location)
		}
		p.Sample = append(p.Sample, s)
	}
	var data bytes.Buffer
	if err := p.Write(&data); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		p, err := parsePprof(data.Bytes())
		if err != nil {
			b.Fatal(err)
		}
		if g, err := goroutineGroups(p); err != nil || g.total != 2000 {
			b.Fatal(err)
		}
	}
}
