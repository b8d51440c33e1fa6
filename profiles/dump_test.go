package profiles

import (
	"bytes"
	"fmt"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// render writes groups for comparison, one per line: "2 chan send: b.F b.go:12 < a.G; by c.H".
func render(g *groups) string {
	var lines []string
	for _, group := range g.list() {
		s := g.stacks[group.Stack]
		var frames []string
		for i, f := range s.Frames {
			if i == 0 && f.File != "" {
				f.Func += " " + f.Position()
			}
			frames = append(frames, f.Func)
		}
		line := fmt.Sprintf("%d %s: %s", group.Count, s.State, strings.Join(frames, " < "))
		if s.Creator != nil {
			line += "; by " + s.Creator.Func
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// What runtime/traceback.go can print, one form a row.
func TestParseDump(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"the main goroutine has no creator", `
goroutine 1 [chan receive]:
main.main()
	/src/main.go:12 +0x45
`, "1 chan receive: main.main /src/main.go:12"},
		{"age and thread are not part of the state", `
goroutine 34 [chan send, 12 minutes, locked to thread]:
k8s.io/apimachinery/pkg/watch.(*StreamWatcher).receive(0xc0001)
	k8s.io/apimachinery@v0.18.8/pkg/watch/streamwatcher.go:104 +0x1
created by k8s.io/apimachinery/pkg/watch.NewStreamWatcher in goroutine 8
	k8s.io/apimachinery@v0.18.8/pkg/watch/streamwatcher.go:71 +0x2

goroutine 35 [chan send]:
k8s.io/apimachinery/pkg/watch.(*StreamWatcher).receive(0xc0002)
	k8s.io/apimachinery@v0.18.8/pkg/watch/streamwatcher.go:104 +0x1
created by k8s.io/apimachinery/pkg/watch.NewStreamWatcher in goroutine 9
	k8s.io/apimachinery@v0.18.8/pkg/watch/streamwatcher.go:71 +0x2
`, "2 chan send: k8s.io/apimachinery/pkg/watch.(*StreamWatcher).receive k8s.io/apimachinery@v0.18.8/pkg/watch/streamwatcher.go:104" +
			"; by k8s.io/apimachinery/pkg/watch.NewStreamWatcher"},
		{"a state with parentheses, and a creator without a goroutine (Go before 1.21)", `
goroutine 5 [select (no cases), 3 minutes]:
main.hang()
	/src/main.go:3 +0x1
created by main.main
	/src/main.go:9 +0x2
`, "1 select (no cases): main.hang /src/main.go:3; by main.main"},
		{"labels behind the bracket", `
goroutine 7 [select]{"k":"v]:"}:
main.f()
	/src/main.go:3 +0x1
`, "1 select: main.f /src/main.go:3"},
		{"labels in the bracket (GODEBUG=tracebacklabels=1), with what could be taken for its end", `
goroutine 7 [select, 2 minutes labels:{"a]": "b, (leaked)]:", "c": "\n"}]:
main.f()
	/src/main.go:3 +0x1

goroutine 8 [select labels:{"k": "v"}]:
main.f()
	/src/main.go:3 +0x1
`, "2 select: main.f /src/main.go:3"},
		{"the collector's marks would split a group", `
goroutine 7 [chan send (leaked), 2 minutes]:
main.f()
	/src/main.go:3 +0x1

goroutine 8 [chan send (scan)]:
main.f()
	/src/main.go:3 +0x1

goroutine 9 [chan send (leaked) (scan)]:
main.f()
	/src/main.go:3 +0x1
`, "3 chan send: main.f /src/main.go:3"},
		{"synctest's states are other states", `
goroutine 7 [chan receive (durable), synctest bubble 1]:
main.f()
	/src/main.go:3 +0x1
`, "1 chan receive (durable): main.f /src/main.go:3"},
		{"a crash prints pointers (GOTRACEBACK=system)", `
goroutine 7 gp=0xc000002380 m=nil mp=0x57 [chan receive]:
runtime.gopark(0x1?, 0x2?, 0x3?, 0x4?, 0x5?)
	/go/src/runtime/proc.go:460 +0xce fp=0xc00 sp=0xc01 pc=0x44
runtime.chanrecv1(0x0?, 0x0?)
	/go/src/runtime/chan.go:509 +0x12 fp=0xc00 sp=0xc01 pc=0x44
main.f()
	/src/main.go:3 +0x1 fp=0xc00 sp=0xc01 pc=0x44
`, "1 chan receive: main.f /src/main.go:3"},
		{"the runtime's own functions are cut, as in a profile", `
goroutine 21 [runnable]:
runtime.Gosched(...)
	/go/src/runtime/proc.go:391
main.spin()
	/src/main.go:18 +0x1a
`, "1 runnable: main.spin /src/main.go:18"},
		{"nothing but the runtime: one frame stays", `
goroutine 21 [GC worker (idle)]:
runtime.goparkunlock(...)
	/go/src/runtime/proc.go:391
runtime.gcBgMarkWorker(0x1)
	/go/src/runtime/mgc.go:18 +0x1a
`, "1 GC worker (idle): runtime.gcBgMarkWorker /go/src/runtime/mgc.go:18"},
		{"elided frames are omitted", `
goroutine 7 [running]:
main.deep(0x3)
	/src/main.go:3 +0x1
...47 frames elided...
main.main()
	/src/main.go:9 +0x1
...additional frames elided...
created by main.start in goroutine 1
	/src/main.go:1 +0x1
`, "1 running: main.deep /src/main.go:3 < main.main; by main.start"},
		{"generics, closures, deferred wrappers, inlined calls", `
goroutine 7 [select]:
a.org/b%2ego/c%2ev2.(*Set[...]).Each.func1(...)
	/src/c.go:3
iter.Pull[...].func1.1()
	/go/src/iter/iter.go:287 +0x53
main.main.func1.gowrap1()
	/src/main.go:9 +0x1
`, "1 select: a.org/b.go/c.v2.(*Set[...]).Each.func1 /src/c.go:3 < iter.Pull[...].func1.1 < main.main.func1.gowrap1"},
		{"a vendored package is the package", `
goroutine 7 [select]:
k8s.io/kubernetes/vendor/k8s.io/client-go/tools/cache.Wait({0x1, 0x2})
	/src/vendor/k8s.io/client-go/tools/cache/shared.go:3 +0x1
vendor/golang.org/x/net/http2/hpack.F()
	/go/src/vendor/golang.org/x/net/http2/hpack/f.go:9 +0x1
`, "1 select: k8s.io/client-go/tools/cache.Wait /src/vendor/k8s.io/client-go/tools/cache/shared.go:3 < vendor/golang.org/x/net/http2/hpack.F"},
		{"arguments with braces, and a path with spaces, parentheses and colons", `
goroutine 7 [select]:
main.f({{0x1, 0x2}, {0x3?, {0x4, ...}}, _}, {0x5, ...}, ...)
	C:/a (b)/in goroutine 3/x:1/main.go:3 +0x1
panic({0x47a3e0?, 0x4b1e88?})
	/go/src/runtime/panic.go:783 +0x132
`, "1 select: main.f C:/a (b)/in goroutine 3/x:1/main.go:3 < panic"},
		{"ancestors (GODEBUG=tracebackancestors) are not callers", `
goroutine 20 [select]:
main.f()
	/src/main.go:3 +0x1
created by main.g in goroutine 4
	/src/main.go:4 +0x1
[originating from goroutine 4]:
main.g(...)
	/src/main.go:4 +0x1
created by main.main
	/src/main.go:5 +0x1
`, "1 select: main.f /src/main.go:3; by main.g"},
		{"a stack that cannot be read", `
goroutine 3 [running]:
	goroutine running on other thread; stack unavailable
created by main.g in goroutine 4
	/src/main.go:4 +0x1
`, "1 running: ; by main.g"},
		{"C without and with a symbolizer", `
goroutine 3 [syscall, locked to thread]:
non-Go function at pc=0x7f
non-Go function
	pc=0x7f
pthread_cond_wait
	/build/nptl.c:12 pc=0x7f
runtime.cgocall(0x1, 0x2)
	/go/src/runtime/cgocall.go:167 +0x4b
main._Cfunc_wait()
	_cgo_gotypes.go:41 +0x3f
`, "1 syscall: main._Cfunc_wait _cgo_gotypes.go:41"},
		{"a state that this parser has never seen", `
goroutine 3 [waiting for godot]:
main.f()
	/src/main.go:4 +0x1
`, "1 waiting for godot: main.f /src/main.go:4"},
		{"the goroutine that writes the dump is omitted, those under pprof.Do are not", `
goroutine 9 [running]:
runtime/pprof.writeGoroutineStacks({0x51af08, 0x1})
	/go/src/runtime/pprof/pprof.go:819 +0x6b
net/http/pprof.handler.ServeHTTP({0xc00011c031, 0x9}, {0x1, 0x2}, 0x3)
	/go/src/net/http/pprof/pprof.go:272 +0x52a

goroutine 10 [select (no cases)]:
main.leaks({0x51b490?, 0x1?})
	/src/main.go:17 +0xf
runtime/pprof.Do({0x51b458?, 0x61a160?}, {{0x1?, 0x0?, 0x0?}}, 0x519460)
	/go/src/runtime/pprof/runtime.go:57 +0x8c

goroutine 11 [IO wait]:
internal/poll.runtime_pollWait(0x7f, 0x77)
	/go/src/runtime/netpoll.go:351 +0x85
runtime/pprof.(*Profile).WriteTo(0x1, {0x2, 0x3}, 0x0)
	/go/src/runtime/pprof/pprof.go:408 +0x149
`, "1 select (no cases): main.leaks /src/main.go:17 < runtime/pprof.Do\n" +
			"1 IO wait: internal/poll.runtime_pollWait /go/src/runtime/netpoll.go:351 < runtime/pprof.(*Profile).WriteTo"},
		{"the text of a crash around it", `
panic: runtime error

goroutine 1 [running]:
main.main()
	/src/main.go:12 +0x45

exit status 2
`, "1 running: main.main /src/main.go:12"},
	} {
		g, err := parseDump([]byte(strings.TrimPrefix(c.text, "\n")))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := render(g); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

// Who stands on a stack, and for how long the one that waits longest has.
func TestDumpTellsWhoAndHowLong(t *testing.T) {
	g, err := parseDump([]byte("goroutine 34 [chan send, 12 minutes, locked to thread]:\nmain.f()\n\t/m.go:1 +0x1\n\n" +
		"goroutine 7 [chan send, 1 minutes labels:{\"a\": \"b, 90 minutes\"}]:\nmain.f()\n\t/m.go:1 +0x1\n\n" +
		"goroutine 8 [chan send]:\nmain.f()\n\t/m.go:1 +0x1\n\n" +
		"goroutine 9 [running]:\nmain.g()\n\t/m.go:1 +0x1\n"))
	if err != nil {
		t.Fatal(err)
	}
	list := g.list()
	if len(list) != 2 || !slices.Equal(list[0].IDs, leak.IDsOf(7, 8, 34)) || list[0].OldestMinutes != 12 ||
		!slices.Equal(list[1].IDs, leak.IDsOf(9)) || list[1].OldestMinutes != 0 {
		t.Errorf("%+v", list)
	}
}

func TestParseDumpRefuses(t *testing.T) {
	for _, c := range []struct{ name, text string }{
		{"nothing", ""},
		{"blank lines", "\n\n\n\n"},
		{"a page", "<!DOCTYPE html>\n<title>404</title>\n\n<p>"},
		{"the other text form", "goroutine profile: total 3\n1 @ 0x1 0x2\n"},
		{"no id", "goroutine x [select]:\nmain.f()\n\t/m.go:1 +0x1\n"},
		{"no state", "goroutine 1:\nmain.f()\n\t/m.go:1 +0x1\n"},
		{"no colon", "goroutine 1 [select]\nmain.f()\n\t/m.go:1 +0x1\n"},
		// The runtime writes no carriage returns. A text with them may have other changes as well.
		{"other line ends", "goroutine 1 [select]:\r\nmain.f()\r\n\t/m.go:1 +0x1\r\n"},
		{"a profile", "\x1f\x8b\x08\x00\x00"},
	} {
		if g, err := parseDump([]byte(c.text)); err == nil {
			t.Errorf("%s is accepted as %q", c.name, render(g))
		}
	}
}

// A dump that was cut anywhere never holds more than the whole one, and never makes the parser panic.
func TestParseDumpTruncated(t *testing.T) {
	plants(t)
	var b bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&b, 2); err != nil {
		t.Fatal(err)
	}
	whole := b.Bytes()
	all, err := parseDump(whole)
	if err != nil {
		t.Fatal(err)
	}
	for n := range min(len(whole), 4000) {
		if g, err := parseDump(whole[:n]); err == nil && g.total > all.total {
			t.Fatalf("cut after %d of %d bytes: %d goroutines of %d", n, len(whole), g.total, all.total)
		}
	}
}

func FuzzDump(f *testing.F) {
	live := make([]byte, 64<<10)
	f.Add(live[:runtime.Stack(live, true)])
	f.Add([]byte("goroutine 34 [chan send, 2 minutes, locked to thread]:\na.F[...](0x1, {0x2, ...})\n\t/a.go:1 +0x2\ncreated by a.G in goroutine 1\n\t/a.go:3 +0x4\n"))
	f.Add([]byte("goroutine 7 [select labels:{\"a]\": \"b\"}]:\na.F()\n\t:x +0x\n\ngoroutine 8 [x]{}:\n...additional frames elided...\n"))
	f.Add([]byte("goroutine 1 []:\n()\n\t\ncreated by \n\t"))
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := parseDump(data)
		if err != nil {
			return
		}
		checkGroups(t, g)
		if blocks := bytes.Count(data, []byte("goroutine ")); g.total > int64(blocks) {
			t.Errorf("%d goroutines out of %d headers", g.total, blocks)
		}
	})
}

// checkGroups checks the result of a parser: each group has its stack, under its ID, and the sum is the total.
func checkGroups(t *testing.T, g *groups) {
	t.Helper()
	var sum int64
	seen := map[string]bool{}
	for _, group := range g.list() {
		stack, ok := g.stacks[group.Stack]
		if !ok || stack.ID() != group.Stack || seen[group.Stack] {
			t.Errorf("group %+v: stack %+v", group, stack)
		}
		if group.Count < 0 || group.Bytes < 0 {
			t.Errorf("group %+v", group)
		}
		seen[group.Stack] = true
		sum += group.Count
	}
	if sum != g.total || len(g.stacks) != len(seen) {
		t.Errorf("%d in the groups, %d in all; %d stacks, %d groups", sum, g.total, len(g.stacks), len(seen))
	}
}

// crowd returns a dump of n goroutines as they stand in a Kubernetes component: about 1.5 KiB each, on
// few stacks.
func crowd(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "goroutine %d [select, %d minutes]:\n", i+2, i%60+1)
		for depth := range 12 {
			fmt.Fprintf(&b, "k8s.io/apimachinery/pkg/util/wait.(*Poller[...]).step%d(0xc000123456, {0x24d5e60, 0xc000%06x?})\n", depth+i%40, i)
			fmt.Fprintf(&b, "\tk8s.io/apimachinery@v0.34.4/pkg/util/wait/backoff.go:%d +0x%x\n", 100+depth, i)
		}
		fmt.Fprintf(&b, "created by k8s.io/client-go/tools/cache.(*controller).Run in goroutine %d\n\tk8s.io/client-go@v0.34.4/tools/cache/controller.go:160 +0x3c5\n\n", i)
	}
	return b.Bytes()
}

func BenchmarkDump(b *testing.B) {
	data := crowd(2000)
	b.SetBytes(int64(len(data)))
	var g *groups
	for b.Loop() {
		var err error
		if g, err = parseDump(data); err != nil {
			b.Fatal(err)
		}
	}
	if g.total != 2000 || len(g.stacks) != 40 {
		b.Fatalf("%d goroutines on %d stacks", g.total, len(g.stacks))
	}
}

func TestNormalName(t *testing.T) {
	for in, want := range map[string]string{
		"gopkg.in/inf%2ev0.(*Dec).Add":        "gopkg.in/inf.v0.(*Dec).Add",
		"main.Map[go.shape.string,a.org/b.T]": "main.Map[...]",
		"main.(*Set[go.shape.[]uint8]).Add":   "main.(*Set[...]).Add",
		"main.Map[...].func1":                 "main.Map[...].func1", // done already
		"main.f":                              "main.f",
		"odd][":                               "odd][",
	} {
		if got := normalName(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
