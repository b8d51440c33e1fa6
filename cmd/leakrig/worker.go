package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/leakrig/leakrig/cluster"
	"github.com/leakrig/leakrig/cluster/workers"
	"github.com/leakrig/leakrig/load"
)

// workerCommand is what the pods of workers run.
func workerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    workers.Command,
		Short:  "Perform a worker's part of the load, in a pod that leakrig run has made",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(c *cobra.Command, _ []string) error {
			return workers.Main(c.Context(), func(ctx context.Context, w workers.Worker) ([]byte, error) {
				return load.Work(ctx, w.Order, w.Index, w.Kubeconfig, w.Begin)
			})
		},
	}
}

// workerFlags are the flags about where workers come from.
func workerFlags(c *cobra.Command, o *cluster.Options) {
	c.Flags().StringVar(&o.WorkerImage, "worker-image", "", "`image` with leakrig for workers; the nodes must be able to pull it (default on kind: built from the binary)")
	c.Flags().StringVar(&o.WorkerRig, "worker-rig", "", "`file` of a static leakrig binary for the image of workers (default: the running one)")
}
