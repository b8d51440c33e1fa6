package checks

import "math"

// Simulations say what they say the more surely the more often they are repeated, and under the race detector
// every repetition costs ten times as much. So there are three sizes: all of it with -tags nightly (make
// simulate), a third of it in an ordinary test, a fifteenth under the race detector. Bounds that chance may
// touch are as tight as the size allows; what must never happen may not happen in any.

// trials is how many repetitions stand for that many of the full size.
func trials(full int) int { return max((full+share-1)/share, 1) }

// slack returns what to add to a bound on a share p, which holds at the full size, at n repetitions:
// three standard errors, less those of the full size.
func slack(p float64, n, full int) float64 {
	spread := p * (1 - p)
	return 3 * (math.Sqrt(spread/float64(n)) - math.Sqrt(spread/float64(full)))
}

// alarms is how many false alarms n runs may have: some three and a half standard errors above the mean of
// what the budget allows.
func alarms(n int) int {
	mean := falseAlarmBudget * float64(n)
	return int(mean + 3.4*math.Sqrt(mean) + 0.5)
}
