package leak

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// RecordSchema is the version of the record's JSON form that this build writes. Readers accept it and
// every older one. Records carry a seal since version 2.
const RecordSchema = 2

// Record is what a run wrote (run.json): everything that judging and rendering need.
type Record struct {
	Schema   int    `json:"schema"`
	Scenario string `json:"scenario"`
	// Leakrig is the version of leakrig that wrote the record.
	Leakrig string `json:"leakrig"`
	// Args is the command line that made the run, without the program.
	Args     []string     `json:"args,omitempty"`
	Started  time.Time    `json:"started"`
	Finished time.Time    `json:"finished,omitzero"`
	Machine  Machine      `json:"machine"`
	Cluster  *ClusterInfo `json:"cluster,omitempty"`
	Plan     Plan         `json:"plan"`
	// Parameters are the values that the scenario's parameters had.
	Parameters map[string]string `json:"parameters,omitempty"`
	// Metrics are the units and docs of every series in the samples, keyed "probe.metric".
	Metrics  map[string]Metric `json:"metrics"`
	Warnings []string          `json:"warnings,omitempty"`
	// Failure is why the run as a whole ended early, for example because a cluster did not boot.
	Failure     *Failure `json:"failure,omitempty"`
	Interrupted bool     `json:"interrupted,omitempty"`
	// Hashes are the SHA-256 of scenario.yaml and of every raw file that the samples name, by path.
	Hashes map[string]string `json:"hashes,omitempty"`
	// Variants come last, and their snapshots in them: of a file that lost its end the rest can be read.
	Variants []VariantRecord `json:"variants"`
}

// Plan is what the run set out to do. A planned round without a sample is never a pass.
type Plan struct {
	Variants []string `json:"variants"`
	Warmup   int      `json:"warmup"`
	Rounds   int      `json:"rounds"`
	// Replicas is how many of the subject there were to be of each variant, 0 for one.
	Replicas int `json:"replicas,omitempty"`
	// Looks are the rounds after which a variant could end, if all was decided; Rounds is the last of them.
	Looks []int `json:"looks,omitempty"`
	// For is the time budget, 0 where there is none; Rounds is then the most that there may be.
	For Duration `json:"for,omitempty"`
	// Soak is set if rounds come at fixed times. Rounds is then their number if none is late.
	Soak *SoakSpec `json:"soak,omitempty"`
}

// Machine is where leakrig ran.
type Machine struct {
	OS     string `json:"os"`
	Arch   string `json:"arch"`
	CPUs   int    `json:"cpus"`
	Kernel string `json:"kernel,omitempty"`
	// MemoryBytes is the machine's memory, 0 where unknown.
	MemoryBytes int64 `json:"memoryBytes,omitempty"`
	// Go is the toolchain that built leakrig.
	Go string `json:"go"`
}

// ClusterInfo is the cluster that the subjects talked to.
type ClusterInfo struct {
	Provider string `json:"provider"`
	// Kubernetes is the version that the API server itself reported.
	Kubernetes string  `json:"kubernetes"`
	BootTime   float64 `json:"bootSeconds"`
	// Binaries says where leakrig has the binaries of the control plane from.
	Binaries string `json:"binaries,omitempty"`
	// Nodes is 0 where they are not leakrig's.
	Nodes     int    `json:"nodes,omitempty"`
	NodeImage string `json:"nodeImage,omitempty"`
	// Reused is set for a cluster that an earlier run had kept.
	Reused bool `json:"reused,omitempty"`
	// Pinned has the commands of the nodes that the variant pins, from the build information of their binaries.
	Pinned []NodeCommand `json:"pinned,omitempty"`
}

// NodeCommand is a command of a node, by its own account (go version -m).
type NodeCommand struct {
	Path      string `json:"path"`
	GoVersion string `json:"goVersion"`
	// Modules are the modules of the pin.
	Modules []Module `json:"modules"`
}

// Failure is an error of the measurement, kept in the record.
type Failure struct {
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// VariantRecord is all that was measured of one variant.
type VariantRecord struct {
	Name string `json:"name"`
	// Replica numbers the replicas of the subject from 1; 0 if there is only one.
	Replica int `json:"replica,omitempty"`
	// Replicas are the replicas from the second on, each with its own share of the load, snapshots and stacks. Fields
	// about the variant as a whole (cluster, failure, why it stopped) are set only in the first.
	Replicas []VariantRecord `json:"replicas,omitempty"`
	Subject  SubjectInfo     `json:"subject"`
	// Components are those observed, with what their binaries say of themselves.
	Components []ComponentInfo `json:"components,omitempty"`
	// Cluster is the variant's own cluster, nil if all variants share the record's.
	Cluster *ClusterInfo `json:"cluster,omitempty"`
	// Warmup holds the tallies of the rounds before the baseline.
	Warmup []Tally `json:"warmup,omitempty"`
	// Control are snapshots around rounds without load, before the baseline.
	Control []Snapshot `json:"control,omitempty"`
	// Stopped is why planned rounds were not needed, "" if all were run.
	Stopped string `json:"stopped,omitempty"`
	// Spent is set where a time budget ended before every check was decided.
	Spent bool `json:"spent,omitempty"`
	// Soak is the course of a soak, nil for any other run. Of several replicas, the first has it.
	Soak *SoakRecord `json:"soak,omitempty"`
	// Quiet is the activity of the processes while they idle without load. Reading is their activity while only their
	// counters are read. Both are absent if the counters were not read.
	Quiet   [][]Activity `json:"quiet,omitempty"`
	Reading [][]Activity `json:"reading,omitempty"`
	// Traced is set where a run tries to read the counters, so that it knows whether its load arrives.
	Traced bool `json:"traced,omitempty"`
	// Idle is taken after the last round and a long idle wait. It distinguishes a leak from a slow drain.
	Idle *Snapshot `json:"idle,omitempty"`
	// Stacks are the stacks that the groups refer to, by Stack.ID.
	Stacks map[string]Stack `json:"stacks,omitempty"`
	// Holders is who holds the memory that grew, nil if the run does not look for them.
	Holders  *Holders `json:"holders,omitempty"`
	Failure  *Failure `json:"failure,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// Snapshots are in order; the first is the baseline, after no measured load.
	Snapshots []Snapshot `json:"snapshots"`
}

// Binary returns the build information of the binary that a probe reads: a component or the program.
func (v *VariantRecord) Binary(probe string) SubjectInfo {
	name, _, _ := strings.Cut(probe, "/")
	for _, c := range v.Components {
		if c.Name == name {
			return c.SubjectInfo
		}
	}
	return v.Subject
}

// SubjectInfo is the build information of the binary under test (go version -m).
type SubjectInfo struct {
	// Command is the program and its arguments, without paths of the machine.
	Command   []string `json:"command,omitempty"`
	Placement string   `json:"placement,omitempty"`
	GoVersion string   `json:"goVersion,omitempty"`
	// Main is the path of the program's own module if it was built from a folder and not at a version.
	Main string `json:"main,omitempty"`
	// Revision is the commit that the program was built from, with "+dirty" if its folder had local changes.
	Revision string   `json:"revision,omitempty"`
	Modfile  string   `json:"modfile,omitempty"`
	Rewrite  *Rewrite `json:"rewrite,omitempty"`
	// HeapDump reports whether leakrig built the endpoint for heap dumps into the program.
	HeapDump bool     `json:"heapDump,omitempty"`
	Modules  []Module `json:"modules,omitempty"`
}

// ComponentInfo is a component of the cluster under observation.
type ComponentInfo struct {
	// Name is the scenario's name for it.
	Name string `json:"name"`
	SubjectInfo
}

// Rewrite is a function of a module that the binary has with another body than the module: it re-enacts a
// version that can no longer be had.
type Rewrite struct {
	// Module is "path version".
	Module  string `json:"module"`
	Package string `json:"package"`
	// Func is the function within its package, "(*Simulator).Close".
	Func string `json:"func"`
	// Doc is what the function re-enacts, and Body its new body.
	Doc  string `json:"doc"`
	Body string `json:"body"`
}

// Module is one line of go version -m.
type Module struct {
	Path    string `json:"path"`
	Version string `json:"version"`
	// Replace is "path version" where a replace line stood in for the module.
	Replace string `json:"replace,omitempty"`
}

// Snapshot is all samples after a round has settled.
type Snapshot struct {
	// Round is 0 for the baseline.
	Round int       `json:"round"`
	Time  time.Time `json:"time"`
	// Merged is the number of rounds right before this one that were removed from a soak. Load includes theirs: each
	// action has one tally, with the latencies of the slowest round.
	Merged int `json:"merged,omitempty"`
	// Operations counts those attempted since the baseline, this round included.
	Operations int     `json:"operations"`
	Load       []Tally `json:"load,omitempty"`
	// Activity is the activity of the observed processes from right before the load until right after it. Reading is
	// their activity right before that, while only their counters were read.
	Activity []Activity   `json:"activity,omitempty"`
	Reading  []Activity   `json:"reading,omitempty"`
	Settle   SettleResult `json:"settle"`
	Samples  []Sample     `json:"samples"`
}

// SettleResult is how the wait after a round ended.
type SettleResult struct {
	Settled bool `json:"settled"`
	// Reason is a sentence.
	Reason  string  `json:"reason"`
	Seconds float64 `json:"seconds"`
	Polls   int     `json:"polls"`
}

// Sample is one reading of one probe.
type Sample struct {
	Probe string `json:"probe"`
	// Values are the probe's metrics, by name, in the metric's unit.
	Values map[string]float64 `json:"values"`
	// Groups are stacks with counts, by source: "dump" (text, with wait states and creators),
	// "profile" (pprof), "heap" or "leaked". Groups of different sources are never compared.
	Groups map[string][]Group `json:"groups,omitempty"`
	// Rate is how many bytes are allocated between two samples of a heap profile, as the profile states.
	Rate int64 `json:"rate,omitempty"`
	// Unavailable is why the subject cannot serve the probe; there are then no values.
	Unavailable string `json:"unavailable,omitempty"`
	// Read is when the source took the reading, if that differs from the time of the request.
	Read time.Time `json:"read,omitzero"`
	// Blocked are goroutines that were blocked on the same stack in a second dump, ten seconds after the
	// snapshot; it is taken where operations never returned.
	Blocked []Group `json:"blocked,omitempty"`
	// BlockedRead is set if the second dump was taken.
	BlockedRead bool `json:"blockedRead,omitempty"`
	// Files are the raw files, relative to the run directory.
	Files []string `json:"files,omitempty"`
}

// Group is the number of goroutines, bytes and objects of one stack.
type Group struct {
	Stack string `json:"stack"`
	// Count is goroutines, or live objects for the heap.
	Count int64 `json:"count"`
	// Bytes is live bytes for the heap.
	Bytes int64 `json:"bytes,omitempty"`
	// IDs are the goroutines that the sample found there, if a text dump lists them. Count is the settled minimum,
	// which may be lower.
	IDs IDs `json:"ids,omitempty"`
	// OldestMinutes is how long the one that waits longest has waited.
	OldestMinutes int `json:"oldestMinutes,omitempty"`
}

// Tally is what one action did in one round: attempted = succeeded + failed.
type Tally struct {
	Action string `json:"action"`
	// Fault describes the fault if the action is one, and "" for load. Its operations are injections.
	Fault     string `json:"fault,omitempty"`
	Attempted int    `json:"attempted"`
	Succeeded int    `json:"succeeded"`
	Failed    int    `json:"failed"`
	// TimedOut are those of the failed that did not return within their deadline: hung, or slow.
	TimedOut int `json:"timedOut,omitempty"`
	// Silent are those of the failed that returned as if they had succeeded, without their output.
	Silent int `json:"silent,omitempty"`
	// Seconds is the wall time of the whole action.
	Seconds float64 `json:"seconds"`
	Latency Latency `json:"latency"`
	// Open is how an open load kept to its schedule, nil for a closed load. Latency then counts from the intended start.
	Open *OpenLoad `json:"open,omitempty"`
	// Errors are the distinct messages of failed operations with their counts, the first few.
	Errors []ErrorCount `json:"errors,omitempty"`
	// Shares are the tallies of each replica, in order; nil where the operations were not for one of them
	// alone. A record has each with its replica.
	Shares []Tally `json:"-"`
	// Workers are the workers that performed the operations, in order, nil if leakrig itself did. Of several replicas,
	// the first has them.
	Workers []WorkerTally `json:"workers,omitempty"`
}

// WorkerTally is what one of several workers did of an action in one round.
type WorkerTally struct {
	Pod  string `json:"pod,omitempty"`
	Node string `json:"node,omitempty"`
	// First is the number of its first operation, Operations how many were its share.
	First      int `json:"first"`
	Operations int `json:"operations"`
	// Attempted is the number of operations of its share that it reported. The others count as failed in the whole.
	Attempted int `json:"attempted"`
	Succeeded int `json:"succeeded"`
	// LateSeconds is the delay of the worker after the common start, and Seconds the duration of its work.
	LateSeconds float64 `json:"lateSeconds"`
	Seconds     float64 `json:"seconds"`
	Latency     Latency `json:"latency"`
	// Lost is why the worker ended before its work, "" if it did not.
	Lost string `json:"lost,omitempty"`
}

// Share returns the part of the tally for replica i, from 0. It returns the whole tally if the operations were not for
// a replica.
func (t Tally) Share(i int) Tally {
	if i >= len(t.Shares) {
		t.Shares = nil
		return t
	}
	share := t.Shares[i]
	share.Action = t.Action
	if i == 0 {
		share.Workers = t.Workers
	}
	return share
}

// Latency is in seconds per operation, over the operations that ended.
type Latency struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// OpenLoad is how an open load kept to its schedule.
type OpenLoad struct {
	// Rate is the mean number of intended starts per second.
	Rate float64 `json:"rate"`
	// Waited counts operations that started late because the maximum number was in flight.
	Waited int `json:"waited,omitempty"`
	// InFlight is the maximum number of unfinished operations.
	InFlight int `json:"inFlight"`
	// LateSeconds is the largest delay of a start that leakrig caused.
	LateSeconds float64 `json:"lateSeconds"`
}

// With returns two loads at the same time as one. Each may be nil.
func (o *OpenLoad) With(other *OpenLoad) *OpenLoad {
	if o == nil || other == nil {
		return cmp.Or(o, other)
	}
	return &OpenLoad{o.Rate + other.Rate, o.Waited + other.Waited, o.InFlight + other.InFlight, max(o.LateSeconds, other.LateSeconds)}
}

// Then returns two loads after one another as one, with the larger rate. Each may be nil.
func (o *OpenLoad) Then(next *OpenLoad) *OpenLoad {
	if o == nil || next == nil {
		return cmp.Or(o, next)
	}
	return &OpenLoad{max(o.Rate, next.Rate), o.Waited + next.Waited, max(o.InFlight, next.InFlight), max(o.LateSeconds, next.LateSeconds)}
}

// ErrorCount is a message and its number of occurrences.
type ErrorCount struct {
	Message string `json:"message"`
	Count   int    `json:"count"`
	// Lost is set for operations that a lost worker did not report.
	Lost bool `json:"lost,omitempty"`
}

// Variant returns the record of the named variant, nil when it was not reached.
func (r *Record) Variant(name string) *VariantRecord {
	for i := range r.Variants {
		if r.Variants[i].Name == name {
			return &r.Variants[i]
		}
	}
	return nil
}

// Each returns the replicas of the variant as separate variants, in order; the variant itself if there is only one.
func (v *VariantRecord) Each() []VariantRecord {
	first := *v
	first.Replicas = nil
	all := []VariantRecord{first}
	for _, r := range v.Replicas {
		r.Cluster, r.Failure, r.Stopped, r.Spent = v.Cluster, v.Failure, v.Stopped, v.Spent
		all = append(all, r)
	}
	return all
}

// Shown returns the record with each variant replaced by the replica that the verdict shows. It does not change r.
func (r *Record) Shown(v *Verdict) *Record {
	shown := *r
	shown.Variants = slices.Clone(r.Variants)
	for i := range shown.Variants {
		x := &shown.Variants[i]
		if len(x.Replicas) == 0 {
			continue
		}
		all, at := x.Each(), 0
		for _, vv := range v.Variants {
			if vv.Variant == x.Name && vv.Replica >= 1 && vv.Replica <= len(all) {
				at = vv.Replica - 1
			}
		}
		warnings := []string(nil)
		for _, one := range all {
			for _, w := range one.Warnings {
				warnings = append(warnings, fmt.Sprintf("replica %d: %s", one.Replica, w))
			}
		}
		*x = all[at]
		x.Warnings = warnings
	}
	return &shown
}

// Modules are those of the binary that the probe reads.
func (v *VariantRecord) Modules(probe string) []Module {
	name, _, ok := strings.Cut(probe, "/")
	for _, c := range v.Components {
		if ok && c.Name == name {
			return c.SubjectInfo.Modules
		}
	}
	return v.Subject.Modules
}

// Probes are the names of the probes of a kind that the variant was read with, in order.
func (v *VariantRecord) Probes(kind string) []string {
	var names []string
	if len(v.Snapshots) > 0 {
		for _, s := range v.Snapshots[0].Samples {
			if ProbeKind(s.Probe) == kind {
				names = append(names, s.Probe)
			}
		}
	}
	return names
}

// Final is the last snapshot of a round, nil before the baseline.
func (v *VariantRecord) Final() *Snapshot {
	if len(v.Snapshots) == 0 {
		return nil
	}
	return &v.Snapshots[len(v.Snapshots)-1]
}

// Sample returns the named probe's sample, nil when there is none.
func (s *Snapshot) Sample(probe string) *Sample {
	for i := range s.Samples {
		if s.Samples[i].Probe == probe {
			return &s.Samples[i]
		}
	}
	return nil
}
