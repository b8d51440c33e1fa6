// Package runner is the sequence of a run: build, boot, start, warm up, baseline, rounds, idle, stop. It
// measures and records; it decides nothing. After every snapshot the record is on disk, whole.
package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

// idleFactor is how many quiet windows leakrig idles after the last round, before it measures once
// more: what drains slowly is gone by then, a leak is not.
const idleFactor = 10

// stopTimeout limits the stop of a subject, teardownTimeout that of a cluster, in any state.
const (
	stopTimeout     = 20 * time.Second
	teardownTimeout = 2 * time.Minute
)

// Config is one run.
type Config struct {
	Scenario *leak.Scenario
	// Variants are those of the scenario that are run, in order.
	Variants []leak.Variant
	// Dir exists.
	Dir rundir.Dir
	// Boot boots a cluster for the variant; nil where the scenario has none. Variants share the first one's,
	// unless OwnClusters is set.
	Boot        func(ctx context.Context, v leak.Variant) (leak.Cluster, error)
	OwnClusters bool
	// Shared is set where the cluster that Boot returns outlives the run: it is not closed.
	Shared   bool
	Launcher leak.Launcher
	// Metrics are those of the scenario's probes, by probe, the default first.
	Metrics  map[string][]leak.Metric
	Progress leak.Progress
	// Secrets are kept out of the record.
	Secrets rundir.Secrets
	// Parameters are the values of the scenario's parameters for the record; nil keeps all.
	Parameters map[string]string
	// Clean redacts a raw file before it is written; nil keeps files as read.
	Clean func(name string, data []byte) ([]byte, error)
	// Version is leakrig's own, Args its command line.
	Version string
	Args    []string
	// CheckEvery is how often the cluster is asked whether it still answers.
	CheckEvery time.Duration
	// LoadEnv are variables for programs that are load.
	LoadEnv []string
	// LookAgain has goroutines read a second time where operations did not return.
	LookAgain bool
	// Enough returns after every round why no more rounds are needed, "" if they are. nil means that they always are.
	Enough func(v leak.Variant, record leak.VariantRecord) string
	// Resume is the record of a soak that was cut short, to go on with; nil starts from the beginning.
	Resume *leak.Record
	// Vitals reads the counters of a process: whether it is still the same one, and whether the load reached it; nil
	// reads none.
	Vitals func(ctx context.Context, t leak.Target) (leak.Vitals, error)
	// HeapDump reads a heap dump of a process, for the holders of memory that grew; nil reads none. The baseline is an
	// earlier dump of the process, or nil.
	HeapDump func(ctx context.Context, t leak.Target, baseline leak.HeapDump) (leak.HeapDump, error)
	// Identity tells the program's processes from others, so that a soak can be resumed; nil where the program is
	// leakrig's own and ends with it.
	Identity Identity
}

// Identity recognises a process. Mark reads the evidence. Same returns the evidence that it is the same process. If it
// is another one, or this is unknown, the error is a *leak.AnotherProcessError.
type Identity interface {
	Mark(ctx context.Context, t leak.Target) (leak.ProcessMark, error)
	Same(ctx context.Context, t leak.Target, before leak.ProcessMark) (how string, err error)
}

// Run performs the run and returns its record, which is also in run.json. What could not be measured
// is in the record, as a failure of the variant or of the run; an error means that the record itself
// could not be written, or is an AnotherProcessError.
func Run(ctx context.Context, c Config) (*leak.Record, error) {
	r := &run{Config: c, hashes: map[string]string{}, record: &leak.Record{
		Schema: leak.RecordSchema, Scenario: c.Scenario.Metadata.Name, Leakrig: c.Version, Args: c.Args,
		Started: time.Now().UTC().Truncate(time.Millisecond), Machine: machine(), Metrics: leak.MetricsByName(c.Metrics),
		Parameters: c.Scenario.Spec.Parameters,
		Plan:       leak.Plan{Warmup: c.Scenario.Spec.Warmup.Rounds, Rounds: c.Scenario.Spec.MostRounds(), Looks: c.Scenario.Spec.Looks()},
	}}
	if c.Parameters != nil && r.record.Parameters != nil {
		r.record.Parameters = c.Parameters
	}
	r.record.Plan.For = c.Scenario.Spec.For
	if n := c.Scenario.Spec.Subject.Copies(); n > 1 {
		r.record.Plan.Replicas = n
	}
	r.record.Plan.Soak = c.Scenario.Spec.Soak
	for _, v := range c.Variants {
		r.record.Plan.Variants = append(r.record.Plan.Variants, v.Name)
	}
	if c.Resume != nil {
		r.reopen()
	} else {
		// Tests run without a file; a run without one has no seal that holds.
		if sum, err := r.Dir.Hash(rundir.ScenarioFile); err == nil {
			r.hashes[rundir.ScenarioFile] = sum
		}
		if err := r.save(); err != nil {
			return r.record, err
		}
	}
	failure := r.all(ctx)
	var another *leak.AnotherProcessError
	if errors.As(failure, &another) {
		return nil, another
	}
	r.record.Interrupted = ctx.Err() != nil
	if failure != nil && !r.record.Interrupted {
		r.record.Failure = asFailure(failure)
	}
	r.record.Finished = time.Now().UTC().Truncate(time.Millisecond)
	return r.record, r.save()
}

type run struct {
	Config
	record  *leak.Record
	cluster leak.Cluster
	// writing guards the record, to which variants and replicas add at once, and the two fields below.
	writing sync.Mutex
	// hashes are those of all raw files, including files of drafts. round is what a round of the last variant took.
	hashes map[string]string
	round  time.Duration
	room   room
}

// save writes the record, sealed with the hashes of the raw files that it names.
func (r *run) save() error {
	r.writing.Lock()
	defer r.writing.Unlock()
	r.record.Hashes = maps.Clone(r.hashes)
	rundir.KeepHashes(r.record)
	return r.Dir.WriteRecord(r.record, r.Secrets...)
}

// keepFile writes a raw file and notes its hash.
func (r *run) keepFile(name string, data []byte) error {
	if r.Clean != nil {
		var err error
		if data, err = r.Clean(name, data); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := r.Dir.WriteFile(name, data); err != nil {
		return err
	}
	r.writing.Lock()
	defer r.writing.Unlock()
	r.hashes[name] = rundir.HashOf(data)
	return nil
}

// bootDelay is the time for builds before a cluster boots next to them: one that fails at once needs no cluster.
const bootDelay = 500 * time.Millisecond

// all runs all variants. The record has the failure of a variant, and the next variant continues. A returned error
// ended the run.
func (r *run) all(ctx context.Context) (err error) {
	ctx, stop := context.WithCancel(ctx)
	booting, noBoot := context.WithCancelCause(ctx)
	ready, built := r.build(ctx, func() { noBoot(errNothingBuilt) })
	defer func() {
		stop()
		<-built
	}()
	select {
	case <-built:
	case <-time.After(bootDelay):
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if r.Boot != nil && r.runnable() && !r.OwnClusters {
		if err = r.up(booting, r.Variants[0]); err != nil && !r.runnable() {
			return nil // the record has the failures of the builds
		}
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.down(ctx, err != nil || r.failed())) }()
	}
	return r.each(ctx, ready)
}

// each measures variants as they become ready.
func (r *run) each(ctx context.Context, ready <-chan int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	turns := make(chan struct{}, r.Scenario.Spec.AtOnce())
	for {
		select {
		case turns <- struct{}{}:
		case <-ctx.Done():
			wg.Wait()
			return context.Cause(ctx)
		}
		select {
		case i, ok := <-ready:
			if !ok {
				wg.Wait()
				return context.Cause(ctx)
			}
			wg.Go(func() {
				defer func() { <-turns }()
				if err := r.one(ctx, i, r.Variants[i]); err != nil {
					cancel(err) // the first one counts
				}
			})
		case <-ctx.Done():
			wg.Wait()
			return context.Cause(ctx)
		}
	}
}

// one measures the i-th variant. A returned error ends the run.
func (r *run) one(ctx context.Context, i int, v leak.Variant) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	record := r.draft(i)
	if err := r.onCluster(ctx, i, v, &record); err != nil {
		var another *leak.AnotherProcessError
		if ctx.Err() != nil || errors.As(err, &another) {
			r.publish(i, &record)
			return err
		}
		record.Failure = asFailure(err)
		r.Progress.Log("%s: could not measure: %v", v.Name, err)
		var disk *rundir.DiskError
		if errors.As(err, &disk) {
			r.publish(i, &record)
			return err
		}
	}
	r.publish(i, &record)
	if err := r.save(); err != nil {
		return err
	}
	return r.healthy(ctx)
}

// up boots a cluster for a variant, or for all of them.
func (r *run) up(ctx context.Context, v leak.Variant) error {
	c, err := r.Boot(ctx, v)
	if err != nil {
		return fmt.Errorf("boot: %w", err)
	}
	r.cluster = c
	info := c.Info()
	r.record.Cluster = &info
	r.Progress.Log("%s control plane %s ready in %.1fs", info.Provider, info.Kubernetes, info.BootTime)
	return nil
}

// onCluster measures one variant, on a separate cluster if the scenario requires it.
func (r *run) onCluster(ctx context.Context, i int, v leak.Variant, record *leak.VariantRecord) (err error) {
	if r.Boot == nil || !r.OwnClusters {
		return r.variant(ctx, i, v, record)
	}
	if err := r.up(ctx, v); err != nil {
		return err
	}
	record.Cluster = r.record.Cluster
	defer func() {
		err = errors.Join(err, r.down(ctx, err != nil))
		r.cluster = nil
	}()
	return r.variant(ctx, i, v, record)
}

var errNothingBuilt = errors.New("no variant could be built")

// build starts to build the variants. ready has the variants that can be measured, as soon as they are built. If none
// can be, build calls none. built is closed at the end.
func (r *run) build(ctx context.Context, none func()) (ready <-chan int, built <-chan struct{}) {
	can, done := make(chan int, len(r.Variants)), make(chan struct{})
	resumed := len(r.record.Variants) // of a soak
	for i, v := range r.Variants {
		if i >= resumed {
			r.record.Variants = append(r.record.Variants, leak.VariantRecord{Name: v.Name, Snapshots: []leak.Snapshot{}, Stacks: map[string]leak.Stack{}})
		} else if record := r.record.Variants[i]; record.Failure == nil && !record.Done() {
			can <- i
		}
	}
	go func() {
		defer close(done)
		defer close(can)
		for i := resumed; i < len(r.Variants) && ctx.Err() == nil; i++ {
			if r.built(ctx, i) {
				can <- i
			}
		}
		if !r.runnable() {
			none()
		}
	}()
	return can, done
}

// built builds the i-th variant and reports whether it can be measured.
func (r *run) built(ctx context.Context, i int) bool {
	v := r.Variants[i]
	start := time.Now()
	r.Progress.Status("%s: building, variant %d of %d", v.Name, i+1, len(r.Variants))
	err := r.Launcher.Build(ctx, v)
	switch d := time.Since(start); {
	case ctx.Err() != nil:
		return false
	case err != nil:
		r.writing.Lock()
		r.record.Variants[i].Failure = asFailure(err)
		r.writing.Unlock()
		r.Progress.Log("%s: could not build: %v", v.Name, err)
	case d > 5*time.Second:
		r.Progress.Log("%s: built in %s", v.Name, d.Round(time.Second))
	}
	return err == nil
}

func (r *run) runnable() bool { return r.runnableAfter(-1) > 0 }

// runnableAfter counts the variants after the i-th that can be measured.
func (r *run) runnableAfter(i int) int {
	r.writing.Lock()
	defer r.writing.Unlock()
	n := 0
	for _, v := range r.record.Variants[i+1:] {
		if v.Failure == nil {
			n++
		}
	}
	return n
}

func (r *run) failed() bool {
	r.writing.Lock()
	defer r.writing.Unlock()
	return slices.ContainsFunc(r.record.Variants, func(v leak.VariantRecord) bool { return v.Failure != nil })
}

// saveLogs keeps the cluster's logs of a run that went wrong.
func (r *run) saveLogs(ctx context.Context) {
	saver, ok := r.cluster.(leak.LogSaver)
	if !ok || ctx.Err() != nil {
		return
	}
	r.Progress.Status("collecting the cluster's logs")
	if err := saver.SaveLogs(ctx); err != nil {
		r.record.Warnings = append(r.record.Warnings, fmt.Sprintf("collect the cluster's logs: %v", err))
	}
}

// down stops the cluster, and keeps its logs if something went wrong.
func (r *run) down(ctx context.Context, wrong bool) error {
	if wrong {
		r.saveLogs(ctx)
	}
	if r.Shared {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), teardownTimeout)
	defer cancel()
	if err := r.cluster.Close(ctx); err != nil {
		r.Progress.Log("could not stop the cluster: %v", err) // an interrupted run has no failure to tell it
		return fmt.Errorf("stop the cluster: %w", err)
	}
	return nil
}

// healthy returns an error if the cluster no longer answers.
func (r *run) healthy(ctx context.Context) error {
	if r.cluster == nil {
		return nil
	}
	return r.cluster.Check(ctx)
}

func asFailure(err error) *leak.Failure {
	return &leak.Failure{Message: err.Error(), Hint: leak.Hint(err)}
}

func machine() leak.Machine {
	m := leak.Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version()}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(b))
	}
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		if f := strings.Fields(string(b)); len(f) > 1 && f[0] == "MemTotal:" {
			kib, _ := strconv.ParseInt(f[1], 10, 64)
			m.MemoryBytes = kib << 10
		}
	}
	return m
}
