package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/leakrig/leakrig/cluster/binaries"
	"github.com/leakrig/leakrig/cluster/engine"
	"github.com/leakrig/leakrig/cluster/nodeimage"
	"github.com/leakrig/leakrig/leak"
)

// Diagnosis is one thing that a machine has or lacks.
type Diagnosis struct {
	// What names the requirement, and For its use.
	What, For string
	// Detail is the finding. Err is why there is none, with a hint.
	Detail string
	Err    error
}

// Diagnose looks at what the providers need, without changing anything.
func Diagnose(ctx context.Context, o Options) []Diagnosis {
	control := Diagnosis{What: "kube-apiserver " + DefaultVersion + " and etcd", For: "embedded"}
	if p, ok := (binaries.Source{Mode: binaries.Auto, Cache: o.Cache}).Find(binaries.Want{Version: DefaultVersion, Minor: true}); ok {
		control.Detail = filepath.Dir(p.APIServer) + ", " + p.Origin
	} else {
		control.Err = leak.WithHint(errors.New("not in the cache yet"), "the first run on the embedded control plane downloads them, or builds them in some minutes")
	}
	e, engineErr := engine.Detect(ctx)
	return []Diagnosis{
		control,
		{"container engine", "kind", string(e), engineErr},
		diagnoseNodeImage(ctx, e, o),
		diagnoseImageBuild(),
	}
}

func diagnoseNodeImage(ctx context.Context, e engine.Engine, o Options) Diagnosis {
	d := Diagnosis{What: "node image " + DefaultVersion, For: "kind"}
	if e == "" {
		d.Err = leak.WithHint(errors.New("unknown without an engine"), "start one first")
		return d
	}
	options := nodeimage.Options{Kubernetes: DefaultVersion, Engine: e, Cache: o.Cache}
	present, err := nodeimage.Present(ctx, options)
	if err == nil && !present {
		err = errors.New("the engine does not have it")
	}
	if err != nil {
		d.Err = leak.WithHint(err, "`leakrig node-image build`; where a registry can be reached, kind's own image is pulled instead")
		return d
	}
	d.Detail, d.Err = nodeimage.Tag(options)
	return d
}

func diagnoseImageBuild() Diagnosis {
	d := Diagnosis{What: "building node images", For: "kind, where none can be pulled", Detail: "Linux, root, debootstrap"}
	switch _, err := exec.LookPath("debootstrap"); {
	case runtime.GOOS != "linux":
		d.Err = leak.WithHint(fmt.Errorf("needs Linux, this is %s", runtime.GOOS), "pull kind's own image instead")
	case os.Geteuid() != 0:
		d.Err = leak.WithHint(errors.New("needs root"), "`sudo leakrig node-image build`")
	case err != nil:
		d.Err = leak.WithHint(errors.New("debootstrap is not on the PATH"), "apt-get install debootstrap")
	}
	return d
}
