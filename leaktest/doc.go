// Package leaktest finds leaks in unit tests. It judges by growth per operation, as leakrig does for whole programs.
//
//	func TestHandler(t *testing.T) {
//		srv := newServer(t)
//		leaktest.Run(t, func(ctx context.Context, op int) error { return get(ctx, srv.URL+"/orders") })
//	}
//
// [Run] repeats the operation in rounds of growing size until goroutines, heap bytes, heap objects, goroutine stack
// bytes, and on Linux descriptors and threads, are each decided, or until its budget of ten seconds is spent. An
// undecided operation is measured once more for up to thirty seconds. The test fails if one of them leaks, and also if
// the outcome stays undecided (see [AllowInconclusive]).
//
// The operation runs in a child process: the test binary, restarted for this one test. So other tests do not disturb
// the measurement, and t.Parallel, subtests, -race, -shuffle and TestMain work. The child performs the test up to Run,
// and then its cleanups. Code after Run runs only in the parent, where the operation itself never runs.
//
// [Check] is for tests that run once: it fails the test if goroutines that it started are left when it ends. [Main]
// checks a whole package, and [Retained] reports what a benchmark retains per operation.
//
// # From goleak
//
//	goleak.VerifyNone(t)                  leaktest.Check(t), as the first statement of the test; t.Parallel is fine
//	goleak.VerifyTestMain(m)              os.Exit(leaktest.Main(m))
//	goleak.IgnoreTopFunction("a.(*T).b")  leaktest.Allow("a.(*T).b", "reason", "2027-01-31")
//	goleak.IgnoreAnyFunction("a.(*T).b")  the same: a pattern may match any frame
//	goleak.IgnoreCurrent()                not needed: only goroutines that the test started count
//	goleak.Cleanup(f) with VerifyNone     t.Cleanup(func() { f(0) }), before Check: it then runs after the check
//	goleak.Cleanup(f) with VerifyTestMain code := leaktest.Main(m); f(code)
//	goleak.Find()                         Check in a subtest
//
// These are all options of goleak v1.3.0.
package leaktest
