package leaktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leakrig/leakrig/holders/heapdump"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/httpclient"
)

// operations is the load of a test: the process with the operation performs them on request.
type operations struct {
	Times, Concurrency int
	// refuse returns an error if the operations of a round were such that more would tell nothing.
	refuse func(first int, t leak.Tally) error
}

// path is where the process takes requests for operations.
const path = "/leaktest/operations"

// Run asks for one round of operations.
func (o *operations) Run(ctx context.Context, target leak.Target, first int) (leak.Tally, error) {
	client := httpclient.New(target.Transport())
	defer client.CloseIdleConnections()
	url := fmt.Sprintf("%s%s?first=%d&times=%d&concurrency=%d", target.URL, path, first, o.Times, o.Concurrency)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return leak.Tally{}, err
	}
	resp, err := client.Do(request)
	if err != nil {
		return leak.Tally{}, err
	}
	defer resp.Body.Close()
	var tally leak.Tally
	if err := json.NewDecoder(resp.Body).Decode(&tally); err != nil {
		return leak.Tally{}, fmt.Errorf("tally of the operations: %w", err)
	}
	return tally, o.refuse(first, tally)
}

// Scaled multiplies the operations.
func (o *operations) Scaled(factor int) leak.Action {
	scaled := *o
	scaled.Times *= factor
	return &scaled
}

// performer performs the operations of one test in this process, on request.
type performer struct {
	t       *testing.T
	op      Operation
	timeout time.Duration
}

func (p *performer) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.Handle(heapdump.Path, heapdump.Handler())
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		number := func(name string) int {
			n, _ := strconv.Atoi(r.FormValue(name))
			return n
		}
		_ = json.NewEncoder(w).Encode(p.round(number("first"), number("times"), number("concurrency")))
	})
	return mux
}

// grace is how long after its timeout an operation may return.
const grace = time.Second

// maxErrors bounds the distinct errors of a round.
const maxErrors = 5

// round performs operations and returns when all have ended, or when one of them hangs.
func (p *performer) round(first, times, concurrency int) leak.Tally {
	began := time.Now()
	r := &round{}
	r.next.Store(int64(first))
	running := make([]atomic.Int64, concurrency) // start of each worker's operation in Unix nanoseconds, 0 for none
	var workers sync.WaitGroup
	for i := range running {
		workers.Go(func() { p.work(r, int64(first+times), &running[i]) })
	}
	ended := make(chan struct{})
	go func() { workers.Wait(); close(ended) }()
	for tick := time.NewTicker(grace / 10); ; {
		select {
		case <-ended:
		case <-tick.C:
			hung := 0
			for i := range running {
				if start := running[i].Load(); start != 0 && time.Since(time.Unix(0, start)) > p.timeout+grace {
					hung++
				}
			}
			if hung == 0 {
				continue
			}
			r.mu.Lock()
			r.tally.TimedOut += hung
			r.mu.Unlock()
			r.fail(hung, fmt.Errorf("an operation did not return within %s (leaktest.Timeout)%s", p.timeout, hanging()))
		}
		tick.Stop()
		if p.t.Failed() {
			r.fail(1, errors.New("the operation marked the test as failed"))
		}
		tally := r.read()
		tally.Seconds = time.Since(began).Seconds()
		return tally
	}
}

// hanging says where operations that do not return are, and prints their stacks.
func hanging() string {
	for _, g := range goroutines() {
		end := slices.IndexFunc(g.frames, func(f string) bool { return strings.Contains(f, "leaktest.(*performer).one ") })
		if end <= 0 {
			continue
		}
		fmt.Printf("leaktest: %d operations that did not return are at\n     %s\n", g.count, strings.Join(g.frames[:end], "\n     "))
		for _, text := range g.frames[:end] {
			if function, _, _ := strings.Cut(text, " ("); !(leak.Frame{Func: function}).Standard() {
				return "; it is at " + text
			}
		}
		return "; it is at " + g.frames[0]
	}
	return ""
}

// round counts the operations of a round.
type round struct {
	next  atomic.Int64
	mu    sync.Mutex
	tally leak.Tally
}

func (r *round) succeed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tally.Attempted++
	r.tally.Succeeded++
}

func (r *round) fail(n int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tally.Attempted += n
	r.tally.Failed += n
	for i := range r.tally.Errors {
		if r.tally.Errors[i].Message == err.Error() {
			r.tally.Errors[i].Count += n
			return
		}
	}
	if len(r.tally.Errors) < maxErrors {
		r.tally.Errors = append(r.tally.Errors, leak.ErrorCount{Message: err.Error(), Count: n})
	}
}

func (r *round) read() leak.Tally {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tally
}

// work performs operations one after another up to end.
func (p *performer) work(r *round, end int64, running *atomic.Int64) {
	inside := false
	defer func() {
		if inside { // runtime.Goexit; a panic ends the process
			running.Store(0)
			r.fail(1, errors.New("the operation called t.FailNow, t.Fatal or t.Skip"))
		}
	}()
	for {
		op := r.next.Add(1) - 1
		if op >= end {
			return
		}
		running.Store(time.Now().UnixNano())
		inside = true
		err := p.one(int(op))
		inside = false
		running.Store(0)
		if err != nil {
			r.fail(1, err)
		} else {
			r.succeed()
		}
	}
}

func (p *performer) one(op int) error {
	ctx, cancel := context.WithTimeout(context.Background(), p.timeout)
	defer cancel()
	return p.op(ctx, op)
}
