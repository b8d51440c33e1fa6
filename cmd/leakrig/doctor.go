package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leakrig/leakrig/cluster"
	"github.com/leakrig/leakrig/cluster/nodeimage"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/terminal"
)

func doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check prerequisites and print how to install what is missing",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cache, err := cacheDir()
			if err != nil {
				return err
			}
			all := append(localDiagnoses(c.Context()), cluster.Diagnose(c.Context(), cluster.Options{Cache: cache})...)
			for _, d := range all {
				if d.Err == nil {
					fmt.Fprintf(c.OutOrStdout(), "✓ %-24s %s\n", d.What, d.Detail)
					continue
				}
				fmt.Fprintf(c.OutOrStdout(), "✗ %-24s %s\n  %-24s needed for: %s\n", d.What, firstLine(d.Err.Error()), "", d.For)
				if hint := strings.TrimSuffix(leak.Hint(d.Err), "; "+leak.SeeDoctor); hint != "" {
					fmt.Fprintf(c.OutOrStdout(), "  %-24s hint: %s\n", "", asCalled(hint))
				}
			}
			return nil
		},
	}
}

func firstLine(s string) string {
	first, _, _ := strings.Cut(leak.Printable(s), "\n")
	return first
}

// localDiagnoses are those that have nothing to do with clusters.
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

func cleanCommand() *cobra.Command {
	images := false
	clean := &cobra.Command{
		Use:   "clean",
		Short: "Delete kept clusters and leftovers of killed leakrig processes",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cache, err := cacheDir()
			if err != nil {
				return err
			}
			removed, err := cluster.Clean(c.Context(), cache)
			removed = append(removed, sweepKilled()...)
			for _, what := range removed {
				fmt.Fprintf(c.OutOrStdout(), "removed %s\n", what)
			}
			if !images || err != nil {
				return err
			}
			removed, err = cluster.CleanImages(c.Context())
			for _, ref := range removed {
				fmt.Fprintf(c.OutOrStdout(), "removed image %s\n", ref)
			}
			return err
		},
	}
	clean.Flags().BoolVar(&images, "images", false, "also delete unused node images that leakrig has built")
	return clean
}

func nodeImageCommand() *cobra.Command {
	parent := &cobra.Command{
		Use:   "node-image",
		Short: "Build node images for kind from upstream modules",
	}
	var kubernetes string
	build := &cobra.Command{
		Use:   "build",
		Short: "Build the node image if it does not exist",
		Long: `Build a node image for kind from Debian packages and upstream Go modules at pinned versions, if kind's
own image cannot be pulled. This needs Linux, root and debootstrap. It reuses unchanged parts of
earlier builds.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cache, err := cacheDir()
			if err != nil {
				return err
			}
			e, err := cluster.Engine(c.Context())
			if err != nil {
				return err
			}
			progress := terminal.NewProgress(os.Stderr)
			defer progress.Done()
			start := time.Now()
			ref, err := nodeimage.Build(c.Context(), nodeimage.Options{Kubernetes: kubernetes, Engine: e, Cache: cache, Progress: progress})
			if err != nil {
				return err
			}
			progress.Log("in %s", time.Since(start).Round(100*time.Millisecond))
			fmt.Fprintln(c.OutOrStdout(), ref)
			return nil
		},
	}
	build.Flags().StringVar(&kubernetes, "kubernetes", cluster.DefaultVersion, "version of Kubernetes")
	parent.AddCommand(build)
	return parent
}
