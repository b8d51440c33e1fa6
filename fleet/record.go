package fleet

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

// Files of a survey in its run directory.
const (
	RecordFile  = "fleet.json"
	VerdictFile = "fleet-verdict.json"
)

// RecordSchema is the version of the record's JSON form. Records carry a checksum since version sealedSince; some of
// those before have none.
const (
	RecordSchema = 2
	sealedSince  = 2
)

// maxRecord bounds the size of a record in bytes.
const maxRecord = 512 << 20

// Record is what a survey measured. It holds counts and no profiles: a thousand targets in thirty sweeps are
// some MiB.
type Record struct {
	Schema   int           `json:"schema"`
	Leakrig  string        `json:"leakrig"`
	Command  []string      `json:"command,omitempty"`
	Started  time.Time     `json:"started"`
	Finished time.Time     `json:"finished,omitzero"`
	Every    leak.Duration `json:"every"`
	For      leak.Duration `json:"for"`
	// Bounds are the bounds of the judgement.
	Bounds Bounds `json:"bounds"`
	// Counter is the metric, or the pprof label, that counts operations; "" if growth is per hour.
	Counter string  `json:"counter,omitempty"`
	Sweeps  []Sweep `json:"sweeps"`
	// Stacks are those of the whole fleet; groups refer to them by their place.
	Stacks []leak.Stack `json:"stacks"`
	// Beyond counts targets beyond the limit.
	Beyond      int           `json:"beyond,omitempty"`
	Interrupted bool          `json:"interrupted,omitempty"`
	Failure     *leak.Failure `json:"failure,omitempty"`
	Warnings    []string      `json:"warnings,omitempty"`
	// Targets are the lives that were seen, in that order. They come last: see write.
	Targets []*Series `json:"targets"`
}

// A record on disk ends with the SHA-256 of everything before this text.
const digest = `],"sha256":"`

// Sweep is one reading of all targets.
type Sweep struct {
	// Seconds is the start of the sweep, relative to the first one. Took is its duration in seconds.
	Seconds float64 `json:"seconds"`
	Took    float64 `json:"took"`
	Listed  int     `json:"listed"`
	Read    int     `json:"read"`
	Failed  int     `json:"failed,omitempty"`
}

// Series are the readings of one target.
type Series struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// First is the sweep that saw it first, from 0.
	First int `json:"first,omitempty"`
	// Gone is set if the target was no longer listed, or had restarted, before the survey ended.
	Gone bool `json:"gone,omitempty"`
	// Failures are readings that did not come about, LastError the last reason.
	Failures  int    `json:"failures,omitempty"`
	LastError string `json:"lastError,omitempty"`
	// NoCounter is why operations are unknown, "" if they are known.
	NoCounter string `json:"noCounter,omitempty"`
	// Seconds are the times of the points, relative to the first sweep. After many sweeps, a point represents several
	// of them, and its counts are their minimum.
	Seconds []float64 `json:"seconds"`
	// Operations are what the counter said at each point; nil where some point has none.
	Operations []float64 `json:"operations,omitempty"`
	Total      Counts    `json:"total"`
	Groups     []*Group  `json:"groups"`

	byStack map[int]*Group
	// stride is the number of sweeps per point, 0 for one. held is the number of sweeps that the last point represents
	// so far.
	stride, held int
	// latest is what the counter said last, and lost is set once it said nothing.
	latest float64
	lost   bool
	// uncounted is how many readings in a row have failed for their counter alone.
	uncounted int
	// vitals are the last counters of its process, if they are read.
	vitals leak.Vitals
}

// Group counts the goroutines on one stack.
type Group struct {
	// Stack is the place in the record's stacks, or Other.
	Stack  int    `json:"stack"`
	Counts Counts `json:"counts"`
}

// Counts has one count per point. In JSON, a constant series is one number.
type Counts []int32

// MarshalJSON writes a list, or a number if it has several equal elements.
func (c Counts) MarshalJSON() ([]byte, error) {
	if len(c) > 1 && slices.Max(c) == slices.Min(c) {
		return strconv.AppendInt(nil, int64(c[0]), 10), nil
	}
	b := append(make([]byte, 0, 4*len(c)+2), '[')
	for i, n := range c {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(n), 10)
	}
	return append(b, ']'), nil
}

// UnmarshalJSON reads a list, or a number as a list of one.
func (c *Counts) UnmarshalJSON(b []byte) error {
	if !bytes.HasPrefix(b, []byte("[")) {
		*c = make(Counts, 1)
		return json.Unmarshal(b, &(*c)[0])
	}
	return json.Unmarshal(b, (*[]int32)(c))
}

// maxPoints is the maximum number of points of one target. Beyond it, pairs of points are merged by their minimum,
// and every new point stands for the same number of sweeps: transient goroutines disappear, and leaks stay. If new
// points were single sweeps, noise alone would rise from the minimum of many to a single count.
const maxPoints = 120

func (r *Record) add(id, name string, sweep int) *Series {
	s := &Series{ID: id, Name: name, First: sweep, Seconds: []float64{}, Total: Counts{}, Groups: []*Group{}, byStack: map[int]*Group{}}
	r.Targets = append(r.Targets, s)
	return s
}

// maxWarnings limits the warnings about an API server that is unavailable for hours.
const maxWarnings = 50

func (r *Record) warn(format string, args ...any) {
	switch n := len(r.Warnings); {
	case n < maxWarnings:
		r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
	case n == maxWarnings:
		r.Warnings = append(r.Warnings, "and more of the like")
	}
}

func (r *Record) fail(err error) {
	r.Failure = &leak.Failure{Message: err.Error(), Hint: leak.Hint(err)}
}

// restarted reports whether a counter of operations fell, which only a new process does.
func (s *Series) restarted(operations float64) bool {
	return len(s.Operations) > 0 && operations < s.latest
}

// largest is n, or a larger number that was seen before: the goroutine that carried it is gone.
func (s *Series) largest(n float64) float64 {
	if len(s.Operations) > 0 {
		return max(n, s.latest)
	}
	return n
}

// add adds one reading. operations is NaN if unknown.
func (s *Series) add(seconds, operations float64, total int64, counts []count) {
	if s.byStack == nil {
		return // one that there was no room for
	}
	s.latest = operations
	if s.lost = s.lost || math.IsNaN(operations); s.lost {
		s.Operations = nil
	}
	if s.held < s.stride {
		s.merge(seconds, operations, total, counts)
		return
	}
	if len(s.Seconds) == maxPoints {
		s.thin()
		s.stride = 2 * max(s.stride, 1)
	}
	n := len(s.Seconds)
	s.held = 1
	s.Seconds = append(s.Seconds, seconds)
	if !s.lost {
		s.Operations = append(s.Operations, operations)
	}
	s.Total = append(s.Total, clip(total))
	for _, c := range counts {
		g := s.group(c.stack, n)
		if len(g.Counts) == n {
			g.Counts = append(g.Counts, 0)
		}
		g.Counts[n] = clip(int64(g.Counts[n]) + int64(c.n))
	}
	for _, g := range s.Groups {
		if len(g.Counts) == n {
			g.Counts = append(g.Counts, 0)
		}
	}
}

// merge takes one more reading into the last point.
func (s *Series) merge(seconds, operations float64, total int64, counts []count) {
	n := len(s.Seconds) - 1
	before, all := float64(s.held), float64(s.held+1)
	s.held++
	s.Seconds[n] = (s.Seconds[n]*before + seconds) / all
	if !s.lost {
		s.Operations[n] = (s.Operations[n]*before + operations) / all
	}
	s.Total[n] = min(s.Total[n], clip(total))
	sums := map[*Group]int64{}
	for _, c := range counts {
		sums[s.group(c.stack, n+1)] += int64(c.n)
	}
	for _, g := range s.Groups {
		g.Counts[n] = min(g.Counts[n], clip(sums[g]))
	}
}

// group is the one that counts a stack; one that comes late had none in the n points before.
func (s *Series) group(stack, n int) *Group {
	if g := s.byStack[stack]; g != nil {
		return g
	}
	if len(s.Groups) >= maxGroups {
		stack = Other
		if g := s.byStack[stack]; g != nil {
			return g
		}
	}
	g := &Group{Stack: stack, Counts: make(Counts, n, n+8)}
	s.byStack[stack] = g
	s.Groups = append(s.Groups, g)
	return g
}

// thin makes one point of every two.
func (s *Series) thin() {
	mean := func(list []float64) []float64 {
		half := list[:0]
		for i := 0; i+1 < len(list); i += 2 {
			half = append(half, (list[i]+list[i+1])/2)
		}
		return half
	}
	least := func(list Counts) Counts {
		half := list[:0]
		for i := 0; i+1 < len(list); i += 2 {
			half = append(half, min(list[i], list[i+1]))
		}
		return half
	}
	s.Seconds, s.Operations, s.Total = mean(s.Seconds), mean(s.Operations), least(s.Total)
	if len(s.Operations) == 0 {
		s.Operations = nil
	}
	for _, g := range s.Groups {
		g.Counts = least(g.Counts)
	}
}

// end marks a target that is gone. Of one that was hardly seen no counts are kept: they could not be judged,
// and a fleet that crashes in a loop has many.
func (s *Series) end() {
	s.Gone, s.byStack = true, nil
	if len(s.Seconds) < fewest {
		s.Groups = []*Group{}
	}
}

// Write writes the record into a run directory atomically, without the secrets. It writes one target after the other,
// because the text of a large fleet would need several times the memory of its record.
func (r *Record) Write(dir rundir.Dir, secrets ...string) error {
	clean := rundir.Secrets(secrets).JSONRedactor()
	return dir.WriteWith(RecordFile, func(w io.Writer) error {
		sum := sha256.New()
		err := r.write(io.MultiWriter(w, sum), clean)
		if err == nil {
			_, err = fmt.Fprintf(w, "%s%x\"}\n", digest, sum.Sum(nil))
		}
		return err
	})
}

// write encodes the record, its targets last, without the end of their list.
func (r *Record) write(w io.Writer, clean func([]byte) []byte) error {
	head := *r
	head.Targets = nil
	data, err := json.Marshal(&head)
	if err != nil {
		return err
	}
	data = clean(data)
	const open = `"targets":null}`
	if !bytes.HasSuffix(data, []byte(open)) {
		return errors.New("targets are not the last of the record's fields")
	}
	if _, err := w.Write(append(data[:len(data)-len("null}")], '[')); err != nil {
		return err
	}
	for i, t := range r.Targets {
		if data, err = json.Marshal(t); err != nil {
			return err
		}
		end := ",\n"
		if i == len(r.Targets)-1 {
			end = ""
		}
		if _, err := w.Write(append(clean(data), end...)); err != nil {
			return err
		}
	}
	return nil
}

// Read reads the record of a run directory, and refuses an altered one.
func Read(dir rundir.Dir) (*Record, error) {
	r, seal, err := ReadSealed(dir)
	if err == nil && len(seal.Altered) > 0 {
		err = damaged(errNotWritten)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// ReadSealed reads the record of a run directory, and reports whether it is unchanged.
func ReadSealed(dir rundir.Dir) (*Record, rundir.Seal, error) {
	f, err := os.Open(dir.Path(RecordFile))
	if err != nil {
		return nil, rundir.Seal{}, leak.WithHint(fmt.Errorf("read %s: %w", RecordFile, err), "a run directory of a fleet is the one that `leakrig fleet` names at its end")
	}
	defer f.Close()
	data, err := rundir.ReadBounded(f, maxRecord)
	if err != nil {
		return nil, rundir.Seal{}, fmt.Errorf("read %s: %w", RecordFile, err)
	}
	r, err := decode(data)
	if err != nil {
		return nil, rundir.Seal{}, damaged(err)
	}
	return r, sealOf(r, data), nil
}

func damaged(err error) error {
	return leak.WithHint(fmt.Errorf("read %s: %w", RecordFile, err), "the file is damaged, or of a newer leakrig: of a fleet there is nothing else to judge")
}

var errNotWritten = errors.New("not what was written")

// sealOf reports whether a record is unchanged.
func sealOf(r *Record, data []byte) rundir.Seal {
	i := bytes.LastIndex(data, []byte(digest))
	switch {
	case i < 0 && r.Schema < sealedSince:
		return rundir.Seal{Unsealed: true}
	case i < 0:
		return rundir.Seal{Altered: []string{RecordFile + " has lost its checksum"}}
	}
	if sum := sha256.Sum256(data[:i]); !bytes.HasPrefix(data[i+len(digest):], []byte(hex.EncodeToString(sum[:]))) {
		return rundir.Seal{Altered: []string{RecordFile + " was changed after it was written: its checksum is another"}}
	}
	return rundir.Seal{}
}

// parse decodes a record and refuses an altered one.
func parse(data []byte) (*Record, error) {
	r, err := decode(data)
	if err == nil && len(sealOf(r, data).Altered) > 0 {
		return nil, errNotWritten
	}
	return r, err
}

func decode(data []byte) (*Record, error) {
	var r Record
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, err
	}
	if r.Schema < 1 || r.Schema > RecordSchema {
		return nil, fmt.Errorf("written with schema %d, this build reads up to %d", r.Schema, RecordSchema)
	}
	for _, t := range r.Targets {
		if t == nil {
			return nil, errors.New("a target that is none")
		}
		if err := t.complete(len(r.Stacks)); err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name, err)
		}
		if len(t.Seconds) > 0 && len(r.Sweeps) == 0 {
			return nil, fmt.Errorf("%s: points of no sweep", t.Name)
		}
	}
	return &r, nil
}

// complete expands constant counts and refuses inconsistent series. stacks is the number of stacks in the record.
func (s *Series) complete(stacks int) error {
	n := len(s.Seconds)
	all := []*Counts{&s.Total}
	for _, g := range s.Groups {
		if g == nil || g.Stack >= stacks || g.Stack < 0 && g.Stack != Other {
			return errors.New("a group on no stack")
		}
		all = append(all, &g.Counts)
	}
	for _, c := range all {
		if len(*c) == 1 && n > 1 {
			*c = slices.Repeat(*c, n)
		}
		if len(*c) != n {
			return fmt.Errorf("%d counts at %d points", len(*c), n)
		}
	}
	if s.Operations != nil && len(s.Operations) != n {
		return fmt.Errorf("%d counts of operations at %d points", len(s.Operations), n)
	}
	return nil
}
