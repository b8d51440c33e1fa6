package session

import (
	"errors"
	"slices"

	"github.com/leakrig/leakrig/leak"
)

// ExitBisect is the value of --exit-code for git bisect run.
const ExitBisect = "bisect"

// Exit codes that git bisect run understands. It ends the search at one of 128 or more.
const (
	bisectGood       = 0
	bisectBad        = 1
	bisectCannotTell = 125
	bisectAbort      = 128
)

func (f *Options) checkExitCode(scenarios int) error {
	if f.ExitCode == ExitBisect && (scenarios != 1 || len(f.Variants) != 1) {
		return &leak.UsageError{Err: leak.WithHint(errors.New("--exit-code bisect: is about one variant of one scenario"), "name it with --variant")}
	}
	return nil
}

// bisectCode is what a run says to git bisect.
func bisectCode(verdict *leak.Verdict, record *leak.Record) int {
	if record.Interrupted {
		return leak.ExitInterrupted
	}
	code := bisectGood
	for _, v := range verdict.Variants {
		switch v.Outcome {
		case leak.Leaking:
			return bisectBad
		case leak.Inconclusive:
			code = bisectCannotTell
		}
	}
	return code
}

// worstOfBisect is the exit code of several runs of the same commit: one that leaks decides.
func worstOfBisect(codes []int) int {
	for _, code := range []int{leak.ExitInterrupted, bisectBad, bisectCannotTell} {
		if slices.Contains(codes, code) {
			return code
		}
	}
	return bisectGood
}

// ForGitBisect keeps git bisect run from taking bad usage for a bad commit.
func ForGitBisect(args []string, code int) int {
	asked := slices.Contains(args, "--exit-code=bisect")
	if i := slices.Index(args, "--exit-code"); i >= 0 && i+1 < len(args) {
		asked = asked || args[i+1] == ExitBisect
	}
	if asked && code != leak.ExitInterrupted {
		return bisectAbort
	}
	return code
}
