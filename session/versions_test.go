package session

import (
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// TestRepinned checks that a module is assigned to the node's command that contains it, or that it is, and that the
// scenario's own pins stay.
func TestRepinned(t *testing.T) {
	const ttrpc, containerd, runc = "github.com/containerd/ttrpc", "github.com/containerd/containerd", "github.com/opencontainers/runc"
	v := leak.Variant{Name: "leaky", Node: []leak.NodePin{
		{Command: "containerd", Version: "v1.6.36", Modules: map[string]string{ttrpc: "v1.0.2"}},
		{Command: "runc", Version: "v1.1.0"},
	}}
	got, err := Repinned(v, []leak.Module{{Path: ttrpc, Version: "v1.1.0"}, {Path: runc, Version: "v1.2.0"}})
	if err != nil || got.Node[0].Modules[ttrpc] != "v1.1.0" || got.Node[0].Version != "v1.6.36" || got.Node[1].Version != "v1.2.0" {
		t.Errorf("%+v %v", got.Node, err)
	}
	if v.Node[0].Modules[ttrpc] != "v1.0.2" || v.Node[1].Version != "v1.1.0" {
		t.Errorf("the scenario's own variant has changed: %+v", v.Node)
	}
	if got, err := Repinned(v, []leak.Module{{Path: containerd, Version: "v1.7.35"}}); err != nil || got.Node[0].Version != "v1.7.35" || got.Node[0].Modules[ttrpc] != "v1.0.2" {
		t.Errorf("%+v %v", got.Node, err)
	}
	if _, err := Repinned(v, []leak.Module{{Path: "example.com/x", Version: "v1.0.0"}}); err == nil || !strings.Contains(err.Error(), "which command of the node") {
		t.Error(err)
	}
	one := leak.Variant{Node: []leak.NodePin{{Command: "containerd", Version: "v1.6.36"}}}
	if got, err := Repinned(one, []leak.Module{{Path: ttrpc, Version: "v1.0.2"}}); err != nil || got.Node[0].Modules[ttrpc] != "v1.0.2" || one.Node[0].Modules != nil {
		t.Errorf("%+v %v", got.Node, err)
	}
}

func TestWorstOfBisect(t *testing.T) {
	for want, codes := range map[int][]int{0: {0, 0}, 1: {0, 125, 1}, 125: {0, 125}, 130: {1, 130}} {
		if got := worstOfBisect(codes); got != want {
			t.Errorf("%v: %d", codes, got)
		}
	}
	for _, test := range []struct {
		args string
		code int
		want int
	}{
		{"run x --exit-code=bisect", 2, 128},
		{"run x --exit-code bisect", 3, 128},
		{"run x --exit-code=bisect", 130, 130},
		{"run x", 2, 2},
		{"run x --exit-code", 2, 2},
	} {
		if got := ForGitBisect(strings.Fields(test.args), test.code); got != test.want {
			t.Errorf("%s: %d", test.args, got)
		}
	}
}
