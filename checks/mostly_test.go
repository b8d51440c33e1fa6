package checks

import (
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// The stack that a sentence names is one of what the finding is about: the program's or the component's, of
// goroutines or of the heap.
func TestMostly(t *testing.T) {
	at := func(name, probe string, objects int64) leak.StackGrowth {
		return leak.StackGrowth{Probe: probe, Stack: leak.Stack{Frames: []leak.Frame{{Func: "main." + name}}}, To: 1, Objects: objects}
	}
	vv := &leak.VariantVerdict{
		Growing:     []leak.StackGrowth{at("kubeletRoutine", "kubelet/goroutine", 0), at("routine", "", 0)},
		HeapGrowing: []leak.StackGrowth{at("bytes", "", 1), at("kubeletBytes", "kubelet/heap", 1), at("objects", "", 9)},
	}
	for series, want := range map[string]string{
		"goroutine.count": "main.routine", "kubelet/goroutine.count": "main.kubeletRoutine",
		"heap.alloc": "main.bytes", "heap.objects": "main.objects", "kubelet/heap.alloc": "main.kubeletBytes",
		"process.rss": "", "kubelet/process.rss": "", "shim/goroutine.count": "",
	} {
		got := mostly(vv, &leak.Finding{Series: series})
		if want == "" && got != "" || !strings.HasSuffix(got, want) {
			t.Errorf("%s: %q, want %q", series, got, want)
		}
	}
	if len(vv.Growing) != 2 || vv.Growing[0].Probe == "" {
		t.Error("the verdict was changed")
	}
}

// TestMostlyOfFewSamples checks that a stack with one sample of a coarse profile is not blamed for growth in bytes or
// objects.
func TestMostlyOfFewSamples(t *testing.T) {
	const rate, size = 512 << 10, 96
	for _, c := range []struct {
		comment string
		// samples of blocks of size bytes on the stack, and the objects that the whole heap gained
		samples, objects float64
		bytes, blames    bool
	}{
		{"one sample", 1, 5461, false, false},
		{"as many as show where", 20, 20 * 5461, true, true},
		{"and yet most objects are elsewhere", 20, 100 * 5461, true, false},
	} {
		each := float64(rate) / size
		g := leak.StackGrowth{Stack: leak.Stack{Frames: []leak.Frame{{Func: "main.cache"}}}, To: int64(c.samples * rate), Objects: int64(c.samples * each), PerOperation: 90}
		vv := &leak.VariantVerdict{HeapGrowing: []leak.StackGrowth{g}, HeapExplained: &leak.HeapExplained{Rate: rate}}
		points := []leak.Point{{}, {Operations: 1000, Value: c.objects}}
		if got := mostly(vv, &leak.Finding{Series: "heap.alloc", Unit: "bytes", Points: points}); (got != "") != c.bytes {
			t.Errorf("%s: bytes: %q", c.comment, got)
		}
		if got := mostly(vv, &leak.Finding{Series: "heap.objects", Unit: "objects", Points: points}); (got != "") != c.blames {
			t.Errorf("%s: objects: %q", c.comment, got)
		}
	}
}

// A fingerprint of one goroutine must not hide that there were many.
func TestOfAll(t *testing.T) {
	for _, c := range []struct {
		all  float64
		want string
	}{{1, ""}, {1.9, ""}, {4, ", of +4.00 on all stacks"}} {
		f := leak.Finding{PerOperation: 1, Unit: "goroutines", BoundPerOperation: true, Stacks: []leak.StackGrowth{{}}}
		vv := &leak.VariantVerdict{Findings: []leak.Finding{f, {Series: "goroutine.count", Unit: "goroutines", PerOperation: c.all, Outcome: leak.Leaking}}}
		if got := ofAll(vv, &f); got != c.want {
			t.Errorf("%v: %q, want %q", c.all, got, c.want)
		}
	}
}
