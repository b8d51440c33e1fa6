package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leakrig/leakrig/bisect"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/reports"
)

// maxHistoryDepth is how deep below the folder run directories are looked for: CI keeps them in folders
// of artefacts.
const maxHistoryDepth = 6

func (a *app) historyCommand() *cobra.Command {
	var output string
	var accept bool
	c := &cobra.Command{
		Use:   "history [RUNS_DIR]",
		Short: "Write a page of all runs, night by night, with what is new",
		Long: `Write a page of all run directories in a folder (default: runs). For every scenario it has a calendar of
verdicts, the growth per operation from run to run with changed versions, what is new since the last
expected result, and links to the reports.

The page lists run directories that cannot be read, and altered records and verdicts. The exit code for
altered ones is 4 without --accept-altered. history does not check raw files.`,
		Example: `  leakrig history
  leakrig history artefacts --output nightly.html`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: folderArgs,
		RunE: func(c *cobra.Command, args []string) error {
			dir := "runs"
			if len(args) > 0 {
				dir = args[0]
			}
			if output == "" {
				output = filepath.Join(dir, historyPage)
			}
			altered, err := writeHistory(c.Context(), c.OutOrStdout(), dir, output, accept)
			if altered > 0 {
				a.code = leak.ExitInconclusive
			}
			return err
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "", "`file` to write to (default: index.html in RUNS_DIR)")
	acceptFlag(c, &accept)
	return c
}

// writeHistory also returns how many runs were altered and not accepted.
func writeHistory(ctx context.Context, w io.Writer, dir, output string, accept bool) (altered int, err error) {
	runs, altered, err := readHistory(ctx, dir, filepath.Dir(output), accept)
	if err != nil {
		return altered, err
	}
	var b bytes.Buffer
	if err := reports.History(&b, runs); err != nil {
		return altered, err
	}
	if err := leak.WriteFile(output, b.Bytes()); err != nil {
		return altered, err
	}
	fmt.Fprintf(w, "%s  %d runs\n", output, len(runs))
	return altered, nil
}

// readHistory reads every run directory below dir, for a page in the folder page. An altered one is listed as a
// problem, unless accept is set. Runs without a seal get one warning in total.
func readHistory(ctx context.Context, dir, page string, accept bool) (runs []reports.HistoryRun, altered int, err error) {
	dirs, err := findRuns(ctx, dir)
	if err != nil {
		return nil, 0, leak.WithHint(fmt.Errorf("history: %w", err), "the folder is the one that `leakrig run --runs-dir` was given")
	}
	if len(dirs) == 0 {
		return nil, 0, leak.WithHint(fmt.Errorf("history: no run directory below %s", dir), "`leakrig run watch-then-delete` makes one")
	}
	unsealed := 0
	for _, d := range dirs {
		if ctx.Err() != nil {
			return nil, altered, context.Cause(ctx)
		}
		r, seal := readHistoryRun(d, page)
		if seal.Unsealed {
			unsealed++
		}
		if len(seal.Altered) > 0 {
			warnSeal(string(d), seal, accept)
			if !accept {
				altered++
				r = reports.HistoryRun{Dir: string(d), Problem: seal.String()}
			}
		}
		runs = append(runs, r)
	}
	if unsealed > 0 {
		fmt.Fprintf(os.Stderr, "leakrig: warning: %d runs have no seal: an older leakrig wrote them, and changes since then cannot be detected\n", unsealed)
	}
	return runs, altered, nil
}

// findRuns finds every run directory below dir: every folder with a run.json.
func findRuns(ctx context.Context, dir string) ([]leak.RunDir, error) {
	var runs []leak.RunDir
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !d.IsDir():
			return nil
		}
		if _, err := os.Stat(filepath.Join(path, bisect.RecordFile)); err == nil {
			return filepath.SkipDir // its runs are other versions, not other nights
		}
		if _, err := os.Stat(filepath.Join(path, leak.RecordFile)); err == nil {
			runs = append(runs, leak.RunDir(path))
			return filepath.SkipDir
		}
		if rel, err := filepath.Rel(dir, path); err == nil && strings.Count(rel, string(filepath.Separator)) >= maxHistoryDepth {
			return filepath.SkipDir
		}
		return nil
	})
	return runs, err
}

// readHistoryRun keeps of a record what the page needs, since a history may be long.
func readHistoryRun(dir leak.RunDir, page string) (reports.HistoryRun, leak.Seal) {
	r := reports.HistoryRun{Dir: string(dir)}
	record, seal, err := dir.ReadSealed(leak.OfRecord)
	if err != nil {
		r.Problem = err.Error()
		return r, leak.Seal{}
	}
	r.Record, seal = record, dir.CheckVerdict(seal)
	for i := range r.Record.Variants {
		v := &r.Record.Variants[i]
		v.Snapshots, v.Idle, v.Stacks, v.Replicas = nil, nil, nil, nil
	}
	if r.Verdict, err = dir.ReadVerdict(); err != nil && !errors.Is(err, os.ErrNotExist) {
		r.Problem = err.Error()
		return r, seal
	}
	report := dir.Path(leak.HTMLFile)
	if _, err := os.Stat(report); err == nil {
		if rel, err := filepath.Rel(page, report); err == nil {
			r.Report = filepath.ToSlash(rel)
		}
	}
	return r, seal
}
