// Package healthy has operations that do not leak, each tested many times in parallel.
package healthy

import (
	"bytes"
	"compress/gzip"
	"container/list"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leaktest"
)

var times = flag.Int("times", 1, "how often each operation is tested")

// operations return an operation for one test.
var operations = map[string]func(*testing.T) leaktest.Operation{
	"http": func(t *testing.T) leaktest.Operation {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 4<<10)) }))
		t.Cleanup(s.Close)
		return func(ctx context.Context, _ int) error {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
			if err != nil {
				return err
			}
			resp, err := s.Client().Do(request)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			_, err = io.Copy(io.Discard, resp.Body)
			return err
		}
	},
	"json": func(*testing.T) leaktest.Operation {
		return func(_ context.Context, op int) error {
			text, err := json.Marshal(map[string]int{"operation": op})
			if err != nil {
				return err
			}
			return json.Unmarshal(text, &map[string]int{})
		}
	},
	"lru": func(*testing.T) leaktest.Operation {
		order, entries := list.New(), map[int]*list.Element{}
		return func(_ context.Context, op int) error {
			entries[op] = order.PushFront(op)
			if order.Len() > 100 {
				delete(entries, order.Remove(order.Back()).(int))
			}
			return nil
		}
	},
	"pool": func(*testing.T) leaktest.Operation {
		pool := sync.Pool{New: func() any { return new(bytes.Buffer) }}
		return func(_ context.Context, op int) error {
			b := pool.Get().(*bytes.Buffer)
			defer pool.Put(b)
			b.Reset()
			fmt.Fprint(b, strings.Repeat("x", op%1000))
			return nil
		}
	},
	"gzip": func(*testing.T) leaktest.Operation {
		return func(_ context.Context, op int) error {
			w := gzip.NewWriter(io.Discard)
			fmt.Fprint(w, op)
			return w.Close()
		}
	},
	"file": func(t *testing.T) leaktest.Operation {
		dir := t.TempDir()
		return func(_ context.Context, op int) error {
			name := filepath.Join(dir, fmt.Sprint(op%10))
			if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
				return err
			}
			return os.Remove(name)
		}
	},
	"workers": func(*testing.T) leaktest.Operation {
		return func(context.Context, int) error {
			var wg sync.WaitGroup
			results := make(chan int)
			for i := range 4 {
				wg.Go(func() { results <- i })
			}
			go func() { wg.Wait(); close(results) }()
			for range results {
			}
			return nil
		}
	},
	"timers": func(*testing.T) leaktest.Operation {
		return func(ctx context.Context, _ int) error {
			ctx, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			defer time.AfterFunc(time.Hour, func() {}).Stop()
			return ctx.Err()
		}
	},
	"late": func(*testing.T) leaktest.Operation { // goroutines that end by themselves, some time after the operation
		return func(context.Context, int) error {
			go time.Sleep(20 * time.Millisecond)
			return nil
		}
	},
	"queue": func(t *testing.T) leaktest.Operation {
		jobs := make(chan int, 100)
		go func() {
			for range jobs {
			}
		}()
		t.Cleanup(func() { close(jobs) })
		return func(_ context.Context, op int) error { jobs <- op; return nil }
	},
}

func TestHealthy(t *testing.T) {
	for name, operation := range operations {
		for i := range *times {
			t.Run(fmt.Sprintf("%s-%d", name, i), func(t *testing.T) {
				t.Parallel()
				leaktest.Run(t, operation(t))
			})
		}
	}
}

// TestCheck is for Check what TestHealthy is for Run.
func TestCheck(t *testing.T) {
	for name, operation := range operations {
		for i := range *times {
			t.Run(fmt.Sprintf("%s-%d", name, i), func(t *testing.T) {
				t.Parallel()
				leaktest.Check(t)
				if err := operation(t)(t.Context(), i); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}
