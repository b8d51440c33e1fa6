package profiles

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"net"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// plants parks goroutines in every way that the two sources must agree on, a different number of each.
// It returns how many it parks, by state, and ends them with the test.
func plants(t *testing.T) map[string]int64 {
	t.Helper()
	var (
		unread  = make(chan int)
		end     = make(chan struct{})
		locked  sync.Mutex
		written sync.RWMutex
		read    sync.RWMutex
		waiters sync.WaitGroup
		signal  = sync.NewCond(&sync.Mutex{})
		ended   = false
		all     sync.WaitGroup
		planted = map[string]int64{}
	)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	locked.Lock()
	written.Lock()
	read.RLock()
	waiters.Add(1)
	park := func(n int, state string, f func()) {
		planted[state] += int64(n)
		for range n {
			all.Go(f)
		}
	}
	park(2, "chan send", func() { plantSend(unread) })
	park(3, "chan receive", func() { <-end })
	park(4, "select", func() {
		select {
		case <-end:
		case <-make(chan int):
		}
	})
	park(5, "sync.Mutex.Lock", func() { locked.Lock(); defer locked.Unlock() })
	park(6, "sync.RWMutex.RLock", func() { written.RLock(); defer written.RUnlock() })
	park(1, "sync.RWMutex.Lock", func() { read.Lock(); defer read.Unlock() })
	park(2, "sync.WaitGroup.Wait", func() { waiters.Wait() })
	park(3, "sync.Cond.Wait", func() {
		signal.L.Lock()
		defer signal.L.Unlock()
		for !ended {
			signal.Wait()
		}
	})
	park(1, "IO wait", func() { _, _ = listener.Accept() })
	park(2, "chan receive", func() { plantGeneric(end) })
	planted["coroutine"]++
	stop := plantPull()
	// A goroutine that cannot be woken stays for the rest of the process: one each, for any -count.
	plantForever()
	planted["sleep"]++
	planted["select (no cases)"]++
	t.Cleanup(func() {
		close(end)
		<-unread
		<-unread
		locked.Unlock()
		written.Unlock()
		read.RUnlock()
		waiters.Done()
		signal.L.Lock()
		ended = true
		signal.L.Unlock()
		signal.Broadcast()
		stop()
		listener.Close()
		all.Wait()
	})
	return planted
}

func plantSend(c chan<- int) { c <- 1 }

func plantGeneric[T any](c <-chan T) { <-c }

func plantPull() func() {
	var endless iter.Seq[int] = func(yield func(int) bool) {
		for i := 0; yield(i); i++ {
		}
	}
	next, stop := iter.Pull(endless)
	next()
	return stop
}

var plantForever = sync.OnceFunc(func() {
	go plantSleep()
	go plantNothing()
})

func plantSleep() { time.Sleep(1000 * time.Hour) }

func plantNothing() { select {} }

// own tells the stacks that plants makes: others come and go in a test process.
func own(s leak.Stack) bool {
	for _, f := range s.Frames {
		if strings.Contains(f.Func, "plant") {
			return true
		}
	}
	return false
}

// place is what the two sources must agree on.
func place(s leak.Stack) string { return s.State + " at " + s.Top().Func }

func places(g *groups) map[string]int64 {
	found := map[string]int64{}
	for id, s := range g.stacks {
		if own(s) {
			found[place(s)] += g.count[id].Count
		}
	}
	return found
}

// both reads this process from both sources, as net/http/pprof does.
func both(t *testing.T) (dump, profile *groups) {
	t.Helper()
	var text, proto bytes.Buffer
	lookup := pprof.Lookup("goroutine")
	if err := lookup.WriteTo(&text, 2); err != nil {
		t.Fatal(err)
	}
	if err := lookup.WriteTo(&proto, 0); err != nil {
		t.Fatal(err)
	}
	dump, err := parseDump(text.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	p, err := parsePprof(proto.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	profile, err = goroutineGroups(p)
	if err != nil {
		t.Fatal(err)
	}
	return dump, profile
}

// eventually polls until ok returns "", and fails with what it returned last.
func eventually(t *testing.T, ok func() string) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		why := ok()
		if why == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(why)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// The runtime's own two forms of the same goroutines: same states, same counts, same innermost
// functions, once the plants have all reached their places.
func TestSourcesAgree(t *testing.T) {
	want := plants(t)
	eventually(t, func() string {
		dump, profile := both(t)
		fromDump, fromProfile := places(dump), places(profile)
		states := map[string]int64{}
		for p, n := range fromDump {
			state, _, _ := strings.Cut(p, " at ")
			states[state] += n
		}
		if !maps.Equal(states, want) {
			return fmt.Sprintf("dump: %v\nplanted: %v", states, want)
		}
		if !maps.Equal(fromDump, fromProfile) {
			return fmt.Sprintf("dump: %v\nprofile: %v", fromDump, fromProfile)
		}
		return ""
	})
}

// Only a dump knows who started a goroutine, and both name generic functions and positions alike.
func TestSourcesInDetail(t *testing.T) {
	plants(t)
	eventually(t, func() string {
		dump, profile := both(t)
		generic := func(g *groups) *leak.Stack {
			for _, s := range g.stacks {
				if i := slices.IndexFunc(s.Frames, func(f leak.Frame) bool { return strings.Contains(f.Func, "plantGeneric") }); i == 0 {
					return &s
				}
			}
			return nil
		}
		d, p := generic(dump), generic(profile)
		if d == nil || p == nil {
			return "the generic plant is not found"
		}
		if d.Top() != p.Top() {
			return fmt.Sprintf("dump: %+v\nprofile: %+v", d.Top(), p.Top())
		}
		if d.Creator == nil || d.Creator.Func != "sync.(*WaitGroup).Go" || d.Creator.Line == 0 || p.Creator != nil {
			return fmt.Sprintf("creators: dump %+v, profile %+v", d.Creator, p.Creator)
		}
		return ""
	})
}
