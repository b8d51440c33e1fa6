package reports

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

// fixtureVariant describes how one variant of the fixture behaves.
type fixtureVariant struct {
	name, doc, version, goVersion string
	expect                        leak.Expectation
	// growth of goroutines and heap per operation
	goroutines, heap float64
}

var fixtureVariants = []fixtureVariant{
	{"leaky", "The caller deletes the pod and walks away, as in the incident.", "v0.18.8", "go1.26.8", leak.ExpectLeaking, 1, 20.4 * 1024},
	{"fixed", "The same program with the first fixed release.", "v0.21.0", "go1.26.8", leak.ExpectClean, 0, 11},
	{"current", "The same program with the current release.", "v0.37.2", "go1.26.8", leak.ExpectClean, 0, -4},
	{"stop-first", "Remedy of the write-up: stop the watch before the delete.", "v0.18.8", "go1.26.8", leak.ExpectClean, 0, 21},
	{"drain", "Remedy of the write-up: drain the result channel.", "v0.18.8", "go1.26.8", leak.ExpectClean, 0, 16},
	{"natural", "Without the pause that makes the race certain.", "v0.18.8", "go1.26.8", leak.ExpectLeaking, 0.93, 18.9 * 1024},
}

const (
	fixtureRounds     = 7
	fixtureOperations = 20
)

// fixture returns a run of watch-then-delete as leakrig would record and judge it.
func fixture() Input {
	start := time.Date(2026, 11, 20, 14, 3, 12, 0, time.UTC)
	in := Input{
		RunDir: "runs/watch-then-delete/20261120T140312Z",
		Scenario: &leak.Scenario{
			APIVersion: leak.APIVersion, Kind: leak.ScenarioKind,
			Metadata: leak.Metadata{
				Name:        "watch-then-delete",
				Description: "A build service watches a Job's pod and, on completion, deletes it and returns. The delete makes one more event: client-go's StreamWatcher.receive has decoded it and blocks for ever on the result channel, since nobody reads it any more and Stop only closes the source.",
				Links:       []string{"https://github.com/kubernetes/kubernetes/pull/93629", "https://github.com/kubernetes/apimachinery/blob/v0.18.8/pkg/watch/streamwatcher.go"},
			},
		},
		Record: &leak.Record{
			Schema: leak.RecordSchema, Scenario: "watch-then-delete", Leakrig: "v0.1.0",
			Started: start, Finished: start.Add(6*time.Minute + 41*time.Second),
			Machine: leak.Machine{OS: "linux", Arch: "amd64", CPUs: 2, Kernel: "6.1.0-28", MemoryBytes: 8 << 30, Go: "go1.26.8"},
			Cluster: &leak.ClusterInfo{Provider: "embedded", Kubernetes: "v1.34.4", BootTime: 6.4},
			Plan:    leak.Plan{Warmup: 1, Rounds: fixtureRounds},
			Metrics: map[string]leak.Metric{
				"goroutine.count":     {Name: "count", Unit: "goroutines", Doc: "goroutines, without leakrig's own pprof handler"},
				"heap.alloc":          {Name: "alloc", Unit: "bytes", Doc: "bytes of live heap objects after two forced collections"},
				"heap.objects":        {Name: "objects", Unit: "objects", Doc: "live heap objects"},
				"heap.stack":          {Name: "stack", Unit: "bytes", Doc: "bytes of stacks in use, which leaked goroutines fill"},
				"process.rss":         {Name: "rss", Unit: "bytes", Doc: "resident memory"},
				"process.descriptors": {Name: "descriptors", Unit: "descriptors", Doc: "open file descriptors"},
				"process.threads":     {Name: "threads", Unit: "threads", Doc: "operating system threads"},
			},
			Warnings: []string{"the machine was throttled for 0.4 s during round 5"},
		},
		Verdict: &leak.Verdict{
			Schema: leak.VerdictSchema, Scenario: "watch-then-delete", Result: leak.Met, FalseAlarmBudget: 0.001,
			Sentence: "All 6 variants came out as expected: leaky grows by 1 goroutine per operation, blocked in chan send at watch.(*StreamWatcher).receive, and fixed does not.",
		},
	}
	for i, fv := range fixtureVariants {
		in.Record.Plan.Variants = append(in.Record.Plan.Variants, fv.name)
		in.Record.Variants = append(in.Record.Variants, fv.record(i, start))
		in.Verdict.Variants = append(in.Verdict.Variants, fv.verdict(i, in.Record.Variants[i]))
		in.Scenario.Spec.Variants = append(in.Scenario.Spec.Variants, leak.Variant{
			Name: fv.name, Description: fv.doc, Modfile: fv.modfile(), Expect: fv.expect, Fingerprint: []string{"receive"},
		})
	}
	leaky := in.Record.Variants[0].Subject
	in.Sources = rundir.Sources{leaky.SourceKey(receiveStack().Top()): {First: 124, Lines: []string{
		"\t\t\t}", "\t\t\treturn", "\t\t}", "\t\tsw.result <- Event{", "\t\t\tType:   action,", "\t\t\tObject: obj,", "\t\t}",
	}}}
	in.Record.Variants[0].Holders = fixtureHolders()
	in.Verdict.Variants[0].Holders = in.Record.Variants[0].Holders
	in.Record.Variants[3].Warnings = []string{"round 6 had not settled after 30s: 2 groups of goroutines were still shrinking"}
	return in
}

// fixtureHolders is who holds what the leaky variant gained: most of it the goroutines that leak.
func fixtureHolders() *leak.Holders {
	receive := "140 goroutines at watch.(*StreamWatcher).receive"
	return &leak.Holders{
		Pauses: []float64{0.011, 0.019},
		Growth: []leak.Held{
			{
				Stack: decodeStack().ID(), Site: "json.(*Decoder).refill (stream.go:161)", Holder: receive, Goroutines: profiledReceive().ID(),
				Path:  "sw (*watch.StreamWatcher) in watch.(*StreamWatcher).receive → *watch.StreamWatcher.source → []byte",
				Bytes: 2.1 * (1 << 20), Objects: 140, Sampled: 61, Share: 1,
			},
			{
				Stack: unmarshalStack().ID(), Site: "v1.(*Pod).Unmarshal (generated.pb.go:52000)", Holder: "main.<registry>", Path: "main.<registry> (map[string]*v1.Pod) → *v1.Pod",
				Bytes: 0.4 * (1 << 20), Objects: 120, Sampled: 22, Share: 0.62,
			},
		},
		Goroutines: []leak.Retained{{Stack: profiledReceive().ID(), At: "watch.(*StreamWatcher).receive", Count: 140, Bytes: 140 * 14.7 * 1024}},
	}
}

func (fv fixtureVariant) modfile() string {
	return map[string]string{"v0.18.8": "leaky.mod", "v0.21.0": "fixed.mod", "v0.37.2": "current.mod"}[fv.version]
}

func (fv fixtureVariant) record(i int, start time.Time) leak.VariantRecord {
	vr := leak.VariantRecord{
		Name: fv.name,
		Subject: leak.SubjectInfo{
			Command: []string{"watch-then-delete", "--variant=" + fv.name}, Placement: "process",
			GoVersion: fv.goVersion, Modfile: fv.modfile(), Modules: fv.modules(),
		},
		Warmup: []leak.Tally{tally(i, 0)},
		Stacks: map[string]leak.Stack{},
	}
	for _, s := range []leak.Stack{receiveStack(), profiledReceive(), acceptStack(), decodeStack(), unmarshalStack(), serveStack()} {
		vr.Stacks[s.ID()] = s
	}
	for r := range fixtureRounds + 1 {
		vr.Snapshots = append(vr.Snapshots, fv.snapshot(i, r, start))
	}
	if i == 3 {
		vr.Snapshots[6].Settle = leak.SettleResult{Reason: "2 groups of goroutines were still shrinking", Seconds: 30, Polls: 120}
	}
	idle := fv.snapshot(i, fixtureRounds, start)
	idle.Time, idle.Load = idle.Time.Add(10*time.Second), nil
	vr.Idle = &idle
	return vr
}

func (fv fixtureVariant) snapshot(i, round int, start time.Time) leak.Snapshot {
	n := round * fixtureOperations
	dir := fmt.Sprintf("%s/round-%d/", fv.name, round)
	noise := func(k int) float64 { return math.Sin(float64(i*13 + round*7 + k*5)) }
	goroutines := math.Round(9 + fv.goroutines*float64(n))
	s := leak.Snapshot{
		Round: round, Time: start.Add(time.Duration(i*60+round*7) * time.Second), Operations: n,
		Settle: leak.SettleResult{Settled: true, Reason: "no group had a lower minimum over the last 1s", Seconds: 2.1, Polls: 9},
		Samples: []leak.Sample{
			{
				Probe: "goroutine", Values: map[string]float64{"count": goroutines}, Files: []string{dir + "goroutine.txt.gz", dir + "goroutine.pb.gz"},
				Groups: map[string][]leak.Group{"dump": {{Stack: receiveStack().ID(), Count: int64(goroutines) - 9}}, "profile": fv.profile(goroutines, round)},
			},
			{Probe: "heap", Files: []string{dir + "heap.pb.gz"}, Groups: map[string][]leak.Group{"heap": fv.heapGroups(n)}, Values: map[string]float64{
				"alloc":   math.Round(6.8*(1<<20) + fv.heap*float64(n) + 9000*noise(1)),
				"objects": math.Round(41200 + fv.heap/96*float64(n) + 60*noise(2)),
				"stack":   math.Round(768*1024 + fv.goroutines*2048*float64(n)),
			}},
			{Probe: "process", Values: map[string]float64{
				"rss":         math.Round(31*(1<<20) + fv.heap*1.6*float64(n) + 3e5*noise(3)),
				"descriptors": 14, "threads": 8 + math.Round(noise(4)/2+0.5),
			}},
		},
	}
	if round > 0 {
		s.Load = []leak.Tally{tally(i, round)}
	}
	return s
}

// profile returns the stacks of a goroutine profile: one leaks, one appears, and one disappears.
func (fv fixtureVariant) profile(goroutines float64, round int) []leak.Group {
	list := []leak.Group{{Stack: acceptStack().ID(), Count: 1}}
	if n := int64(goroutines) - 9; n > 0 {
		list = append(list, leak.Group{Stack: profiledReceive().ID(), Count: n})
	}
	if round == 0 {
		list = append(list, leak.Group{Stack: serveStack().ID(), Count: 1})
	}
	return list
}

func (fv fixtureVariant) heapGroups(n int) []leak.Group {
	grown := int64(fv.heap * float64(n))
	return []leak.Group{
		{Stack: decodeStack().ID(), Count: 40 + grown/4096, Bytes: 40960 + grown*6/10},
		{Stack: unmarshalStack().ID(), Count: 16 + grown/512, Bytes: 8192 + grown*3/10},
	}
}

func tally(i, round int) leak.Tally {
	ms := 0.041 + 0.002*math.Sin(float64(i+round))
	return leak.Tally{Action: "post", Attempted: fixtureOperations, Succeeded: fixtureOperations, Seconds: 1.9, Latency: leak.Latency{P50: ms, P90: ms * 1.7, P99: ms * 2.3, Max: ms * 2.4}}
}

func (fv fixtureVariant) modules() []leak.Module {
	list := []leak.Module{{Path: "github.com/leakrig/leakrig/subjects/watch-then-delete", Version: "(devel)"}}
	for _, path := range []string{"k8s.io/api", "k8s.io/apimachinery", "k8s.io/client-go"} {
		list = append(list, leak.Module{Path: path, Version: fv.version})
	}
	if fv.version == "v0.18.8" {
		list = append(list, leak.Module{Path: "github.com/googleapis/gnostic", Version: "v0.1.0"}, leak.Module{Path: "k8s.io/klog", Version: "v1.0.0"})
	} else {
		list = append(list, leak.Module{Path: "k8s.io/klog/v2", Version: "v2.8.0"})
	}
	for _, m := range []string{"github.com/davecgh/go-spew v1.1.1", "github.com/gogo/protobuf v1.3.2", "github.com/google/gofuzz v1.1.0", "github.com/json-iterator/go v1.1.12", "golang.org/x/net v0.57.0", "golang.org/x/time v0.15.0", "gopkg.in/inf.v0 v0.9.1", "sigs.k8s.io/yaml v1.6.0"} {
		path, version, _ := strings.Cut(m, " ")
		list = append(list, leak.Module{Path: path, Version: version})
	}
	return list
}

func receiveStack() leak.Stack {
	file := "k8s.io/apimachinery@v0.18.8/pkg/watch/streamwatcher.go"
	return leak.Stack{
		State:   "chan send",
		Frames:  []leak.Frame{{Func: "k8s.io/apimachinery/pkg/watch.(*StreamWatcher).receive", File: file, Line: 127}},
		Creator: &leak.Frame{Func: "k8s.io/apimachinery/pkg/watch.NewStreamWatcher", File: file, Line: 76},
	}
}

// profiledReceive is receiveStack as a profile records it: without a creator.
func profiledReceive() leak.Stack {
	s := receiveStack()
	s.Creator = nil
	return s
}

func acceptStack() leak.Stack {
	return leak.Stack{State: "IO wait", Frames: []leak.Frame{
		{Func: "net.(*TCPListener).Accept", File: "net/tcpsock.go", Line: 380},
		{Func: "net/http.(*Server).Serve", File: "net/http/server.go", Line: 3424},
		{Func: "main.main", File: "github.com/leakrig/leakrig/subjects/watch-then-delete/main.go", Line: 41},
	}}
}

func decodeStack() leak.Stack {
	return leak.Stack{Frames: []leak.Frame{
		{Func: "bufio.NewReaderSize", File: "bufio/bufio.go", Line: 57},
		{Func: "k8s.io/apimachinery/pkg/runtime/serializer/json.(*jsonFramer).NewFrameReader", File: "k8s.io/apimachinery@v0.18.8/pkg/runtime/serializer/json/json.go", Line: 350},
		{Func: "k8s.io/client-go/rest.(*Request).newStreamWatcher", File: "k8s.io/client-go@v0.18.8/rest/request.go", Line: 712},
		{Func: "k8s.io/client-go/rest.(*Request).Watch", File: "k8s.io/client-go@v0.18.8/rest/request.go", Line: 688},
		{Func: "k8s.io/client-go/kubernetes/typed/core/v1.(*pods).Watch", File: "k8s.io/client-go@v0.18.8/kubernetes/typed/core/v1/pod.go", Line: 107},
		{Func: "main.(*server).build", File: "github.com/leakrig/leakrig/subjects/watch-then-delete/main.go", Line: 88},
		{Func: "net/http.HandlerFunc.ServeHTTP", File: "net/http/server.go", Line: 2322},
	}}
}

func unmarshalStack() leak.Stack {
	return leak.Stack{Frames: []leak.Frame{
		{Func: "k8s.io/api/core/v1.(*PodSpec).Unmarshal", File: "k8s.io/api@v0.18.8/core/v1/generated.pb.go", Line: 44891},
		{Func: "k8s.io/api/core/v1.(*Pod).Unmarshal", File: "k8s.io/api@v0.18.8/core/v1/generated.pb.go", Line: 43100},
		{Func: "k8s.io/apimachinery/pkg/watch.(*StreamWatcher).receive", File: "k8s.io/apimachinery@v0.18.8/pkg/watch/streamwatcher.go", Line: 104},
	}}
}

func serveStack() leak.Stack {
	return leak.Stack{
		State: "IO wait",
		Frames: []leak.Frame{
			{Func: "internal/poll.(*FD).Read", File: "internal/poll/fd_unix.go", Line: 165},
			{Func: "net.(*netFD).Read", File: "net/fd_posix.go", Line: 68},
			{Func: "net/http.(*connReader).backgroundRead", File: "net/http/server.go", Line: 702},
		},
		Creator: &leak.Frame{Func: "net/http.(*connReader).startBackgroundRead", File: "net/http/server.go", Line: 698},
	}
}

func grown(s leak.Stack, from, to int64, module string, fingerprint bool) leak.StackGrowth {
	return leak.StackGrowth{
		ID: s.ID(), Stack: s, From: from, To: to, Module: module, Fingerprint: fingerprint,
		PerOperation: float64(to-from) / (fixtureRounds * fixtureOperations),
	}
}

func (fv fixtureVariant) verdict(i int, vr leak.VariantRecord) leak.VariantVerdict {
	leaks := fv.goroutines > 0
	outcome, leaked := leak.Clean, int64(0)
	if leaks {
		outcome, leaked = leak.Leaking, int64(math.Round(fv.goroutines*fixtureRounds*fixtureOperations))
	}
	vv := leak.VariantVerdict{Variant: fv.name, Expect: fv.expect, Outcome: outcome, Result: leak.Met}
	vv.Reason = fmt.Sprintf("It stays within every bound over %d operations.", fixtureRounds*fixtureOperations)
	if leaks {
		vv.Reason = fmt.Sprintf("Its fingerprint receive shows: %s goroutines per operation against a bound of 0.01.", rate(fv.goroutines, ""))
		vv.Growing = []leak.StackGrowth{grown(receiveStack(), 0, leaked, "k8s.io/apimachinery "+fv.version, true), grown(serveStack(), 1, 3, "", false)}
		heap := int64(fv.heap * fixtureRounds * fixtureOperations)
		vv.HeapGrowing = []leak.StackGrowth{
			grown(decodeStack(), 40960, 40960+heap*6/10, "k8s.io/apimachinery "+fv.version, false),
			grown(unmarshalStack(), 8192, 8192+heap*3/10, "k8s.io/api "+fv.version, false),
		}
	}
	vv.Findings = []leak.Finding{
		fv.delta(vr, outcome),
		fv.growth("heap-growth", "heap.alloc", "bytes", 2048, fv.heap, vr, outcome),
		fv.stack(vr, outcome, leaked, i),
	}
	return vv
}

func (fv fixtureVariant) delta(vr leak.VariantRecord, outcome leak.Outcome) leak.Finding {
	points := samplePoints(&vr, "goroutine.count")
	change := points[fixtureRounds].Value - points[0].Value
	return leak.Finding{
		Check: "goroutines", Kind: "delta", Outcome: outcome, Series: "goroutine.count", Unit: "goroutines", Points: points,
		Summary:      fmt.Sprintf("%s goroutines from the baseline to round 7, bound 10.", rate(change, "")),
		PerOperation: fv.goroutines, Low: fv.goroutines, High: fv.goroutines, Bound: 10,
		Gates: []leak.Gate{
			{Name: "change", Value: change, Op: ">", Bound: 10, Unit: "goroutines", Holds: change > 10, Supports: supports(change > 10), Doc: "a bound is a bound: above it, the variant leaks"},
			{Name: "after idling", Value: change, Op: ">", Bound: 10, Unit: "goroutines", Holds: change > 10, Supports: supports(change > 10), Doc: "still there after the idle wait"},
		},
	}
}

func (fv fixtureVariant) growth(name, metric, unit string, bound, perOp float64, vr leak.VariantRecord, outcome leak.Outcome) leak.Finding {
	p, drawdown := 0.0000248, 0.01
	if outcome == leak.Clean {
		p, drawdown = 0.281, 0.92
	}
	return leak.Finding{
		Check: name, Kind: "growth", Outcome: outcome, Series: metric, Unit: unit, Points: samplePoints(&vr, metric),
		Summary:      fmt.Sprintf("%s against a bound of %s; p = %.2g.", perOperation(perOp, unit), value(bound, unit), p),
		PerOperation: perOp, Low: perOp - 190, High: perOp + 210, Bound: bound, BoundPerOperation: true,
		Gates: []leak.Gate{
			{Name: "slope", Value: perOp, Op: ">", Bound: bound, Unit: unit, Holds: perOp > bound, Supports: supports(perOp > bound), Doc: "Theil–Sen slope after the onset is over the bound"},
			{Name: "trend", Value: p, Op: "≤", Bound: 0.00025, Holds: p <= 0.00025, Supports: supports(p <= 0.00025), Doc: "exact one-sided Mann–Kendall, its share of the false-alarm budget"},
			{Name: "drawdown", Value: drawdown, Op: "≤", Bound: 0.5, Holds: drawdown <= 0.5, Doc: "largest fall as a share of the net growth"},
			{Name: "rounds", Value: 7, Op: "≥", Bound: 5, Holds: true, Doc: "fewer rounds cannot decide"},
		},
	}
}

func (fv fixtureVariant) stack(vr leak.VariantRecord, outcome leak.Outcome, leaked int64, i int) leak.Finding {
	f := leak.Finding{
		Check: "receive", Kind: "stack", Outcome: outcome, Unit: "goroutines", Fingerprint: fv.expect == leak.ExpectLeaking,
		Summary:      fmt.Sprintf("%s goroutines per operation in chan send at StreamWatcher.receive, bound 0.01.", rate(fv.goroutines, "")),
		PerOperation: fv.goroutines, Low: fv.goroutines, High: fv.goroutines, Bound: 0.01, BoundPerOperation: true,
		Gates: []leak.Gate{{Name: "growth", Value: fv.goroutines, Op: ">", Bound: 0.01, Unit: "goroutines", Holds: fv.goroutines > 0.01, Supports: supports(fv.goroutines > 0.01), Doc: "goroutines per operation on the matching stacks"}},
	}
	for _, p := range samplePoints(&vr, "goroutine.count") {
		p.Value -= 9
		f.Points = append(f.Points, p)
	}
	if leaked > 0 {
		f.Stacks = []leak.StackGrowth{grown(receiveStack(), 0, leaked, "k8s.io/apimachinery "+fv.version, true)}
	}
	return f
}

// failing is the same run with one failure of each kind: the fix leaks, a check is inconclusive, and a variant ends
// after two rounds.
func failing() Input {
	in := fixture()
	in.Record.Variants, in.Verdict.Variants = in.Record.Variants[:5], in.Verdict.Variants[:5]
	in.Record.Plan.Variants = in.Record.Plan.Variants[:5]

	leaky := fixtureVariants[0]
	leaky.name, leaky.expect, leaky.version = "fixed", leak.ExpectClean, "v0.21.0"
	in.Record.Variants[1] = leaky.record(1, in.Record.Started)
	fixed := leaky.verdict(1, in.Record.Variants[1])
	fixed.Result, fixed.Reason = leak.NotMet, "It should be clean, but goroutines grow by 1 per operation, above the bound of 10 in total."
	for i := range fixed.Growing {
		fixed.Growing[i].Fingerprint = false
	}
	in.Verdict.Variants[1] = fixed

	heap := &in.Verdict.Variants[2].Findings[1]
	heap.Outcome, heap.Summary = leak.Inconclusive, "The trend is not steady enough: p = 0.012."
	heap.Gates[1].Value = 0.012
	in.Verdict.Variants[2].Outcome, in.Verdict.Variants[2].Result = leak.Inconclusive, leak.Undecided
	in.Verdict.Variants[2].Reason = "heap-growth is undecided: p = 0.012, needed 0.00025."

	drain := &in.Record.Variants[4]
	drain.Snapshots, drain.Idle = drain.Snapshots[:3], nil
	drain.Failure = &leak.Failure{Message: "round 3: post /watch-then-delete: the subject exited with status 2\npanic: send on closed channel\n\ngoroutine 77 [running]:", Hint: "see drain/subject.log; keep the cluster with --keep"}
	in.Verdict.Variants[4] = leak.VariantVerdict{Variant: "drain", Expect: leak.ExpectClean, Result: leak.Unmeasured, Reason: "2 of 7 planned rounds completed."}

	in.Verdict.Result = leak.Unmeasured
	in.Verdict.Sentence = "Could not measure drain: 2 of 7 planned rounds completed; fixed leaks 1 goroutine per operation although it should be clean."
	return in
}

// herd is a run whose leaky variant has three replicas, of which the second leaks.
func herd() Input {
	in := fixture()
	start := in.Record.Started
	leaky := fixtureVariants[0]
	calm := leaky
	calm.goroutines, calm.heap = 0, 11
	in.Record.Plan.Variants, in.Record.Plan.Replicas = in.Record.Plan.Variants[:2], 3
	in.Record.Variants, in.Verdict.Variants, in.Scenario.Spec.Variants = in.Record.Variants[1:2], in.Verdict.Variants[1:2], in.Scenario.Spec.Variants[:2]
	of := func(fv fixtureVariant, replica int) (leak.VariantRecord, leak.VariantVerdict) {
		r := fv.record(0, start)
		r.Replica = replica
		for i := range r.Snapshots {
			r.Snapshots[i].Operations = (r.Snapshots[i].Operations + 3 - replica) / 3
			for k := range r.Snapshots[i].Samples {
				for f, name := range r.Snapshots[i].Samples[k].Files {
					r.Snapshots[i].Samples[k].Files[f] = fmt.Sprintf("leaky/replica-%d/%s", replica, name[len("leaky/"):])
				}
			}
		}
		v := fv.verdict(0, r)
		v.Replica, v.Operations = replica, r.Final().Operations
		if fv.goroutines == 0 {
			v.Result, v.Reason = leak.NotMet, "not reproduced"
		}
		return r, v
	}
	var records []leak.VariantRecord
	var verdicts []leak.VariantVerdict
	for i, fv := range []fixtureVariant{calm, leaky, calm} {
		r, v := of(fv, i+1)
		records, verdicts = append(records, r), append(verdicts, v)
	}
	records[0].Replicas = records[1:]
	records[0].Replicas[1].Warnings = []string{"round 2: second dump: EOF"}
	worst := verdicts[1]
	worst.Replicas, worst.Reason = verdicts, "replica 2, the worst of 3: "+worst.Reason
	in.Record.Variants = append([]leak.VariantRecord{records[0]}, in.Record.Variants...)
	in.Verdict.Variants = append([]leak.VariantVerdict{worst}, in.Verdict.Variants...)
	in.Verdict.Sentence = "leaky (replica 2 of 3) leaks +1.00 goroutines per operation, fixed is clean."
	return in
}

func supports(aLeak bool) leak.Supports {
	if aLeak {
		return leak.SupportsLeak
	}
	return leak.SupportsClean
}
