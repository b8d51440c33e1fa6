package fleet

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

// TestTenThousand surveys 10,000 targets with 40 stacks and 40 allocation sites each, of which six change in every
// sweep. Three leak. A sweep is added to the record, written and judged within 60 s and 512 MiB. LEAKRIG_FLEET=long
// runs it.
func TestTenThousand(t *testing.T) {
	if os.Getenv("LEAKRIG_FLEET") != "long" {
		t.Skip("LEAKRIG_FLEET=long runs it")
	}
	const targets, sweeps, stacks = 10_000, 20, 40
	leaky := map[int]bool{17: true, 5000: true, 9999: true}
	r := &Record{Schema: RecordSchema}
	for k := range 2 * stacks {
		r.Stacks = append(r.Stacks, leak.Stack{State: "select", Frames: []leak.Frame{{Func: fmt.Sprintf("main.f%d", k)}}})
	}
	for i := range targets {
		r.add(strconv.Itoa(i), fmt.Sprintf("pod-%d", i), 0)
	}
	dir := rundir.Dir(t.TempDir())
	rng := rand.New(rand.NewPCG(1, 1))
	slowest := time.Duration(0)
	for sweep := range sweeps {
		began := time.Now()
		r.Sweeps = append(r.Sweeps, Sweep{Seconds: float64(60 * sweep), Listed: targets, Read: targets})
		for i, s := range r.Targets {
			goroutines, heap := reading{}, reading{}
			for k := range stacks {
				n, kib := int32(1+k%5), int32(512*(1+k%9))
				if k < 3 {
					n, kib = poisson(rng, 6), 512*poisson(rng, 20)
				}
				if k == 3 && leaky[i] {
					n = int32(2 * sweep)
				}
				goroutines.counts, heap.counts = append(goroutines.counts, count{k, n}), append(heap.counts, count{stacks + k, kib})
				goroutines.total, heap.total = goroutines.total+int64(n), heap.total+int64(kib)
			}
			s.addBoth(float64(60*sweep), math.NaN(), goroutines, &heap)
		}
		if err := r.Write(dir); err != nil {
			t.Fatal(err)
		}
		slowest = max(slowest, time.Since(began))
	}
	info, err := os.Stat(dir.Path(RecordFile))
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	v := Judge(r, Bounds{PerHour: 10, HeapPerHour: 1 << 20, MinJudged: 0.99})
	judged := time.Since(began)
	if v.Targets.Leaking != len(leaky) || v.Targets.Clean < targets-50 {
		t.Errorf("%+v: %s", v.Targets, v.Sentence)
	}
	peak := peakMemory(t)
	t.Logf("%d targets: slowest sweep %s, judged in %s, record %d MiB, peak memory %d MiB", targets, slowest.Round(time.Millisecond), judged.Round(time.Millisecond), info.Size()>>20, peak>>20)
	if peak > 512<<20 || slowest > time.Minute || judged > time.Minute {
		t.Error("more than 512 MiB or a minute")
	}
}

// peakMemory returns the most memory that this process has had.
func peakMemory(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	peak, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return peak << 10
}
