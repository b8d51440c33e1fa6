// Command orders leaks in one of several ways and writes a profile. Its package main and its module are no part of
// the catalogue.
package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/pprof"
	"strconv"
	"time"

	"github.com/aws/smithy-go/container/private/cache/lru"
	"github.com/fsnotify/fsnotify"
	gocache "github.com/patrickmn/go-cache"
	"github.com/robfig/cron/v3"
	"go.opentelemetry.io/otel"
	"gopkg.in/natefinch/lumberjack.v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8s "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// kept keeps values alive.
var kept []any

// ways are the ways to leak, by the entry of the catalogue. Each leaks once.
var ways = map[string]func(i int) error{
	"http-body-not-closed":  func(int) error { return fetchOrder(http.DefaultClient, false) },
	"http-idle-connections": func(int) error { return fetchOrder(&http.Client{Transport: &http.Transport{}}, true) },
	"sql-open-per-request": func(int) error {
		db, err := sql.Open("orders", "")
		kept = append(kept, db)
		return err
	},
	"context-propagation": func(int) error {
		ctx, cancel := context.WithCancel(&session{done: make(chan struct{})})
		kept = append(kept, ctx, cancel)
		return nil
	},
	"lumberjack-mill": func(i int) error {
		logger := &lumberjack.Logger{Filename: filepath.Join(os.TempDir(), "orders-"+strconv.Itoa(i)+".log")}
		defer os.Remove(logger.Filename)
		if _, err := logger.Write([]byte("order\n")); err != nil {
			return err
		}
		return logger.Close()
	},
	"go-cache-janitor": func(int) error {
		kept = append(kept, gocache.New(time.Hour, time.Hour))
		return nil
	},
	"cron-schedulers": func(int) error {
		c := cron.New()
		c.Start()
		return nil
	},
	"fsnotify-watchers": func(int) error {
		_, err := fsnotify.NewWatcher()
		return err
	},
	"watch-then-delete": func(int) error {
		w := watch.NewStreamWatcher(&orderEvents{}, nil)
		<-w.ResultChan()
		return nil
	},
	"event-broadcasters": func(int) error {
		watch.NewBroadcaster(1, watch.DropIfChannelFull)
		return nil
	},
	"otel-global-meter": func(int) error {
		for range 300 {
			if _, err := otel.Meter("orders").Int64Counter("placed"); err != nil {
				return err
			}
		}
		return nil
	},
	"smithy-lru": func(i int) error {
		if i == 0 {
			kept = append(kept, lru.New(100))
		}
		for range 300 {
			kept[0].(interface{ Put(k, v any) }).Put("session", i)
		}
		return nil
	},
	"regexp-compile": func(i int) error {
		for n := range 100 {
			kept = append(kept, regexp.MustCompile(fmt.Sprintf(`^order-%d-(\d+|[a-z]{1,%d})*$`, i, n+1)))
		}
		return nil
	},
}

// heaps are the ways that show in the heap.
var heaps = map[string]bool{"otel-global-meter": true, "smithy-lru": true, "regexp-compile": true}

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: orders WAY TIMES debug|profile")
	}
	way, form := os.Args[1], os.Args[3]
	times, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	if ways[way] == nil {
		log.Fatalf("no such way: %s", way)
	}
	for i := range times {
		if err := placeOrder(way, i); err != nil {
			log.Fatal(err)
		}
	}
	time.Sleep(300 * time.Millisecond)
	name, debug := "goroutine", 0
	if heaps[way] {
		name = "heap"
	} else if form == "debug" {
		debug = 2
	}
	runtime.GC()
	runtime.GC()
	if err := pprof.Lookup(name).WriteTo(os.Stdout, debug); err != nil {
		log.Fatal(err)
	}
	runtime.KeepAlive(kept)
}

//go:noinline
func placeOrder(way string, i int) error { return ways[way](i) }

var server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	_, _ = w.Write(make([]byte, 1<<20))
}))

func fetchOrder(client *http.Client, read bool) error {
	resp, err := client.Get(server.URL)
	if err != nil || !read {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close())
}

// session is a context of another package than context.
type session struct{ done chan struct{} }

func (*session) Deadline() (time.Time, bool) { return time.Time{}, false }
func (s *session) Done() <-chan struct{}     { return s.done }
func (*session) Err() error                  { return nil }
func (*session) Value(any) any               { return nil }

// orderEvents decodes the same event forever.
type orderEvents struct{}

func (*orderEvents) Decode() (watch.EventType, k8s.Object, error) {
	return watch.Modified, &metav1.Status{}, nil
}
func (*orderEvents) Close() {}

func init() { sql.Register("orders", noDriver{}) }

type noDriver struct{}

func (noDriver) Open(string) (driver.Conn, error) { return nil, errors.New("no database") }
