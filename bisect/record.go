package bisect

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
	"github.com/leakrig/leakrig/session"
)

// Schema is the version of the record's JSON form that this build writes. Records carry a checksum since version
// sealedSince.
const (
	Schema      = 2
	sealedSince = 2
)

// Files of a bisection's directory.
const (
	RecordFile   = session.BisectionFile
	MarkdownFile = "bisect.md"
	HTMLFile     = "bisect.html"
)

// maxJSON bounds the size of a record in bytes. A thousand steps are much smaller.
const maxJSON = 64 << 20

// State is the result of measuring a version.
type State string

// States. Skipped versions do not download or compile. Unsure ones were measured, but the checks were inconclusive.
const (
	Leaky   State = "leaky"
	Clean   State = "clean"
	Unsure  State = "cannot tell"
	Skipped State = "skipped"
)

// Kinds of searches.
const (
	// OfModule searches versions of a module that the subject is built with.
	OfModule = "module"
	// OfNode searches versions of a module that a command of the node is built with, or of that command.
	OfNode = "node"
	// OfCommit searches commits of a repository that holds the subject.
	OfCommit = "commit"
)

// Question is the input of a search. Two bisections with the same question have the same answer.
type Question struct {
	// Scenario is as the user named it, a name or a file; Variant is the one whose checks decide.
	Scenario string            `json:"scenario"`
	Variant  string            `json:"variant"`
	Set      map[string]string `json:"set,omitempty"`
	Kind     string            `json:"kind"`
	// Module is the searched module. With are the modules whose versions change with it.
	Module string   `json:"module,omitempty"`
	With   []string `json:"with,omitempty"`
	// Repo is the repository of commits, and Make the command that runs in each before its program is started.
	Repo string `json:"repo,omitempty"`
	Make string `json:"make,omitempty"`
	// Bad was given as leaking, Good as clean.
	Bad  string `json:"bad"`
	Good string `json:"good"`
	// Given are candidates in addition to those that the proxy lists.
	Given    []string `json:"given,omitempty"`
	Pre      bool     `json:"pre,omitempty"`
	AllLines bool     `json:"allLines,omitempty"`
	Rounds   int      `json:"rounds,omitempty"`
	// Repeats is how often each neighbour of the boundary is measured again; Spots is how many versions far
	// from it are looked at, at most.
	Repeats int `json:"repeats"`
	Spots   int `json:"spots"`
	// Cluster, Placement and Source are the flags of that name.
	Cluster   string `json:"cluster"`
	Placement string `json:"placement,omitempty"`
	Source    string `json:"source,omitempty"`
}

// Candidate is a version that appears to be available before it is built.
type Candidate struct {
	// Version is a module's version or a commit's full hash.
	Version string `json:"version"`
	// Line is the release line, "v0.21"; "" for commits.
	Line string `json:"line,omitempty"`
	// Title is the first line of a commit's message.
	Title string    `json:"title,omitempty"`
	Time  time.Time `json:"time,omitzero"`
}

// Name is the version as a person would write it.
func (c Candidate) Name() string {
	if c.Line == "" && len(c.Version) == 40 {
		return c.Version[:12]
	}
	return c.Version
}

// Missing is a version that was not tested, and the reason.
type Missing struct {
	Version string `json:"version"`
	Why     string `json:"why"`
}

// Growth is what one check found.
type Growth struct {
	Check        string       `json:"check"`
	Outcome      leak.Outcome `json:"outcome"`
	PerOperation float64      `json:"perOperation"`
	Unit         string       `json:"unit,omitempty"`
	// InAll is set where the check bounds the growth in all, and not per operation.
	InAll bool `json:"inAll,omitempty"`
	// From and To are the values at the baseline and at the end.
	From    float64 `json:"from"`
	To      float64 `json:"to"`
	Summary string  `json:"summary"`
	// Fingerprint is set where the variant names the check as its fingerprint.
	Fingerprint bool `json:"fingerprint,omitempty"`
}

// Step is one measurement of one version.
type Step struct {
	Version string `json:"version"`
	State   State  `json:"state"`
	// Reason is one sentence.
	Reason string `json:"reason,omitempty"`
	// Why says what the step was taken for.
	Why string `json:"why"`
	// Run is the run directory, relative to that of the bisection, "" if there was no run.
	Run    string   `json:"run,omitempty"`
	Growth []Growth `json:"growth,omitempty"`
	// BuildSeconds is the duration of its build. WaitSeconds is how much of that the search waited for; the rest
	// overlapped with another step. RunSeconds is the measurement, including the start of the subject.
	BuildSeconds float64   `json:"buildSeconds"`
	WaitSeconds  float64   `json:"waitSeconds"`
	RunSeconds   float64   `json:"runSeconds"`
	At           time.Time `json:"at"`
}

// measured reports whether the step ran the load.
func (s Step) measured() bool { return s.State != Skipped }

// Record is what a bisection wrote (bisect.json).
type Record struct {
	Schema int `json:"schema"`
	// Scenario is the scenario's own name.
	Scenario string    `json:"scenario"`
	Leakrig  string    `json:"leakrig"`
	Args     []string  `json:"args,omitempty"`
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished,omitzero"`
	Question Question  `json:"question"`
	// Candidates are in order, oldest first.
	Candidates []Candidate `json:"candidates"`
	// Missing could not be resolved. LeftOut could, but are not candidates.
	Missing []Missing `json:"missing,omitempty"`
	LeftOut []Missing `json:"leftOut,omitempty"`
	Steps   []Step    `json:"steps"`
	// Boots is how many clusters were booted, in BootSeconds together.
	Boots       int     `json:"boots"`
	BootSeconds float64 `json:"bootSeconds"`
	// Seconds is the wall time of all sessions together.
	Seconds float64 `json:"seconds"`
	// Answers has one entry, or one for each release line.
	Answers     []Answer      `json:"answers,omitempty"`
	Sentence    string        `json:"sentence,omitempty"`
	Result      leak.Result   `json:"result"`
	Failure     *leak.Failure `json:"failure,omitempty"`
	Interrupted bool          `json:"interrupted,omitempty"`
}

// Measured is how many steps ran the load.
func (r *Record) Measured() int {
	n := 0
	for _, s := range r.Steps {
		if s.measured() {
			n++
		}
	}
	return n
}

// Open reports whether the search can be resumed.
func (r *Record) Open() bool { return r.Finished.IsZero() }

// Resume makes a record of an earlier session ready to go on. What could not be built is tried again: the proxy
// may have been away.
func (r *Record) Resume() {
	kept := r.Steps[:0:0]
	for _, s := range r.Steps {
		if s.measured() {
			kept = append(kept, s)
		}
	}
	r.Steps, r.Answers, r.Sentence, r.Failure, r.Interrupted = kept, nil, "", nil, false
}

// Write writes bisect.json atomically, without the secrets and with a checksum.
func Write(dir string, r *Record, secrets ...string) error {
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("write %s: %w", RecordFile, err)
	}
	if err := rundir.Dir(dir).WriteFile(RecordFile, rundir.Sealed(rundir.Secrets(secrets).RedactJSON(data))); err != nil {
		return &rundir.DiskError{Err: fmt.Errorf("write %s: %w", RecordFile, err)}
	}
	return nil
}

// Read reads bisect.json and refuses one that is damaged or newer than this build, or that was changed.
func Read(dir string) (*Record, error) {
	r, seal, err := ReadSealed(dir)
	if err == nil && len(seal.Altered) > 0 {
		err = leak.WithHint(fmt.Errorf("read %s: %s", RecordFile, seal), "%s", rundir.SealHint)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// ReadSealed is Read, but for a record that was changed: it says so.
func ReadSealed(dir string) (*Record, rundir.Seal, error) {
	var seal rundir.Seal
	f, err := os.Open(filepath.Join(dir, RecordFile))
	if err != nil {
		return nil, seal, leak.WithHint(fmt.Errorf("read %s: %w", RecordFile, err), "a bisection's directory is what `leakrig bisect` names at its end, runs/<scenario>/bisect-<time>")
	}
	defer f.Close()
	data, err := rundir.ReadBounded(f, maxJSON)
	if err != nil {
		return nil, seal, fmt.Errorf("read %s: %w", RecordFile, err)
	}
	r, err := parse(data)
	if err != nil {
		return nil, seal, leak.WithHint(fmt.Errorf("read %s: %w", RecordFile, err), "the file is damaged or of a newer leakrig; the run directories next to it are intact")
	}
	switch sealed, fits := rundir.CheckSeal(data); {
	case sealed && !fits:
		seal.Altered = []string{RecordFile + " was changed after it was written: its checksum is another"}
	case !sealed && r.Schema >= sealedSince:
		seal.Altered = []string{RecordFile + " was changed after it was written: it has lost its checksum"}
	case !sealed:
		seal.Unsealed = true
	}
	return r, seal, nil
}

func parse(data []byte) (*Record, error) {
	var r Record
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, err
	}
	switch {
	case r.Schema < 1:
		return nil, errors.New("no schema version")
	case r.Schema > Schema:
		return nil, fmt.Errorf("written with schema %d, this build reads up to %d", r.Schema, Schema)
	}
	return &r, nil
}
