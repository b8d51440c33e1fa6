package session

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leakrig/leakrig/checks"
	"github.com/leakrig/leakrig/cluster"
	"github.com/leakrig/leakrig/cluster/binaries"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
	"github.com/leakrig/leakrig/scenarios"
)

// maxTimes bounds --times.
const maxTimes = 1000

// Options are the flags of `leakrig run`.
type Options struct {
	Cluster, Placement  string
	Variants, Set, With []string
	// AllVariants also runs the variants that default runs leave out.
	AllVariants bool
	// Rounds, if positive, replaces the rounds of the scenario. Budget, if positive, is the time for adding operations.
	Rounds int
	Budget time.Duration
	Times  int
	// Resume resumes an interrupted soak. Soak, if set, replaces the rounds of the scenario; SoakPreset keeps a soak
	// that the scenario has.
	Resume     bool
	Soak       *leak.SoakSpec
	SoakPreset bool
	// ExitCode is "verdict", or ExitBisect.
	ExitCode        string
	Source, RunsDir string
	Clusters        cluster.Options
	Ratchet         Ratchet
	Output
	Night Night
	Process

	// earlier is the record of the soak that is resumed, nil if the run is a new one.
	earlier *leak.Record
	// made are the run directories that were made, in order.
	made []rundir.Dir
}

// Process is what a process of leakrig gives to every command.
type Process struct {
	// Args is the command line, for the record.
	Args    []string
	Version string
	// Hidden are the secrets of all runs so far. They are in nothing that the process prints.
	Hidden *rundir.Secrets
}

// KeepSecret keeps values out of all that the process prints.
func (p *Process) KeepSecret(values ...string) {
	if p.Hidden == nil {
		p.Hidden = &rundir.Secrets{}
	}
	p.Hidden.AddAll(values...)
}

// Parameters are the values of --set.
func (f *Options) Parameters() (map[string]string, error) {
	set := map[string]string{}
	for _, s := range f.Set {
		name, value, ok := strings.Cut(s, "=")
		if _, again := set[name]; !ok || again {
			return nil, leak.WithHint(fmt.Errorf("--set %s: not a name and its value, once", s), "as in --set nodes=200")
		}
		set[name] = value
	}
	return set, nil
}

// Apply puts the flags over the scenario and returns the variants to run.
func (f *Options) Apply(s *leak.Scenario) ([]leak.Variant, error) {
	if f.Rounds < 0 || f.Rounds > scenarios.MaxRounds {
		return nil, fmt.Errorf("--rounds must be between 1 and %d", scenarios.MaxRounds)
	}
	if f.Times < 1 || f.Times > maxTimes {
		return nil, fmt.Errorf("--times must be between 1 and %d", maxTimes)
	}
	if f.Soak != nil && (s.Spec.Soak == nil || !f.SoakPreset) {
		if key, hint, err := scenarios.SoakProblem(*f.Soak, s.Spec.Settle.Quiet); err != nil {
			return nil, leak.WithHint(fmt.Errorf("--%s: %w", key, err), "%s", hint)
		}
		s.Spec.Soak, s.Spec.Rounds, s.Spec.MaxRounds, s.Spec.For = f.Soak, 0, 0, 0
	}
	if f.Rounds > 0 && s.Spec.Soak != nil {
		return nil, leak.WithHint(errors.New("--rounds: a soak has rounds by time"), "change soak in the scenario, or leave --rounds out")
	}
	if f.Resume && f.Times > 1 {
		return nil, errors.New("--resume and --times exclude each other")
	}
	switch {
	case f.Budget < 0 || f.Budget > 0 && f.Rounds > 0:
		return nil, errors.New("--for must be more than 0, and excludes --rounds")
	case f.Budget > 0 && s.Spec.Soak != nil:
		return nil, errors.New("--for: a soak says itself how long it takes")
	case f.Budget > 0:
		s.Spec.For = leak.Duration(f.Budget)
	}
	if f.Rounds > 0 {
		s.Spec.For = 0
		s.Spec.Rounds = f.Rounds
		s.Spec.MaxRounds = max(s.Spec.MaxRounds, f.Rounds)
	}
	if f.AllVariants && len(f.Variants) > 0 {
		return nil, errors.New("--variant and --all-variants exclude each other")
	}
	if len(f.Variants) == 0 {
		chosen := slices.DeleteFunc(slices.Clone(s.Spec.Variants), func(v leak.Variant) bool { return !f.AllVariants && v.When == leak.WhenFull })
		return chosen, checks.Feasible(s, len(chosen))
	}
	var chosen []leak.Variant
	var names []string
	for _, v := range s.Spec.Variants {
		names = append(names, v.Name)
		if slices.Contains(f.Variants, v.Name) {
			chosen = append(chosen, v)
		}
	}
	for _, name := range f.Variants {
		if !slices.Contains(names, name) {
			return nil, leak.WithHint(fmt.Errorf("--variant %s: %s has no such variant", name, s.Metadata.Name), "%s", scenarios.OneOf(name, names))
		}
	}
	return chosen, checks.Feasible(s, len(chosen))
}

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
	on("all-variants", f.AllVariants)
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
	word("control-plane", f.Clusters.ControlPlane, binaries.Auto)
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
	word("ratchet", f.Ratchet.File, "")
	on("update-ratchet", f.Ratchet.Update)
	word("runs-dir", f.RunsDir, "runs")
	return args
}
