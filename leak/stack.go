package leak

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Frame is one call on a stack.
type Frame struct {
	// Func is the full name: "k8s.io/apimachinery/pkg/watch.(*StreamWatcher).receive".
	Func string `json:"func"`
	// File is as the binary states it; with -trimpath "k8s.io/apimachinery@v0.18.8/pkg/watch/streamwatcher.go".
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
}

// Short is the function without its module path: "watch.(*StreamWatcher).receive".
func (f Frame) Short() string {
	name := f.Func
	// Generic arguments may hold slashes; they start at the first bracket.
	head, tail, generic := strings.Cut(name, "[")
	if i := strings.LastIndexByte(head, '/'); i >= 0 {
		head = head[i+1:]
	}
	if generic {
		return head + "[" + tail
	}
	return head
}

// Package returns the import path of the function's package. The last element of a path may contain dots
// (gopkg.in/yaml.v3, nats.go). Then the folder of the file shows where the path ends.
func (f Frame) Package() string {
	head, _, _ := strings.Cut(f.Func, "[")
	slash := strings.LastIndexByte(head, '/') + 1
	folder, _, _ := strings.Cut(path.Base(path.Dir(f.File)), "@")
	if strings.HasPrefix(head[slash:], folder+".") {
		return head[:slash] + folder
	}
	pkg, _, _ := strings.Cut(head[slash:], ".")
	return head[:slash] + pkg
}

// Position is "file:line", or "" when the file is not known.
func (f Frame) Position() string {
	if f.File == "" {
		return ""
	}
	return f.File + ":" + strconv.Itoa(f.Line)
}

// Stack is a normalised stack: what goroutines of one group, or allocations of one site, share.
type Stack struct {
	// State is the wait state without its age ("chan send"); empty for heap stacks.
	State string `json:"state,omitempty"`
	// Frames are innermost first, without the runtime's own parking frames.
	Frames []Frame `json:"frames"`
	// Creator is the "created by" frame, known only from a text dump.
	Creator *Frame `json:"creator,omitempty"`
}

// ID identifies the stack within a record: a hash of state, function names, creator, and the line of the innermost
// frame. Outer lines are ignored, because they differ between call sites of one leak.
func (s Stack) ID() string {
	h := sha256.New()
	h.Write([]byte(s.State))
	for i, f := range s.Frames {
		h.Write([]byte{0})
		h.Write([]byte(f.Func))
		if i == 0 {
			h.Write([]byte(":" + strconv.Itoa(f.Line)))
		}
	}
	if s.Creator != nil {
		h.Write([]byte{1})
		h.Write([]byte(s.Creator.Func))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Top is the innermost frame, the zero Frame for an empty stack.
func (s Stack) Top() Frame {
	if len(s.Frames) == 0 {
		return Frame{}
	}
	return s.Frames[0]
}

// waitingRoom are the packages that stand between a goroutine which waits for a file or a connection and
// the code that it waits for.
var waitingRoom = []string{"internal/poll", "net", "os", "io", "bufio", "crypto/tls"}

// standardRoots are the first elements of the standard library's package paths.
var standardRoots = strings.Fields("archive bufio bytes cmp compress container context crypto database debug embed encoding errors expvar flag fmt go hash html image index internal io iter log maps math mime net os path plugin reflect regexp runtime slices sort strconv strings structs sync syscall testing text time unicode unique unsafe vendor weak")

// Standard reports whether the frame is in the standard library or the runtime.
func (f Frame) Standard() bool {
	root, _, _ := strings.Cut(f.Package(), "/")
	return slices.Contains(standardRoots, root)
}

// Origin is the innermost frame outside the standard library: the code to look at first. Where there is none it is
// Place.
func (s Stack) Origin() Frame {
	for _, f := range s.Frames {
		if f.Func != "" && !f.Standard() {
			return f
		}
	}
	return s.Place()
}

// Place returns the most informative innermost frame: the top, or for a goroutine that waits in the network poller,
// the code that reads or writes.
func (s Stack) Place() Frame {
	if s.Top().Package() != "internal/poll" {
		return s.Top()
	}
	for _, f := range s.Frames {
		if !slices.Contains(waitingRoom, f.Package()) {
			return f
		}
	}
	return s.Top()
}

// String is "chan send at watch.(*StreamWatcher).receive", for one line of output.
func (s Stack) String() string {
	at := s.Place().Short()
	if at == "" {
		at = "an unknown place"
	}
	if s.State == "" {
		return at
	}
	return s.State + " at " + at
}
