package holders

// dominate computes immediate dominators and retained sizes of all reached nodes with the semi-NCA algorithm:
// Georgiadis, Linear-Time Algorithms for Dominators and Related Problems, 2005. It needs no more than O(m log n) steps
// for linked lists of any length, unlike the iteration of Cooper, Harvey and Kennedy.
//
// The arrays of a large heap decide how much memory leakrig needs, so dominate keeps few of them at a time. While it runs,
// edges of reached nodes point to preorder numbers.
func (g *graph) dominate() {
	idom := g.dominatorNumbers()
	n := len(g.order)
	for _, node := range g.order {
		for e, end := g.out(node); e < end; e++ {
			if to := g.targets[e]; to != none {
				g.targets[e] = g.order[to]
			}
		}
	}
	nodes := len(g.edges) - 1
	g.retained = make([]uint32, nodes)
	g.idom = make([]uint32, nodes)
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

// dominatorNumbers fills g.order and returns the number of each node's immediate dominator.
func (g *graph) dominatorNumbers() []uint32 {
	parent, idom, label := g.depthFirst()
	n := len(g.order)
	copy(idom, parent)
	ends, preds := g.predecessors(parent)
	label = label[:n]
	for i := range label {
		label[i] = uint32(i)
	}
	var stack []uint32
	// eval returns the smallest label on the path from v up to the part of the tree that is not yet linked.
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
	semi := ends[1:] // the row of i is read before semi[i] overwrites its end
	for i := n - 1; i > 0; i-- {
		s := idom[i]
		for _, p := range preds[ends[i]:ends[i+1]] {
			s = min(s, eval(p, uint32(i)+1))
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
	return idom
}

// predecessors returns rows of predecessors by number, without the parents in the depth-first tree. The row of node i is
// preds[ends[i]:ends[i+1]].
func (g *graph) predecessors(parent []uint32) (ends, preds []uint32) {
	ends = make([]uint32, len(g.order)+1)
	for from, node := range g.order {
		for e, end := g.out(node); e < end; e++ {
			if to := g.targets[e]; to != none && parent[to] != uint32(from) {
				ends[to]++
			}
		}
	}
	total := uint32(0)
	for i := range ends {
		total += ends[i]
		ends[i] = total
	}
	preds = make([]uint32, total)
	for from, node := range g.order {
		for e, end := g.out(node); e < end; e++ {
			if to := g.targets[e]; to != none && parent[to] != uint32(from) {
				ends[to]--
				preds[ends[to]] = uint32(from)
			}
		}
	}
	return ends, preds
}

// depthFirst fills g.order and replaces the targets of reached nodes with preorder numbers. It returns the parent of each
// number in the depth-first tree, and two arrays of at least the same length for reuse.
func (g *graph) depthFirst() (parent, cursor, number []uint32) {
	number = make([]uint32, len(g.edges)-1)
	for i := range number {
		number[i] = none
	}
	g.order = append(make([]uint32, 0, g.reached+1), g.super)
	parent = append(make([]uint32, 0, g.reached+1), 0)
	cursor = append(make([]uint32, 0, g.reached+1), g.edges[g.super]) // the next edge of a node
	number[g.super] = 0
	for at := uint32(0); ; {
		edge := cursor[at]
		if edge == g.edges[g.order[at]+1] {
			if at == 0 {
				return parent, cursor, number
			}
			at = parent[at]
			continue
		}
		cursor[at]++
		to := g.targets[edge]
		if to == none {
			continue
		}
		if number[to] != none {
			g.targets[edge] = number[to]
			continue
		}
		next := uint32(len(g.order))
		number[to], g.targets[edge] = next, next
		g.order = append(g.order, to)
		parent = append(parent, at)
		cursor = append(cursor, g.edges[to])
		at = next
	}
}
