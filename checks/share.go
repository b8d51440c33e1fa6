package checks

import "math"

// Share returns the exact 95 % confidence interval of a probability with k successes in n trials (Clopper and
// Pearson, "The use of confidence or fiducial limits", Biometrika 26, 1934).
func Share(k, n int) (low, high float64) {
	const tail = 0.025
	low, high = 0, 1
	if k > 0 {
		low = bisect(func(p float64) bool { return 1-binomialAtMost(k-1, n, p) >= tail })
	}
	if k < n {
		high = bisect(func(p float64) bool { return binomialAtMost(k, n, p) <= tail })
	}
	return low, high
}

// binomialAtMost is the probability of at most k successes in n trials.
func binomialAtMost(k, n int, p float64) float64 {
	sum := 0.0
	for i := 0; i <= k; i++ {
		a, _ := math.Lgamma(float64(n + 1))
		b, _ := math.Lgamma(float64(i + 1))
		c, _ := math.Lgamma(float64(n - i + 1))
		sum += math.Exp(a - b - c + float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
	}
	return sum
}

// bisect is where above turns true, between 0 and 1.
func bisect(above func(p float64) bool) float64 {
	low, high := 0.0, 1.0
	for range 60 {
		if mid := (low + high) / 2; above(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}
