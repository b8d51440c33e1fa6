package checks

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// TestExplained samples allocations like the runtime, at the profile's rate: the estimated growth has the claimed
// error, for blocks far below and far above the rate.
func TestExplained(t *testing.T) {
	const rate = 64 << 10
	rng := rand.New(rand.NewPCG(8, 8))
	for _, size := range []float64{64, 1 << 10, 64 << 10, 1 << 20} {
		objects := int(16 << 20 / size)
		p := -math.Expm1(-size / rate)
		within, n, sumError := 0, trials(300), 0.0
		for range n {
			sampled := 0
			for range objects {
				if rng.Float64() < p {
					sampled++
				}
			}
			v := variantOf("v", 1, 1, 1, 1, 1, 1, 1+float64(objects)*size)
			for i := range v.Snapshots {
				v.Snapshots[i].Samples[1].Rate = rate
				v.Snapshots[i].Samples[1].Groups["heap"][0] = leak.Group{Stack: receiveID}
			}
			v.Snapshots[6].Samples[1].Groups["heap"][0] = leak.Group{
				Stack: receiveID, Count: int64(float64(sampled) / p), Bytes: int64(float64(sampled) / p * size),
			}
			x := evidence{evidenceOf(v, 6)}.explained("heap")
			if x == nil || x.Grew != float64(objects)*size || x.Rate != rate {
				t.Fatalf("%+v", x)
			}
			if math.Abs(x.Explained-x.Grew) <= 2*x.Error+size {
				within++
			}
			sumError += x.Error / x.Grew
			if text := x.Unexplained; text != "" {
				t.Errorf("blocks of %.0f bytes: %s", size, text)
			}
		}
		if share := float64(within) / float64(n); share < 0.92-slack(0.92, n, 300) {
			t.Errorf("blocks of %.0f bytes: within two standard errors in %.3f of trials (error %.3f)", size, share, sumError/float64(n))
		}
	}
}

// TestUnexplained checks that growth on no sampled stack is reported, and that unknown growth is not.
func TestUnexplained(t *testing.T) {
	v := variantOf("v", 0, 1<<20, 2<<20, 3<<20, 4<<20, 5<<20, 6<<20, 7<<20)
	for i := range v.Snapshots {
		v.Snapshots[i].Samples[1].Groups["heap"] = []leak.Group{{Stack: receiveID, Count: 1, Bytes: int64(i) << 10}}
		v.Snapshots[i].Samples[1].Rate = 512 << 10
	}
	f := (&Growth{Probe: "heap", MaxPerOp: quantity(100)}).Check(evidenceOf(v, 7))
	if want := "; only +7.0 KiB of +7.00 MiB are on stacks of the sampled profile, which takes one sample in 512.0 KiB"; f.Outcome != leak.Leaking || !strings.HasSuffix(f.Summary, want) {
		t.Errorf("%v: %s", f.Outcome, f.Summary)
	}
	for i := range v.Snapshots { // one sample of small blocks, which may be of any stack
		v.Snapshots[i].Samples[1].Groups["heap"] = []leak.Group{{Stack: receiveID, Count: int64(i) * 780, Bytes: int64(i) * 75 << 10}}
	}
	f = (&Growth{Probe: "heap", MaxPerOp: quantity(100)}).Check(evidenceOf(v, 7))
	if want := "; the sampled profile, which takes one sample in 512.0 KiB, does not show where +7.00 MiB are allocated"; !strings.HasSuffix(f.Summary, want) {
		t.Errorf("one sample: %s", f.Summary)
	}
	for name, v := range map[string]leak.VariantRecord{
		"nothing grew": variantOf("v", 5, 5, 5), "nothing was measured": {},
	} {
		if x := (evidence{evidenceOf(v, 2)}).explained("heap"); x != nil {
			t.Errorf("%s: %+v", name, x)
		}
	}
}

// TestUnexplainedOfComponents checks that the heaps of components are compared with their own profiles, each under
// its name.
func TestUnexplainedOfComponents(t *testing.T) {
	v := variantOf("v", 0, 1<<20, 2<<20, 3<<20, 4<<20, 5<<20, 6<<20, 7<<20)
	for _, shot := range append(pointersTo(v.Snapshots), v.Idle) {
		// The program's heap is explained in full, the kubelet's by a thousandth.
		kubelet := shot.Samples[1]
		kubelet.Probe = "kubelet/heap"
		kubelet.Groups = map[string][]leak.Group{"heap": {{Stack: servingID, Count: 1, Bytes: int64(kubelet.Values["alloc"]) / 1024}}}
		shot.Samples = append(shot.Samples, kubelet)
	}
	e := evidenceOf(v, 7)
	e.Metrics["kubelet/heap.alloc"] = leak.Metric{Name: "alloc", Unit: "bytes", Default: true}
	f := (&Growth{Probe: "kubelet/heap", MaxPerOp: quantity(100)}).Check(e)
	if want := "; only +7.0 KiB of +7.00 MiB are on stacks of the sampled profile"; f.Outcome != leak.Leaking || !strings.HasSuffix(f.Summary, want) {
		t.Errorf("%v: %s", f.Outcome, f.Summary)
	}
	if f := (&Growth{Probe: "heap", MaxPerOp: quantity(100)}).Check(e); f.Outcome != leak.Leaking || strings.Contains(f.Summary, "sampled") {
		t.Errorf("the program's: %v: %s", f.Outcome, f.Summary)
	}
	program, components := evidence{e}.heaps()
	if program == nil || program.Probe != "" || program.Unexplained != "" || program.Explained != program.Grew {
		t.Errorf("the program's: %+v", program)
	}
	if len(components) != 1 || components[0].Probe != "kubelet/heap" || components[0].Unexplained == "" || components[0].Grew != 7<<20 || components[0].Explained != 7<<10 {
		t.Errorf("%+v", components)
	}
}

// TestStackNotSampled judges a stack that no sample of the heap has hit. A stack that allocates less than the sampling
// rate may have grown nevertheless, so the verdict waits for more operations, and states what could have been missed.
func TestStackNotSampled(t *testing.T) {
	t.Parallel()
	const rate = 64 << 10
	v := variantOf("subject", make([]float64, 9)...)
	for i := range v.Snapshots {
		v.Snapshots[i].Operations *= 10
		v.Snapshots[i].Samples[1].Rate = rate
	}
	e := evidenceOf(v, 8)
	e.For = time.Minute
	for _, c := range []struct {
		spent float64
		want  leak.Outcome
	}{{0.1, leak.Inconclusive}, {1, leak.Clean}} {
		e.Spent = c.spent
		f := (&Stack{Probe: "heap", Match: "receive"}).Check(e)
		recent := float64(v.Snapshots[8].Operations) / 2
		if f.Outcome != c.want || f.Floor != 3*rate/recent {
			t.Errorf("spent %g: %s, floor %g of %g: %s", c.spent, f.Outcome, f.Floor, 3*rate/recent, f.Summary)
		}
	}
}
