// Package outcomes holds tests that end in every way that a test with leaktest can end in. TestOutcomes runs them.
package outcomes

import (
	"context"
	"errors"
	"os"
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
	leaktest.Run(t, leaks, leaktest.Allow(`outcomes\.wait`, "known", "2099-01-31"), leaktest.MaxHeap(1<<20))
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
