package profiles

import (
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// The run's main is another program than production's, built by another Go: the stack is the same up to
// where main begins.
const (
	runAfter = `goroutine 1 [chan send]:
k8s.io/apimachinery/pkg/watch.(*StreamWatcher).receive(0x1)
	k8s.io/apimachinery@v0.18.8/pkg/watch/streamwatcher.go:125 +0x1
created by k8s.io/apimachinery/pkg/watch.NewStreamWatcher in goroutine 7
	k8s.io/apimachinery@v0.18.8/pkg/watch/streamwatcher.go:60 +0x1

goroutine 2 [select]:
example.org/queue.(*Queue).run.func2(0x1)
	example.org/queue@v1.0.0/queue.go:9 +0x1
main.work()
	/src/subject/main.go:3 +0x1

goroutine 3 [IO wait]:
main.serve()
	/src/subject/main.go:9 +0x1
`
	productionDump = `goroutine 11 [chan send, 600 minutes]:
k8s.io/apimachinery/pkg/watch.(*StreamWatcher).receive(0x1)
	/go/pkg/mod/k8s.io/apimachinery@v0.18.8/pkg/watch/streamwatcher.go:104 +0x1
created by k8s.io/apimachinery/pkg/watch.NewStreamWatcher
	/go/pkg/mod/k8s.io/apimachinery@v0.18.8/pkg/watch/streamwatcher.go:71 +0x1

goroutine 12 [chan send, 500 minutes]:
k8s.io/apimachinery/pkg/watch.(*StreamWatcher).receive(0x1)
	/go/pkg/mod/k8s.io/apimachinery@v0.18.8/pkg/watch/streamwatcher.go:104 +0x1
created by k8s.io/apimachinery/pkg/watch.NewStreamWatcher
	/go/pkg/mod/k8s.io/apimachinery@v0.18.8/pkg/watch/streamwatcher.go:71 +0x1

goroutine 13 [select]:
example.org/queue.(*Queue).run.func1.1(0x1)
	/go/pkg/mod/example.org/queue@v0.9.0/queue.go:7 +0x1
example.org/app.(*App).Start(0x1)
	/src/app/app.go:3 +0x1

goroutine 14 [chan receive]:
k8s.io/apimachinery/pkg/watch.(*StreamWatcher).receive(0x1)
	/go/pkg/mod/k8s.io/apimachinery@v0.18.8/pkg/watch/streamwatcher.go:99 +0x1

goroutine 15 [IO wait]:
main.serve()
	/src/app/main.go:9 +0x1
main.main()
	/src/app/main.go:3 +0x1
`
)

func TestMatch(t *testing.T) {
	grew, err := Diff(&Profile{Source: SourceDump}, parsed(t, []byte(runAfter)))
	if err != nil {
		t.Fatal(err)
	}
	m, err := Match(grew, parsed(t, []byte(productionDump)))
	if err != nil {
		t.Fatal(err)
	}
	if m.Total != 5 || m.Explained != 4 || m.Share() != 0.8 || m.Unit != "goroutines" {
		t.Errorf("%+v", m)
	}
	got := map[string]int64{}
	for _, s := range m.Stacks {
		got[s.Stack.Top().Short()] = s.Production
	}
	if got["watch.(*StreamWatcher).receive"] != 2 || got["queue.(*Queue).run.func2"] != 1 || got["main.serve"] != 1 || m.Stacks[0].Production != 2 {
		t.Errorf("%v", got)
	}
	// The same function in another state is another stack.
	if len(m.Unexplained) != 1 || m.Unexplained[0].Stack.State != "chan receive" || m.Unexplained[0].To != 1 {
		t.Errorf("unexplained %+v", m.Unexplained)
	}
	if _, err := Match(grew, parsed(t, profileOf(t, "goroutine"))); err == nil || leak.Hint(err) == "" {
		t.Errorf("a profile against a dump: %v", err)
	}
	if (&leak.Match{}).Share() != 0 {
		t.Error("a share of nothing")
	}
}

func TestRecorded(t *testing.T) {
	v := &leak.VariantRecord{Snapshots: []leak.Snapshot{{Samples: []leak.Sample{
		{Probe: "process"},
		{Probe: "heap", Rate: 9, Groups: map[string][]leak.Group{SourceHeap: {{Stack: "x", Bytes: 3}}}},
	}}}}
	if p, err := Recorded(v, &v.Snapshots[0], SourceHeap, ""); err != nil || p.Total() != 3 || p.Rate != 9 {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := Recorded(v, &v.Snapshots[0], SourceDump, ""); err == nil {
		t.Error("a dump that was not taken")
	}
	// With several components, the caller must name one.
	v.Snapshots[0].Samples = append(v.Snapshots[0].Samples, leak.Sample{Probe: "kubelet/heap", Groups: map[string][]leak.Group{SourceHeap: {{Stack: "x", Bytes: 5}}}})
	if _, err := Recorded(v, &v.Snapshots[0], SourceHeap, ""); err == nil || !strings.Contains(leak.Hint(err), "--probe names one: heap, kubelet/heap") {
		t.Errorf("%v, hint: %s", err, leak.Hint(err))
	}
	if p, err := Recorded(v, &v.Snapshots[0], SourceHeap, "kubelet/heap"); err != nil || p.Total() != 5 {
		t.Errorf("%+v, %v", p, err)
	}
}
