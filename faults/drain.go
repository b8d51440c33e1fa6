package faults

import (
	"context"
	"errors"
	"fmt"

	"github.com/leakrig/leakrig/leak"
)

var drainKind = leak.Kind[leak.Action]{
	Name: "drain",
	Doc: "Drains a node of the cluster while other actions run, like kubectl drain: cordons it and evicts its pods. " +
		"The undo uncordons it. Pods of DaemonSets and static pods stay.",
	New: func() leak.Action { return &Drain{} },
}

// Drain drains a node.
type Drain struct {
	Node   string `yaml:"node" doc:"node, as in worker or worker2"`
	timing `yaml:",inline"`
}

// Validate returns all problems.
func (d *Drain) Validate() error {
	errs := d.validate()
	if d.Node == "" {
		errs = append(errs, &leak.FieldError{Field: "node", Problem: "names no node", Hint: "as in worker2"})
	}
	return errors.Join(errs...)
}

// Run returns an error: the runner calls Begin.
func (d *Drain) Run(context.Context, leak.Target, int) (leak.Tally, error) {
	return leak.Tally{}, errAlone
}

// UsesPods reports that there is nothing to drain without nodes (leak.ClusterUser).
func (d *Drain) UsesPods() bool { return true }

// Of is empty: a node is no dependency.
func (d *Drain) Of() (name string, linked bool) { return "", false }

// Begin checks that there is a cluster with parts.
func (d *Drain) Begin(_ context.Context, t leak.Target) (leak.Injection, error) {
	return newStopped(d.timing, t, leak.Part{Node: d.Node}, fmt.Sprintf("node %s drained for %s", d.Node, d.For))
}
