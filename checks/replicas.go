package checks

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/leakrig/leakrig/leak"
)

// worstReplica returns the worst verdict of several replicas, which are judged separately. Unmeasured is worst, then
// leaking, then undecided. Ties are broken by not as expected, then by the larger growth, then by order.
func worstReplica(all []leak.VariantVerdict) leak.VariantVerdict {
	if len(all) == 1 {
		return all[0]
	}
	worst := slices.MaxFunc(all, func(a, b leak.VariantVerdict) int { // the first of those that are alike
		return cmp.Or(
			cmp.Compare(replicaRank(&a), replicaRank(&b)),
			compareResults(a.Result, b.Result),
			cmp.Compare(excess(&a), excess(&b)))
	})
	worst.Replicas = all
	which := fmt.Sprintf("replica %d, the worst of %d", worst.Replica, len(all))
	if alike(all) {
		which = fmt.Sprintf("replica %d, as all %d", worst.Replica, len(all))
	}
	worst.Reason = which + ": " + worst.Reason
	return worst
}

func alike(all []leak.VariantVerdict) bool {
	return !slices.ContainsFunc(all, func(vv leak.VariantVerdict) bool { return vv.Outcome != all[0].Outcome || vv.Result != all[0].Result })
}

func replicaRank(vv *leak.VariantVerdict) int {
	switch {
	case vv.Result == leak.Unmeasured:
		return 3
	case vv.Outcome == leak.Leaking:
		return 2
	case vv.Outcome == leak.Inconclusive:
		return 1
	}
	return 0
}

func compareResults(a, b leak.Result) int {
	switch worst := leak.Worst(a, b); {
	case a == b:
		return 0
	case worst == a:
		return 1
	}
	return -1
}

// excess is how many times its bound the leading finding grows by, for telling which of two leaks more.
func excess(vv *leak.VariantVerdict) float64 {
	f := vv.Lead()
	if f == nil {
		return 0
	}
	grows := f.PerOperation
	if !f.BoundPerOperation {
		first, last := f.Ends()
		grows = last - first
	}
	return grows / max(f.Bound, 1e-9)
}
