package holders

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"testing"
	"testing/iotest"

	"github.com/leakrig/leakrig/holders/heapdump"
)

// dumpSelf returns a heap dump of this test.
func dumpSelf(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := heapdump.Write(&b); err != nil {
		t.Skip(err)
	}
	return b.Bytes()
}

func selfBinary(t testing.TB) *Binary {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	b, err := OpenBinary(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

type planted struct {
	next *planted
	_    [1000]byte
}

var plantedList *planted

func TestGraphOfThisProcess(t *testing.T) {
	defer func() { plantedList = nil }()
	for range 1000 {
		plantedList = &planted{next: plantedList}
	}
	raw := dumpSelf(t)
	d, err := parse(iotest.OneByteReader(bytes.NewReader(raw)), selfBinary(t))
	if err != nil {
		t.Fatal(err)
	}
	g, err := newGraph(d)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d objects, %d edges, %d roots, %d reached", g.objects, len(g.targets), len(g.roots), len(g.order))
	// go test removes the symbols, so all globals are one root.
	for i := range g.roots {
		if got := g.retained[g.objects+i] * wordSize; g.roots[i].kind == rootStatic && got > 1000*1024 && got < 1500*1024 {
			return
		}
	}
	t.Error("no global variable retains 1000 KiB")
}

// TestCutDumps checks that a dump that ends early is an error.
func TestCutDumps(t *testing.T) {
	raw := dumpSelf(t)
	for i := 1; i < 40; i++ {
		cut := raw[:len(raw)*i/40]
		if _, err := parse(bytes.NewReader(cut), nil); err == nil {
			t.Errorf("no error for the first %d of %d bytes", len(cut), len(raw))
		}
	}
	if _, err := parse(bytes.NewReader([]byte("go1.6 heap dump\nxx")), nil); err == nil {
		t.Error("no error for another header")
	}
}

// dumpOf returns a dump with the parameters of a heap at 1 MiB, and records.
func dumpOf(size uint64, records ...any) []byte {
	out := []byte(header)
	number := func(v uint64) {
		for ; v >= 0x80; v >>= 7 {
			out = append(out, byte(v)|0x80)
		}
		out = append(out, byte(v))
	}
	all := append([]any{tagParams, 0, 8, 1 << 20, 1<<20 + int(size), "amd64", "go1.26", 1}, records...)
	for _, r := range all {
		switch r := r.(type) {
		case int:
			number(uint64(r))
		case string:
			number(uint64(len(r)))
			out = append(out, r...)
		}
	}
	return out
}

func TestBadDumps(t *testing.T) {
	word := "\x08\x00\x10\x00\x00\x00\x00\x00" // points to the second word of the heap
	for name, c := range map[string]struct {
		dump []byte
		ok   bool
	}{
		"one object":                    {dumpOf(1<<20, tagObject, 1<<20, word+word, 1, 0, 1, 8, 0, tagEOF), true},
		"a pointer outside its object":  {dumpOf(1<<20, tagObject, 1<<20, word+word, 1, 16, 0, tagEOF), false},
		"fields out of order":           {dumpOf(1<<20, tagObject, 1<<20, word+word+word, 1, 8, 1, 0, 0, tagEOF), false},
		"an object outside the heap":    {dumpOf(1<<20, tagObject, 1<<19, word+word, 0, tagEOF), false},
		"objects that overlap":          {dumpOf(1<<20, tagObject, 1<<20, word+word, 0, tagObject, 1<<20+8, word+word+word, 0, tagEOF), false},
		"a frame without its goroutine": {dumpOf(1<<20, tagStackFrame, 0, 0, 0, word, 0, 0, 0, "f", 0, tagEOF), false},
		"an unknown record":             {dumpOf(1<<20, 99), false},
		"a heap of 1 TiB":               {dumpOf(1<<40, tagEOF), false},
		"a name of 1 GiB":               {append(dumpOf(1<<20, tagOtherRoot), 0x80, 0x80, 0x80, 0x80, 4), false},
	} {
		d, err := parse(bytes.NewReader(c.dump), nil)
		if err == nil {
			_, err = newGraph(d)
		}
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	var limit *LimitError
	if _, err := parse(bytes.NewReader(dumpOf(1<<40, tagEOF)), nil); !errors.As(err, &limit) {
		t.Errorf("a heap of 1 TiB: %v, want a limit", err)
	}
}

// FuzzParse starts from the smallest dump that the runtime writes here, and from small made ones.
func FuzzParse(f *testing.F) {
	runtime.GC()
	f.Add(dumpSelf(f)[:64<<10])
	word := "\x08\x00\x10\x00\x00\x00\x00\x00"
	f.Add(dumpOf(1<<20, tagObject, 1<<20, word+word, 1, 0, 1, 8, 0, tagEOF))
	f.Add(dumpOf(1<<20, tagObject, 1<<20, word+word, 1, 0, 0, tagGoroutine, 1, 2, 3, 4, 5, 0, 0, 0, "select", 0, 0, 0, 0,
		tagStackFrame, 1, 0, 0, word+word, 7, 8, 9, "main.f", 1, 8, 0, tagDefer, 1, 2, 3, 4, 5, 6, 7,
		tagData, 4096, word, 1, 0, 0, tagFinalizer, 1<<20, 1<<20, 3, 4, 5,
		tagMemProf, 7, 16, 1, "main.f", "main.go", 12, 1, 0, tagAllocSample, 1<<20, 7, tagEOF))
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, err := parse(bytes.NewReader(raw), nil)
		if err == nil {
			_, _ = newGraph(d)
		}
	})
}
