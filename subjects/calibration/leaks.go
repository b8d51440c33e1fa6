package main

import (
	"os"
	"sync"
	"time"
)

// goroutine leaks goroutines that are blocked in chan send.
func goroutine(o options) func() { return rarely(o, leakGoroutine) }

// clock leaks a goroutine every 20 ms, whether there is load or not.
func clock(options) func() {
	go func() {
		for range time.Tick(20 * time.Millisecond) {
			leakGoroutine()
		}
	}()
	return func() {}
}

// burst leaks ten goroutines in the first operation after a pause of 400 ms: by the round, for any number of
// operations.
func burst(options) func() {
	var mu sync.Mutex
	var last time.Time
	return func() {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(last) > 400*time.Millisecond {
			for range 10 {
				leakGoroutine()
			}
		}
		last = time.Now()
	}
}

func leakGoroutine() {
	unread := make(chan int)
	truth.goroutines.Add(1)
	go leakySend(unread)
}

func leakySend(c chan<- int) { c <- 1 }

// heap leaks memory. The blocks form a linked list, because a slice of them would grow in steps.
func heap(o options) func() { return rarely(o, func() { retain(o.size) }) }

// Blocks of the allocator's own sizes, so that what is retained is what was asked for. Those with pointers
// of more than 512 bytes have a header of 8 bytes.
type (
	block16 struct {
		next *block16
		_    [16 - 8]byte
	}
	block64 struct {
		next *block64
		_    [64 - 8]byte
	}
	block1024 struct {
		next *block1024
		_    [1024 - 8 - 8]byte
	}
	blockAny struct {
		next *blockAny
		data []byte
	}
)

var kept struct {
	sync.Mutex
	of16   *block16
	of64   *block64
	of1024 *block1024
	of     *blockAny
}

func retain(size int) {
	kept.Lock()
	defer kept.Unlock()
	switch size {
	case 16:
		kept.of16 = &block16{next: kept.of16}
	case 64:
		kept.of64 = &block64{next: kept.of64}
	case 1024:
		kept.of1024 = &block1024{next: kept.of1024}
	default:
		data := make([]byte, size)
		for i := 0; i < size; i += 4096 {
			data[i] = 1 // written to, so that it is resident
		}
		kept.of = &blockAny{kept.of, data}
	}
	truth.bytes.Add(int64(size))
}

// descriptor leaks an open file. Without a pointer to it a finalizer would close it.
func descriptor(o options) func() {
	var mu sync.Mutex
	var files []*os.File
	return rarely(o, func() {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		files = append(files, f)
		truth.descriptors.Add(1)
	})
}

// two leaks goroutines in one place and memory in another.
func two(o options) func() {
	return rarely(o, func() {
		leakGoroutine()
		retain(o.size)
	})
}

// masked leaks a goroutine while two idle workers end, so that there are ever fewer goroutines.
func masked(o options) func() {
	retire := make(chan struct{})
	for range 1000 {
		go func() { <-retire }()
	}
	return rarely(o, func() {
		leakGoroutine()
		for range 2 {
			select {
			case retire <- struct{}{}:
			default:
			}
		}
	})
}

// hidden leaks memory while a cache gives back twice as much, so that the heap as a whole shrinks.
func hidden(o options) func() {
	var mu sync.Mutex
	cache := make([][]byte, 512)
	for i := range cache {
		cache[i] = make([]byte, 2*o.size)
	}
	return rarely(o, func() {
		retain(o.size)
		mu.Lock()
		defer mu.Unlock()
		if n := len(cache) - 1; n >= 0 {
			cache[n], cache = nil, cache[:n]
		}
	})
}
