package leak

import (
	"math"
	"strings"
)

// HeapDump is what was read of a process's heap dump.
type HeapDump interface {
	// Since returns who holds what grew since another dump of the process. The stacks are those of the record, by ID.
	Since(baseline HeapDump, stacks map[string]Stack) *Holders
}

// Holders is who holds the memory that a process gained from the baseline to the last round. It rests on two heap dumps.
type Holders struct {
	// Problem is why there are no dumps, "" if there are.
	Problem string `json:"problem,omitempty"`
	// Pauses are how long the process stopped for each dump, in seconds.
	Pauses []float64 `json:"pauses,omitempty"`
	// Components are the holders of the observed components of the cluster, by name.
	Components map[string]*Holders `json:"components,omitempty"`
	// Growth is what holders gained of an allocation stack, largest first.
	Growth []Held `json:"growth,omitempty"`
	// Goroutines are the goroutines that alone hold memory, largest first.
	Goroutines []Retained `json:"goroutines,omitempty"`
}

// Of returns the holders in the process that a probe reads, nil if they are unknown.
func (h *Holders) Of(probe string) *Holders {
	if component, _, ok := strings.Cut(probe, "/"); h != nil && ok {
		return h.Components[component]
	}
	return h
}

// minHeld is the share of a site's growth from which one holder answers who holds it.
const minHeld = 0.5

// MostOf returns the holder of most of what an allocation stack gained, nil if there is none.
func (h *Holders) MostOf(stack string) *Held {
	if h == nil {
		return nil
	}
	for i := range h.Growth {
		if g := &h.Growth[i]; g.Stack == stack && g.Share >= minHeld {
			return g
		}
	}
	return nil
}

// Held is what a holder has gained of the objects of one allocation stack.
type Held struct {
	// Stack is the ID of the allocation stack in the record, "" if no profile has it.
	Stack string `json:"stack,omitempty"`
	// Site is where the objects were allocated: "main.render (main.go:52)".
	Site string `json:"site"`
	// Holder names who holds them: "main.registry", "389 goroutines at watch.(*StreamWatcher).receive".
	Holder string `json:"holder"`
	// Unnamed is set for a global variable of a program without symbols.
	Unnamed bool `json:"unnamed,omitempty"`
	// Goroutines is the ID of the stack of the goroutines that hold them, "" for other holders.
	Goroutines string `json:"goroutines,omitempty"`
	// Path is how the holder reaches most of them: "main.registry (map[string]*main.Order) → *main.Order.items → []byte".
	Path string `json:"path,omitempty"`
	// Bytes and Objects are estimates from Sampled objects, Share is the part of the stack's growth, from 0 to 1.
	Bytes   float64 `json:"bytes"`
	Objects float64 `json:"objects"`
	Sampled int     `json:"sampled"`
	Share   float64 `json:"share"`
}

// Retained is the memory that similar goroutines alone keep reachable after the last round.
type Retained struct {
	// Stack is the ID of the goroutines' stack in the record, "" if no profile has it.
	Stack string `json:"stack,omitempty"`
	// At is the function whose frame holds the memory.
	At    string  `json:"at"`
	Count int     `json:"count"`
	Bytes float64 `json:"bytes"`
}

// Each returns how many bytes one of the goroutines holds on average.
func (r Retained) Each() float64 { return math.Round(r.Bytes / float64(max(r.Count, 1))) }
