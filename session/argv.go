package session

import (
	"strconv"
	"strings"
)

// Argv returns the arguments of leakrig that run one scenario with these options. It leaves out defaults.
func (f *Options) Argv(scenario string) []string {
	args := []string{"run", scenario}
	word := func(flag, value, preset string) {
		if value != preset && value != "" {
			args = append(args, "--"+flag, value)
		}
	}
	number := func(flag string, value, preset int) {
		if value != preset && value != 0 {
			args = append(args, "--"+flag, strconv.Itoa(value))
		}
	}
	on := func(flag string, set bool) {
		if set {
			args = append(args, "--"+flag)
		}
	}
	for _, name := range f.Variants {
		word("variant", name, "")
	}
	word("with", strings.Join(f.With, ","), "")
	for _, parameter := range f.Set {
		word("set", parameter, "")
	}
	number("rounds", f.Rounds, 0)
	if f.Budget > 0 {
		word("for", f.Budget.String(), "")
	}
	number("times", f.Times, 1)
	on("resume", f.Resume)
	word("cluster", f.Cluster, "auto")
	word("placement", f.Placement, "")
	on("keep", f.Clusters.Keep)
	on("reuse", f.Clusters.Reuse)
	word("worker-image", f.Clusters.WorkerImage, "")
	word("worker-rig", f.Clusters.WorkerRig, "")
	word("source", f.Source, "")
	word("kubeconfig", f.Clusters.KubeconfigFile, "")
	word("context", f.Clusters.Context, "")
	on("yes", f.Clusters.Yes)
	word("exit-code", f.ExitCode, "verdict")
	word("format", f.Output.Format, "text")
	on("brief", f.Brief)
	on("verbose", f.Verbose)
	word("runs-dir", f.RunsDir, "runs")
	return args
}
