package checks

import (
	"math"
	"testing"
)

// Values from R's binom.test.
func TestShare(t *testing.T) {
	for _, c := range []struct {
		k, n      int
		low, high float64
	}{
		{20, 20, 0.8315665, 1}, {0, 20, 0, 0.1684335}, {19, 20, 0.7512672, 0.9987349}, {5, 10, 0.187086, 0.812914}, {1, 1, 0.025, 1},
	} {
		low, high := Share(c.k, c.n)
		if math.Abs(low-c.low) > 1e-6 || math.Abs(high-c.high) > 1e-6 {
			t.Errorf("%d of %d: %v to %v, want %v to %v", c.k, c.n, low, high, c.low, c.high)
		}
	}
}
