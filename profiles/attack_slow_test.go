//go:build slow && linux

package profiles

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// peakMemory is the limit of leakrig's memory for any subject.
const peakMemory = 600 << 20

// victim is set in the process that reads the hostile subject. Its value is the kind of reading, followed by the
// address.
const victim = "LEAKRIG_TEST_VICTIM"

// TestAttackVictim is the process whose memory is measured. It reads a subject as a run does, with the limit that
// leakrig sets itself.
func TestAttackVictim(t *testing.T) {
	what, url, ok := strings.Cut(os.Getenv(victim), " ")
	if !ok {
		t.Skip("only as a separate process")
	}
	leak.LimitMemory()
	target := leak.Target{URL: url, Pprof: url, Transport: func() http.RoundTripper { return &http.Transport{} }}
	var err error
	switch what {
	case "sweep":
		sweep := NewSweep("k")
		var wg sync.WaitGroup
		errs := make([]error, 64)
		polls := make([]leak.Poll, len(errs))
		work := make(chan int)
		for range 32 { // as many as a fleet is read at once by default; their polls wait to be counted
			wg.Go(func() {
				for i := range work {
					polls[i%32], errs[i] = sweep.Poll(t.Context(), target, leak.Poll{})
					if _, err := Vitals(t.Context(), target); errs[i] == nil {
						errs[i] = err
					}
				}
			})
		}
		for i := range errs {
			work <- i
		}
		close(work)
		wg.Wait()
		runtime.KeepAlive(polls)
		err = errs[0]
	case "replicas":
		var wg sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			wg.Go(func() { errs[i] = sampleAll(t.Context(), target) })
		}
		wg.Wait()
		err = errs[0]
	default:
		err = sampleAll(t.Context(), target)
	}
	status, _ := os.ReadFile("/proc/self/status")
	fmt.Printf("told: %v\npeak: %s\n", err, between(string(status), "VmHWM:", "kB"))
}

// sampleAll takes what a run takes of a subject: goroutines a few times while it settles, then all.
func sampleAll(ctx context.Context, target leak.Target) error {
	goroutine := &Goroutine{DumpLimit: 1 << 30}
	_, err1 := goroutine.Poll(ctx, target, leak.Poll{})
	_, err2 := goroutine.Sample(ctx, target)
	_, err3 := (&Heap{}).Sample(ctx, target)
	_, err4 := (&Leaked{}).Sample(ctx, target)
	_, err5 := (Identity{}).Mark(ctx, target)
	return cmp.Or(err1, err2, err3, err4, err5)
}

// hostile is what a subject serves under each path.
type hostile map[string][]byte

func (h hostile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if r.URL.Query().Has("debug") {
		path += "?debug"
	}
	body, ok := h[path]
	if !ok {
		body = h["*"]
	}
	_, _ = w.Write(body)
}

// worst returns the largest number of a shape that is still decoded, or that fits into a profile.
func worst(t testing.TB, name string) []byte {
	const n = 10_000
	data := shapes(n)[name]
	size, err := estimate(data, 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	by := min(float64(maxDecoded)/float64(size), float64(maxProfile-1<<20)/float64(len(data)))
	return shapes(int(0.97 * by * n))[name]
}

// attack is a hostile subject: what of leakrig reads it, and what the error says, "" where it may be any.
type attack struct {
	name, what, told string
	serve            func() hostile
}

// TestAttackMemory checks that leakrig stays below 600 MiB for any subject: each repeatable field of a profile at the
// limit of decoding and at the limit of size, and each line of a dump.
func TestAttackMemory(t *testing.T) {
	one := join(header0(), numbered(5, 1, number(2, 1)), numbered(4, 1, message(4, number(1, 1))))
	long := func(functions []byte) []byte {
		return join(message(6, nil), message(6, []byte("goroutine")), message(6, bytes.Repeat([]byte("x"), 60<<20)), message(1, number(1, 1)),
			functions, numbered(4, 1, message(4, number(1, 1))), message(2, join(number(1, 1), number(2, 1))))
	}
	deep := join(header0(), numbered(5, 1, nil), numbered(4, 1, bytes.Repeat(message(4, number(1, 1)), 4000)))
	all := func(profile []byte) hostile { return hostile{"*": zipped(t, profile)} }
	dump := func(text []byte) hostile {
		return hostile{"*": zipped(t, join(one, message(2, join(number(1, 1), number(2, 1))))), "/goroutine?debug": text}
	}
	attacks := []attack{
		{"15 million empty labels", "run", "more than 192 MiB", func() hostile {
			return all(join(one, message(2, join(message(2, []byte{1}), fill(message(3, nil))))))
		}},
		{"a packed comment field", "run", "more than 192 MiB", func() hostile { return all(join(one, message(13, make([]byte, whole)))) }},
		{"a name of 60 MB", "run", "", func() hostile { return all(long(numbered(5, 1, number(2, 2)))) }},
		{"1000 functions of a name of 60 MB", "run", "", func() hostile { return all(long(numbered(5, 1000, join(number(2, 2), number(4, 2))))) }},
		{"60000 stacks", "run", "different stacks", func() hostile { return all(join(header0(), named(1000, 20), lines(1000), pairs(60_000))) }},
		{"names of 4 KiB in 20000 stacks", "run", "", func() hostile { return all(join(header0(), named(1000, 3900), lines(1000), pairs(20_000))) }},
		{"4000 inlined calls in 300000 samples", "run", "MiB of names", func() hostile {
			return all(join(deep, bytes.Repeat(message(2, join(number(1, 1), number(2, 1))), 300_000)))
		}},
		{"4000 inlined calls, 4000 deep", "run", "more than 4096 calls", func() hostile {
			return all(join(deep, message(2, join(message(1, bytes.Repeat([]byte{1}, 4000)), number(2, 1)))))
		}},
		{"300 MiB that are not zipped", "run", "larger than 16 MiB", func() hostile { return hostile{"*": make([]byte, 300<<20)} }},
		{"a goroutine with 63 MiB of frames", "run", "more than 4096 calls", func() hostile { return dump(append([]byte("goroutine 1 [x]:\n"), fill([]byte("a()\n"))...)) }},
		{"a line of 63 MiB", "run", "", func() hostile {
			return dump(append(append([]byte("goroutine 1 [x]:\n"), fill([]byte("a"))...), "()\n\t/x:1\n"...))
		}},
		{"a wait state of 63 MiB", "run", "", func() hostile { return dump(append(append([]byte("goroutine 1 ["), fill([]byte("a"))...), "]:\n"...)) }},
		{"millions of names", "run", "more than 192 MiB", func() hostile { return dump(manyNames()) }},
		{"millions of goroutines", "run", "", func() hostile { return dump(manyGoroutines()) }},
		{"a heap profile of one endless line", "run", "too long", func() hostile {
			small := zipped(t, join(one, message(2, join(number(1, 1), number(2, 1)))))
			return hostile{"*": small, "/goroutine?debug": []byte("goroutine 1 [x]:\n"), "/heap?debug": fill([]byte("# HeapAlloc = 1 "))}
		}},
		{"64 targets of 4 MiB of labels", "sweep", "more than 64 MiB", func() hostile {
			return all(join(one, message(2, join(message(2, []byte{1}), bytes.Repeat(message(3, nil), 2<<20-1024)))))
		}},
		{"64 targets of 64 MiB of counters", "sweep", "", func() hostile {
			small := zipped(t, join(one, message(2, join(number(1, 1), number(2, 1)))))
			return hostile{"*": small, "/heap?debug": fill([]byte("# PauseEnd = [1 2 3]\n"))}
		}},
		{"64 targets of 40000 stacks", "sweep", "", func() hostile { return all(join(header0(), named(1000, 3000), lines(1000), pairs(40_000))) }},
		{"8 replicas with the maximum of decoded labels", "replicas", "", func() hostile {
			return hostile{"*": zipped(t, worst(t, "labels")), "/goroutine?debug": manyGoroutines()}
		}},
	}
	for _, shape := range slices.Sorted(maps.Keys(shapes(1))) {
		attacks = append(attacks, attack{"the maximum that is decoded: " + shape, "run", "", func() hostile { return all(worst(t, shape)) }})
	}
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			s := serve(t, a.serve())
			cmd := exec.Command(os.Args[0], "-test.run=^TestAttackVictim$", "-test.v")
			cmd.Env = append(os.Environ(), victim+"="+a.what+" "+s.URL)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%.2000s", err, out)
			}
			var peak int
			if _, err := fmt.Sscanf(between(string(out), "peak: ", "\n"), "%d", &peak); err != nil {
				t.Fatalf("%v: %.2000s", err, out)
			}
			told := between(string(out), "told: ", "\n")
			t.Logf("%d MiB in %s: %.200s", peak>>10, cmd.ProcessState.UserTime(), told)
			if told == "" || !strings.Contains(told, a.told) || len(told) > 10<<10 {
				t.Errorf("%q is not in %d bytes, %.2000q", a.told, len(told), told)
			}
			if peak<<10 > peakMemory {
				t.Errorf("%d MiB of memory", peak>>10)
			}
		})
	}
}

func between(s, from, to string) string {
	_, s, _ = strings.Cut(s, from)
	s, _, _ = strings.Cut(s, to)
	return s
}

// whole is nearly as much as a profile decompresses to.
const whole = maxProfile - 1<<20

func fill(unit []byte) []byte { return bytes.Repeat(unit, whole/len(unit)) }

// pairs returns n samples of distinct pairs of 1000 locations.
func pairs(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		b.Write(message(2, join(number(1, uint64(i%1000)+1), number(1, uint64(i/1000)+1), number(2, 1))))
	}
	return b.Bytes()
}

func manyNames() []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < whole; i++ {
		if i%100 == 0 {
			fmt.Fprintf(&b, "\n\ngoroutine %d [x]:\n", i+1)
		}
		fmt.Fprintf(&b, "f%d()\n\t/g%d:1\n", i, i)
	}
	return bytes.TrimSpace(b.Bytes())
}

func manyGoroutines() []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < whole; i++ {
		fmt.Fprintf(&b, "goroutine %d [x]:\n\n", 2*i+1)
	}
	return b.Bytes()
}

// named returns n functions with distinct names of long bytes. Their strings are numbered from 4.
func named(n, long int) []byte {
	var b bytes.Buffer
	for i := range n {
		b.Write(message(6, fmt.Appendf(nil, "m%0*d", long, i)))
	}
	for i := range n {
		b.Write(message(5, join(number(1, uint64(i)+1), number(2, uint64(i)+4))))
	}
	return b.Bytes()
}

// lines are n locations, each with a line of the function of the same number.
func lines(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		b.Write(message(4, join(number(1, uint64(i)+1), message(4, number(1, uint64(i)+1)))))
	}
	return b.Bytes()
}
