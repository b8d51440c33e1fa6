package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/leakrig/leakrig/leak"
)

// fault returns the fault of a block, nil if it is load.
func fault(b leak.Block[leak.Action]) leak.Fault {
	f, _ := b.Value.(leak.Fault)
	return f
}

// faultsDuring returns the faults that act during an action.
func faultsDuring(actions []leak.Block[leak.Action], name string) []leak.Block[leak.Action] {
	var all []leak.Block[leak.Action]
	for _, b := range actions {
		if f := fault(b); f != nil && slices.Contains(f.During(), name) {
			all = append(all, b)
		}
	}
	return all
}

// underFaults performs an action on a target while faults act. It returns the tally of the action, and those of the
// faults. All faults are undone when it returns, also if the action fails or ctx ends.
func (m *measurement) underFaults(ctx context.Context, block leak.Block[leak.Action], faults []leak.Block[leak.Action]) (tally leak.Tally, injected []leak.Tally, err error) {
	if len(faults) == 0 {
		tally, err = m.perform(ctx, block, nil)
		return tally, nil, err
	}
	if block.Workers > 0 {
		return tally, nil, leak.WithHint(errors.New("faults do not act on load from workers"), "leave workers out")
	}
	injected, errs := make([]leak.Tally, len(faults)), make([]error, len(faults))
	var ended []func() error
	defer func() {
		for _, end := range slices.Backward(ended) {
			err = errors.Join(err, end())
		}
	}()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	during, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	tally, err = m.perform(ctx, block, func(t leak.Target) (leak.Target, error) {
		for i, b := range faults {
			injection, err := fault(b).Begin(ctx, t)
			if err != nil {
				return t, fmt.Errorf("%s: %w", b.Name, err)
			}
			ended = append(ended, injection.End)
			t = injection.Target()
			wg.Go(func() {
				one, err := injection.Inject(during)
				one.Action = b.Name
				injected[i] = one
				if err != nil {
					errs[i] = fmt.Errorf("%s: %w", b.Name, err)
					cancel(errs[i]) // this is not the load of the scenario
				}
			})
		}
		return t, nil
	})
	stop()
	wg.Wait()
	return tally, injected, errors.Join(append([]error{err}, errs...)...)
}
