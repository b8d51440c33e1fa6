package fleet

import (
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

// TestLargest builds the largest possible record of a thousand targets: the maximum of stacks and points, with a
// different count in every sweep. It is written incrementally and judged within 300 MiB. It takes half a minute and
// needs LEAKRIG_FLEET=long.
func TestLargest(t *testing.T) {
	if os.Getenv("LEAKRIG_FLEET") != "long" {
		t.Skip("LEAKRIG_FLEET=long runs it")
	}
	const targets = 1000
	r := &Record{Schema: RecordSchema}
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range targets {
		r.add(strconv.Itoa(i), strconv.Itoa(i), 0)
	}
	for k := range maxGroups {
		r.Stacks = append(r.Stacks, leak.Stack{Frames: []leak.Frame{{Func: "main.f" + strconv.Itoa(k)}}})
	}
	dir := rundir.Dir(t.TempDir())
	for i := range maxPoints - 1 {
		r.Sweeps = append(r.Sweeps, Sweep{Seconds: float64(60 * i)})
		for _, s := range r.Targets {
			counts := make([]count, maxGroups)
			for k := range counts {
				counts[k] = count{k, int32(rng.IntN(20))}
			}
			s.add(float64(60*i), math.NaN(), 2000, counts)
		}
		if i%20 == 0 || i == maxPoints-2 {
			if err := r.Write(dir); err != nil {
				t.Fatal(err)
			}
		}
	}
	if v := Judge(r, usual); v.Targets.Leaking != 0 || v.Targets.Judged < 0.99*targets {
		t.Errorf("%+v", v.Targets)
	}
	peak := peakMemory(t)
	t.Logf("peak memory %d MiB", peak>>20)
	if peak > 300<<20 {
		t.Error("more than 300 MiB")
	}
}
