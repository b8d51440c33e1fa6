package checks

import "github.com/leakrig/leakrig/leak"

// need is what an outcome requires of a gate.
type need int

const (
	either need = iota
	holds
	fails
	excluded // the outcome is excluded already
)

func (n need) met(g leak.Gate) bool {
	switch n {
	case holds:
		return g.Holds
	case fails:
		return !g.Holds
	}
	return n == either
}

// gate is a comparison, the need of each decided outcome, and the text to show if it prevents a decision.
type gate struct {
	leak.Gate
	clean, leaking need
	stop           string
}

// recorded returns the comparison and its meaning for the outcome.
func (g gate) recorded() leak.Gate {
	switch clean, leaking := g.clean.met(g.Gate), g.leaking.met(g.Gate); {
	case leaking && !clean:
		g.Supports = leak.SupportsLeak
	case clean && !leaking:
		g.Supports = leak.SupportsClean
	case !clean && !leaking:
		g.Supports = leak.Undecides
	}
	return g.Gate
}

// bounded returns a comparison with a bound: within it is clean, above it leaks.
func bounded(g leak.Gate) leak.Gate { return gate{Gate: g, clean: holds, leaking: fails}.recorded() }

// required returns a comparison that every decision needs.
func required(g leak.Gate) leak.Gate { return gate{Gate: g, clean: holds, leaking: holds}.recorded() }

// compare makes a gate; op is one of ≤ < = > ≥.
func compare(name string, value float64, op string, bound float64, unit, doc string) leak.Gate {
	g := leak.Gate{Name: name, Value: value, Op: op, Bound: bound, Unit: unit, Doc: doc}
	switch op {
	case "≤":
		g.Holds = value <= bound
	case "<":
		g.Holds = value < bound
	case "=":
		g.Holds = value == bound
	case ">":
		g.Holds = value > bound
	case "≥":
		g.Holds = value >= bound
	}
	return g
}

// decide returns the outcome whose needs are all met. If no outcome has all its needs met, it returns the gate that
// keeps the likelier outcome from being decided. Leaking is the likelier outcome if side fails (the bound is exceeded),
// and clean if it holds. No gates decide nothing.
func decide(gates []gate, side string) (leak.Outcome, *gate) {
	clean := blocker(gates, func(g gate) need { return g.clean })
	leaking := blocker(gates, func(g gate) need { return g.leaking })
	switch {
	case len(gates) == 0:
		return leak.Inconclusive, nil
	case clean == nil:
		return leak.Clean, nil
	case leaking == nil:
		return leak.Leaking, nil
	case leaking.Name == side:
		return leak.Inconclusive, clean
	}
	return leak.Inconclusive, leaking
}

func blocker(gates []gate, of func(gate) need) *gate {
	for i, g := range gates {
		if !of(g).met(g.Gate) {
			return &gates[i]
		}
	}
	return nil
}

// settledGate is 1 where the snapshot was taken while goroutines were still falling.
func settledGate(name string, p leak.Point) leak.Gate {
	unsettled := 0.0
	if p.Unsettled {
		unsettled = 1
	}
	return compare(name, unsettled, "=", 0, "",
		"1 where the snapshot was still falling when the settle timeout ended: its values are upper bounds")
}
