package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"golang.org/x/mod/module"

	"github.com/leakrig/leakrig/leak"
)

// Source returns the folder of a module's source, which the go command downloads if necessary. sum is the checksum of
// the module, as in a go.sum file.
func Source(ctx context.Context, path, version, sum string) (string, error) {
	m := module.Version{Path: path, Version: version}
	d, err := download(ctx, m)
	if err != nil {
		return "", err
	}
	if d.Sum != sum {
		return "", fmt.Errorf("%s has the sum %s, not %s", m, d.Sum, sum)
	}
	return d.Dir, nil
}

// downloaded is the part of `go mod download -json` that matters here.
type downloaded struct{ GoMod, Dir, Sum, Error string }

func download(ctx context.Context, m module.Version) (d downloaded, err error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", m.String())
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	cmd.Dir = os.TempDir()
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return d, context.Cause(ctx)
	}
	if errors.Is(err, exec.ErrNotFound) {
		return d, errNoGo()
	}
	if jsonErr := json.Unmarshal(out, &d); err == nil {
		err = jsonErr
	}
	if d.Error != "" {
		err = errors.New(d.Error)
	}
	if err != nil {
		return d, leak.WithHint(fmt.Errorf("find %s: %w", m, err), "is it a released version, and can the Go module proxy be reached?")
	}
	return d, nil
}
