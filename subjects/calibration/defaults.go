package main

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"
)

// Plants for the default settings: leaks of every kind, and resources that grow until they are full.

// thread leaks a thread of the kernel: the goroutine that is locked to it never ends.
func thread(o options) func() {
	return rarely(o, func() {
		truth.goroutines.Add(1)
		go func() {
			runtime.LockOSThread()
			select {}
		}()
	})
}

// deep leaks goroutines with large stacks.
func deep(o options) func() {
	return rarely(o, func() {
		truth.goroutines.Add(1)
		go func() { _ = descend(64) }()
	})
}

//go:noinline
func descend(n int) byte {
	var frame [512]byte
	if n == 0 {
		leakySend(make(chan int))
	}
	frame[n%len(frame)] = descend(n - 1)
	return frame[0]
}

// numbers leaks entries of a map, which gets larger in leaps: it doubles.
func numbers(o options) func() {
	var mu sync.Mutex
	seen, next := map[int]int{}, 0
	return rarely(o, func() {
		mu.Lock()
		defer mu.Unlock()
		next++
		seen[next] = next
	})
}

// appended leaks entries of a slice, which grows by a quarter.
func appended(o options) func() {
	var mu sync.Mutex
	var all [][2]int64
	return rarely(o, func() {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, [2]int64{1, 2})
	})
}

// users leaks a value for every new key of a map, as a cache without eviction does.
func users(o options) func() {
	var mu sync.Mutex
	seen, next := map[int]*[200]byte{}, 0
	return rarely(o, func() {
		mu.Lock()
		defer mu.Unlock()
		next++
		seen[next] = &[200]byte{1}
	})
}

// ring keeps the last results, of any size up to o.size.
func ring(o options) func() {
	var mu sync.Mutex
	kept, next := make([][]byte, o.limit), 0
	return func() {
		mu.Lock()
		defer mu.Unlock()
		kept[next%len(kept)] = make([]byte, o.size/2+rand.IntN(o.size/2))
		next++
	}
}

// evicting is a cache that drops any entry once it is full. Every other request asks for what is there.
func evicting(o options) func() {
	var mu sync.Mutex
	cache, next := map[int][]byte{}, 0
	return func() {
		mu.Lock()
		defer mu.Unlock()
		if next++; next%2 == 0 {
			return
		}
		cache[next] = make([]byte, o.size)
		for key := range cache {
			if len(cache) <= o.limit {
				break
			}
			delete(cache, key)
		}
	}
}

// keys is a map that is never emptied and gets all of o.limit keys, at random.
func keys(o options) func() {
	var mu sync.Mutex
	cache := map[int][]byte{}
	return func() {
		mu.Lock()
		defer mu.Unlock()
		if key := rand.IntN(o.limit); cache[key] == nil {
			cache[key] = make([]byte, o.size)
		}
	}
}

// workers is a pool that starts one more worker for every job until it has o.limit.
func workers(o options) func() {
	jobs := make(chan func())
	var mu sync.Mutex
	started := 0
	return func() {
		mu.Lock()
		if started < o.limit {
			started++
			go func() {
				for job := range jobs {
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

// reload replaces a table of 4 MiB every three seconds, and for a while both are there.
func reload(options) func() {
	var mu sync.Mutex
	var table, old []byte
	go func() {
		for range time.Tick(1500 * time.Millisecond) {
			mu.Lock()
			if old == nil {
				table, old = make([]byte, 4<<20), table
			} else {
				old = nil
			}
			mu.Unlock()
		}
	}()
	return func() {
		mu.Lock()
		defer mu.Unlock()
		_ = len(table) + len(old)
	}
}

// adaptive has buffers that have become as large as the largest request that each of them has seen.
func adaptive(options) func() {
	free := make(chan *bytes.Buffer, 8)
	for range cap(free) {
		free <- &bytes.Buffer{}
	}
	return func() {
		b := <-free
		b.Reset()
		b.Write(make([]byte, int(8000*min(rand.ExpFloat64(), 12))))
		free <- b
	}
}

// timers starts a timer in every operation that runs a function after two seconds.
func timers(options) func() {
	return func() { time.AfterFunc(2*time.Second, func() {}) }
}

// linger has a goroutine in every fourth operation that waits for an answer until a timeout of o.limit seconds.
func linger(o options) func() {
	never := make(chan int)
	return everyFourth(func() {
		go func() {
			select {
			case <-never:
			case <-time.After(time.Duration(o.limit) * time.Second):
			}
		}()
	})
}

func everyFourth(f func()) func() {
	var mu sync.Mutex
	n := 0
	return func() {
		mu.Lock()
		n++
		due := n%4 == 0
		mu.Unlock()
		if due {
			f()
		}
	}
}

// jitter starts goroutines that take up to 50 ms after the answer.
func jitter(options) func() {
	return func() {
		for range rand.IntN(4) {
			go time.Sleep(time.Duration(rand.IntN(50)) * time.Millisecond)
		}
	}
}

// spikes allocates much for a moment, in one operation of a hundred.
func spikes(options) func() {
	return func() {
		if rand.IntN(100) == 0 {
			spike := make([]byte, 8<<20)
			for i := 0; i < len(spike); i += 4096 {
				spike[i] = 1
			}
		}
	}
}
