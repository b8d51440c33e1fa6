package holders

import (
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

func TestWriteGrowth(t *testing.T) {
	frames := []leak.Frame{
		{Func: "bytes.growSlice", File: "/usr/local/go/src/bytes/buffer.go", Line: 249},
		{Func: "example.com/shop/orders.render", File: "/src/orders/render.go", Line: 52},
	}
	growth := []Growth{
		{Frames: frames, Holding: Holding{
			Holders: []Holder{{Kind: KindGlobal, Name: "example.com/shop/orders.registry"}},
			Path:    "orders.registry (map[string]*orders.Order) → *orders.Order.items → []byte",
			Objects: 2000, Bytes: 32 << 20, Share: 1, Sampled: 61,
		}},
		{Frames: frames[:1], Holding: Holding{
			Holders: []Holder{{Kind: KindGoroutines, Name: "main.poll", Count: 2}, {Kind: KindTimer, Name: "main.tick", Count: 1}}, More: 2,
			Objects: 10, Bytes: 10 << 10, Share: 1, Sampled: 1,
		}},
	}
	last := &Summary{Bytes: 40 << 20, Objects: 9000, Roots: []Retained{
		{Holder: Holder{Kind: KindGlobal, Name: "main.cache"}, Bytes: 1 << 20},
		{Holder: Holder{Kind: KindGoroutines, Name: "k8s.io/apimachinery/pkg/watch.(*StreamWatcher).receive", Count: 389}, Bytes: 389 * 15 << 10},
	}}
	var b strings.Builder
	WriteGrowth(&b, &Summary{Bytes: 8 << 20, Objects: 7000}, last, growth, 2000, 10)
	want := `heap  8.00 MiB → 40.00 MiB  7000 → 9000 objects

grew (estimated from allocation samples)
  +16.4 KiB per operation, held by orders.registry, allocated at orders.render (render.go:52)
      100 % of the growth of this stack, 61 samples, about 2000 objects of 16.4 KiB
      orders.registry (map[string]*orders.Order) → *orders.Order.items → []byte
  +5 B per operation, held by 2 goroutines at main.poll and 1 timer of main.tick and 2 more, allocated at bytes.growSlice (buffer.go:249)
      100 % of the growth of this stack, 1 samples, about 10 objects of 1.0 KiB

goroutines that alone hold heap
  389 goroutines at watch.(*StreamWatcher).receive hold 5.70 MiB, 15.0 KiB each
`
	if b.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", b.String(), want)
	}
	if got := last.Roots[0].String(); got != "main.cache holds 1.00 MiB" {
		t.Error(got)
	}
}
