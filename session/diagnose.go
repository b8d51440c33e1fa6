package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/leakrig/leakrig/cluster"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/terminal"
)

// localDiagnoses returns the diagnoses that are unrelated to clusters.
func localDiagnoses(ctx context.Context) []cluster.Diagnosis {
	out, err := exec.CommandContext(ctx, "go", "version").Output()
	if err != nil {
		err = leak.WithHint(errors.New("the go command is not on the PATH"), "install Go 1.26 or newer")
	}
	_, procErr := os.ReadFile("/proc/self/status")
	if procErr != nil {
		procErr = leak.WithHint(errors.New("no /proc"), "leave the process probe out of scenarios on this machine")
	}
	return []cluster.Diagnosis{
		{What: "go", For: "building subjects and control planes", Detail: strings.TrimSpace(string(out)), Err: err},
		{What: "/proc", For: "the process probe", Detail: "readable", Err: procErr},
	}
}

// Diagnose prints what this machine has and lacks.
func Diagnose(ctx context.Context, out io.Writer, cache string) {
	all := append(localDiagnoses(ctx), cluster.Diagnose(ctx, cluster.Options{Cache: cache})...)
	for _, d := range all {
		if d.Err == nil {
			fmt.Fprintf(out, "✓ %-24s %s\n", d.What, d.Detail)
			continue
		}
		fmt.Fprintf(out, "✗ %-24s %s\n  %-24s needed for: %s\n", d.What, FirstLine(d.Err.Error()), "", d.For)
		if hint := strings.TrimSuffix(leak.Hint(d.Err), "; "+leak.SeeDoctor); hint != "" {
			fmt.Fprintf(out, "  %-24s hint: %s\n", "", terminal.AsCalled(hint))
		}
	}
}

// Clean deletes kept clusters and leftovers of killed leakrig processes, with images also unused node images.
func Clean(ctx context.Context, out io.Writer, cache string, images bool) error {
	removed, err := cluster.Clean(ctx, cache)
	removed = append(removed, sweepKilled()...)
	for _, what := range removed {
		fmt.Fprintf(out, "removed %s\n", what)
	}
	if !images || err != nil {
		return err
	}
	removed, err = cluster.CleanImages(ctx)
	for _, ref := range removed {
		fmt.Fprintf(out, "removed image %s\n", ref)
	}
	return err
}
