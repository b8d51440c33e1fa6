package session

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/reports"
	"github.com/leakrig/leakrig/rundir"
)

// BisectionFile is the record of a bisection. The runs in its folder are other versions, not other nights.
const BisectionFile = "bisect.json"

// maxHistoryDepth is how deep below the folder run directories are looked for: CI keeps them in folders
// of artefacts.
const maxHistoryDepth = 6

// HistoryOptions are the flags of `leakrig history`.
type HistoryOptions struct {
	// Output is the file to write, "" for index.html in the folder of the runs.
	Output string
	Accept bool
	// FailOnChange makes a recent change of a level count as not as expected.
	FailOnChange bool
}

// History writes the page of all runs below dir, and a line for each recent change of a level. The exit code says
// whether altered runs were not accepted, or that there is such a change.
func History(ctx context.Context, w io.Writer, dir string, o HistoryOptions) (int, error) {
	output := cmp.Or(o.Output, filepath.Join(dir, historyPage))
	runs, altered, err := readHistory(ctx, dir, filepath.Dir(output), o.Accept)
	code := leak.ExitMet
	if altered > 0 {
		code = leak.ExitInconclusive
	}
	if err != nil {
		return code, err
	}
	var b bytes.Buffer
	if err := reports.History(&b, runs, time.Now()); err != nil {
		return code, err
	}
	if err := rundir.WriteFile(output, b.Bytes()); err != nil {
		return code, err
	}
	fmt.Fprintf(w, "%s  %d runs\n", output, len(runs))
	for _, c := range reports.RecentChanges(runs) {
		fmt.Fprintf(w, "changed  %s  %s  %s\n", c.Scenario, c.When, c.Text)
		if o.FailOnChange {
			code = leak.ExitNotMet
		}
	}
	return code, nil
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
			WarnSeal(string(d), seal, accept)
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
func findRuns(ctx context.Context, dir string) ([]rundir.Dir, error) {
	var runs []rundir.Dir
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !d.IsDir():
			return nil
		}
		if _, err := os.Stat(filepath.Join(path, BisectionFile)); err == nil {
			return filepath.SkipDir
		}
		if _, err := os.Stat(filepath.Join(path, rundir.RecordFile)); err == nil {
			runs = append(runs, rundir.Dir(path))
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
func readHistoryRun(dir rundir.Dir, page string) (reports.HistoryRun, rundir.Seal) {
	r := reports.HistoryRun{Dir: string(dir)}
	record, seal, err := dir.ReadSealed(rundir.OfRecord)
	if err != nil {
		r.Problem = err.Error()
		return r, rundir.Seal{}
	}
	r.Record, seal = record, dir.CheckVerdict(seal)
	r.Seconds = reports.Elapsed(record)
	for i := range r.Record.Variants {
		v := &r.Record.Variants[i]
		v.Snapshots, v.Idle, v.Stacks, v.Replicas = nil, nil, nil, nil
	}
	if r.Verdict, err = dir.ReadVerdict(); err != nil && !errors.Is(err, os.ErrNotExist) {
		r.Problem = err.Error()
		return r, seal
	}
	report := dir.Path(rundir.HTMLFile)
	if _, err := os.Stat(report); err == nil {
		if rel, err := filepath.Rel(page, report); err == nil {
			r.Report = filepath.ToSlash(rel)
		}
	}
	return r, seal
}
