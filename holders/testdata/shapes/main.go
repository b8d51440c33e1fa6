// Command shapes leaks memory in one of many shapes. GET /leak?n=N leaks N times.
package main

import (
	"container/list"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	_ "net/http/pprof"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	_ "github.com/leakrig/leakrig/holders/heapdump"
	"github.com/leakrig/leakrig/holders/testdata/shapes/third"
)

const size = 16 << 10

//go:noinline
func payload() []byte { return make([]byte, size) }

type order struct {
	id    int
	items []byte
	next  *order
}

func (o *order) run()          { o.id++ }
func (o order) String() string { return string(o.items) }

type hub struct {
	mu   sync.Mutex
	subs []*subscriber
}

type subscriber struct {
	name string
	buf  []byte
}

type lru struct {
	order list.List
	byKey map[int]*list.Element
}

type node struct {
	peer *node
	data []byte
}

type key struct{}

var (
	registry  = map[string]*order{}
	tenants   = map[string]map[string][]byte{}
	stack     []*order
	heads     [][]byte
	names     []string
	callbacks []func() int
	handlers  []func()
	parent, _ = context.WithCancel(context.Background())
	queue     = make(chan []byte, 1<<16)
	never     = make(chan int)
	head      *order
	cache     = &lru{byKey: map[int]*list.Element{}}
	sessions  sync.Map
	events    = &hub{}
	things    []fmt.Stringer
	requests  = third.NewCounterVec()
	base      = context.Background()
	pool      sync.Pool
	input     = make(chan []byte)
	client    = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1 << 20, ReadBufferSize: 64 << 10}}
	server    *httptest.Server
	started   sync.Once
	total     int
)

// record is an object of 112 bytes with five pointers.
type record struct {
	parent, left, right *record
	items               []*record
	key                 [7]uint64
}

var records []*record

// plant adds a record below two others. Its tree and its list of neighbours overlap, so dominators are not trivial.
func plant(i int) {
	r := &record{}
	if i > 0 {
		r.parent = records[(i-1)/2]
		r.items = r.parent.items
		if i%2 == 1 {
			r.parent.left = r
		} else {
			r.parent.right = r
		}
		if i%8 == 0 {
			r.items = []*record{records[i-1], records[i/3], r.parent}
		}
	}
	records = append(records, r)
}

func keep(i int) { registry[strconv.Itoa(i)] = made(i) }

func made(i int) *order { return &order{id: i, items: make([]byte, size)} }

func use(p []byte) { total += int(p[total]) }

func closeNode(n *node) { n.data = nil }

func collect() {
	var items [][]byte
	for p := range input {
		items = append(items, p)
	}
	for _, p := range items {
		use(p)
	}
}

func wait(p []byte) {
	<-never
	use(p)
}

// batch is on the stack of its goroutine, and its address is in a variable of another function.
type batch struct {
	n     int
	items [][]byte
}

//go:noinline
func (b *batch) add(p []byte) {
	b.n++
	b.items = append(b.items, p)
}

func gather() {
	var b batch
	for p := range input {
		b.add(p)
	}
	for _, p := range b.items {
		use(p)
	}
}

func tick(p []byte) {
	t := time.NewTicker(time.Hour)
	for range t.C {
		use(p)
	}
}

var shapes = map[string]func(i int){
	"map": func(i int) { registry[strconv.Itoa(i)] = &order{id: i, items: payload()} },
	"nested-map": func(i int) {
		t := tenants[strconv.Itoa(i%10)]
		if t == nil {
			t = map[string][]byte{}
			tenants[strconv.Itoa(i%10)] = t
		}
		t[strconv.Itoa(i)] = payload()
	},
	"slice-tail": func(i int) {
		n := len(stack)
		stack = append(stack[:cap(stack)][:i], &order{items: payload()})[:n]
	},
	"sub-slice": func(int) { heads = append(heads, payload()[:4:4]) },
	"string":    func(int) { names = append(names, string(payload())[:8]) },
	"closure":   func(int) { p := payload(); callbacks = append(callbacks, func() int { return len(p) }) },
	"method":    func(int) { handlers = append(handlers, (&order{items: payload()}).run) },
	"timer":     func(int) { p := payload(); time.AfterFunc(time.Hour, func() { use(p) }) },
	"ticker":    func(int) { go tick(payload()) },
	"context":   func(int) { _, cancel := context.WithCancel(context.WithValue(parent, key{}, payload())); _ = cancel },
	"finalizer": func(int) {
		a, b := &node{data: payload()}, &node{}
		a.peer, b.peer = b, a
		runtime.SetFinalizer(a, closeNode)
	},
	"channel":         func(int) { queue <- payload() },
	"goroutine-stack": func(int) { go wait(payload()) },
	"goroutine-slice": func(int) {
		started.Do(func() { go collect() })
		input <- payload()
	},
	"stack-struct": func(int) {
		started.Do(func() { go gather() })
		input <- payload()
	},
	"linked-list": func(i int) { head = &order{id: i, items: payload(), next: head} },
	"lru": func(i int) {
		cache.byKey[i] = cache.order.PushFront(&order{id: i, items: payload()})
	},
	"sync-map":     func(i int) { sessions.Store(i, &order{items: payload()}) },
	"subscription": func(i int) { events.subs = append(events.subs, &subscriber{strconv.Itoa(i), payload()}) },
	"third-party":  func(i int) { third.Keep(i, payload()) },
	"interface":    func(i int) { things = append(things, order{id: i, items: payload()}) },
	"http-idle":    nil,
	"labels":       func(i int) { requests.Inc(uint64(i), string(payload())) },
	"request":      func(int) { base = context.WithValue(base, key{}, payload()) },
	"secrets": func(i int) {
		secret := fmt.Sprintf("hunter2-%04d-%s", i%1000, strings.Repeat("x", size))
		registry[secret] = &order{id: i, items: []byte(secret)}
		names = append(names, secret)
		base = context.WithValue(base, key{}, secret)
	},
	"large":   plant,
	"inlined": func(i int) { keep(i) },
	"pool":    func(int) { p := payload(); pool.Put(&p) },
}

// idle leaves n connections in the idle pool of the client's transport.
func idle(n int) {
	var arrived, done sync.WaitGroup
	arrived.Add(n)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		arrived.Done()
		arrived.Wait()
	}))
	for range n {
		done.Go(func() {
			resp, err := client.Get(server.URL)
			if err != nil {
				panic(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		})
	}
	done.Wait()
}

func main() {
	shape := os.Args[1]
	leak, ok := shapes[shape]
	if !ok {
		var all []string
		for name := range shapes {
			all = append(all, name)
		}
		fmt.Fprintln(os.Stderr, "shapes:", strings.Join(all, " "))
		os.Exit(2)
	}
	i := 0
	http.HandleFunc("GET /leak", func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.FormValue("n"))
		if leak == nil {
			idle(n / 4)
			return
		}
		for range n {
			leak(i)
			i++
		}
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(l.Addr())
	fmt.Fprintln(os.Stderr, http.Serve(l, nil))
}
