package holders

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// graphOf returns a graph of roots without objects. Its last node is the super root.
func graphOf(edges [][]uint32) *graph {
	g := &graph{dump: &dump{}, super: uint32(len(edges) - 1)}
	for _, to := range edges {
		g.edges = append(g.edges, uint32(len(g.targets)))
		g.targets = append(g.targets, to...)
	}
	g.edges = append(g.edges, uint32(len(g.targets)))
	return g
}

// reachedWithout returns the nodes that the super root reaches when one node is removed.
func reachedWithout(g *graph, removed uint32) []bool {
	seen := make([]bool, len(g.edges)-1)
	if removed == g.super {
		return seen
	}
	seen[g.super] = true
	for queue := []uint32{g.super}; len(queue) > 0; queue = queue[1:] {
		for e, end := g.out(queue[0]); e < end; e++ {
			if to := g.targets[e]; to != none && to != removed && !seen[to] {
				seen[to] = true
				queue = append(queue, to)
			}
		}
	}
	return seen
}

func TestDominatorsOfRandomGraphs(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		n := 2 + random.IntN(14)
		edges := make([][]uint32, n)
		for i := range edges {
			for range random.IntN(4) {
				to := uint32(random.IntN(n))
				if random.IntN(8) == 0 || to == uint32(n-1) {
					to = none
				}
				edges[i] = append(edges[i], to)
			}
		}
		g := graphOf(edges)
		g.dominate()
		reached := reachedWithout(g, none)
		for v := range uint32(n) {
			var dominators []uint32 // of v, by the idom links
			for d := g.idom[v]; d != none; d = g.idom[d] {
				dominators = append(dominators, d)
			}
			var want []uint32
			for d := range uint32(n) {
				if d != v && reached[v] && reached[d] && !reachedWithout(g, d)[v] {
					want = append(want, d)
				}
			}
			slices.Sort(dominators)
			if !slices.Equal(dominators, want) {
				t.Fatalf("dominators of %d in %v: %v, want %v", v, edges, dominators, want)
			}
		}
	}
}

// TestDominatorsOfRings checks that doubly linked lists take no quadratic time.
func TestDominatorsOfRings(t *testing.T) {
	const n = 300_000
	edges := make([][]uint32, n+1)
	for i := range uint32(n) {
		edges[i] = []uint32{(i + 1) % n, (i + n - 1) % n}
	}
	edges[n] = []uint32{0}
	g := graphOf(edges)
	g.dominate()
	for i := 1; i < n; i++ {
		if g.idom[i] != 0 {
			t.Fatalf("the dominator of node %d is %d, want the head", i, g.idom[i])
		}
	}
}
