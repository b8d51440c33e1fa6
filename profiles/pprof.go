package profiles

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
)

// parsePprof reads a profile in pprof's format, gzipped or not. google/pprof would decompress without
// a bound, so that is done here.
func parsePprof(data []byte) (*profile.Profile, error) {
	return decode(context.Background(), data, maxProfile, maxDecoded)
}

// decode is parsePprof for a profile that decompresses to at most most bytes, and decodes to at most decoded more. It
// waits for memory if ctx has a shared budget.
func decode(ctx context.Context, data []byte, most int64, decoded int) (*profile.Profile, error) {
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		var err error
		if data, err = gunzipIn(ctx, data, most); err != nil {
			return nil, notAProfile(err)
		}
	}
	size, err := estimate(data, decoded)
	if err != nil {
		return nil, notAProfile(err)
	}
	if err := take(ctx, size); err != nil {
		return nil, err
	}
	p, err := profile.ParseUncompressed(data)
	if err != nil {
		return nil, notAProfile(err)
	}
	if err := p.CheckValid(); err != nil {
		return nil, notAProfile(err)
	}
	return p, nil
}

func gunzip(data []byte, limit int64) ([]byte, error) {
	return gunzipIn(context.Background(), data, limit)
}

func gunzipIn(ctx context.Context, data []byte, limit int64) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return readBounded(ctx, z, limit)
}

func notAProfile(err error) error {
	return leak.WithHint(fmt.Errorf("not a pprof profile: %w", err),
		"`go tool pprof` on the same URL shows what is served there")
}

// goroutineGroups groups a goroutine profile.
func goroutineGroups(p *profile.Profile) (*groups, error) { return stacksOf(p, "goroutine") }

// leakedGroups groups a goroutine leak profile.
func leakedGroups(p *profile.Profile) (*groups, error) { return stacksOf(p, "goroutineleak") }

// stacksOf groups a profile that counts goroutines. Such a profile has no creators. It has only the wait states that
// the leaf frames of the runtime show. stacksOf omits the goroutine that wrote the profile, and the one that watches
// its connection.
func stacksOf(p *profile.Profile, values string) (*groups, error) {
	index, err := valueIndex(p, values)
	if err != nil {
		return nil, err
	}
	g, functions := newGroups(), functionNames(p)
	if err := countable(p, functions); err != nil {
		return nil, err
	}
	var served int64
	var watching []*leak.Group
	for _, s := range p.Sample {
		var stack leak.Stack
		stack.State, stack.Frames = unpark(framesOf(s, functions))
		if servesProfile(stack) {
			served += s.Value[index]
			continue
		}
		group := g.add(stack, s.Value[index], 0)
		if err := g.bounded(); err != nil {
			return nil, err
		}
		if watchesConnection(stack) {
			watching = append(watching, group)
		}
	}
	for _, group := range watching {
		own := min(served, group.Count)
		group.Count -= own
		g.total -= own
		served -= own
	}
	g.dropEmpty()
	return g, nil
}

// heapGroups groups the live part of a heap profile by allocation site. The values are the runtime's
// own estimates, already scaled by the sampling rate.
func heapGroups(p *profile.Profile) (*groups, error) {
	space, err := valueIndex(p, "inuse_space")
	if err != nil {
		return nil, err
	}
	objects := space // a stored profile may have only the bytes
	if len(p.SampleType) > 1 {
		if objects, err = valueIndex(p, "inuse_objects"); err != nil {
			return nil, err
		}
	}
	g, functions := newGroups(), functionNames(p)
	if err := countable(p, functions); err != nil {
		return nil, err
	}
	for _, s := range p.Sample {
		if s.Value[objects] == 0 && s.Value[space] == 0 {
			continue
		}
		_, frames := unpark(framesOf(s, functions))
		count := s.Value[objects]
		if objects == space {
			count = 0
		}
		g.add(leak.Stack{Frames: frames}, count, s.Value[space])
		if err := g.bounded(); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// valueIndex finds the values called name. They are counts and sizes, so a negative value is an error.
func valueIndex(p *profile.Profile, name string) (int, error) {
	i := slices.IndexFunc(p.SampleType, func(t *profile.ValueType) bool { return t.Type == name })
	if i < 0 {
		return 0, notAProfile(fmt.Errorf("it has no %q values", name))
	}
	for _, s := range p.Sample {
		if s.Value[i] < 0 {
			return 0, notAProfile(fmt.Errorf("%q is %d", name, s.Value[i]))
		}
	}
	return i, nil
}

// functionNames is the frame of every function, without its line, its names normalised once.
func functionNames(p *profile.Profile) map[*profile.Function]leak.Frame {
	made, files := names{}, names{}
	functions := make(map[*profile.Function]leak.Frame, len(p.Function))
	for _, f := range p.Function {
		functions[f] = leak.Frame{Func: made.name(f.Name, normalName), File: files.name(f.Filename, display.Name)}
	}
	return functions
}

// countable reports whether the stacks of a profile can be compared with a bounded amount of work: a few samples of a
// location with many inlined calls have a large number of frames.
func countable(p *profile.Profile, functions map[*profile.Function]leak.Frame) error {
	type load struct{ frames, bytes int }
	loads := make(map[*profile.Location]load, len(p.Location))
	for _, location := range p.Location {
		var l load
		for _, line := range location.Line {
			l.frames++
			l.bytes += len(functions[line.Function].Func) + len(functions[line.Function].File)
		}
		loads[location] = l
	}
	frames, work := 0, 0
	for _, s := range p.Sample {
		deep := 0
		for _, location := range s.Location {
			deep += loads[location].frames
			work += loads[location].bytes
		}
		if deep > maxFrames {
			return notAProfile(fmt.Errorf("a stack of more than %d calls", maxFrames))
		}
		frames += deep
		if work += deep * perFrame; work > maxWork {
			return notAProfile(fmt.Errorf("stacks of %d calls and more, with %d MiB of names and more", frames, maxWork>>20))
		}
	}
	return nil
}

// framesOf flattens a sample's locations, innermost first, with inlined calls as separate frames.
func framesOf(s *profile.Sample, functions map[*profile.Function]leak.Frame) []leak.Frame {
	frames := make([]leak.Frame, 0, len(s.Location))
	for _, location := range s.Location {
		for _, line := range location.Line {
			if line.Function == nil {
				continue
			}
			frame := functions[line.Function]
			frame.Line = int(line.Line)
			frames = append(frames, frame)
		}
	}
	return frames
}

// waits maps the runtime's leaf functions onto the wait states that a text dump would print.
var waits = []struct{ fn, state string }{
	{"runtime.chansend", "chan send"},
	{"runtime.chanrecv", "chan receive"},
	{"runtime.selectgo", "select"},
	{"runtime.block", "select (no cases)"},
	{"runtime.netpollblock", "IO wait"},
	{"internal/poll.runtime_pollWait", "IO wait"},
	{"sync.runtime_notifyListWait", "sync.Cond.Wait"},
	{"sync.runtime_SemacquireWaitGroup", "sync.WaitGroup.Wait"},
	{"sync.runtime_SemacquireMutex", "sync.Mutex.Lock"},
	{"internal/sync.runtime_SemacquireMutex", "sync.Mutex.Lock"},
	{"sync.runtime_SemacquireRWMutex", "sync.RWMutex.Lock"},
	{"sync.runtime_SemacquireRWMutexR", "sync.RWMutex.RLock"},
	{"sync.runtime_Semacquire", "semacquire"},
	{"internal/poll.runtime_Semacquire", "semacquire"},
	{"runtime.coroswitch", "coroutine"},
	{"time.Sleep", "sleep"},
}

// unpark removes the innermost frames of the runtime, as a text dump does, and derives the wait state from them. It
// also removes sync.Cond.Wait, so the stack begins with its caller.
func unpark(frames []leak.Frame) (state string, rest []leak.Frame) {
	rest = frames
	for len(rest) > 1 && parks(rest[0].Func) {
		state = waitState(state, rest[0].Func)
		rest = rest[1:]
	}
	if len(rest) > 0 {
		state = waitState(state, rest[0].Func)
	}
	return state, rest
}

func parks(fn string) bool {
	return strings.HasPrefix(fn, "runtime.") || fn == "sync.runtime_notifyListWait" || fn == "sync.(*Cond).Wait"
}

func waitState(known, fn string) string {
	for _, w := range waits {
		if fn == w.fn {
			return w.state
		}
	}
	return known
}
