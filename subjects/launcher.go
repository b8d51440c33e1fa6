package subjects

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// Launcher builds and starts the variants of one subject, as processes of this machine or as pods.
type Launcher struct {
	Spec    leak.SubjectSpec
	Builder Builder
	// Scratch is a private folder for the binaries of this run: those in the cache may be replaced by
	// another run while this one executes them.
	Scratch string
	// Placement is process or pod; "" is process.
	Placement string
	// With are modules that every variant is built with at other versions than its modfile has; the first is the
	// one that it is about.
	With []leak.Module

	// Dependencies start before each variant. Linked names those that the subject reaches through a proxy, which Link
	// opens; it may name leak.KubeAPIServer.
	Dependencies []leak.Dependency
	Linked       []string
	Link         func(to string) (leak.Link, error)

	// building guards what follows: a variant can run while Build makes the next one.
	building sync.Mutex
	// built is what Build made, by variant.
	built map[string]Built
	own   *OwnSource
}

// Own is the folder that the variants were built from, nil where none was.
func (l *Launcher) Own() *OwnSource {
	l.building.Lock()
	defer l.building.Unlock()
	return l.own
}

// hasProgram reports whether there is a program to start. Otherwise the program already runs, or the subject consists
// only of components of the cluster.
func (l *Launcher) hasProgram() bool { return l.Spec.Build != "" || len(l.Spec.Command) > 0 }

// Build compiles the variant, or looks its command up.
func (l *Launcher) Build(ctx context.Context, v leak.Variant) error {
	if err := l.buildDependencies(ctx); err != nil {
		return err
	}
	if !l.hasProgram() {
		return nil
	}
	if len(l.Spec.Command) > 0 {
		_, err := l.lookup()
		return err
	}
	folder, err := l.Builder.Folder(l.Spec.Build)
	if err != nil {
		return err
	}
	l.building.Lock()
	if l.own == nil { // as it was before the first of them: what is changed during a build may be in it or not
		l.own = &OwnSource{files: rooted(folder), built: time.Now()}
	}
	builder := l.Builder
	builder.Nice = builder.Nice || len(l.built) > 0 // a variant that is built may be measured now
	l.building.Unlock()
	built, err := builder.Build(ctx, l.recipe(folder, v))
	if err != nil {
		return err
	}
	binary := filepath.Join(l.Scratch, v.Name, filepath.Base(built.Path))
	if err := linkOrCopy(built.Path, binary); err != nil {
		return fmt.Errorf("build %s: %w", v.Name, err)
	}
	built.Path = binary
	l.keep(v.Name, built)
	return nil
}

// keep notes a binary that was built.
func (l *Launcher) keep(name string, built Built) {
	l.building.Lock()
	defer l.building.Unlock()
	if l.built == nil {
		l.built = map[string]Built{}
	}
	l.built[name] = built
}

// Check returns an error before the build if there is nothing to build or to start.
func (l *Launcher) Check(variants []leak.Variant) error {
	for _, address := range l.Spec.Addresses() {
		if _, err := reach(l.Spec, address, l.Builder.ScenarioDir); err != nil {
			return err
		}
	}
	if l.Spec.Port != 0 && l.Spec.Copies() > 1 && l.Placement != leak.PlacementPod {
		return leak.WithHint(fmt.Errorf("subject.port: %d replicas cannot all listen on %d", l.Spec.Copies(), l.Spec.Port), "leave it out: each then gets a free one, as PORT and LEAKRIG_LISTEN")
	}
	return l.CheckProgram(variants)
}

// CheckProgram is the part of Check that does not depend on the placement.
func (l *Launcher) CheckProgram(variants []leak.Variant) error {
	if err := l.checkDependencies(); err != nil {
		return err
	}
	if !l.hasProgram() {
		return nil
	}
	if len(l.Spec.Command) > 0 {
		_, err := l.lookup()
		return err
	}
	folder, err := l.Builder.Folder(l.Spec.Build)
	if err != nil {
		return err
	}
	var errs []error
	for _, v := range variants {
		errs = append(errs, l.recipe(folder, v).check())
	}
	return errors.Join(errs...)
}

func (l *Launcher) recipe(folder string, v leak.Variant) Recipe {
	return Recipe{Folder: folder, Modfile: v.Modfile, Rewrite: v.Rewrite, With: l.With}
}

func (l *Launcher) lookup() (string, error) {
	path, err := exec.LookPath(l.Spec.Command[0])
	if err != nil {
		return "", leak.WithHint(fmt.Errorf("subject.command: %w", err), "name a program on the PATH, or a path to one")
	}
	return filepath.Abs(path)
}

// Start starts the dependencies, and then the variant at its placement. It reaches the components that the scenario
// observes.
func (l *Launcher) Start(ctx context.Context, v leak.Variant, c leak.Cluster, log string) (leak.Subject, error) {
	around, err := l.surround(ctx, c, log)
	if err != nil {
		return nil, err
	}
	subject, err := l.startWithin(ctx, v, around, log)
	if err != nil {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), 4*stopGrace)
		defer cancel()
		return nil, errors.Join(err, around.stop(cleanup))
	}
	return around.surrounds(subject), nil
}

// startWithin starts the subject within its surroundings.
func (l *Launcher) startWithin(ctx context.Context, v leak.Variant, around *surroundings, log string) (leak.Subject, error) {
	c := around.cluster
	var program leak.Subject
	var err error
	switch {
	case l.hasProgram():
		n := l.Spec.Copies()
		program, err = together(ctx, n, func(replica int) (leak.Subject, error) {
			log, err := replicaLog(log, replica, n)
			if err != nil {
				return nil, err
			}
			return l.start(ctx, v, around, log)
		})
	case len(l.Spec.Addresses()) > 0:
		addresses := l.Spec.Addresses()
		program, err = together(ctx, len(addresses), func(replica int) (leak.Subject, error) {
			return l.remote(ctx, addresses[replica-1])
		})
	}
	if err != nil {
		return nil, err
	}
	if len(l.Spec.Components) == 0 {
		return program, nil
	}
	return observe(ctx, c, l.Spec.Components, program)
}

// remote connects to a running program, and finds its process if it runs on this machine.
func (l *Launcher) remote(ctx context.Context, address string) (leak.Subject, error) {
	r, err := reach(l.Spec, address, l.Builder.ScenarioDir)
	if err != nil {
		return nil, err
	}
	access := l.Spec.Access
	for _, file := range []*string{&access.CA, &access.Cert, &access.Key, &access.TokenFile} {
		if *file != "" && !filepath.IsAbs(*file) {
			*file = filepath.Join(l.Builder.ScenarioDir, *file)
		}
	}
	process, err := Behind(ctx, address, l.Spec.Pprof, access, l.Spec.PID)
	switch {
	case err == nil:
		r.follow(address, process)
	case l.Spec.PID != 0:
		return nil, leak.WithHint(fmt.Errorf("subject.pid: %w", err), "the process must run on this machine, may be read by you, and be the one that serves pprof")
	}
	return r, nil
}

func (l *Launcher) start(ctx context.Context, v leak.Variant, around *surroundings, log string) (leak.Subject, error) {
	launch, err := l.launch(v, log)
	if err != nil {
		return nil, err
	}
	launch.Addresses = around.addresses
	return l.place(ctx, around, launch)
}

// place starts a program as a process or as a pod.
func (l *Launcher) place(ctx context.Context, around *surroundings, launch leak.Launch) (leak.Subject, error) {
	if l.Placement != leak.PlacementPod {
		return Process{launch, around.kubeconfig}.Start(ctx)
	}
	runner, ok := around.cluster.(leak.PodRunner)
	if !ok {
		return nil, leak.WithHint(errors.New("pods do not run on this cluster"), "--placement process runs the subject on this machine")
	}
	return runner.RunPod(ctx, launch)
}

func (l *Launcher) launch(v leak.Variant, log string) (leak.Launch, error) {
	l.building.Lock()
	built := l.built[v.Name]
	l.building.Unlock()
	program := built.Path
	args := slices.Concat(l.Spec.Args, v.Args)
	if len(l.Spec.Command) > 0 {
		var err error
		if program, err = l.lookup(); err != nil {
			return leak.Launch{}, err
		}
		args = slices.Concat(l.Spec.Command[1:], args)
	}
	env := map[string]string{}
	maps.Copy(env, l.Spec.Env)
	maps.Copy(env, v.Env)
	info := Info(program)
	info.Command = append(info.Command, args...)
	info.Placement = leak.PlacementProcess
	info.Modfile, info.Rewrite, info.HeapDump = v.Modfile, built.Rewrite, built.HeapDump
	for i, m := range info.Modules {
		if r := info.Rewrite; r != nil && r.Module == m.Path+" "+m.Version {
			info.Modules[i].Replace = "a copy with another " + r.Func // and not where it lies on this machine
		}
	}
	return leak.Launch{
		Variant: v.Name, Program: program, Args: args, Env: env, Port: l.Spec.Port,
		Pprof: l.Spec.Pprof, Ready: l.Spec.Ready, ReadyTimeout: l.Spec.ReadyTimeout.D(),
		Rules: l.Spec.Rules, Limits: l.Spec.Limits, Aliases: l.Spec.Aliases, Log: log, Info: info,
	}, nil
}

func linkOrCopy(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	linkErr := os.Link(from, to)
	if linkErr == nil || errors.Is(linkErr, os.ErrExist) {
		return nil
	}
	data, err := os.ReadFile(from) // another file system
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o700)
}
