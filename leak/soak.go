package leak

import (
	"slices"
	"time"
)

// SoakSpec starts the rounds of a scenario at fixed times.
type SoakSpec struct {
	Every Duration `yaml:"every" json:"every" doc:"interval between the starts of rounds; a late round starts at once"`
	For   Duration `yaml:"for" json:"for" doc:"duration after which no round starts, not counting the time in which leakrig did not run"`
}

// Bounds of a soak. The one on Every keeps a soak that goes on from looking like a run that ended long ago.
const (
	MaxSoakEvery  = 24 * time.Hour
	MaxSoak       = 90 * 24 * time.Hour
	MaxSoakRounds = 1_000_000
)

// Rounds returns the number of rounds if none is late.
func (s SoakSpec) Rounds() int {
	if s.Every <= 0 {
		return 0
	}
	return int((s.For + s.Every - 1) / s.Every)
}

// firstLook is the round after which a soak is looked at first: enough for a trend in any plausible number of
// series.
const firstLook = 10

// looks are twice as far apart every time, so that ninety days have no more than seventeen.
func (s SoakSpec) looks() []int {
	var looks []int
	for n := firstLook; n < s.Rounds(); n *= 2 {
		looks = append(looks, n)
	}
	return append(looks, s.Rounds())
}

// SoakRecord is how the soak of one variant went so far.
type SoakRecord struct {
	// Rounds is how many were measured. The snapshots are the baseline and those of the rounds that were kept.
	Rounds int `json:"rounds"`
	// Stride is the number of rounds per kept round, and of some older ones every second of these. The last round and
	// both sides of the steepest step are kept as well.
	Stride int `json:"stride"`
	// Slots is how many rounds could have begun by then; Late began after their time, and Missed never did, since
	// the round before took longer than it may.
	Slots  int `json:"slots"`
	Late   int `json:"late,omitempty"`
	Missed int `json:"missed,omitempty"`
	// Seconds is the duration, without the time during which leakrig did not run.
	Seconds float64 `json:"seconds"`
	// Time is when the last round was kept.
	Time time.Time `json:"time"`
	// Next is the number of the next operation.
	Next int `json:"next"`
	// Processes identify the program's processes, one per replica; empty if that is impossible.
	Processes []ProcessMark `json:"processes,omitempty"`
	// Resumptions is how often leakrig was started again, Resumed are the last few of these.
	Resumptions int          `json:"resumptions,omitempty"`
	Resumed     []Resumption `json:"resumed,omitempty"`
}

// Resumption is one more start of leakrig within a soak.
type Resumption struct {
	Time time.Time `json:"time"`
	// After is the last round before. Operations in progress when leakrig ended are in no tally.
	After int `json:"after"`
	// Seconds is the time since that round.
	Seconds float64 `json:"seconds"`
	// Leakrig is the version that went on.
	Leakrig string `json:"leakrig"`
	// Same is the evidence that the process is the same.
	Same string `json:"same"`
}

// ProcessMark is what a process of Go can be known by later: the end of one of its garbage collections, of
// which the runtime remembers the last 256, to the nanosecond.
type ProcessMark struct {
	// Read is when leakrig read it.
	Read time.Time `json:"read"`
	// Collections counts those so far; the last of them ended at Ended, in nanoseconds since 1970.
	Collections int64 `json:"collections"`
	Ended       int64 `json:"ended"`
}

// First returns the first round whose load is in the snapshot: its own, or that of removed snapshots before it.
func (s *Snapshot) First() int { return s.Round - s.Merged }

// Done reports whether all planned rounds of the variant and the idling after them were measured.
func (v *VariantRecord) Done() bool { return v.Failure == nil && v.Idle != nil }

// SoakWhole reports whether the last measured round is present. Thinning keeps it; a truncated record has lost it.
func (r *Record) SoakWhole() bool {
	for _, v := range r.Variants {
		if v.Soak != nil && (len(v.Snapshots) == 0 || v.Final().Round != v.Soak.Rounds) {
			return false
		}
	}
	return true
}

// SoakOver reports whether a soak cannot be resumed because it is complete; true if the record is not of a soak.
func (r *Record) SoakOver() bool {
	if r.Plan.Soak == nil {
		return true
	}
	return !slices.ContainsFunc(r.Plan.Variants, func(name string) bool {
		v := r.Variant(name)
		return v == nil || !v.Done()
	})
}

// Seen is when the run was last known to be at work: at its start, or after the last round of a soak.
func (r *Record) Seen() time.Time {
	seen := r.Started
	for _, v := range r.Variants {
		if v.Soak != nil && v.Soak.Time.After(seen) {
			seen = v.Soak.Time
		}
	}
	return seen
}

// AnotherProcessError is the error of a soak that cannot resume because the process is another one. The growth of one
// process is unrelated to that of another.
type AnotherProcessError struct{ Reason string }

func (e *AnotherProcessError) Error() string { return e.Reason }
