package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/leakrig/leakrig/checks"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/reports"
	"github.com/leakrig/leakrig/rundir"
	"github.com/leakrig/leakrig/scenarios"
	"github.com/leakrig/leakrig/subjects"
)

// JudgeOptions are the options of `leakrig judge`.
type JudgeOptions struct {
	// Scenario is a file with other checks, "" for none.
	Scenario string
	Ratchet  Ratchet
	Accept   bool
}

// Judge judges the record of a run again, and returns the exit code.
func (o JudgeOptions) Judge(out io.Writer, dir rundir.Dir, f reports.Format) (int, error) {
	s, record, seal, err := ReadRun(dir, o.Scenario, rundir.OfFiles)
	if err != nil {
		return 0, err
	}
	to := Conclusion{Write: o.Scenario == "", Seal: seal, accept: o.Accept}
	if err := o.Ratchet.read(&to); err != nil {
		return 0, err
	}
	_, code, err := Conclude(out, dir, s, record, f, to)
	return code, err
}

// Ratchet is a stored verdict that a new one must not be worse than.
type Ratchet struct {
	// File is a verdict.json or a run directory, "" for none. Update stores the new verdict there if it is not worse.
	File   string
	Update bool
}

// Check returns the mistakes of the command line.
func (r Ratchet) Check() error {
	switch info, err := os.Stat(r.File); {
	case r.Update && r.File == "":
		return &leak.UsageError{Err: leak.WithHint(errors.New("--update-ratchet: no --ratchet"), "--ratchet FILE names the file to update")}
	case r.Update && err == nil && info.IsDir():
		return &leak.UsageError{Err: leak.WithHint(fmt.Errorf("--update-ratchet: %s is a folder", r.File), "name a file; a run directory is a record")}
	}
	return nil
}

// read reads the stored verdict. With Update, it need not exist yet.
func (r Ratchet) read(c *Conclusion) error {
	if err := r.Check(); err != nil || r.File == "" {
		return err
	}
	stored, seal, err := readStored(string(FindRun(r.File)))
	switch {
	case r.Update && errors.Is(err, os.ErrNotExist):
		c.unstored = true
	case err != nil:
		return err
	}
	c.ratchet, c.stored, c.storedSeal = r, stored, seal
	return nil
}

// update stores a measured verdict that is not worse than the stored one.
func (r Ratchet) update(v *leak.Verdict) error {
	if !r.Update || v.Result != leak.Met {
		return nil
	}
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return rundir.WriteFile(r.File, append(text, '\n'))
}

// ReportOptions are the options of `leakrig report`.
type ReportOptions struct {
	// Output is the file to write to, "" for standard output.
	Output string
	// All writes all report files of the run directory.
	All    bool
	Accept bool
}

// Report renders the reports of a run again, and returns the exit code.
func (o ReportOptions) Report(out io.Writer, dir rundir.Dir, f reports.Format) (int, error) {
	s, record, seal, err := ReadRun(dir, "", rundir.OfFiles)
	if err != nil {
		return 0, err
	}
	whole := dir.CheckVerdict(seal)
	verdict, err := dir.ReadVerdict()
	if errors.Is(err, os.ErrNotExist) || err == nil && !o.Accept && len(whole.Altered) > len(seal.Altered) {
		verdict, err = checks.Judge(s, record), nil // a verdict that was changed is not shown
	}
	if err != nil {
		return 0, err
	}
	seal = whole
	withWarning(record, seal)
	WarnSeal(string(dir), seal, o.Accept)
	if !seal.Holds() && !o.Accept {
		verdict = checks.Withhold(verdict, seal.String())
	}
	in := reports.Input{Scenario: s, Record: record, Verdict: verdict, RunDir: string(dir)}
	if in.Sources, err = sources(dir, in, o.All, nil, nil); err != nil {
		return 0, err
	}
	if o.All {
		if err := writeReports(dir, in); err != nil {
			return 0, err
		}
	}
	code := SealedCode(leak.ExitMet, seal, o.Accept)
	if o.Output != "" {
		return code, renderFile(o.Output, f, in)
	}
	return code, f.Render(out, in)
}

// Output says what a command prints.
type Output struct {
	Format         string
	Brief, Verbose bool
}

// Report returns the format with its detail.
func (o *Output) Report() (reports.Format, error) {
	f, err := FindFormat(o.Format)
	if o.Brief && o.Verbose {
		err = &leak.UsageError{Err: leak.WithHint(errors.New("--brief and --verbose exclude each other"), "leave one of them out")}
	}
	render := f.Render
	f.Render = func(w io.Writer, in reports.Input) error {
		switch {
		case o.Brief:
			in.Detail = reports.Brief
		case o.Verbose:
			in.Detail = reports.Full
		}
		return render(w, in)
	}
	return f, err
}

// FindFormat is the report format of a name that the flag has let through.
func FindFormat(name string) (reports.Format, error) {
	for _, f := range reports.Formats() {
		if f.Name == name {
			return f, nil
		}
	}
	return reports.Format{}, fmt.Errorf("--format %s: no such format", name)
}

// readStored reads the verdict of --ratchet. Any file is an input, like --scenario. The verdict of a run directory is
// compared with its seal.
func readStored(path string) (*leak.Verdict, rundir.Seal, error) {
	var seal rundir.Seal
	v, err := rundir.ReadVerdictFile(path)
	if info, broken := os.Stat(path); err == nil && broken == nil && info.IsDir() {
		if _, seal, err = rundir.Dir(path).ReadSealed(rundir.OfRecord); err == nil {
			seal = rundir.Dir(path).CheckVerdict(seal)
		}
	}
	return v, seal, err
}

// ReadRun reads a run directory, and checks its seal to this depth. scenario is a file with other checks, "" for
// those of the run.
func ReadRun(dir rundir.Dir, scenario string, depth rundir.Depth) (*leak.Scenario, *leak.Record, rundir.Seal, error) {
	record, seal, err := dir.ReadSealed(depth)
	if err != nil {
		return nil, nil, seal, err
	}
	withWarning(record, seal)
	own := scenario == ""
	if scenario == "" {
		scenario = dir.Path(rundir.ScenarioFile)
	}
	src, err := scenarios.Find(scenario)
	if err != nil {
		return nil, nil, seal, &leak.UsageError{Err: err}
	}
	src.Set, src.Recorded = record.Parameters, own
	s, err := scenarios.Load(src, Kinds())
	if err != nil {
		return nil, nil, seal, err
	}
	return s, record, seal, nil
}

// Conclusion says what to make of a verdict.
type Conclusion struct {
	// Write puts verdict and reports into the run directory.
	Write bool
	// Fresh is set for the run itself: an interruption belongs to it, not to a later look at its record.
	Fresh bool
	// stored is the verdict of a ratchet, nil without one. The new verdict must not be worse. unstored is set if the
	// ratchet has none yet: the new one is the first.
	ratchet  Ratchet
	stored   *leak.Verdict
	unstored bool
	// Own is the source that the subject was just built from, nil where none was.
	Own *subjects.OwnSource
	// Seal is the seal of the record, storedSeal that of the stored verdict. accept accepts altered ones.
	Seal, storedSeal rundir.Seal
	accept           bool
	// Secrets are kept out of the source lines that are shown.
	Secrets rundir.Secrets
}

// Conclude judges, prints a report, and returns the verdict with the exit code.
func Conclude(w io.Writer, dir rundir.Dir, s *leak.Scenario, record *leak.Record, f reports.Format, c Conclusion) (*leak.Verdict, int, error) {
	verdict := checks.Judge(s, record)
	if c.unstored {
		c.stored = verdict
	}
	if c.stored != nil {
		verdict = checks.Ratchet(c.stored, verdict)
	}
	for _, seal := range []rundir.Seal{c.Seal, c.storedSeal} {
		if WarnSeal(string(dir), seal, c.accept); !seal.Holds() && !c.accept {
			verdict = checks.Withhold(verdict, seal.String())
		}
	}
	in := reports.Input{Scenario: s, Record: record, Verdict: verdict, RunDir: string(dir)}
	var written error
	in.Sources, written = sources(dir, in, c.Write, c.Own, c.Secrets)
	if c.Write {
		written = errors.Join(written, dir.WriteVerdict(verdict), writeReports(dir, in))
	}
	if err := f.Render(w, in); err != nil {
		return nil, 0, err
	}
	if written == nil {
		written = c.ratchet.update(verdict)
	}
	if written != nil {
		return nil, 0, written
	}
	return verdict, leak.ExitCode(c.Fresh && record.Interrupted, false, record.Failure != nil, verdict.Result), nil
}

func writeReports(dir rundir.Dir, in reports.Input) error {
	var errs []error
	for _, f := range reports.Formats() {
		if f.File != "" {
			errs = append(errs, renderFile(dir.Path(f.File), f, in))
		}
	}
	return errors.Join(errs...)
}

// renderFile writes a report atomically.
func renderFile(path string, f reports.Format, in reports.Input) error {
	var b bytes.Buffer
	if err := f.Render(&b, in); err != nil {
		return fmt.Errorf("render %s: %w", f.Name, err)
	}
	return rundir.WriteFile(path, b.Bytes())
}
