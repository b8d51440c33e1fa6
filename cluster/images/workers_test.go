package images

import (
	"debug/elf"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// TestWorkerSource checks that programs which make no image of workers are reported.
func TestWorkerSource(t *testing.T) {
	there := program(t, "leakrig")
	for _, c := range []struct {
		comment, want string
		err           error
	}{
		{"kind, from a static binary", "", Workers{Rig: there}.Check()},
		{"kind, from a dynamic one", "linked dynamically", Workers{Rig: program(t, "leakrig", dynamic)}.Check()},
		{"kind, from one for another machine", "none of amd64 and arm64", Workers{Rig: program(t, "leakrig", machine(elf.EM_S390))}.Check()},
		{"kind, from none", "no such file", Workers{Rig: filepath.Join(t.TempDir(), "none")}.Check()},
		{"kind, with an image", "", Workers{Image: "registry.example.com/leakrig:v1", Rig: "none"}.Check()},
	} {
		var usage *leak.UsageError
		if c.want == "" && c.err != nil || c.want != "" && (c.err == nil || !strings.Contains(c.err.Error(), c.want) || leak.Hint(c.err) == "" || !errors.As(c.err, &usage)) {
			t.Errorf("%s: %v", c.comment, c.err)
		}
	}
}
