package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/leakrig/leakrig/checks"
	"github.com/leakrig/leakrig/fleet"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/reports"
	"github.com/leakrig/leakrig/scenarios"
	"github.com/leakrig/leakrig/subjects"
)

func (a *app) judgeCommand() *cobra.Command {
	var scenario, ratchet string
	var out outputFlags
	var accept bool
	var again fleetBounds
	c := &cobra.Command{
		Use:   "judge RUN_DIR",
		Short: "Judge the record of a run again",
		Long: `Judge the record of a run again, without a cluster, a network or the subject, and write verdict and
reports into the run directory. With --scenario, use the checks of another scenario and only print the
verdict. The verdict on a fleet is also only printed.

With --ratchet, compare variants that are expected clean with a stored verdict. They fail only on leaks
that are new or worse, so that a known leak does not hide a new one.

A record that was altered, or that has no seal, gets a warning, and its verdict is never "as
expected" without --accept-altered.`,
		Example: `  leakrig judge runs/watch-then-delete/20261120T140000Z
  leakrig judge runs/watch-then-delete/20261120T140000Z --scenario stricter.yaml
  leakrig judge runs/my-service/20261120T140000Z --ratchet known.json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: folderArgs,
		RunE: func(c *cobra.Command, args []string) error {
			f, err := out.report()
			if err != nil {
				return err
			}
			dir := leak.RunDir(args[0])
			if isFleet(dir) {
				a.code, err = again.judge(c, dir, out.format, accept)
				return err
			}
			s, record, seal, err := readRun(dir, scenario, leak.OfFiles)
			if err != nil {
				return err
			}
			to := conclusion{write: scenario == "" && ratchet == "", seal: seal, accept: accept}
			if ratchet != "" {
				if to.stored, to.storedSeal, err = readStored(ratchet); err != nil {
					return err
				}
			}
			a.code, err = conclude(c.OutOrStdout(), dir, s, record, f, to)
			return err
		},
	}
	c.Flags().StringVar(&scenario, "scenario", "", "scenario `file` with the checks to use")
	c.Flags().StringVar(&ratchet, "ratchet", "", "verdict.json `file` or run directory; fail only on leaks that are new or worse")
	acceptFlag(c, &accept)
	again.add(c)
	out.addFlags(c)
	return c
}

func (a *app) reportCommand() *cobra.Command {
	var output string
	var out outputFlags
	var accept bool
	c := &cobra.Command{
		Use:   "report RUN_DIR",
		Short: "Render the reports of a run again",
		Long: `Render the reports of a run from its record and verdict.

Without --format, write all report files of the run directory and print the text report. With --format,
write only that report, to standard output or --output.

An altered record or verdict gets a warning, and the exit code is 4 without --accept-altered.`,
		Example: `  leakrig report runs/watch-then-delete/20261120T140000Z
  leakrig report runs/watch-then-delete/20261120T140000Z --format html --output leak.html`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: folderArgs,
		RunE: func(c *cobra.Command, args []string) error {
			f, err := out.report()
			if err != nil {
				return err
			}
			dir := leak.RunDir(args[0])
			if isFleet(dir) {
				if _, err = new(fleetBounds).judge(c, dir, out.format, accept); err == nil {
					_, seal, _ := fleet.ReadSealed(dir)
					a.code = sealedCode(leak.ExitMet, seal, accept)
				}
				return err
			}
			s, record, seal, err := readRun(dir, "", leak.OfFiles)
			if err != nil {
				return err
			}
			whole := dir.CheckVerdict(seal)
			verdict, err := dir.ReadVerdict()
			if errors.Is(err, os.ErrNotExist) || err == nil && !accept && len(whole.Altered) > len(seal.Altered) {
				verdict, err = checks.Judge(s, record), nil // a verdict that was changed is not shown
			}
			if err != nil {
				return err
			}
			seal = whole
			withWarning(record, seal)
			warnSeal(string(dir), seal, accept)
			if !seal.Holds() && !accept {
				verdict = checks.Withhold(verdict, seal.String())
			}
			a.code = sealedCode(leak.ExitMet, seal, accept)
			in := reports.Input{Scenario: s, Record: record, Verdict: verdict, RunDir: string(dir)}
			all := !c.Flags().Changed("format") && output == ""
			if in.Sources, err = sources(dir, in, all, nil, nil); err != nil {
				return err
			}
			if all {
				if err := writeReports(dir, in); err != nil {
					return err
				}
			}
			if output != "" {
				return renderFile(output, f, in)
			}
			return f.Render(c.OutOrStdout(), in)
		},
	}
	out.addFlags(c)
	c.Flags().StringVarP(&output, "output", "o", "", "`file` to write to instead of standard output")
	acceptFlag(c, &accept)
	return c
}

// outputFlags say what a command prints.
type outputFlags struct {
	format         string
	brief, verbose bool
}

func (o *outputFlags) addFlags(c *cobra.Command) {
	var names []string
	for _, f := range reports.Formats() {
		names = append(names, f.Name)
	}
	wordFlag(c, &o.format, "format", "text", names, "output format")
	c.Flags().BoolVarP(&o.brief, "brief", "q", false, "print only the verdict line of the text report")
	c.Flags().BoolVarP(&o.verbose, "verbose", "v", false, "print the gates of every check in the text report")
}

// report returns the format with its detail.
func (o *outputFlags) report() (reports.Format, error) {
	f, err := findFormat(o.format)
	if o.brief && o.verbose {
		err = &leak.UsageError{Err: leak.WithHint(errors.New("--brief and --verbose exclude each other"), "leave one of them out")}
	}
	render := f.Render
	f.Render = func(w io.Writer, in reports.Input) error {
		switch {
		case o.brief:
			in.Detail = reports.Brief
		case o.verbose:
			in.Detail = reports.Full
		}
		return render(w, in)
	}
	return f, err
}

// findFormat is the report format of a name that the flag has let through.
func findFormat(name string) (reports.Format, error) {
	for _, f := range reports.Formats() {
		if f.Name == name {
			return f, nil
		}
	}
	return reports.Format{}, fmt.Errorf("--format %s: no such format", name)
}

// readStored reads the verdict of --ratchet. Any file is an input, like --scenario. The verdict of a run directory is
// compared with its seal.
func readStored(path string) (*leak.Verdict, leak.Seal, error) {
	var seal leak.Seal
	v, err := leak.ReadVerdictFile(path)
	if info, broken := os.Stat(path); err == nil && broken == nil && info.IsDir() {
		if _, seal, err = leak.RunDir(path).ReadSealed(leak.OfRecord); err == nil {
			seal = leak.RunDir(path).CheckVerdict(seal)
		}
	}
	return v, seal, err
}

// readRun reads a run directory, and checks its seal to this depth. scenario is a file with other checks, "" for
// those of the run.
func readRun(dir leak.RunDir, scenario string, depth leak.Depth) (*leak.Scenario, *leak.Record, leak.Seal, error) {
	record, seal, err := dir.ReadSealed(depth)
	if err != nil {
		return nil, nil, seal, err
	}
	withWarning(record, seal)
	own := scenario == ""
	if scenario == "" {
		scenario = dir.Path(leak.ScenarioFile)
	}
	src, err := scenarios.Find(scenario)
	if err != nil {
		return nil, nil, seal, &leak.UsageError{Err: err}
	}
	src.Set, src.Recorded = record.Parameters, own
	s, err := scenarios.Load(src, kinds())
	if err != nil {
		return nil, nil, seal, err
	}
	return s, record, seal, nil
}

// conclusion says what to make of a verdict.
type conclusion struct {
	// write puts verdict and reports into the run directory.
	write bool
	// fresh is set for the run itself: an interruption belongs to it, not to a later look at its record.
	fresh bool
	// stored is a verdict that the new one must not be worse than, nil where there is none.
	stored *leak.Verdict
	// own is the source that the subject was just built from, nil where none was.
	own *subjects.OwnSource
	// seal is the seal of the record, storedSeal that of the stored verdict. accept accepts altered ones.
	seal, storedSeal leak.Seal
	accept           bool
	// secrets are kept out of the source lines that are shown.
	secrets leak.Secrets
}

// conclude judges, prints a report, and decides the exit code.
func conclude(w io.Writer, dir leak.RunDir, s *leak.Scenario, record *leak.Record, f reports.Format, c conclusion) (int, error) {
	verdict := checks.Judge(s, record)
	if c.stored != nil {
		verdict = checks.Ratchet(c.stored, verdict)
	}
	for _, seal := range []leak.Seal{c.seal, c.storedSeal} {
		if warnSeal(string(dir), seal, c.accept); !seal.Holds() && !c.accept {
			verdict = checks.Withhold(verdict, seal.String())
		}
	}
	in := reports.Input{Scenario: s, Record: record, Verdict: verdict, RunDir: string(dir)}
	var written error
	in.Sources, written = sources(dir, in, c.write, c.own, c.secrets)
	if c.write {
		written = errors.Join(written, dir.WriteVerdict(verdict), writeReports(dir, in))
	}
	if err := f.Render(w, in); err != nil {
		return 0, err
	}
	if written != nil {
		return 0, written
	}
	return leak.ExitCode(c.fresh && record.Interrupted, false, record.Failure != nil, verdict.Result), nil
}

func writeReports(dir leak.RunDir, in reports.Input) error {
	var errs []error
	for _, f := range reports.Formats() {
		if f.File != "" {
			errs = append(errs, renderFile(dir.Path(f.File), f, in))
		}
	}
	return errors.Join(errs...)
}

// renderFile writes a report whole or not at all.
func renderFile(path string, f reports.Format, in reports.Input) error {
	var b bytes.Buffer
	if err := f.Render(&b, in); err != nil {
		return fmt.Errorf("render %s: %w", f.Name, err)
	}
	return leak.WriteFile(path, b.Bytes())
}
