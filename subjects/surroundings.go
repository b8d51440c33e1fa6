package subjects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/leakrig/leakrig/leak"
)

// surroundings are the dependencies of a variant, and the proxies between the subject and what it uses.
type surroundings struct {
	cluster leak.Cluster
	// all are the started dependencies, in order, and links the proxies by the name of what is behind them.
	all       []*dependency
	links     map[string]leak.Link
	addresses map[string]string // by name
	// kubeconfig is that of the subject, "" without a cluster.
	kubeconfig string

	once sync.Once
	done chan struct{}
	err  error // set before done is closed
}

// dependency is a program next to the subject.
type dependency struct {
	launch leak.Launch
	place  func(context.Context, leak.Launch) (leak.Subject, error)
	died   func(error)
	// mu guards the program that runs now and its target. Both are zero while a fault keeps a process stopped.
	mu     sync.Mutex
	now    leak.Subject
	target leak.Target
}

// downer is a dependency that a fault stops without Stop, because another start would have another address.
type downer interface {
	Down(ctx context.Context) (up func(context.Context) error, err error)
}

// surround starts the dependencies of a variant, one after another. Their logs are next to that of the subject.
func (l *Launcher) surround(ctx context.Context, c leak.Cluster, log string) (*surroundings, error) {
	s := &surroundings{cluster: c, links: map[string]leak.Link{}, addresses: map[string]string{}, done: make(chan struct{})}
	if c != nil {
		s.kubeconfig = c.Kubeconfig()
	}
	err := l.reachAPIServer(s)
	for _, d := range l.Dependencies {
		if err == nil {
			err = l.addDependency(ctx, s, d, filepath.Join(filepath.Dir(log), d.Name+".log"))
		}
	}
	if err != nil {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), 4*stopGrace)
		defer cancel()
		return nil, errors.Join(err, s.stop(cleanup))
	}
	return s, nil
}

// reachAPIServer has the subject reach the API server through a proxy if a fault acts on it.
func (l *Launcher) reachAPIServer(s *surroundings) error {
	if !slices.Contains(l.Linked, leak.KubeAPIServer) {
		return nil
	}
	if l.Placement == leak.PlacementPod {
		return leak.WithHint(errors.New("faults do not act on connections of pods"), "use placement process")
	}
	cluster, ok := s.cluster.(leak.Breakable)
	if !ok {
		return errors.New("faults do not act on the API server of this cluster")
	}
	link, err := l.Link(cluster.Server())
	if err != nil {
		return err
	}
	s.links[leak.KubeAPIServer] = link
	s.kubeconfig, err = cluster.Through(link.Address())
	return err
}

// addDependency starts a dependency, and a proxy to it if a fault acts on its connections.
func (l *Launcher) addDependency(ctx context.Context, s *surroundings, d leak.Dependency, log string) error {
	address := d.Address
	switch address {
	case leak.KubeAPIServer:
		cluster, ok := s.cluster.(leak.Breakable)
		if !ok {
			return fmt.Errorf("dependency %s: faults do not act on the API server of this cluster", d.Name)
		}
		address = cluster.Server()
	case "":
		var err error
		if address, err = l.startDependency(ctx, s, d, log); err != nil {
			return err
		}
	}
	if slices.Contains(l.Linked, d.Name) {
		if l.Placement == leak.PlacementPod {
			return leak.WithHint(fmt.Errorf("dependency %s: faults do not act on connections of pods", d.Name), "use placement process, or restart instead of network")
		}
		link, err := l.Link(address)
		if err != nil {
			return fmt.Errorf("dependency %s: %w", d.Name, err)
		}
		s.links[d.Name], address = link, link.Address()
	}
	s.addresses[d.Name] = address
	return nil
}

// startDependency starts a dependency where the subject runs, and returns its address.
func (l *Launcher) startDependency(ctx context.Context, s *surroundings, d leak.Dependency, log string) (string, error) {
	program, args, err := l.dependencyProgram(d)
	if err != nil {
		return "", fmt.Errorf("dependency %s: %w", d.Name, err)
	}
	one := &dependency{
		launch: leak.Launch{
			Variant: d.Name, Dependency: true, Program: program, Args: args, Env: d.Env, Port: d.Port, Ready: d.Ready, ReadyTimeout: d.ReadyTimeout.D(),
			Log: log, Addresses: maps.Clone(s.addresses),
		},
		place: func(ctx context.Context, launch leak.Launch) (leak.Subject, error) { return l.place(ctx, s, launch) },
		died:  func(err error) { s.end(err) },
	}
	if l.Placement != leak.PlacementPod {
		if one.launch.Port, err = choosePort(d.Port); err != nil { // the same one after each restart
			return "", fmt.Errorf("dependency %s: %w", d.Name, err)
		}
	}
	if err := one.start(ctx); err != nil {
		return "", err
	}
	s.all = append(s.all, one)
	at := one.target.URL
	if one.target.InCluster != nil {
		if at, err = one.target.InCluster(ctx); err != nil {
			return "", fmt.Errorf("dependency %s: %w", d.Name, err)
		}
	}
	return strings.TrimPrefix(at, "http://"), nil
}

// dependencyProgram returns the binary of a dependency, and its arguments.
func (l *Launcher) dependencyProgram(d leak.Dependency) (string, []string, error) {
	if len(d.Command) > 0 {
		path, err := exec.LookPath(d.Command[0])
		if err != nil {
			return "", nil, leak.WithHint(err, "name a program on the PATH, or a path to one")
		}
		path, err = filepath.Abs(path)
		return path, slices.Concat(d.Command[1:], d.Args), err
	}
	l.building.Lock()
	defer l.building.Unlock()
	return l.built[dependencyKey(d)].Path, d.Args, nil
}

// dependencyKey is the name of a dependency among those of variants, which contain no slash.
func dependencyKey(d leak.Dependency) string { return "dependency/" + d.Name }

// buildDependencies compiles the dependencies once.
func (l *Launcher) buildDependencies(ctx context.Context) error {
	for _, d := range l.Dependencies {
		if d.Build == "" {
			continue
		}
		key := dependencyKey(d)
		l.building.Lock()
		_, have := l.built[key]
		l.building.Unlock()
		if have {
			continue
		}
		folder, err := l.Builder.Folder(d.Build)
		if err != nil {
			return fmt.Errorf("dependency %s: %w", d.Name, err)
		}
		built, err := l.Builder.Build(ctx, Recipe{Folder: folder, Modfile: d.Modfile})
		if err != nil {
			return fmt.Errorf("dependency %s: %w", d.Name, err)
		}
		binary := filepath.Join(l.Scratch, key, filepath.Base(built.Path))
		if err := linkOrCopy(built.Path, binary); err != nil {
			return fmt.Errorf("dependency %s: %w", d.Name, err)
		}
		built.Path = binary
		l.keep(key, built)
	}
	return nil
}

// checkDependencies returns an error before the build if a dependency has nothing to build or to start.
func (l *Launcher) checkDependencies() error {
	var errs []error
	for _, d := range l.Dependencies {
		var err error
		switch {
		case d.Build != "":
			var folder string
			if folder, err = l.Builder.Folder(d.Build); err == nil {
				err = Recipe{Folder: folder, Modfile: d.Modfile}.check()
			}
		case len(d.Command) > 0:
			_, _, err = l.dependencyProgram(d)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("dependency %s: %w", d.Name, err))
		}
	}
	return errors.Join(errs...)
}

// start starts the program, and watches it until it is stopped.
func (d *dependency) start(ctx context.Context) error {
	if f, err := os.OpenFile(d.launch.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return err
	} else if err := f.Close(); err != nil {
		return err
	}
	now, err := d.place(ctx, d.launch)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now, d.target = now, now.Target()
	go func() {
		<-now.Done()
		if err := now.Err(); err != nil { // nil if it was stopped
			d.died(err)
		}
	}()
	return nil
}

func (d *dependency) stop(ctx context.Context) error {
	d.mu.Lock()
	now := d.now
	d.now, d.target = nil, leak.Target{}
	d.mu.Unlock()
	if now == nil {
		return nil
	}
	return now.Stop(ctx)
}

// down stops the program for a fault. up starts it again at the same address.
func (d *dependency) down(ctx context.Context) (up func(context.Context) error, err error) {
	d.mu.Lock()
	now := d.now
	d.mu.Unlock()
	if now, ok := now.(downer); ok {
		return now.Down(ctx)
	}
	return d.start, d.stop(ctx)
}

// down stops a dependency or a part of the cluster.
func (s *surroundings) down(ctx context.Context, p leak.Part) (up func(context.Context) error, err error) {
	for _, d := range s.all {
		if d.launch.Variant == p.Name {
			return d.down(ctx)
		}
	}
	cluster, ok := s.cluster.(leak.Breakable)
	if !ok {
		return nil, leak.WithHint(fmt.Errorf("nothing called %s can be stopped", cmp.Or(p.Name, p.Selector, p.Node)), "restart takes the name of a dependency that leakrig starts")
	}
	return cluster.Down(ctx, p)
}

// with adds the surroundings to a target.
func (s *surroundings) with(t leak.Target) leak.Target {
	t.Down, t.Links = s.down, s.links
	t.Dependencies = map[string]leak.Target{}
	for _, d := range s.all {
		d.mu.Lock()
		t.Dependencies[d.launch.Variant] = d.target
		d.mu.Unlock()
	}
	return t
}

func (s *surroundings) end(err error) {
	s.once.Do(func() {
		s.err = err
		close(s.done)
	})
}

// stop ends the dependencies, the last one first, and closes the proxies.
func (s *surroundings) stop(ctx context.Context) error {
	s.end(nil)
	var errs []error
	for _, d := range slices.Backward(s.all) {
		errs = append(errs, d.stop(ctx))
	}
	for _, l := range s.links {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// surrounded is a subject with its surroundings.
type surrounded struct {
	leak.Subject
	around *surroundings
	done   chan struct{}
}

// surrounds returns the subject with its surroundings. It has the optional interfaces of the subject.
func (s *surroundings) surrounds(subject leak.Subject) leak.Subject {
	one := &surrounded{Subject: subject, around: s, done: make(chan struct{})}
	go func() {
		defer close(one.done)
		select {
		case <-subject.Done():
		case <-s.done:
		}
	}()
	replicated, _ := subject.(leak.Replicated)
	composed, _ := subject.(leak.Composed)
	switch {
	case replicated != nil: // without components
		return surroundedReplicas{one, replicated}
	case composed != nil:
		return struct {
			*surrounded
			components
		}{one, composed}
	}
	return one
}

// components are the methods of leak.Composed.
type components = leak.Composed

type surroundedReplicas struct {
	*surrounded
	of leak.Replicated
}

// Replicas are those of the subject, each with the surroundings.
func (s surroundedReplicas) Replicas() []leak.Subject {
	var all []leak.Subject
	for _, r := range s.of.Replicas() {
		all = append(all, &surroundedReplica{r, s.around})
	}
	return all
}

type surroundedReplica struct {
	leak.Subject
	around *surroundings
}

func (s *surroundedReplica) Target() leak.Target { return s.around.with(s.Subject.Target()) }

func (s *surrounded) Target() leak.Target {
	t := s.around.with(s.Subject.Target())
	for i := range t.Replicas {
		t.Replicas[i] = s.around.with(t.Replicas[i])
	}
	return t
}

func (s *surrounded) Done() <-chan struct{} { return s.done }

// Err prefers the death of a dependency, from which that of the subject may follow.
func (s *surrounded) Err() error {
	select {
	case <-s.around.done:
		if s.around.err != nil {
			return s.around.err
		}
	default:
	}
	return s.Subject.Err()
}

// Stop ends the subject, then its dependencies.
func (s *surrounded) Stop(ctx context.Context) error {
	return errors.Join(s.Subject.Stop(ctx), s.around.stop(ctx))
}
