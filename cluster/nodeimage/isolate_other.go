//go:build !linux

package nodeimage

import (
	"errors"
	"os/exec"
)

// runIsolated is never reached: the requirements name Linux.
func runIsolated(*exec.Cmd) error { return errors.ErrUnsupported }
