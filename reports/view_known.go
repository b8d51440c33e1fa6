package reports

import (
	"github.com/leakrig/leakrig/catalogue"
	"github.com/leakrig/leakrig/leak"
)

// leastKnown is the growth of a stack from which it is called a known leak: less can be chance.
const leastKnown = 3

// knownLeak returns the known leak that a stack of a leaking variant belongs to, nil if there is none.
func (x variant) knownLeak(g leak.StackGrowth, unit string) *catalogue.Match {
	if x.Verdict.Outcome != leak.Leaking || g.To-g.From < leastKnown {
		return nil
	}
	return catalogue.Known(g.Stack, unit == stackUnit(true), x.Record.Binary(g.Probe))
}

// known returns "known leak: kubernetes/kubernetes#98653, fixed in k8s.io/apimachinery v0.21.0", or "" if the stack is
// unknown.
func (x variant) known(g leak.StackGrowth, unit string) string {
	if m := x.knownLeak(g, unit); m != nil {
		return m.Sentence()
	}
	return ""
}
