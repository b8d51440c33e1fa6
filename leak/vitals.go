package leak

import (
	"fmt"
	"time"
)

// Vitals are counters of a process that only rise during its life and restart with another process. They show whether
// it is still the same process, and whether the load reached it.
type Vitals struct {
	Read time.Time
	// Process names the process on its platform: its number and start time, or the ID of its container. "" is unknown.
	Process string
	// Known is set if the process reports its memory. The next four fields are its counters since its start.
	Known       bool
	Collections int64
	Mallocs     int64
	Bytes       int64
	// Lines is the number of served lines. The process allocates objects to write them, after it has read its
	// counters.
	Lines int
	// Ends are the ends of the last collections, by number modulo their count, in nanoseconds since 1970.
	Ends []int64
	// CPU is the processor time of the process, negative if unknown.
	CPU time.Duration
}

// Identified reports whether the vitals can distinguish this process from another one.
func (v Vitals) Identified() bool { return v.Known || v.Process != "" }

// Restarted returns why the process cannot be the one that was read before, "" if it can.
func (v Vitals) Restarted(before Vitals) string {
	switch {
	case before.Process != "" && v.Process == "":
		return before.Process + " no longer serves at its address"
	case before.Process != v.Process && before.Process != "":
		return fmt.Sprintf("it was %s, and is %s", before.Process, v.Process)
	case !v.Known || !before.Known:
		return ""
	case v.Collections < before.Collections:
		return fmt.Sprintf("it has had %d garbage collections, after %d", v.Collections, before.Collections)
	case v.Mallocs < before.Mallocs || v.Bytes < before.Bytes:
		return fmt.Sprintf("it has allocated %d objects, after %d", v.Mallocs, before.Mallocs)
	}
	last := before.Collections
	if last > 0 && v.Collections-last < int64(len(v.Ends)) && v.end(last) != before.end(last) {
		return fmt.Sprintf("its garbage collection number %d was at another time", last)
	}
	return ""
}

func (v Vitals) end(n int64) int64 {
	if len(v.Ends) == 0 {
		return 0
	}
	return v.Ends[(n-1)%int64(len(v.Ends))]
}

// RestartedError is the error of readings from more than one process.
type RestartedError struct{ Reason string }

func (e *RestartedError) Error() string { return "the subject restarted: " + e.Reason }

// Activity is what a process did between two readings of its counters, those readings included.
type Activity struct {
	// Component is the scenario's name of the component, "" for the program.
	Component string  `json:"component,omitempty"`
	Seconds   float64 `json:"seconds"`
	// Lines is how many lines the process had to write after its counters were read at the beginning.
	Lines float64 `json:"lines,omitempty"`
	// Mallocs is the number of allocated objects, and CPUSeconds the processor time. They are absent if unknown.
	Mallocs    *float64 `json:"mallocs,omitempty"`
	CPUSeconds *float64 `json:"cpuSeconds,omitempty"`
}

// Since is the activity between an earlier reading and this one.
func (v Vitals) Since(before Vitals) Activity {
	a := Activity{Seconds: v.Read.Sub(before.Read).Seconds(), Lines: float64(before.Lines)}
	if v.Known && before.Known {
		n := float64(v.Mallocs - before.Mallocs)
		a.Mallocs = &n
	}
	if v.CPU >= 0 && before.CPU >= 0 {
		n := max(v.CPU-before.CPU, 0).Seconds()
		a.CPUSeconds = &n
	}
	return a
}

// Add adds the activity of another stretch of time.
func (a Activity) Add(b Activity) Activity {
	sum := func(x, y *float64) *float64 {
		if x == nil || y == nil {
			return nil
		}
		n := *x + *y
		return &n
	}
	a.Seconds += b.Seconds
	a.Lines += b.Lines
	a.Mallocs, a.CPUSeconds = sum(a.Mallocs, b.Mallocs), sum(a.CPUSeconds, b.CPUSeconds)
	return a
}

// Activities are the activities of several processes in the same stretch of time, and those of another one, added.
func Activities(a, b []Activity) []Activity {
	var sums []Activity
	for _, one := range a {
		for _, other := range b {
			if one.Component == other.Component {
				one = one.Add(other)
			}
		}
		sums = append(sums, one)
	}
	return sums
}
