package profiles

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/procs"
)

// Vitals reads the counters of a process: memory from the text form of the heap profile, processor time from /proc, and
// its identity from the platform. Missing counters are unknown, and no error.
func Vitals(ctx context.Context, t leak.Target) (leak.Vitals, error) {
	v := leak.Vitals{Read: time.Now(), CPU: -1}
	if t.Process != nil {
		var err error
		if v.Process, err = t.Process(ctx); err != nil {
			return v, err
		}
	}
	if t.Proc != nil {
		if cpu, err := procs.CPU(t.Proc); err == nil {
			v.CPU = cpu
		}
	}
	if t.Transport == nil || t.Pprof == "" {
		return v, nil
	}
	// The text is parsed as a stream, because a fleet reads many processes at once.
	err := get(ctx, t, "/heap?debug=1", func(_ context.Context, body io.Reader) error {
		return parseVitals(io.LimitReader(body, maxBody), &v)
	})
	if errors.Is(err, errNotServed) {
		return v, nil
	}
	return v, err
}

// parseVitals reads the counters among the "# Mallocs = 123" lines. Without all of them nothing is known.
func parseVitals(text io.Reader, v *leak.Vitals) error {
	counters := map[string]*int64{"NumGC": &v.Collections, "Mallocs": &v.Mallocs, "TotalAlloc": &v.Bytes}
	found := 0
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		v.Lines++
		name, value, _ := strings.Cut(strings.TrimPrefix(lines.Text(), "# "), " = ")
		if counter := counters[name]; counter != nil {
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || n < 0 {
				return fmt.Errorf("%s is %q", name, value)
			}
			*counter = n
			found++
		}
		if name == "PauseEnd" {
			v.Ends = v.Ends[:0]
			for _, word := range strings.Fields(strings.Trim(value, "[]")) {
				end, err := strconv.ParseInt(word, 10, 64)
				if err != nil || len(v.Ends) == remembered {
					return fmt.Errorf("PauseEnd: %w", errors.Join(err, errors.New("too many")))
				}
				v.Ends = append(v.Ends, end)
			}
		}
	}
	v.Known = found == len(counters)
	return lines.Err()
}
