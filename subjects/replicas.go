package subjects

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

// replicas are several of one program, as one subject.
type replicas struct {
	all  []leak.Subject
	stop context.CancelFunc

	once sync.Once
	done chan struct{}
	err  error // set before done is closed
}

// together starts n replicas, one after another, with start. If one fails, it stops the others.
func together(ctx context.Context, n int, start func(replica int) (leak.Subject, error)) (leak.Subject, error) {
	if n == 1 {
		return start(1)
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	r := &replicas{stop: stop, done: make(chan struct{})}
	for i := range n {
		one, err := start(i + 1)
		if err != nil {
			cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), 4*stopGrace)
			defer cancel()
			return nil, errors.Join(fmt.Errorf("replica %d of %d: %w", i+1, n, err), r.Stop(cleanup))
		}
		r.all = append(r.all, one)
		go r.watch(watching, i+1, one)
	}
	return r, nil
}

// watch ends the whole when one replica does.
func (r *replicas) watch(ctx context.Context, replica int, one leak.Subject) {
	select {
	case <-ctx.Done():
	case <-one.Done():
		err := one.Err()
		if err != nil {
			err = fmt.Errorf("replica %d: %w", replica, err)
		}
		r.end(err)
	}
}

func (r *replicas) end(err error) {
	r.once.Do(func() {
		r.err = err
		close(r.done)
	})
}

func (r *replicas) Replicas() []leak.Subject { return r.all }

// Target is the first one's, with those of all.
func (r *replicas) Target() leak.Target {
	t := r.all[0].Target()
	for _, one := range r.all {
		t.Replicas = append(t.Replicas, one.Target())
	}
	return t
}

func (r *replicas) Info() leak.SubjectInfo { return r.all[0].Info() }
func (r *replicas) Done() <-chan struct{}  { return r.done }

func (r *replicas) Err() error {
	select {
	case <-r.done:
		return r.err
	default:
		return nil
	}
}

// Stop ends all of them at once: each may take its time.
func (r *replicas) Stop(ctx context.Context) error {
	r.stop()
	r.end(nil)
	errs := make([]error, len(r.all))
	var wg sync.WaitGroup
	for i, one := range r.all {
		wg.Go(func() { errs[i] = one.Stop(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// replicaLog returns the log file of one replica, in a folder next to the variant's.
func replicaLog(log string, replica, of int) (string, error) {
	if of == 1 {
		return log, nil
	}
	dir := filepath.Join(filepath.Dir(log), rundir.ReplicaDir(replica))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	log = filepath.Join(dir, filepath.Base(log))
	f, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return "", err
	}
	return log, f.Close()
}
