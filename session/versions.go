package session

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/leakrig/leakrig/leak"
)

// otherVersions applies the modules of --with: to the pins of the variants that have commands of the node, and else to
// the build.
func (f *Options) otherVersions(s *leak.Scenario, variants []leak.Variant) ([]leak.Variant, []leak.Module, error) {
	var with []leak.Module
	for _, word := range f.With {
		path, v, ok := strings.Cut(word, "@")
		if !ok || path == "" || !IsVersion(v) {
			return nil, nil, leak.WithHint(fmt.Errorf("--with %s: not a module and its full version", word), "as in --with k8s.io/apimachinery@v0.21.0")
		}
		with = append(with, leak.Module{Path: path, Version: v})
	}
	if len(with) == 0 {
		return variants, nil, nil
	}
	variants = slices.Clone(variants)
	inNode := 0
	for i := range variants {
		if len(variants[i].Node) == 0 {
			continue
		}
		inNode++
		var err error
		if variants[i], err = Repinned(variants[i], with); err != nil {
			return nil, nil, err
		}
	}
	switch {
	case inNode == len(variants):
		return variants, nil, nil
	case inNode > 0:
		return nil, nil, leak.WithHint(errors.New("--with: some variants have commands of the node, and others have not"), "choose with --variant")
	case s.Spec.Subject.Build == "":
		return nil, nil, leak.WithHint(errors.New("--with: the scenario builds no program"), "it is for scenarios with subject.build, or with commands of the node")
	}
	return variants, with, nil
}

// IsVersion reports whether a word is a full version, such as v0.21.0.
func IsVersion(word string) bool {
	build := semver.Build(word)
	return semver.IsValid(word) && semver.Canonical(word)+build == word
}

// commandModules are the modules that commands of the node come from, at v1.
var commandModules = map[string]string{
	"containerd": "github.com/containerd/containerd",
	"kubelet":    "k8s.io/kubernetes",
	"runc":       "github.com/opencontainers/runc",
}

// Repinned is the variant with modules of its node's commands at other versions.
func Repinned(v leak.Variant, with []leak.Module) (leak.Variant, error) {
	v.Node = slices.Clone(v.Node)
	for _, m := range with {
		if strings.HasSuffix(m.Path, "*") {
			return v, leak.WithHint(fmt.Errorf("--with %s: commands of the node take modules by their paths", m.Path), "name each module")
		}
		at := slices.IndexFunc(v.Node, func(p leak.NodePin) bool { return p.Modules[m.Path] != "" || commandModules[p.Command] == m.Path })
		if at < 0 && len(v.Node) == 1 {
			at = 0
		}
		if at < 0 {
			return v, leak.WithHint(fmt.Errorf("variant %s: which command of the node should be built with %s?", v.Name, m.Path), "name the module under one of them in the scenario")
		}
		pin := &v.Node[at]
		if commandModules[pin.Command] == m.Path {
			pin.Version = m.Version
			continue
		}
		modules := maps.Clone(pin.Modules)
		if modules == nil {
			modules = map[string]string{}
		}
		modules[m.Path] = m.Version
		pin.Modules = modules
	}
	return v, nil
}
