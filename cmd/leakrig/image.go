package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/leakrig/leakrig/cluster/images"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

func imageCommand() *cobra.Command {
	var image images.Rig
	var output string
	c := &cobra.Command{
		Use:   "image",
		Short: "Build a container image with leakrig and other programs",
		Long: `Build a container image with leakrig and the programs of --add, which a scenario can start by name
(subject.command). No engine, base image or registry is needed, and builds are reproducible. docker
load, podman load and kind load image-archive accept the archive.

All programs must be static Linux binaries (CGO_ENABLED=0). The image has no Go toolchain, so it cannot
build subjects from source.`,
		Example: `  leakrig image --output leakrig.tar
  leakrig image --output nightly.tar --tag registry.example.com/nightly:v1 --add ./my-service`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if image.Binary == "" {
				self, err := os.Executable()
				if err != nil {
					return leak.WithHint(err, "--rig names the binary")
				}
				image.Binary = self
			}
			if image.Version == "" {
				image.Version = version()
			}
			var b bytes.Buffer
			arch, err := image.Write(&b)
			if err != nil {
				return &leak.UsageError{Err: err}
			}
			if err := rundir.WriteFile(output, b.Bytes()); err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "%s  %s  linux/%s\n", output, image.Tag, arch)
			return nil
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "leakrig.tar", "`file` to write to")
	c.Flags().StringVar(&image.Tag, "tag", "leakrig.local/leakrig:latest", "name of the image")
	c.Flags().StringVar(&image.Binary, "rig", "", "`file` of the leakrig binary (default: the running one)")
	c.Flags().StringVar(&image.Version, "version-label", "", "version in the label of the image (default: that of leakrig)")
	c.Flags().StringArrayVar(&image.Programs, "add", nil, "`file` of an additional program (repeatable)")
	return c
}
