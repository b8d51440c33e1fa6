package catalogue

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/profiles"
)

// stack is a stack with the functions, innermost first, in files of a module.
func stack(state, files string, functions ...string) leak.Stack {
	s := leak.Stack{State: state}
	for i, f := range functions {
		s.Frames = append(s.Frames, leak.Frame{Func: f, File: files + "/file.go", Line: i + 1})
	}
	return s
}

func receive(version string) leak.Stack {
	s := stack("chan send", "/home/dev/go/pkg/mod/k8s.io/apimachinery"+version+"/pkg/watch", "k8s.io/apimachinery/pkg/watch.(*StreamWatcher).receive")
	s.Creator = &leak.Frame{Func: "k8s.io/apimachinery/pkg/watch.NewStreamWatcher"}
	return s
}

func binary(modules ...leak.Module) *leak.SubjectInfo {
	return &leak.SubjectInfo{GoVersion: "go1.26.0", Main: "example.com/shop", Modules: modules}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	machinery := func(version, replace string) *leak.SubjectInfo {
		return binary(leak.Module{Path: "k8s.io/apimachinery", Version: version, Replace: replace})
	}
	idle := stack("IO wait", "/usr/local/go/src/net/http", "bufio.(*Reader).Peek", "net/http.(*persistConn).readLoop")
	for _, c := range []struct {
		name   string
		stack  leak.Stack
		n      int64
		binary *leak.SubjectInfo
		grew   bool
		// the first match, "" for none
		id          string
		status      Status
		version, in string
	}{
		{"no version is known", receive(""), 40, nil, false, "watch-then-delete", KnownLeak, "", "v0.21.0"},
		{"the version is in the files of the profile", receive("@v0.18.8"), 40, nil, false, "watch-then-delete", KnownLeak, "v0.18.8", "v0.21.0"},
		{"the version is in the binary", receive(""), 40, machinery("v0.20.4", ""), false, "watch-then-delete", KnownLeak, "v0.20.4", "v0.21.0"},
		{"the binary is better than the files", receive("@v0.18.8"), 400, machinery("v0.30.0", ""), false, "stream-watchers", Present, "v0.30.0", ""},
		{"the version has the fix", receive("@v0.21.0"), 400, nil, false, "stream-watchers", Present, "v0.21.0", ""},
		{"a replacement with another version", receive(""), 40, machinery("v0.30.0", "k8s.io/apimachinery v0.18.8"), false, "watch-then-delete", KnownLeak, "v0.18.8", "v0.21.0"},
		{"a replacement with a fork", receive(""), 40, machinery("v0.30.0", "example.com/fork v0.1.0"), false, "watch-then-delete", KnownLeak, "", "v0.21.0"},
		{"a replacement with a folder", receive(""), 40, machinery("v0.30.0", "../apimachinery"), false, "watch-then-delete", KnownLeak, "", "v0.21.0"},
		{"the binary was built in its own module", receive(""), 40, machinery("(devel)", ""), false, "watch-then-delete", KnownLeak, "", "v0.21.0"},
		{"a version from before go.mod", receive(""), 40, machinery("v12.0.0+incompatible", ""), false, "watch-then-delete", KnownLeak, "", "v0.21.0"},
		{"as many as a healthy process has", receive("@v0.18.8"), 9, nil, false, "watch-then-delete", Present, "v0.18.8", "v0.21.0"},
		{"any growth of a leaking run counts", receive("@v0.18.8"), 1, nil, true, "watch-then-delete", KnownLeak, "v0.18.8", "v0.21.0"},
		{"another state", stack("IO wait", "/src", "io.ReadFull", "k8s.io/apimachinery/pkg/watch.(*StreamWatcher).receive"), 40, nil, false, "stream-watchers", Present, "", ""},
		{"a goroutine profile without this state", stack("", "/src", "k8s.io/apimachinery/pkg/watch.(*StreamWatcher).receive"), 40, nil, false, "watch-then-delete", KnownLeak, "", "v0.21.0"},
		{"a pattern that is most of the growth", idle, 3, nil, true, "http-idle-connections", StandsOut, "", ""},
		{"a closure that was inlined into main", stack("chan receive", "/home/dev/go/pkg/mod/go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc@v0.21.0", "main.main.StreamClientInterceptor.func6.1"), 40, nil, false, "otelgrpc-stream", KnownLeak, "v0.21.0", "v0.22.0"},
		{"a closure of main with such a name", stack("chan receive", "/build/shop", "main.main.StreamClientInterceptor.func6.1"), 40, nil, false, "", "", "", ""},
		{"a fork", stack("chan send", "/src", "example.com/fork/watch.(*StreamWatcher).receive"), 4000, nil, false, "", "", "", ""},
		{"a healthy number of idle connections", idle, 100, nil, false, "http-idle-connections", Present, "", ""},
		{"many idle connections", idle, 1000, nil, false, "http-idle-connections", StandsOut, "", ""},
		{"the fix is in another module path", stack("chan receive", "/go/pkg/mod/gopkg.in/natefinch/lumberjack.v2@v2.2.1", "gopkg.in/natefinch/lumberjack.v2.(*Logger).millRun"), 40, nil, false, "lumberjack-mill", KnownLeak, "v2.2.1", ""},
		{"capital letters in the module cache", stack("select", "/go/pkg/mod/github.com/!shopify/sarama@v1.23.1", "github.com/Shopify/sarama.(*brokerProducer).run"), 60, nil, false, "sarama-broker-producer", KnownLeak, "v1.23.1", "v1.24.0"},
		{"-trimpath keeps capital letters", stack("select", "github.com/Shopify/sarama@v1.24.0", "github.com/Shopify/sarama.(*brokerProducer).run"), 60, nil, false, "sarama-broker-producer", NotAffected, "v1.24.0", "v1.24.0"},
	} {
		x := Explain(Input{Unit: "goroutines", Stacks: []Amount{{Stack: c.stack, N: c.n}}, Binary: c.binary, Grew: c.grew, Leaking: c.grew})
		if x.Total != c.n {
			t.Errorf("%s: total %d", c.name, x.Total)
		}
		if c.id == "" {
			if len(x.Matches) > 0 || len(x.Unknown) != 1 {
				t.Errorf("%s: %+v", c.name, x)
			}
			continue
		}
		if len(x.Matches) != 1 {
			t.Errorf("%s: %+v", c.name, x)
			continue
		}
		m := x.Matches[0]
		if m.ID != c.id || m.Status != c.status || m.Version != c.version || m.FixedIn != c.in {
			t.Errorf("%s: %s is %s at %q, fixed in %q; want %s, %s, %q, %q", c.name, m.ID, m.Status, m.Version, m.FixedIn, c.id, c.status, c.version, c.in)
		}
	}
}

// A stack counts for the entry with the most callers, a match on the heap needs a heap profile, and the order is that
// of a report.
func TestExplainOrder(t *testing.T) {
	t.Parallel()
	ttrpc := stack("IO wait", "/src", "internal/poll.(*FD).Write", "github.com/containerd/ttrpc.(*channel).send", "github.com/containerd/ttrpc.(*Client).run")
	x := Explain(Input{Unit: "goroutines", Stacks: []Amount{
		{Stack: stack("select", "/usr/local/go/src/net/http", "net/http.(*persistConn).writeLoop"), N: 5000},
		{Stack: ttrpc, N: 30, OldestMinutes: 12},
		{Stack: stack("chan receive", "/home/me/shop", "main.work"), N: 3},
		{Stack: receive("@v0.18.8"), N: 60},
		{Stack: stack("chan receive", "/home/me/shop", "time.Sleep", "main.work", "main.main"), N: 4},
		{Stack: stack("select", "/src", "database/sql.(*DB).connectionOpener"), N: 1},
	}})
	var order []string
	for _, m := range x.Matches {
		order = append(order, m.ID)
	}
	if want := []string{"watch-then-delete", "parallel-exec", "http-idle-connections", "sql-open-per-request"}; !slices.Equal(order, want) {
		t.Errorf("order %v", order)
	}
	if m := x.Matches[1]; m.OldestMinutes != 12 || m.Share < 0.005 || m.Share > 0.006 || m.Reference != "containerd/ttrpc#94" {
		t.Errorf("%+v", m)
	}
	if len(x.Unknown) != 1 || x.Unknown[0].N != 7 || x.Unknown[0].At.Func != "main.work" || x.Unknown[0].Stacks != 2 {
		t.Errorf("unknown %+v", x.Unknown)
	}
	if heap := Explain(Input{Unit: "bytes", Stacks: []Amount{{Stack: ttrpc, N: 1 << 30}}}); len(heap.Matches) > 0 {
		t.Errorf("a goroutine's stack matches in the heap: %+v", heap.Matches)
	}
}

func TestCaller(t *testing.T) {
	t.Parallel()
	alloc := leak.Stack{Frames: []leak.Frame{
		{Func: "regexp.compile", File: "/usr/local/go/src/regexp/regexp.go"},
		{Func: "example.com/router.New", File: "/home/dev/go/pkg/mod/example.com/router@v1.0.0/router.go"},
		{Func: "example.com/shop/web.handle", File: "/build/web/handle.go"},
		{Func: "main.main", File: "/build/main.go"},
	}}
	for _, c := range []struct {
		name   string
		binary *leak.SubjectInfo
		frames int
		want   string
	}{
		{"a package outside the module cache", nil, 4, "example.com/shop/web.handle"},
		{"a package of the main module", binary(), 4, "example.com/shop/web.handle"},
		{"package main of another module", &leak.SubjectInfo{Main: "example.com/other"}, 4, "main.main"},
		{"only another module", nil, 2, ""},
	} {
		in := Input{Unit: "bytes", Binary: c.binary}
		s := leak.Stack{Frames: alloc.Frames[:c.frames]}
		got := ""
		if f := in.caller(s, Std); f != nil {
			got = f.Func
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	created := receive("")
	created.Creator = &leak.Frame{Func: "main.watch", File: "/build/main.go"}
	if f := (Input{}).caller(created, "k8s.io/apimachinery"); f == nil || f.Func != "main.watch" {
		t.Errorf("the creator is the caller: %v", f)
	}
}

func TestKnown(t *testing.T) {
	t.Parallel()
	m := Known(receive(""), false, *binary(leak.Module{Path: "k8s.io/apimachinery", Version: "v0.18.8"}))
	if m == nil || m.Sentence() != "known leak: kubernetes/kubernetes#98653, fixed in k8s.io/apimachinery v0.21.0" {
		t.Errorf("%+v", m)
	}
	if m := Known(receive(""), false, *binary(leak.Module{Path: "k8s.io/apimachinery", Version: "v0.21.0"})); m != nil {
		t.Errorf("the version has the fix: %s", m.Sentence())
	}
	if m := Known(stack("select", "/src", "database/sql.(*DB).connectionOpener"), false, leak.SubjectInfo{}); m != nil {
		t.Errorf("a pattern is no known leak: %s", m.Sentence())
	}
	mill := Known(stack("chan receive", "", "gopkg.in/natefinch/lumberjack.v2.(*Logger).millRun"), false, leak.SubjectInfo{})
	if mill == nil || mill.Sentence() != "known leak: natefinch/lumberjack#56, not fixed in any version of gopkg.in/natefinch/lumberjack.v2" {
		t.Errorf("%+v", mill)
	}
}

// Growth has one input for each binary and kind of profile, and none for a clean variant.
func TestGrowth(t *testing.T) {
	t.Parallel()
	v := &leak.VariantRecord{Name: "leaky", Subject: leak.SubjectInfo{Main: "example.com/shop"}, Components: []leak.ComponentInfo{{Name: "containerd", SubjectInfo: leak.SubjectInfo{Main: "containerd"}}}}
	verdict := &leak.VariantVerdict{
		Variant: "leaky", Outcome: leak.Leaking,
		Growing: []leak.StackGrowth{
			{Stack: receive(""), From: 3, To: 43},
			{Probe: "containerd/goroutine", Stack: receive(""), From: 1, To: 2},
		},
		HeapGrowing: []leak.StackGrowth{{Stack: stack("", "/src", "main.retain"), To: 100}},
	}
	var got []string
	for _, in := range Growth(v, verdict) {
		got = append(got, fmt.Sprint(in.Title, " ", in.Unit, " ", in.Binary.Main, " ", len(in.Stacks), " ", in.Stacks[0].N, " ", in.Leaking))
	}
	want := []string{"leaky goroutines example.com/shop 1 40 true", "leaky containerd goroutines containerd 1 1 true", "leaky bytes example.com/shop 1 100 true"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	verdict.Outcome = leak.Clean
	if in := Growth(v, verdict); in != nil {
		t.Errorf("a clean variant has %v", in)
	}
}

// BenchmarkExplain reads and explains the dump of 100,000 goroutines on 10,000 different stacks.
func BenchmarkExplain(b *testing.B) {
	var dump bytes.Buffer
	for i := range 100_000 {
		fmt.Fprintf(&dump, "goroutine %d [select, %d minutes]:\n", i+1, i%90)
		for k := range 4 {
			fmt.Fprintf(&dump, "example.com/shop/pkg%d.(*T).f%d(0xc000)\n\t/build/shop/pkg%d/file.go:%d +0x1d\n", i%100, (i/100+k)%100, i%100, k)
		}
		dump.WriteString("net/http.(*persistConn).readLoop(0xc000)\n\t/usr/local/go/src/net/http/transport.go:2227 +0xd85\ncreated by net/http.(*Transport).dialConn in goroutine 1\n\t/usr/local/go/src/net/http/transport.go:1776 +0x169f\n\n")
	}
	for b.Loop() {
		p, err := profiles.Parse(dump.Bytes())
		if err != nil {
			b.Fatal(err)
		}
		in := Input{Unit: p.Unit()}
		for _, g := range p.Groups {
			in.Stacks = append(in.Stacks, Amount{Stack: p.Stacks[g.Stack], N: p.Amount(g)})
		}
		if x := Explain(in); x.Total != 100_000 || x.Matches[0].N != 100_000 {
			b.Fatalf("%d of %d", x.Matches[0].N, x.Total)
		}
	}
}
