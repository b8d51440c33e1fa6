// Package patterns holds leaks of the literature, one test each. Every test fails: TestSlowPatterns counts them.
package patterns

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leaktest"
)

// leak runs a pattern as a parallel test.
func leak(t *testing.T, op func(op int)) {
	t.Helper()
	t.Parallel()
	leaktest.Run(t, func(_ context.Context, n int) error { op(n); return nil })
}

// each is a leak in one of so many operations.
func each(n int, op func()) func(int) {
	return func(i int) {
		if i%n == 0 {
			op()
		}
	}
}

func blockedReceive() { go func() { <-make(chan int) }() }

func TestBlockedSend(t *testing.T) {
	leak(t, func(int) { go func() { make(chan int) <- 1 }() })
}

func TestBlockedReceive(t *testing.T) { leak(t, func(int) { blockedReceive() }) }

func TestNilChannel(t *testing.T) {
	leak(t, func(int) {
		var c chan int
		go func() { c <- 1 }()
	})
}

func TestSelectWithoutExit(t *testing.T) {
	leak(t, func(int) {
		a, b := make(chan int), make(chan int)
		go func() {
			for {
				select {
				case <-a:
				case <-b:
				}
			}
		}()
	})
}

func TestLostWaitGroup(t *testing.T) {
	leak(t, func(int) {
		var wg sync.WaitGroup
		wg.Add(1)
		go wg.Wait()
	})
}

func TestMissingUnlock(t *testing.T) {
	leak(t, func(int) {
		mu := new(sync.Mutex)
		mu.Lock()
		go mu.Lock()
	})
}

func TestDoubleLock(t *testing.T) {
	leak(t, func(int) {
		go func() {
			var mu sync.Mutex
			mu.Lock()
			mu.Lock()
		}()
	})
}

func TestReadLockBeforeLock(t *testing.T) {
	leak(t, func(int) {
		go func() {
			var mu sync.RWMutex
			mu.RLock()
			mu.Lock()
		}()
	})
}

func TestConditionNeverSignalled(t *testing.T) {
	leak(t, func(int) {
		c := sync.NewCond(new(sync.Mutex))
		go func() {
			c.L.Lock()
			c.Wait()
		}()
	})
}

func TestContextNeverCancelled(t *testing.T) {
	leak(t, func(int) {
		ctx, cancel := context.WithCancel(context.Background())
		_ = cancel // the leak
		go func() { <-ctx.Done() }()
	})
}

func TestTickerNeverStopped(t *testing.T) {
	leak(t, func(int) {
		tick, done := time.NewTicker(time.Second), make(chan int)
		go func() {
			for {
				select {
				case <-tick.C:
				case <-done:
					return
				}
			}
		}()
	})
}

func TestRangeOverOpenChannel(t *testing.T) {
	leak(t, func(int) {
		jobs := make(chan int, 1)
		go func() {
			for range jobs {
			}
		}()
		jobs <- 1
	})
}

func TestResultAfterTimeout(t *testing.T) {
	leak(t, func(int) {
		result := make(chan int)
		go func() {
			runtime.Gosched()
			result <- 1
		}()
		select {
		case <-result:
		default: // too late
		}
	})
}

func TestConsumerReturnsEarly(t *testing.T) {
	leak(t, func(int) {
		items := make(chan int)
		go func() {
			for i := range 3 {
				items <- i
			}
		}()
		<-items
	})
}

func TestFirstErrorWins(t *testing.T) {
	leak(t, func(int) {
		failed := make(chan error)
		for range 2 {
			go func() { failed <- errors.New("failed") }()
		}
		<-failed
	})
}

func TestSemaphoreNeverReleased(t *testing.T) {
	slots := make(chan int, 1)
	leak(t, func(int) { go func() { slots <- 1 }() })
}

func TestPipeWithoutReader(t *testing.T) {
	leak(t, func(int) {
		_, w := io.Pipe()
		go fmt.Fprint(w, "nobody reads")
	})
}

func TestPipeWithoutWriter(t *testing.T) {
	leak(t, func(int) {
		r, _ := io.Pipe()
		go io.Copy(io.Discard, r) //nolint:errcheck // never returns
	})
}

func TestOneIn10(t *testing.T)  { leak(t, each(10, blockedReceive)) }
func TestOneIn50(t *testing.T)  { leak(t, each(50, blockedReceive)) }
func TestOneIn100(t *testing.T) { leak(t, each(100, blockedReceive)) }

func server(t *testing.T) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 64<<10)) }))
	t.Cleanup(s.CloseClientConnections)
	return s
}

func TestUnclosedBody(t *testing.T) {
	s := server(t)
	leak(t, func(int) {
		if _, err := http.Get(s.URL); err != nil { //nolint:bodyclose // the leak
			panic(err)
		}
	})
}

func TestTransportPerRequest(t *testing.T) {
	s := server(t)
	leak(t, func(int) {
		resp, err := (&http.Client{Transport: &http.Transport{}}).Get(s.URL)
		if err != nil {
			panic(err)
		}
		io.Copy(io.Discard, resp.Body) //nolint:errcheck // a page
		resp.Body.Close()
	})
}

func TestListenerNeverClosed(t *testing.T) {
	leak(t, func(int) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		go l.Accept() //nolint:errcheck // never returns
	})
}

func TestServerNeverShutDown(t *testing.T) {
	leak(t, func(int) { httptest.NewServer(http.NotFoundHandler()) })
}

// table is a database with a table of numbers that has no end.
type table struct{}

func (table) Open(string) (driver.Conn, error)           { return table{}, nil }
func (table) Prepare(string) (driver.Stmt, error)        { return table{}, nil }
func (table) Begin() (driver.Tx, error)                  { return nil, errors.ErrUnsupported }
func (table) Close() error                               { return nil }
func (table) NumInput() int                              { return 0 }
func (table) Exec([]driver.Value) (driver.Result, error) { return nil, errors.ErrUnsupported }
func (table) Query([]driver.Value) (driver.Rows, error)  { return table{}, nil }
func (table) Columns() []string                          { return []string{"n"} }
func (table) Next(row []driver.Value) error              { row[0] = int64(1); return nil }

func TestUnclosedRows(t *testing.T) {
	sql.Register("table", table{})
	db, err := sql.Open("table", "")
	if err != nil {
		t.Fatal(err)
	}
	leak(t, func(int) {
		rows, err := db.Query("SELECT n") //nolint:rowserrcheck,sqlclosecheck // the leak
		if err != nil {
			panic(err)
		}
		rows.Next()
	})
}

func TestTransactionNeverEnded(t *testing.T) {
	db := sql.OpenDB(begins{})
	leak(t, func(int) {
		if _, err := db.BeginTx(t.Context(), nil); err != nil {
			panic(err)
		}
	})
}

// begins is a database with transactions.
type begins struct{ table }

func (begins) Connect(context.Context) (driver.Conn, error) { return begins{}, nil }
func (begins) Driver() driver.Driver                        { return table{} }
func (begins) Begin() (driver.Tx, error)                    { return begins{}, nil }
func (begins) Commit() error                                { return nil }
func (begins) Rollback() error                              { return nil }

var connections []net.Conn

func TestConnectionNeverClosed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go io.Copy(io.Discard, c) //nolint:errcheck // as long as the client likes
		}
	}()
	leak(t, func(int) {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			panic(err)
		}
		connections = append(connections, c)
	})
}

var files []*os.File

func TestFileNeverClosed(t *testing.T) {
	leak(t, func(int) {
		f, err := os.Open(os.DevNull)
		if err != nil {
			panic(err)
		}
		files = append(files, f)
	})
}

func TestSignalsNeverStopped(t *testing.T) {
	leak(t, func(int) { signal.Notify(make(chan os.Signal, 1), os.Interrupt) })
}

var byID = map[int]string{}

func TestUnboundedMap(t *testing.T) {
	leak(t, func(op int) { byID[op] = fmt.Sprint("order ", op) })
}

var byKey sync.Map

func TestUnboundedSyncMap(t *testing.T) {
	leak(t, func(op int) { byKey.Store(op, make([]byte, 100)) })
}

var labels = map[string]*int{}

func TestLabelValues(t *testing.T) {
	leak(t, func(op int) { labels[fmt.Sprintf("path=/orders/%d", op)] = new(int) })
}

var log [][]byte

func TestSliceOnlyGrows(t *testing.T) {
	leak(t, func(int) { log = append(log, make([]byte, 256)) })
}

var subscribers []func()

func TestSubscriptionNeverRemoved(t *testing.T) {
	leak(t, func(int) {
		buffer := make([]byte, 512)
		subscribers = append(subscribers, func() { buffer[0]++ })
	})
}

type node struct {
	next    *node
	payload [100]byte
}

var head *node

func TestLinkedList(t *testing.T) { leak(t, func(int) { head = &node{next: head} }) }

var names []string

func TestSubstringPinsText(t *testing.T) {
	leak(t, func(int) { names = append(names, strings.Repeat("x", 1<<10)[:8]) })
}

var tails [][]byte

func TestTailPinsArray(t *testing.T) {
	leak(t, func(int) { tails = append(tails, make([]byte, 1<<10)[1020:]) })
}

type cyclic struct {
	other *cyclic
	data  [256]byte
}

func TestFinalizerInCycle(t *testing.T) {
	leak(t, func(int) {
		c := new(cyclic)
		c.other = &cyclic{other: c}
		runtime.SetFinalizer(c, func(*cyclic) {})
	})
}

func TestTimerFarAway(t *testing.T) {
	leak(t, func(int) {
		data := make([]byte, 256)
		time.AfterFunc(time.Hour, func() { data[0]++ })
	})
}

func TestChildrenOfContext(t *testing.T) {
	parent, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	leak(t, func(int) {
		_, cancel := context.WithCancel(parent)
		_ = cancel // the leak
	})
}

type key struct{}

func TestContextThatGrows(t *testing.T) {
	ctx := context.Background()
	leak(t, func(op int) { ctx = context.WithValue(ctx, key{}, op) })
}

var writers []*gzip.Writer

func TestWritersNeverReused(t *testing.T) {
	leak(t, func(int) {
		w := gzip.NewWriter(io.Discard)
		w.Write([]byte("x"))
		writers = append(writers, w)
	})
}

var readers []*bufio.Reader

func TestReadersKept(t *testing.T) {
	leak(t, func(int) { readers = append(readers, bufio.NewReader(new(bytes.Reader))) })
}
