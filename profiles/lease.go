package profiles

import (
	"context"
	"fmt"
	"io"
)

// lightReading is how much memory one reading may take while others go on. Replicas are read at the same time; what takes
// more than this is read one after another, so that what they take together does not grow with how many there are.
const lightReading = 24 << 20

// heavyReading is held by the one reading that takes more.
var heavyReading = make(chan struct{}, 1)

// lease is what one reading has taken so far.
type lease struct {
	taken int
	heavy bool
}

type leaseKey struct{}

// lend gives a reading its share of the memory, until the function that it returns is called. Readings within are part
// of it.
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
