package profiles

import (
	"bytes"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

func TestWrittenStacksReadBack(t *testing.T) {
	frames := []leak.Frame{{Func: "example.com/orders.(*Queue).push", File: "example.com/orders@v1.2.0/queue.go", Line: 31}, {Func: "main.main", File: "main.go", Line: 7}}
	for _, tt := range []struct {
		unit   string
		source string
		stacks []Counted
	}{
		{"goroutines", SourceProfile, []Counted{
			{leak.Stack{State: "chan send", Frames: frames}, 12},
			{leak.Stack{State: "select", Frames: frames[1:]}, 3},
			{leak.Stack{State: "sync.Cond.Wait", Frames: frames[:1]}, 2},
			{leak.Stack{Frames: frames}, 1},
		}},
		{"bytes", SourceHeap, []Counted{{leak.Stack{Frames: frames}, 4096}}},
	} {
		var b bytes.Buffer
		if err := Write(&b, tt.unit, tt.stacks); err != nil {
			t.Fatal(err)
		}
		p, err := Parse(b.Bytes())
		if err != nil {
			t.Fatalf("%s: %v", tt.unit, err)
		}
		if p.Source != tt.source || p.Unit() != tt.unit || len(p.Groups) != len(tt.stacks) {
			t.Errorf("%s: %s profile of %s with %d stacks", tt.unit, p.Source, p.Unit(), len(p.Groups))
		}
		for _, want := range tt.stacks {
			found := false
			for _, g := range p.Groups {
				s := p.Stacks[g.Stack]
				found = found || s.String() == want.String() && s.State == want.State && p.Amount(g) == want.N
			}
			if !found {
				t.Errorf("%s: %d on %s is lost: %v", tt.unit, want.N, want.Stack, p.Stacks)
			}
		}
	}
}
