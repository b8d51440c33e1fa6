// Package rundir reads and writes run directories: records, raw files, logs and verdicts. It seals them with checksums,
// salvages damaged ones, and removes secrets.
package rundir

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/leakrig/leakrig/leak"
)

// Files of a run directory.
const (
	RecordFile   = "run.json"
	ScenarioFile = "scenario.yaml"
	VerdictFile  = "verdict.json"
	HTMLFile     = "report.html"
	JUnitFile    = "junit.xml"
	SourcesFile  = "sources.json"
	SummaryFile  = "summary.md"
)

// GrowthFile is the pprof profile of the stacks that leak in a fleet, in the unit "goroutines" or "bytes".
func GrowthFile(unit string) string {
	if unit == "bytes" {
		return "leaks-heap.pb.gz"
	}
	return "leaks-goroutine.pb.gz"
}

// Unfinished begins the name of a file that is being written: one that stays was left by a killed leakrig.
const Unfinished = ".tmp-"

// ReplicaDir is the folder of one of several replicas, from 1, below that of its variant.
func ReplicaDir(replica int) string { return "replica-" + strconv.Itoa(replica) }

// maxJSON bounds the size of a JSON file in bytes. A record of 100 rounds with 10,000 stacks is smaller.
const maxJSON = 512 << 20

// Dir is the folder of one run.
type Dir string

// Path joins elements onto the folder.
func (d Dir) Path(elem ...string) string {
	return filepath.Join(append([]string{string(d)}, elem...)...)
}

// WriteFile writes a file of the run directory atomically. It does not create the run directory: if somebody removed
// it, the files of the record are lost.
func (d Dir) WriteFile(name string, data []byte) error {
	return d.WriteWith(name, write(data))
}

// WriteWith is WriteFile with a function that writes the content.
func (d Dir) WriteWith(name string, write func(io.Writer) error) error {
	if _, err := os.Stat(string(d)); err != nil {
		return diskHint(fmt.Errorf("run directory: %w", err))
	}
	return writeFile(d.Path(name), write)
}

// WriteFile writes a file atomically. Only the user can read it. It creates the folder.
func WriteFile(path string, data []byte) error { return writeFile(path, write(data)) }

func write(data []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
}

func writeFile(path string, write func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return diskHint(err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), Unfinished+"*")
	if err != nil {
		return diskHint(err)
	}
	buffered := bufio.NewWriter(f)
	err = write(buffered)
	if err == nil {
		err = buffered.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return diskHint(err)
	}
	return nil
}

func diskHint(err error) error {
	return leak.WithHint(err, "is the disk full or the folder read-only? `leakrig run --runs-dir` names another one")
}

// WriteRecord writes run.json, without the secrets and with its checksum.
func (d Dir) WriteRecord(r *leak.Record, secrets ...string) error {
	data, err := json.MarshalIndent(r, "", " ")
	if err == nil {
		err = d.WriteFile(RecordFile, Sealed(Secrets(secrets).RedactJSON(data)))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", RecordFile, err)
	}
	return nil
}

// WriteVerdict writes verdict.json, with a checksum that only fits the record that is there.
func (d Dir) WriteVerdict(v *leak.Verdict) error {
	data, err := json.MarshalIndent(v, "", " ")
	if err == nil {
		err = d.WriteFile(VerdictFile, sealedFor(d.recordSum(), data))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", VerdictFile, err)
	}
	return nil
}

func (d Dir) writeJSON(name string, v any) error {
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := d.WriteFile(name, append(data, '\n')); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// ReadRecord reads run.json. From a damaged record it returns the complete rounds before the damage, and the Failure of
// the record describes it. A record that was changed has a warning. A record of a newer version of leakrig is an error.
func (d Dir) ReadRecord() (*leak.Record, error) {
	r, _, err := d.readRecord()
	return r, err
}

// readRecord also returns the state of the record's own checksum.
func (d Dir) readRecord() (*leak.Record, Seal, error) {
	data, err := d.readFile(RecordFile)
	if err != nil {
		return nil, Seal{}, err
	}
	var seal Seal
	var r leak.Record
	if broken := json.Unmarshal(data, &r); broken != nil {
		r = leak.Record{}
		whole, ok := salvaged(data, broken)
		if !ok || json.Unmarshal(whole, &r) != nil {
			return nil, seal, damaged(RecordFile, broken)
		}
		r.Failure = &leak.Failure{
			Message: fmt.Sprintf("%s is damaged, and only the rounds before the damage could be read: %v", RecordFile, broken),
			Hint:    "the raw profiles next to it still open in `go tool pprof`",
		}
		seal.Altered = []string{RecordFile + " is damaged"}
	} else {
		switch sealed, fits := checkSum("", data); {
		case sealed && !fits:
			seal.Altered = []string{RecordFile + " was changed after it was written: its checksum is another"}
		case !sealed && r.Schema >= sealedSince:
			seal.Altered = []string{RecordFile + " was changed after it was written: it has lost its checksum"}
		case r.Schema < sealedSince:
			seal.Unsealed = true
		}
		r.Warnings = append(r.Warnings, seal.Altered...)
	}
	if r.Schema < 1 {
		return nil, seal, leak.WithHint(fmt.Errorf("read %s: no schema version", RecordFile), "is %s a run directory?", d)
	}
	if r.Schema > leak.RecordSchema {
		return nil, seal, leak.WithHint(fmt.Errorf("read %s: written with schema %d, this build reads up to %d", RecordFile, r.Schema, leak.RecordSchema),
			"use a newer leakrig")
	}
	return &r, seal, nil
}

// ReadVerdict reads verdict.json.
func (d Dir) ReadVerdict() (*leak.Verdict, error) {
	var v leak.Verdict
	if err := d.readJSON(VerdictFile, &v); err != nil {
		return nil, err
	}
	return &v, nil
}

// WriteSources writes sources.json.
func (d Dir) WriteSources(s Sources) error { return d.writeJSON(SourcesFile, s) }

// ReadSources reads sources.json, nil if there is none.
func (d Dir) ReadSources() (Sources, error) {
	var s Sources
	if err := d.readJSON(SourcesFile, &s); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return s, nil
}

// ReadVerdictFile reads a verdict.json, or that of a run directory.
func ReadVerdictFile(path string) (*leak.Verdict, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return Dir(path).ReadVerdict()
	}
	var v leak.Verdict
	if err := Dir(filepath.Dir(path)).readJSON(filepath.Base(path), &v); err != nil {
		return nil, err
	}
	if v.Schema < 1 || v.Schema > leak.VerdictSchema {
		return nil, leak.WithHint(fmt.Errorf("read %s: not a verdict of a version that this build reads", path), "it is the verdict.json of a run directory")
	}
	return &v, nil
}

func (d Dir) readJSON(name string, v any) error {
	data, err := d.readFile(name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return damaged(name, err)
	}
	return nil
}

func (d Dir) readFile(name string) ([]byte, error) {
	f, err := os.Open(d.Path(name))
	if err != nil {
		return nil, leak.WithHint(fmt.Errorf("read %s: %w", name, err), "a run directory is what `leakrig run` names at its end, runs/<scenario>/<time>")
	}
	defer f.Close()
	data, err := ReadBounded(f, maxJSON)
	if err != nil {
		return nil, damaged(name, err)
	}
	return data, nil
}

// ReadBounded reads all of r, and refuses more than limit bytes (of whole MiB).
func ReadBounded(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, fmt.Errorf("larger than %d MiB", limit>>20)
	}
	return data, err
}

func damaged(name string, err error) error {
	return leak.WithHint(fmt.Errorf("read %s: %w", name, err), "the file is damaged; the raw profiles next to it still open in `go tool pprof`")
}

// Excerpt is a few lines of a source file.
type Excerpt struct {
	// First is the number of the first line.
	First int      `json:"first"`
	Lines []string `json:"lines"`
}

// Sources are excerpts around the lines that stacks stand on, by SubjectInfo.SourceKey.
type Sources map[string]Excerpt

// DiskError marks a run directory that could not be written: the run ends, since nothing more could be
// recorded.
type DiskError struct{ Err error }

func (e *DiskError) Error() string { return e.Err.Error() }

// Unwrap returns the problem itself.
func (e *DiskError) Unwrap() error { return e.Err }
