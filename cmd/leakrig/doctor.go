package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/leakrig/leakrig/cluster"
	"github.com/leakrig/leakrig/cluster/engine"
	"github.com/leakrig/leakrig/cluster/nodeimage"
	"github.com/leakrig/leakrig/session"
	"github.com/leakrig/leakrig/terminal"
)

func doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check prerequisites and print how to install what is missing",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cache, err := session.CacheDir()
			if err != nil {
				return err
			}
			session.Diagnose(c.Context(), c.OutOrStdout(), cache)
			return nil
		},
	}
}

func cleanCommand() *cobra.Command {
	images := false
	c := &cobra.Command{
		Use:   "clean",
		Short: "Delete kept clusters and leftovers of killed leakrig processes",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cache, err := session.CacheDir()
			if err != nil {
				return err
			}
			return session.Clean(c.Context(), c.OutOrStdout(), cache, images)
		},
	}
	c.Flags().BoolVar(&images, "images", false, "also delete unused node images that leakrig has built")
	return c
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
		Long: `Build a node image for kind from Debian packages and upstream Go modules at pinned versions. Use it if
kind's own image cannot be pulled. The build needs Linux, root and debootstrap, and reuses unchanged
parts of earlier builds.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cache, err := session.CacheDir()
			if err != nil {
				return err
			}
			e, err := engine.Detect(c.Context())
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
