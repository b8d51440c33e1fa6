// Package holders answers who keeps memory of a Go process reachable. It reads the heap dump that
// runtime/debug.WriteHeapDump writes, builds the graph of objects and their roots, and computes dominators. Allocation
// samples lead from allocation stacks to objects, and dominators lead from objects to their holders.
//
// A dump contains the memory of the process, and maybe secrets. Read discards the contents while it parses and keeps
// addresses of pointers only. A Summary has names, types, counts and bytes, and is the only result that may be stored.
package holders
