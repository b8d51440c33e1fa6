package holders

// dominate computes immediate dominators and retained sizes of all reached nodes with the semi-NCA algorithm:
// Georgiadis, Linear-Time Algorithms for Dominators and Related Problems, 2005. It needs no more than O(m log n) steps
// for linked lists of any length, unlike the iteration of Cooper, Harvey and Kennedy.
func (g *graph) dominate() {
	nodes := len(g.edges) - 1
	number := make([]uint32, nodes) // preorder number of a node, from 1; 0 is unreached
	parent := g.depthFirst(number)  // both in preorder numbers from 0
	n := len(g.order)

	// Predecessors of the node with number i are preds[predEnd[i-1]:predEnd[i]], in preorder numbers.
	predEnd := make([]uint32, n+1)
	g.eachReached(number, func(_, to uint32) { predEnd[to]++ })
	total := uint32(0)
	for i := range predEnd {
		total += predEnd[i]
		predEnd[i] = total
	}
	preds := make([]uint32, total)
	g.eachReached(number, func(from, to uint32) {
		predEnd[to]--
		preds[predEnd[to]] = from
	})

	semi := make([]uint32, n)
	label := make([]uint32, n)
	idom := make([]uint32, n)
	for i := range n {
		semi[i], label[i], idom[i] = uint32(i), uint32(i), parent[i]
	}
	var stack []uint32
	// eval returns the smallest label on the path from v up to, without, the tree's part that is not yet linked.
	eval := func(v, linked uint32) uint32 {
		if v < linked || parent[v] < linked {
			return label[v]
		}
		stack = stack[:0]
		for parent[v] >= linked {
			stack = append(stack, v)
			v = parent[v]
		}
		for i := len(stack) - 1; i >= 0; i-- {
			w := stack[i]
			label[w] = min(label[w], label[parent[w]])
			parent[w] = parent[v]
		}
		return label[stack[0]]
	}
	for i := uint32(n) - 1; i > 0 && n > 1; i-- {
		s := idom[i]
		for _, p := range preds[predEnd[i]:predEnd[i+1]] {
			s = min(s, eval(p, i+1))
		}
		semi[i], label[i] = s, s
	}
	for i := 1; i < n; i++ {
		d := idom[i]
		for d > semi[i] {
			d = idom[d]
		}
		idom[i] = d
	}
	g.retained = make([]uint32, nodes)
	g.idom = number // reused: the numbers are in the order already
	for i := range g.idom {
		g.idom[i] = none
	}
	for i := n - 1; i > 0; i-- {
		node, above := g.order[i], g.order[idom[i]]
		g.idom[node] = above
		g.retained[node] += g.words(node)
		g.retained[above] += g.retained[node]
	}
}

// depthFirst fills the preorder numbers and g.order. It returns the parent of each number in the depth-first tree.
func (g *graph) depthFirst(number []uint32) (parent []uint32) {
	type visit struct{ number, edge uint32 }
	g.order = append(g.order, g.super)
	parent = append(parent, 0)
	number[g.super] = 1
	stack := []visit{{0, g.edges[g.super]}}
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		if top.edge == g.edges[g.order[top.number]+1] {
			stack = stack[:len(stack)-1]
			continue
		}
		to := g.targets[top.edge]
		top.edge++
		if to == none || number[to] != 0 {
			continue
		}
		next := uint32(len(g.order))
		number[to] = next + 1
		g.order = append(g.order, to)
		parent = append(parent, top.number)
		stack = append(stack, visit{next, g.edges[to]})
	}
	return parent
}

// eachReached calls f with the preorder numbers of both ends of each edge between reached nodes.
func (g *graph) eachReached(number []uint32, f func(from, to uint32)) {
	for i, node := range g.order {
		for e, end := g.out(node); e < end; e++ {
			if to := g.targets[e]; to != none {
				f(uint32(i), number[to]-1)
			}
		}
	}
}
