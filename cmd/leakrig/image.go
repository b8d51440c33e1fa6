package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/leakrig/leakrig/cluster"
	"github.com/leakrig/leakrig/leak"
)

func imageCommand() *cobra.Command {
	var image cluster.RigImage
	var output string
	c := &cobra.Command{
		Use:   "image",
		Short: "Make a container image of leakrig, and of programs to run in it",
		Long: `Make a container image that holds leakrig and the programs named by --add, which a scenario in it starts by
their names (subject.command). No engine, base image or registry is needed, and the same files make the same
image. The archive is what docker load, podman load and kind load image-archive take.

All programs must be static ones for Linux (CGO_ENABLED=0). There is no Go in the image: subjects that are
built from source cannot run there.`,
		Example: `  leakrig image --output leakrig.tar
  leakrig image --output nightly.tar --tag registry.example.com/nightly:v1 --add ./my-service`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if image.Rig == "" {
				self, err := os.Executable()
				if err != nil {
					return leak.WithHint(err, "--rig names the binary")
				}
				image.Rig = self
			}
			if image.Version == "" {
				image.Version = version()
			}
			var b bytes.Buffer
			arch, err := image.Write(&b)
			if err != nil {
				return &leak.UsageError{Err: err}
			}
			if err := leak.WriteFile(output, b.Bytes()); err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "%s  %s  linux/%s\n", output, image.Tag, arch)
			return nil
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "leakrig.tar", "write to this `file`")
	c.Flags().StringVar(&image.Tag, "tag", "leakrig.local/leakrig:latest", "what the image is called")
	c.Flags().StringVar(&image.Rig, "rig", "", "binary of leakrig, a `file` (default: this one)")
	c.Flags().StringVar(&image.Version, "version-label", "", "version for the image's label (default: that of this leakrig)")
	c.Flags().StringArrayVar(&image.Programs, "add", nil, "another program, a `file` (may be given several times)")
	return c
}
