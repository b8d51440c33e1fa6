package bisect

import (
	"context"
	"sync"
	"time"
)

// aheadBuilder builds versions, one at a time: the requested one, and during its measurement those that may come next. It
// builds no version twice. get, ahead and stop are called from one goroutine.
type aheadBuilder struct {
	build func(ctx context.Context, c Candidate, behind bool) (*made, error)

	mu   sync.Mutex
	jobs map[string]*job

	// Of the builds that run behind a measurement.
	cancel context.CancelFunc
	ended  chan struct{}
	now    string // what is being built
}

// job is one version that was built, or could not be.
type job struct {
	made *made
	err  error
	// took is the duration of the build, waited how long the caller waited for it.
	took, waited time.Duration
}

// account returns what the job took since it was last asked.
func (j *job) account() (took, waited float64) {
	took, waited = j.took.Seconds(), j.waited.Seconds()
	j.took, j.waited = 0, 0
	return took, waited
}

func newAheadBuilder(build func(context.Context, Candidate, bool) (*made, error)) *aheadBuilder {
	return &aheadBuilder{build: build, jobs: map[string]*job{}}
}

// get returns the version, built. The error is that of the build, or ctx's.
func (w *aheadBuilder) get(ctx context.Context, c Candidate) (*job, error) {
	start := time.Now()
	j := w.find(ctx, c)
	j.waited += time.Since(start)
	return j, j.err
}

func (w *aheadBuilder) find(ctx context.Context, c Candidate) *job {
	if w.ended != nil {
		w.mu.Lock()
		wanted := w.now == c.Version
		w.mu.Unlock()
		for wanted { // it is being built: wait for it
			select {
			case <-w.ended:
				wanted = false
			case <-ctx.Done():
				wanted = false
			case <-time.After(20 * time.Millisecond):
				w.mu.Lock()
				wanted = w.now == c.Version
				w.mu.Unlock()
			}
		}
		w.stop()
	}
	if j := w.jobs[c.Version]; j != nil {
		return j
	}
	return w.do(ctx, c, false)
}

// do builds one version and keeps it, unless the build was stopped.
func (w *aheadBuilder) do(ctx context.Context, c Candidate, behind bool) *job {
	start := time.Now()
	j := &job{}
	j.made, j.err = w.build(ctx, c, behind)
	j.took = time.Since(start)
	if ctx.Err() != nil {
		j.err = context.Cause(ctx)
		return j
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.jobs[c.Version] = j
	return j
}

// ahead starts to build versions that may be asked for next.
func (w *aheadBuilder) ahead(versions []Candidate) {
	w.stop()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	w.cancel, w.ended = cancel, ended
	go func() {
		defer close(ended)
		for _, c := range versions {
			w.mu.Lock()
			known := w.jobs[c.Version] != nil
			w.now = c.Version
			w.mu.Unlock()
			if ctx.Err() == nil && !known {
				w.do(ctx, c, true)
			}
		}
		w.mu.Lock()
		w.now = ""
		w.mu.Unlock()
	}()
}

// stop stops builds of versions that may come next.
func (w *aheadBuilder) stop() {
	if w.ended == nil {
		return
	}
	w.cancel()
	<-w.ended
	w.ended, w.cancel = nil, nil
}
