package profiles

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

const dumpBefore = `goroutine 1 [select]:
main.run.func1()
	/src/main.go:10 +0x1
created by main.run in goroutine 1
	/src/main.go:9 +0x1

goroutine 2 [chan send, 3 minutes]:
main.leak()
	/src/main.go:20 +0x1

goroutine 3 [chan receive]:
main.gone()
	/src/main.go:30 +0x1
`

// Another build of the program: another line, another number of the closure, one more leaked goroutine, one less of
// another.
const dumpAfter = `goroutine 11 [select]:
main.run.func2()
	/src/main.go:14 +0x1
created by main.run in goroutine 1
	/src/main.go:9 +0x1

goroutine 12 [chan send, 9 minutes]:
main.leak()
	/src/main.go:25 +0x1

goroutine 13 [chan send, 4 minutes]:
main.leak()
	/src/main.go:25 +0x1
`

func parsed(t *testing.T, data []byte) *Profile {
	t.Helper()
	p, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestDiffAcrossBuilds(t *testing.T) {
	d, err := Diff(parsed(t, []byte(dumpBefore)), parsed(t, []byte(dumpAfter)))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range d.Stacks {
		got = append(got, fmt.Sprintf("%s %d→%d %dm", s.Stack, s.From, s.To, s.OldestMinutes))
	}
	if want := "chan send at main.leak 1→2 9m, chan receive at main.gone 1→0 0m"; strings.Join(got, ", ") != want || d.Same != 1 || d.From != 3 || d.To != 3 {
		t.Errorf("%v, %+v", got, d)
	}
	// Within one build two closures are two stacks, though their key is the same.
	two := strings.Replace(dumpBefore, "main.gone()\n\t/src/main.go:30", "main.run.func7()\n\t/src/main.go:77", 1)
	two = strings.Replace(two, "chan receive", "select", 1)
	one := strings.Replace(two, "main.run.func7", "main.run.func1", 1)
	if d, err = Diff(parsed(t, []byte(two)), parsed(t, []byte(two))); err != nil || d.Same != 3 || len(d.Stacks) != 0 {
		t.Errorf("a dump and itself: %+v, %v", d, err)
	}
	if d, err = Diff(parsed(t, []byte(one)), parsed(t, []byte(two))); err != nil || d.From != 3 || d.To != 3 {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestDiffAddsUp checks that the parts add up to the totals for any input.
func TestDiffAddsUp(t *testing.T) {
	plants(t)
	before := parsed(t, profileOf(t, "heap"))
	kept := plantHeap()
	after := parsed(t, profileOf(t, "heap"))
	d, err := Diff(before, after)
	if err != nil {
		t.Fatal(err)
	}
	sum := int64(0)
	for i, s := range d.Stacks {
		sum += s.To - s.From
		if i > 0 && s.To-s.From > d.Stacks[i-1].To-d.Stacks[i-1].From {
			t.Errorf("not in order: %+v", s)
		}
	}
	if sum != d.To-d.From || d.Unit != "bytes" || after.Rate <= 0 || len(kept) != blocks {
		t.Errorf("stacks grew by %d, the totals by %d", sum, d.To-d.From)
	}
}

func TestDiffRefuses(t *testing.T) {
	dump, heap, goroutines := parsed(t, []byte(dumpBefore)), parsed(t, profileOf(t, "heap")), parsed(t, profileOf(t, "goroutine"))
	for _, pair := range [][2]*Profile{{dump, heap}, {heap, goroutines}, {goroutines, dump}} {
		if _, err := Diff(pair[0], pair[1]); err == nil || leak.Hint(err) == "" {
			t.Errorf("%s and %s: %v", pair[0].Source, pair[1].Source, err)
		}
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"debug=1":       {[]byte("goroutine profile: total 3\n1 @ 0x1\n"), "text form (debug=1)"},
		"heap, debug=1": {[]byte("heap profile: 1: 2 [3: 4] @ heap/1048576\n"), "text form (debug=1)"},
		"a CPU profile": {cpuProfile(t), "neither a goroutine nor a heap profile"},
		"nothing":       {nil, "not a pprof profile"},
		"garbage":       {[]byte("<html>"), "not a pprof profile"},
	} {
		if _, err := Parse(c.data); err == nil || !strings.Contains(err.Error(), c.want) || leak.Hint(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "nosuch")); err == nil {
		t.Error("a file that is not there")
	}
}

// One program, built with and without inlining: closures of inlined functions get other names, and the
// stacks are the same.
func TestKeyAcrossBuilds(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program twice")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":     "module example.org/app\n\ngo 1.26\n",
		"lib/lib.go": "package lib\n\nfunc Send(c chan int) func() { return func() { c <- 1 } }\n\nfunc Each[K any](k K, c chan K) func() { return func() { c <- k } }\n",
		"main.go": `package main

import (
	"os"
	"runtime/pprof"
	"time"

	"example.org/app/lib"
)

type T struct{ c chan int }

func (t *T) wait()                 { <-t.c }
func local(c chan int) func()      { return func() { <-c } }
func wrapped(c chan int, n int)    { c <- n }

func main() {
	go lib.Send(make(chan int))()
	go lib.Each("x", make(chan string))()
	go local(make(chan int))()
	go (&T{make(chan int)}).wait()
	go wrapped(make(chan int), 3)
	time.Sleep(200 * time.Millisecond)
	_ = pprof.Lookup("goroutine").WriteTo(os.Stdout, 2)
}
`,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(flags ...string) *Profile {
		cmd := exec.Command("go", append(append([]string{"run"}, flags...), ".")...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, stderr.String())
		}
		return parsed(t, out)
	}
	inlined, plain := run("-trimpath"), run("-trimpath", "-gcflags=-l")
	d, err := Diff(plain, inlined)
	if err != nil || len(d.Stacks) != 0 || d.Same < 5 || d.To < 5 {
		t.Errorf("%v: %d the same", err, d.Same)
		for _, s := range d.Stacks {
			t.Logf("%d → %d %q %+v", s.From, s.To, s.Stack.Key(), s.Stack)
		}
	}
	names := map[string]bool{}
	for _, p := range []*Profile{inlined, plain} {
		for _, s := range p.Stacks {
			names[s.Top().Func] = true
		}
	}
	if !names["main.main.Send.func1"] || !names["example.org/app/lib.Send.func1"] {
		t.Errorf("the two builds do not differ: %v", names)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(dumpBefore))
	for _, name := range []string{"heap", "goroutine"} {
		f.Add(profileOf(f, name))
	}
	f.Add([]byte{0x12, 0, 0x22, 0, 0x32, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Parse(data)
		if err != nil {
			return
		}
		d, err := Diff(p, p)
		if err != nil || len(d.Stacks) != 0 || d.From != d.To || d.Same != len(p.Groups) {
			t.Errorf("a profile and itself: %+v, %v", d, err)
		}
		for _, s := range p.Stacks {
			_ = s.Key()
		}
	})
}

func cpuProfile(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := pprof.StartCPUProfile(&b); err != nil {
		t.Fatal(err)
	}
	pprof.StopCPUProfile()
	return b.Bytes()
}
