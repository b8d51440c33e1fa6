package terminal

import (
	"os"
	"testing"
)

// A hint is a command that can be typed: a checkout has bin/leakrig and no leakrig on the PATH.
func TestAsCalled(t *testing.T) {
	defer func(name string) { os.Args[0] = name }(os.Args[0])
	for called, want := range map[string]string{
		"leakrig":       "`leakrig list` or `sudo leakrig node-image build`, not `go` or leakrig",
		"bin/leakrig":   "`bin/leakrig list` or `sudo bin/leakrig node-image build`, not `go` or leakrig",
		"/a $1/leakrig": "`/a $1/leakrig list` or `sudo /a $1/leakrig node-image build`, not `go` or leakrig",
	} {
		os.Args[0] = called
		if got := AsCalled("`leakrig list` or `sudo leakrig node-image build`, not `go` or leakrig"); got != want {
			t.Errorf("%s: %s", called, got)
		}
	}
}
