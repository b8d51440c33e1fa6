package runner

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// hostileProbe returns other stacks at every reading.
type hostileProbe struct {
	looks  *int
	stacks int
}

func (p hostileProbe) Sample(context.Context, leak.Target) (leak.Reading, error) {
	*p.looks++
	r := leak.Reading{
		Sample: leak.Sample{Probe: "heap", Values: map[string]float64{"alloc": 1}, Groups: map[string][]leak.Group{}}, Stacks: map[string]leak.Stack{},
	}
	for i := range p.stacks {
		s := leak.Stack{Frames: []leak.Frame{{Func: fmt.Sprint(*p.looks, ".", i, strings.Repeat("x", 4000))}}}
		r.Stacks[s.ID()] = s
		r.Sample.Groups["heap"] = append(r.Sample.Groups["heap"], leak.Group{Stack: s.ID(), Count: 1})
	}
	return r, nil
}

// Raw files are bounded on disk, all rounds together; those that a soak removes make room.
func TestAttackRawFiles(t *testing.T) {
	var r room
	for i := range 200 {
		if err := r.file(16 << 20); (err != nil) != (i >= 64) {
			t.Fatalf("file %d: %v", i, err)
		}
		if i >= 64 {
			_ = r.file(-16 << 20)
		}
	}
}

// TestAttackRecord checks the limit on the size of the record of one run: beyond it, the variant ends with a hint and
// does not pass.
func TestAttackRecord(t *testing.T) {
	for name, c := range map[string]struct {
		probe  hostileProbe
		rounds int
		want   string
	}{
		"stacks": {hostileProbe{stacks: 11_000}, 20, "the record would be larger than 96 MiB"},
	} {
		bubble(t, name, func(t *testing.T) {
			l := newLab(t)
			c.probe.looks = new(int)
			l.Scenario.Spec.Probes[0].Value, l.Scenario.Spec.Rounds, l.Variants = c.probe, c.rounds, l.Variants[:1]
			record, err := Run(t.Context(), l.Config)
			if err != nil {
				t.Fatal(err)
			}
			f := record.Variants[0].Failure
			if f == nil || !strings.Contains(f.Message, c.want) || f.Hint == "" {
				t.Fatalf("%+v", f)
			}
			if n := len(record.Variants[0].Snapshots); n < 2 || n >= c.rounds {
				t.Errorf("%d snapshots are kept", n)
			}
			if size := variantSize(&record.Variants[0]); size > 2*maxRecorded {
				t.Errorf("%d bytes", size)
			}
		})
	}
}
