package checks

import "github.com/leakrig/leakrig/leak"

// Sampling by time instead of by rounds uses the same statistics.

// FalseAlarmBudget is the probability that a look at software in which nothing grows calls it leaking by
// chance, all its tests together.
const FalseAlarmBudget = falseAlarmBudget

// Compare makes a gate; op is one of ≤ < = > ≥.
func Compare(name string, value float64, op string, bound float64, unit, doc string) leak.Gate {
	return compare(name, value, op, bound, unit, doc)
}
