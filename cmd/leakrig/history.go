package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/reports"
)

// maxHistoryDepth is how deep below the folder run directories are looked for: CI keeps them in folders
// of artefacts.
const maxHistoryDepth = 6

func historyCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "history [RUNS_DIR]",
		Short: "Write a page over many runs: night by night, and what is new",
		Long: `Write a page over all run directories below a folder (default: runs): for every scenario a calendar of
verdicts, the growth per operation from run to run with the versions that changed, what is new since it
last came out as expected, and links to the reports.

Run directories of older versions of leakrig are read too. What cannot be read is listed on the page.`,
		Example: `  leakrig history
  leakrig history artefacts --output nightly.html`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			dir := "runs"
			if len(args) > 0 {
				dir = args[0]
			}
			if output == "" {
				output = filepath.Join(dir, "index.html")
			}
			return writeHistory(c, dir, output)
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "", "write to this `file` (default: index.html in RUNS_DIR)")
	return c
}

func writeHistory(c *cobra.Command, dir, output string) error {
	runs, err := readHistory(c, dir, filepath.Dir(output))
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := reports.History(&b, runs); err != nil {
		return err
	}
	if err := leak.WriteFile(output, b.Bytes()); err != nil {
		return err
	}
	fmt.Fprintf(c.OutOrStdout(), "%s  %d runs\n", output, len(runs))
	return nil
}

// readHistory reads every run directory below dir, for a page in the folder page.
func readHistory(c *cobra.Command, dir, page string) ([]reports.HistoryRun, error) {
	var runs []reports.HistoryRun
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case c.Context().Err() != nil:
			return c.Context().Err()
		case !d.IsDir():
			return nil
		}
		if _, err := os.Stat(filepath.Join(path, leak.RecordFile)); err == nil {
			runs = append(runs, readHistoryRun(leak.RunDir(path), page))
			return filepath.SkipDir
		}
		if rel, err := filepath.Rel(dir, path); err == nil && strings.Count(rel, string(filepath.Separator)) >= maxHistoryDepth {
			return filepath.SkipDir
		}
		return nil
	})
	if err != nil {
		return nil, leak.WithHint(fmt.Errorf("history: %w", err), "the folder is the one that `leakrig run --runs-dir` was given")
	}
	if len(runs) == 0 {
		return nil, leak.WithHint(fmt.Errorf("history: no run directory below %s", dir), "`leakrig run watch-then-delete` makes one")
	}
	return runs, nil
}

// readHistoryRun keeps of a record what the page needs, since a history may be long.
func readHistoryRun(dir leak.RunDir, page string) reports.HistoryRun {
	r := reports.HistoryRun{Dir: string(dir)}
	var err error
	if r.Record, err = dir.ReadRecord(); err != nil {
		r.Problem = err.Error()
		return r
	}
	for i := range r.Record.Variants {
		v := &r.Record.Variants[i]
		v.Snapshots, v.Idle, v.Stacks = nil, nil, nil
	}
	if r.Verdict, err = dir.ReadVerdict(); err != nil && !errors.Is(err, os.ErrNotExist) {
		r.Problem = err.Error()
		return r
	}
	report := dir.Path(leak.HTMLFile)
	if _, err := os.Stat(report); err == nil {
		if rel, err := filepath.Rel(page, report); err == nil {
			r.Report = filepath.ToSlash(rel)
		}
	}
	return r
}
