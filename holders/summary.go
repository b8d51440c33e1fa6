package holders

import (
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/leakrig/leakrig/leak"
)

// Options of Read.
type Options struct {
	// MemProfileRate is the dumped process's runtime.MemProfileRate; 0 is its default, 512 KiB.
	MemProfileRate int
}

// Summary says who holds what in a heap dump. It has no contents and no addresses of the process.
type Summary struct {
	GoVersion string `json:"goVersion"`
	// Objects and Bytes are of all objects in the dump, and Unreached is the bytes that no root of the dump reaches.
	Objects   int    `json:"objects"`
	Bytes     uint64 `json:"bytes"`
	Unreached uint64 `json:"unreached"`
	// Sites are the allocation stacks with the most sampled bytes, largest first.
	Sites []Site `json:"sites"`
	// Roots are the holders that retain most.
	Roots []Retained `json:"roots"`
}

// Retained is the memory that only one holder keeps reachable.
type Retained struct {
	Holder Holder `json:"holder"`
	Bytes  uint64 `json:"bytes"`
}

const maxRoots = 50

// Read reads a heap dump and returns who holds what in it. Without a binary, globals have no names and types are unknown.
func Read(r io.Reader, bin *Binary, options Options) (*Summary, error) {
	d, err := parse(r, bin)
	if err != nil {
		return nil, err
	}
	g, err := newGraph(d)
	if err != nil {
		return nil, err
	}
	return newAttribution(g, options.MemProfileRate).summary(), nil
}

func (a *attribution) summary() *Summary {
	g := a.g
	s := &Summary{GoVersion: g.version, Objects: g.objects, Sites: a.sites()}
	for _, span := range g.spans {
		s.Bytes += uint64(span.count) * uint64(span.size) * wordSize
	}
	s.Unreached = s.Bytes - uint64(g.retained[g.super])*wordSize
	var roots []uint32
	for i := range g.roots {
		if node := uint32(g.objects + i); g.idom[node] == g.super && g.retained[node] > 0 {
			roots = append(roots, node)
		}
	}
	slices.SortFunc(roots, func(x, y uint32) int { return int(int64(g.retained[y]) - int64(g.retained[x])) })
	for _, r := range roots[:min(len(roots), maxRoots)] {
		s.Roots = append(s.Roots, Retained{Holder: a.holder(r, none), Bytes: uint64(g.retained[r]) * wordSize})
	}
	return s
}

// trimRuntime removes the runtime's frames at both ends of an allocation stack. pprof removes some of them, too.
func trimRuntime(frames []leak.Frame) []leak.Frame {
	own := func(f leak.Frame) bool { return !inRuntime(f) }
	first := slices.IndexFunc(frames, own)
	if first < 0 {
		return frames
	}
	last := len(frames)
	for inRuntime(frames[last-1]) {
		last--
	}
	return frames[first:last]
}

// inRuntime reports whether a frame is in the runtime, by its file too: a dump names the function that a runtime function
// is inlined in.
func inRuntime(f leak.Frame) bool {
	for _, dir := range []string{"runtime/", "internal/runtime/"} {
		if strings.HasPrefix(f.File, dir) || strings.Contains(f.File, "/src/"+dir) {
			return true
		}
	}
	return runtimeOwned(f.Func)
}

// siteKey joins allocation stacks of dumps and profiles. Names differ: a profile names inlined functions, and a dump names
// the functions that contain them. Positions are the same.
func siteKey(frames []leak.Frame) string {
	var b strings.Builder
	for _, f := range frames {
		b.WriteString(f.File)
		b.WriteByte(':')
		b.WriteString(strconv.Itoa(f.Line))
		b.WriteByte('\n')
	}
	return b.String()
}

// Site returns the site with the allocation stack of a heap profile, or nil.
func (s *Summary) Site(stack leak.Stack) *Site {
	key := siteKey(trimRuntime(stack.Frames))
	for i := range s.Sites {
		if siteKey(s.Sites[i].Frames) == key {
			return &s.Sites[i]
		}
	}
	return nil
}
