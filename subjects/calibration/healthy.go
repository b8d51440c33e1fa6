package main

import (
	"container/list"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"time"
)

func nothing(options) func() { return func() {} }

var lazyJobs = make(chan func())

// lazy makes 8 MiB and 20 goroutines once, in the middle of the measured rounds.
func lazy(options) func() {
	var mu sync.Mutex
	var block []byte
	operations := 0
	return func() {
		mu.Lock()
		defer mu.Unlock()
		if operations++; operations != 90 {
			return
		}
		block = make([]byte, 8<<20)
		for range 20 {
			go func() {
				for job := range lazyJobs {
					job()
				}
			}()
		}
		_ = block
	}
}

// pool starts workers on demand, up to a cap that the second round reaches.
func pool(options) func() {
	const limit = 50
	jobs := make(chan func())
	var mu sync.Mutex
	workers := 0
	return func() {
		mu.Lock()
		if workers < limit {
			workers++
			buffer := make([]byte, 64<<10)
			go func() {
				for job := range jobs {
					clear(buffer)
					job()
				}
			}()
		}
		mu.Unlock()
		done := make(chan struct{})
		jobs <- func() { close(done) }
		<-done
	}
}

// ticker works in the background independent of the load: short-lived goroutines and garbage.
func ticker(options) func() {
	go func() {
		for range time.Tick(30 * time.Millisecond) {
			for range 3 {
				go func() {
					garbage := make([]byte, 256<<10)
					time.Sleep(20 * time.Millisecond)
					_ = garbage
				}()
			}
		}
	}()
	return func() {}
}

// lru is a cache of 60 entries with eviction, which the third round fills.
func lru(options) func() {
	const limit = 60
	type entry struct {
		key   string
		value []byte
	}
	var mu sync.Mutex
	order, index := list.New(), map[string]*list.Element{}
	return func() {
		mu.Lock()
		defer mu.Unlock()
		key := strconv.Itoa(rand.IntN(10_000))
		if e, ok := index[key]; ok {
			order.MoveToFront(e)
			return
		}
		index[key] = order.PushFront(&entry{key, make([]byte, 16<<10)})
		if order.Len() > limit {
			last := order.Back()
			delete(index, order.Remove(last).(*entry).key)
		}
	}
}

// mapCache never evicts, but there are only 24 different keys to come.
func mapCache(options) func() {
	var mu sync.Mutex
	cache := map[int][]byte{}
	return func() {
		mu.Lock()
		defer mu.Unlock()
		if key := rand.IntN(24); cache[key] == nil {
			cache[key] = make([]byte, 64<<10)
		}
	}
}

// syncPool keeps buffers of any size in a sync.Pool, as encoders do.
func syncPool(options) func() {
	buffers := sync.Pool{New: func() any { b := make([]byte, 0, 512); return &b }}
	return func() {
		b := buffers.Get().(*[]byte)
		*b = append((*b)[:0], make([]byte, rand.IntN(256<<10))...)
		time.Sleep(time.Millisecond)
		buffers.Put(b)
	}
}

// conns is a pool of connections to a backend, opened on demand up to a cap. Each has a goroutine at either end.
func conns(options) func() {
	const limit = 40
	backend, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		for {
			c, err := backend.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c) }()
		}
	}()
	var mu sync.Mutex
	var idle []net.Conn
	opened := 0
	take := func() net.Conn {
		mu.Lock()
		defer mu.Unlock()
		if opened < limit {
			c, err := net.Dial("tcp", backend.Addr().String())
			if err != nil {
				log.Fatal(err)
			}
			opened++
			return c
		}
		for len(idle) == 0 {
			mu.Unlock()
			time.Sleep(time.Millisecond)
			mu.Lock()
		}
		c := idle[0]
		idle = idle[1:]
		return c
	}
	return func() {
		c := take()
		_, err := c.Write([]byte("ping"))
		if err == nil {
			_, err = io.ReadFull(c, make([]byte, 4))
		}
		if err != nil {
			log.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		idle = append(idle, c)
	}
}

// queue accepts jobs at once and processes them one by one, each on a goroutine that waits for its turn: after a
// round it takes most of a second to drain.
func queue(options) func() {
	turn := make(chan struct{}, 1)
	return func() {
		job := make([]byte, 32<<10)
		go func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			time.Sleep(20 * time.Millisecond)
			_ = job
		}()
	}
}

// scaling starts a worker for every job that finds none idle; a worker that is idle for a while ends.
func scaling(options) func() {
	jobs := make(chan func())
	worker := func(job func()) {
		for {
			job()
			select {
			case job = <-jobs:
			case <-time.After(150 * time.Millisecond):
				return
			}
		}
	}
	return func() {
		done := make(chan struct{})
		job := func() { time.Sleep(time.Millisecond); close(done) }
		select {
		case jobs <- job:
		default:
			go worker(job)
		}
		<-done
	}
}

// gcNoise makes MiBs of garbage in every operation and holds the last 32 results, of very different sizes,
// so that the heap is another one after each round and stays where it is in the long run.
func gcNoise(options) func() {
	var mu sync.Mutex
	last := make([][]byte, 32)
	next := 0
	return func() {
		for range 100 {
			_ = make([]byte, rand.IntN(64<<10))
		}
		result := make([]byte, rand.IntN(64<<10))
		mu.Lock()
		defer mu.Unlock()
		last[next%len(last)] = result
		next++
	}
}

// keepAlive asks a backend over HTTP, with the client's usual pool of idle connections.
func keepAlive(options) func() {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 10, IdleConnTimeout: time.Minute}}
	return func() {
		resp, err := client.Get(backend.URL)
		if err != nil {
			log.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}
