package leaktest

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// Operation is one operation under test. op numbers operations from 1, and no number repeats. ctx ends when the operation
// returns, as that of a request does, and at the latest after [Timeout].
type Operation func(ctx context.Context, op int) error

// Option changes a default.
type Option func(*config)

type config struct {
	budget, linger, timeout time.Duration
	concurrency             int
	maxGoroutines, maxHeap  *leak.Quantity
	allow                   []leak.Allowance
	expect                  []expectation
	undecidedIsFine         bool
	inProcess               bool
	err                     error
}

type expectation struct {
	probe, pattern string
}

func newConfig(opts []Option) config {
	c := config{linger: 2 * time.Second, timeout: 10 * time.Second, concurrency: 1}
	for _, o := range opts {
		o(&c)
	}
	return c
}

// Budget is how long operations are added until everything is decided. The default is ten seconds, and once more thirty
// if the outcome is undecided. A larger budget finds smaller leaks.
func Budget(d time.Duration) Option { return func(c *config) { c.budget = d } }

// Linger is how old growth must be before it counts as a leak, and how long [Check] waits for goroutines to end. The
// default is two seconds. Use more where timeouts end goroutines: 40 seconds for clients with a timeout of 30.
func Linger(d time.Duration) Option { return func(c *config) { c.linger = d } }

// Timeout ends the context of one operation. An operation that does not return soon after it fails the test. The
// default is ten seconds.
func Timeout(d time.Duration) Option { return func(c *config) { c.timeout = d } }

// Concurrency is the number of operations at a time. The default is one.
func Concurrency(n int) Option { return func(c *config) { c.concurrency = max(1, n) } }

// MaxGoroutines is a budget of goroutines per operation: smaller growth is accepted, with what these goroutines hold. The
// default is zero.
func MaxGoroutines(perOperation float64) Option {
	return func(c *config) { c.maxGoroutines = quantity(perOperation) }
}

// MaxHeap is a budget of heap bytes per operation: smaller growth is accepted. The default is zero.
func MaxHeap(perOperation float64) Option {
	return func(c *config) { c.maxHeap = quantity(perOperation) }
}

func quantity(v float64) *leak.Quantity {
	q := leak.Quantity(v)
	return &q
}

// Allow accepts a known leak of goroutines until a last day, such as "2027-01-31", and what these goroutines hold. The
// pattern is a part of the full name or of the file:line of one frame, as a stack shows it, or a regular expression.
func Allow(pattern, reason, lastDay string) Option {
	return func(c *config) {
		a := leak.Allowance{Match: expression(pattern), Reason: reason}
		err := a.Until.UnmarshalText([]byte(lastDay))
		if err == nil {
			err = a.Validate()
		}
		if err != nil {
			c.err = fmt.Errorf("leaktest.Allow(%q, …): %w", pattern, err)
		}
		c.allow = append(c.allow, a)
	}
}

// What names the kind of growth that a reproduction expects.
type What string

// Leak expects goroutines to leak, HeapLeak memory.
const (
	Leak     What = "goroutine"
	HeapLeak What = "heap"
)

// Expect turns the test into a reproduction: it passes only if a stack that matches the pattern leaks. For [HeapLeak]
// the stack is where the memory was allocated. The pattern is that of [Allow].
func Expect(what What, pattern string) Option {
	return func(c *config) { c.expect = append(c.expect, expectation{string(what), expression(pattern)}) }
}

// expression returns the regular expression of a pattern. Names of methods and of generic functions, such as
// "(*Client).read" and "load[...]", are meant as they are written.
func expression(pattern string) string {
	generic := strings.ReplaceAll(pattern, "[...]", `\[\.\.\.\]`)
	if _, err := regexp.Compile(generic); err != nil {
		return regexp.QuoteMeta(pattern)
	}
	return generic
}

// AllowInconclusive logs an undecided outcome instead of failing.
func AllowInconclusive() Option { return func(c *config) { c.undecidedIsFine = true } }

// InProcess runs operations in the process of the test, for tests that cannot run twice. Anything else that runs at
// the same time counts as growth, so such a test must not be parallel. Descriptors and threads are not read.
func InProcess() Option { return func(c *config) { c.inProcess = true } }
