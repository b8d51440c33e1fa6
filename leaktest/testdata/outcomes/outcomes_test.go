// Package outcomes holds tests that end in every way that a test with leaktest can end in. TestOutcomes runs them.
package outcomes

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leaktest"
)

func wait(done chan struct{}) { <-done }

func leaks(context.Context, int) error {
	go wait(make(chan struct{}))
	return nil
}

func TestLeak(t *testing.T) {
	t.Parallel()
	leaktest.Run(t, leaks)
}

var kept [][]byte

func TestHeapLeak(t *testing.T) {
	t.Parallel()
	leaktest.Run(t, func(context.Context, int) error {
		kept = append(kept, make([]byte, 1<<10))
		return nil
	})
}

func TestSub(t *testing.T) {
	for _, name := range []string{"a b", "c (d)"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			leaktest.Run(t, func(context.Context, int) error { return nil }, leaktest.AllowInconclusive())
			leaktest.Run(t, leaks, leaktest.Expect(leaktest.Leak, `outcomes\.wait`))
		})
	}
}

func TestClean(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	t.Cleanup(func() { t.Log("cleanup") })
	leaktest.Run(t, func(context.Context, int) error { return os.WriteFile(dir+"/file", nil, 0o600) })
}

func TestPanic(t *testing.T) {
	t.Parallel()
	leaktest.Run(t, func(_ context.Context, op int) error {
		if op == 5 {
			panic("planted panic")
		}
		return nil
	})
}

func TestExit(t *testing.T) {
	t.Parallel()
	leaktest.Run(t, func(context.Context, int) error { os.Exit(7); return nil })
}

func TestHang(t *testing.T) {
	t.Parallel()
	leaktest.Run(t, func(context.Context, int) error { select {} }, leaktest.Timeout(200*time.Millisecond), leaktest.Budget(3*time.Second))
}

func TestError(t *testing.T) {
	t.Parallel()
	leaktest.Run(t, func(context.Context, int) error { return errors.New("planted error") }, leaktest.Budget(3*time.Second))
}

func TestFatal(t *testing.T) {
	t.Parallel()
	leaktest.Run(t, func(context.Context, int) error { t.Fatal("planted fatal"); return nil }, leaktest.Budget(3*time.Second))
}

func TestAllowed(t *testing.T) {
	t.Parallel()
	leaktest.Run(t, leaks, leaktest.Allow(`outcomes\.wait`, "known", "2099-01-31"))
}

func TestExpired(t *testing.T) {
	t.Parallel()
	leaktest.Run(t, leaks, leaktest.Allow(`outcomes.wait`, "known", "2025-01-31"))
}

type client struct{ done chan struct{} }

func (c *client) wait() { <-c.done }

// TestMethod expects a method as a stack shows it, which is no regular expression.
func TestMethod(t *testing.T) {
	t.Parallel()
	leaktest.Run(t, func(context.Context, int) error {
		go (&client{make(chan struct{})}).wait()
		return nil
	}, leaktest.Expect(leaktest.Leak, "client).wait"))
}

// TestCleanup counts what is open, which only the process of the operations knows.
func TestCleanup(t *testing.T) {
	t.Parallel()
	open := 0
	t.Cleanup(func() {
		if open != 0 {
			t.Errorf("%d files are open", open)
		}
	})
	leaktest.Run(t, func(context.Context, int) error { open++; return nil })
}

var own = flag.String("own", "", "")

// TestLateHang hangs in a cleanup of the process of the operations, which writes its process number to a file.
func TestLateHang(t *testing.T) {
	t.Parallel()
	var first sync.Once
	var hangs atomic.Bool
	t.Cleanup(func() {
		if hangs.Load() {
			select {}
		}
	})
	leaktest.Run(t, func(context.Context, int) error {
		first.Do(func() {
			hangs.Store(true)
			if *own != "" {
				_ = os.WriteFile(*own+"-", []byte(fmt.Sprint(os.Getpid())), 0o600)
				_ = os.Rename(*own+"-", *own)
			}
		})
		return nil
	})
}

// TestTwice needs a port that the process of the test has taken.
func TestTwice(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:43217")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	leaktest.Run(t, leaks)
}

func TestOwnFlag(t *testing.T) {
	leaktest.Run(t, func(context.Context, int) error {
		if *own != "given" {
			return errors.New("the flag was not passed on")
		}
		return Covered()
	})
}

func FuzzRun(f *testing.F) {
	f.Add(1)
	f.Fuzz(func(t *testing.T, n int) {
		leaktest.Run(t, func(context.Context, int) error { return Covered() })
	})
}

func TestInProcess(t *testing.T) {
	leaktest.Run(t, leaks, leaktest.InProcess())
}

func TestCheckLeft(t *testing.T) {
	t.Parallel()
	leaktest.Check(t, leaktest.Linger(200*time.Millisecond))
	done := make(chan struct{})
	t.Run("inside", func(*testing.T) { go wait(done) })
	go func() { time.Sleep(50 * time.Millisecond) }()
}

func TestCheckClean(t *testing.T) {
	t.Parallel()
	leaktest.Check(t)
	done := make(chan struct{})
	go wait(done)
	t.Cleanup(func() { close(done) })
}

func BenchmarkRetained(b *testing.B) {
	leaktest.Retained(b, leaks)
}
