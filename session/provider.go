package session

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/leakrig/leakrig/cluster"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

// Provider is where the clusters of a run are booted; the zero value is for a scenario without one.
type Provider struct {
	Name string
	leak.Provider
}

// ChooseProvider chooses a provider that the scenario allows. It returns the zero value if the scenario needs no
// cluster. auto chooses the first provider that can boot here, and reports why it skipped others.
func (f *Options) ChooseProvider(ctx context.Context, s *leak.Scenario, variants []leak.Variant, p leak.Progress) (Provider, error) {
	var none Provider
	bad := func(hint, problem string) error {
		return &leak.UsageError{Err: leak.WithHint(fmt.Errorf("--cluster %s: %s", f.Cluster, problem), "%s", hint)}
	}
	if err := f.openCache(); err != nil {
		return none, err
	}
	f.Clusters.Protected = protectedWords()
	auto := f.Cluster == "auto"
	if s.Spec.OwnClusters() && (f.Clusters.Keep || f.Clusters.Reuse) {
		return none, &leak.UsageError{Err: leak.WithHint(errors.New("--keep and --reuse: the scenario observes the cluster itself, so no other run may have used it"), "leave them out")}
	}
	if s.Spec.Cluster == nil {
		if !auto {
			return none, bad("leave --cluster out", "the scenario uses no cluster")
		}
		if f.Placement == leak.PlacementPod {
			return none, &leak.UsageError{Err: leak.WithHint(errors.New("--placement pod: the scenario uses no cluster"), "leave --placement out")}
		}
		return none, nil
	}
	var reasons []error
	for _, k := range cluster.Kinds(f.Clusters) {
		if !slices.Contains(s.Spec.Cluster.Providers, k.Name) || !auto && f.Cluster != k.Name || auto && k.Name == "existing" {
			continue
		}
		chosen := Provider{k.Name, k.New()}
		if err := f.Preflight(ctx, chosen, s, variants, p); err == nil {
			return chosen, nil
		} else if !auto || ctx.Err() != nil {
			return none, err
		} else {
			p.Log("not on %s: %s", k.Name, FirstLine(err.Error()))
			reasons = append(reasons, err)
		}
	}
	if len(reasons) > 0 {
		return none, errors.Join(reasons...)
	}
	return none, bad("it runs on: "+strings.Join(s.Spec.Cluster.Providers, ", "), "the scenario does not run there")
}

// Preflight returns why the clusters of a run cannot be booted, before anything is built.
func (f *Options) Preflight(ctx context.Context, on Provider, s *leak.Scenario, variants []leak.Variant, p leak.Progress) error {
	if err := workersReach(s, f.placed(s, on.Name)); err != nil && on.Name != "embedded" {
		return err // embedded has no workers at all, and says so itself
	}
	if pre, ok := on.Provider.(leak.Preflighter); ok {
		for _, v := range variants {
			err := pre.Preflight(ctx, leak.BootOptions{
				Spec: *s.Spec.Cluster, Fixtures: s.Spec.Fixtures, Pods: f.placed(s, on.Name) == leak.PlacementPod, LoadsPods: loadsPods(s), Workers: hasWorkers(s), Programs: workerPrograms(s),
				Node: v.Node, Components: s.Spec.Subject.Components, Progress: p,
			})
			if err != nil || !s.Spec.OwnClusters() {
				return err
			}
		}
	}
	return nil
}

// loadsPods reports whether an action needs running pods.
func loadsPods(s *leak.Scenario) bool {
	return slices.ContainsFunc(slices.Concat(s.Spec.Warmup.Round, s.Spec.Round), func(b leak.Block[leak.Action]) bool {
		user, ok := b.Value.(leak.ClusterUser)
		return ok && user.UsesPods()
	})
}

// protectedWords make a context look like production.
func protectedWords() []string {
	words, ok := os.LookupEnv("LEAKRIG_PROTECTED_CONTEXTS")
	if !ok {
		words = "prod,live"
	}
	list := strings.Split(words, ",")
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	return list
}

// placed is where the subject runs on a provider.
func (f *Options) placed(s *leak.Scenario, provider string) string {
	if f.Placement != "" {
		return f.Placement
	}
	if where, ok := s.Spec.Subject.Placement[provider]; ok {
		return where
	}
	return leak.PlacementProcess
}

// Boot is where a cluster is booted: run names it, scratch and logs are folders for it.
type Boot struct {
	Provider           leak.Provider
	Run, Scratch, Logs string
}

// Up boots the cluster of a variant.
func (b Boot) Up(ctx context.Context, s *leak.Scenario, v leak.Variant, progress leak.Progress) (leak.Cluster, error) {
	if err := errors.Join(os.MkdirAll(b.Logs, 0o700), os.MkdirAll(b.Scratch, 0o700)); err != nil {
		return nil, err
	}
	return b.Provider.Boot(ctx, leak.BootOptions{
		Spec: *s.Spec.Cluster, Fixtures: s.Spec.Fixtures, Run: b.Run, Node: v.Node, Components: s.Spec.Subject.Components,
		Programs: workerPrograms(s), Scratch: b.Scratch, Logs: b.Logs, Progress: progress,
	})
}

// RunID names the run as a DNS label: its start, and something that no other run has.
func RunID(dir rundir.Dir) string {
	random := make([]byte, 3)
	_, _ = rand.Read(random) // never fails
	return strings.ToLower(filepath.Base(string(dir))) + "-" + hex.EncodeToString(random)
}

// hasWorkers reports whether load comes from workers.
func hasWorkers(s *leak.Scenario) bool {
	return slices.ContainsFunc(slices.Concat(s.Spec.Warmup.Round, s.Spec.Round), func(b leak.Block[leak.Action]) bool { return b.Workers > 0 })
}

// workerPrograms returns the programs that workers run in addition to leakrig.
func workerPrograms(s *leak.Scenario) []string {
	var names []string
	for _, b := range slices.Concat(s.Spec.Warmup.Round, s.Spec.Round) {
		if p, ok := b.Value.(leak.ProgramUser); ok && b.Workers > 0 && !slices.Contains(names, p.Program()) {
			names = append(names, p.Program())
		}
	}
	return names
}

// workersReach refuses load from workers on a subject that they could not reach: a process of this machine.
func workersReach(s *leak.Scenario, placement string) error {
	if placement == leak.PlacementPod || len(s.Spec.Subject.Addresses()) > 0 {
		return nil
	}
	for _, b := range slices.Concat(s.Spec.Warmup.Round, s.Spec.Round) {
		_, cluster := b.Value.(leak.ClusterUser)
		_, program := b.Value.(leak.ProgramUser)
		if !cluster && !program && b.Workers > 0 {
			return &leak.UsageError{Err: leak.WithHint(fmt.Errorf("%s: load from workers: pods of the cluster cannot reach a process of this machine", b.Name),
				"subject.placement, or --placement pod, has the subject run as a pod; or leave workers out")}
		}
	}
	return nil
}
