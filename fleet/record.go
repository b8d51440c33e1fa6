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
	RecordSchema = 3
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
	// NoCounter is why operations are unknown, "" if they are known. NoHeap is why the heap is.
	NoCounter string `json:"noCounter,omitempty"`
	NoHeap    string `json:"noHeap,omitempty"`
	// Seconds are the times of the points, relative to the first sweep. After many sweeps, a point represents several
	// of them, and its counts are their minimum.
	Seconds []float64 `json:"seconds"`
	// Operations are what the counter said at each point; nil where some point has none.
	Operations []float64 `json:"operations,omitempty"`
	// The counts of goroutines.
	tally
	// Heap has the sampled heap in use by allocation site, in KiB; nil if it was not read.
	Heap *tally `json:"heap,omitempty"`

	// closed is set if no more readings are kept.
	closed bool
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

// maxPoints is the maximum number of points of one target. Beyond it, pairs of points are merged by their minimum,
// and every new point stands for the same number of sweeps: transient goroutines disappear, and leaks stay. If new
// points were single sweeps, noise alone would rise from the minimum of many to a single count.
const maxPoints = 120

func (r *Record) add(id, name string, sweep int) *Series {
	s := &Series{ID: id, Name: name, First: sweep, Seconds: []float64{}, tally: *newTally()}
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

// reading is what one poll of one target counted.
type reading struct {
	total  int64
	counts []count
}

// add adds one reading of goroutines.
func (s *Series) add(seconds, operations float64, total int64, counts []count) {
	s.addBoth(seconds, operations, reading{total, counts}, nil)
}

// addBoth adds one reading. operations is NaN if unknown, and heap is nil if it was not read.
func (s *Series) addBoth(seconds, operations float64, goroutines reading, heap *reading) {
	if s.closed {
		return // one that there was no room for
	}
	s.latest = operations
	if s.lost = s.lost || math.IsNaN(operations); s.lost {
		s.Operations = nil
	}
	if heap == nil {
		s.Heap = nil
	} else if s.Heap == nil && len(s.Seconds) == 0 {
		s.Heap = newTally()
	}
	if s.held < s.stride {
		n := len(s.Seconds) - 1
		before, all := float64(s.held), float64(s.held+1)
		s.held++
		s.Seconds[n] = (s.Seconds[n]*before + seconds) / all
		if !s.lost {
			s.Operations[n] = (s.Operations[n]*before + operations) / all
		}
		s.tally.merge(goroutines)
		if s.Heap != nil {
			s.Heap.merge(*heap)
		}
		return
	}
	if len(s.Seconds) == maxPoints {
		s.Seconds, s.Operations = means(s.Seconds), means(s.Operations)
		s.tally.thin()
		if s.Heap != nil {
			s.Heap.thin()
		}
		s.stride = 2 * max(s.stride, 1)
	}
	s.held = 1
	s.Seconds = append(s.Seconds, seconds)
	if !s.lost {
		s.Operations = append(s.Operations, operations)
	}
	s.tally.add(goroutines)
	if s.Heap != nil {
		s.Heap.add(*heap)
	}
}

// means makes one point of every two.
func means(list []float64) []float64 {
	half := list[:0]
	for i := 0; i+1 < len(list); i += 2 {
		half = append(half, (list[i]+list[i+1])/2)
	}
	if len(half) == 0 {
		return nil
	}
	return half
}

// end marks a target that is gone. Of one that was hardly seen no counts are kept: they could not be judged,
// and a fleet that crashes in a loop has many.
func (s *Series) end() {
	s.Gone, s.closed = true, true
	s.tally.close(len(s.Seconds) >= fewest)
	if s.Heap != nil {
		s.Heap.close(len(s.Seconds) >= fewest)
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
	seen := sameness{}
	for i, t := range r.Targets {
		if data, err = json.Marshal(t.packed(i, seen)); err != nil {
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
	for i, t := range r.Targets {
		if t == nil {
			return nil, errors.New("a target that is none")
		}
		if err := t.unpack(r.Targets[:i]); err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name, err)
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
	err := s.tally.complete(n, stacks)
	if err == nil && s.Heap != nil {
		err = s.Heap.complete(n, stacks)
	}
	if err == nil && s.Operations != nil && len(s.Operations) != n {
		err = fmt.Errorf("%d counts of operations at %d points", len(s.Operations), n)
	}
	return err
}
