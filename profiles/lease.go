package profiles

import (
	"context"
	"fmt"
	"io"
)

// lightReading is the memory in bytes that a reading may need while others are in progress. Replicas are read at the
// same time. Readings that need more run one after another, so the memory for all of them does not grow with the number
// of replicas.
const lightReading = 24 << 20

// heavyReading limits the readings that need more to one.
var heavyReading = make(chan struct{}, 1)

// lease is what one reading has taken so far.
type lease struct {
	taken int
	heavy bool
}

type leaseKey struct{}

// lend returns a context for one reading. Its memory is free again after a call of the returned function. Readings with
// this context share it.
func lend(ctx context.Context) (context.Context, func()) {
	if _, ok := ctx.Value(leaseKey{}).(*lease); ok {
		return ctx, func() {}
	}
	l := &lease{}
	return context.WithValue(ctx, leaseKey{}, l), func() {
		if l.heavy {
			<-heavyReading
		}
	}
}

// take reserves bytes for the reading, and waits while another large reading is in progress.
func take(ctx context.Context, bytes int) error {
	l, ok := ctx.Value(leaseKey{}).(*lease)
	if !ok {
		return nil
	}
	if l.taken += bytes; l.heavy || l.taken <= lightReading {
		return nil
	}
	select {
	case heavyReading <- struct{}{}:
		l.heavy = true
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// readBounded reads all of r, refuses more than limit bytes (of whole MiB), and takes room before it reads on.
func readBounded(ctx context.Context, r io.Reader, limit int64) ([]byte, error) {
	data := make([]byte, 0, 64<<10)
	r = io.LimitReader(r, limit+1)
	for {
		if len(data) == cap(data) {
			more := min(2*cap(data), int(limit)+512)
			if err := take(ctx, more); err != nil {
				return nil, err
			}
			data = append(make([]byte, 0, more), data...)
		}
		n, err := r.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if int64(len(data)) > limit {
			return nil, fmt.Errorf("larger than %d MiB", limit>>20)
		}
		if err == io.EOF {
			return data, nil
		}
		if err != nil {
			return nil, err
		}
	}
}
