package nodeimage

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/leakrig/leakrig/cluster/tarfile"
	"github.com/leakrig/leakrig/leak"
)

// Bounds on an engine that hangs.
const (
	askTime  = 30 * time.Second
	loadTime = 15 * time.Minute
)

// Present reports whether the engine has the image.
func Present(ctx context.Context, o Options) (bool, error) {
	ref, err := Tag(o)
	if err != nil {
		return false, err
	}
	return o.has(ctx, ref)
}

// has reports whether the engine has an image.
func (o Options) has(ctx context.Context, ref string) (bool, error) {
	// Unlike inspect, images answers an absent image without an error.
	out, err := o.ask(ctx, "images", "--quiet", ref)
	return out != "", err
}

// ask runs a short command and returns its trimmed output.
func (o Options) ask(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, askTime, fmt.Errorf("%s did not answer in %s", o.Engine, askTime))
	defer cancel()
	return o.run(ctx, nil, args...)
}

// load streams the image into the engine.
func (b *builder) load(ctx context.Context, ref string, image v1.Image) error {
	entries, err := archive(map[string]v1.Image{ref: image})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, loadTime, fmt.Errorf("%s did not take the image in %s", b.Engine, loadTime))
	defer cancel()
	r := tarfile.Stream(ctx, entries)
	defer r.Close()
	if _, err := b.run(ctx, &counter{r: r, tell: b.Progress.Status}, "load", "--quiet"); err != nil {
		return fmt.Errorf("load %s: %w", ref, err)
	}
	present, err := Present(ctx, b.Options)
	if err == nil && !present {
		err = fmt.Errorf("%s took %s but does not have it", b.Engine, ref)
	}
	return err
}

// run runs a command of the engine, with in as its standard input, and returns its trimmed output.
func (o Options) run(ctx context.Context, in io.Reader, args ...string) (string, error) {
	out, err := o.Engine.Pipe(ctx, in, args...)
	if err != nil && ctx.Err() == nil && leak.Hint(err) == "" {
		err = leak.WithMachineHint(err, "check that the engine runs and that you may use it: see `%s info`", o.Engine)
	}
	return strings.TrimSpace(string(out)), err
}

// counter counts the bytes that were read.
type counter struct {
	r    io.Reader
	n    int64
	tell func(format string, args ...any)
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if before := c.n; (before+int64(n))>>24 != before>>24 {
		c.tell("node image: loading: %d MB", (before+int64(n))/1e6)
	}
	c.n += int64(n)
	return n, err
}
