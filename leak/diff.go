package leak

// Diff is what changed between two profiles.
type Diff struct {
	// Unit is "goroutines", or "bytes" for the heap.
	Unit string `json:"unit"`
	// Source is "dump", "profile" or "heap".
	Source string `json:"source"`
	// From and To are the totals.
	From int64 `json:"from"`
	To   int64 `json:"to"`
	// Operations is how many lay between the two, 0 where nobody said.
	Operations int `json:"operations,omitempty"`
	// Stacks are those that changed, largest growth first.
	Stacks []StackGrowth `json:"stacks"`
	// Same counts the stacks that did not change.
	Same int `json:"same"`
	// Omitted counts the stacks that changed least and are left out, where all would be larger than a page may be.
	Omitted int `json:"omitted,omitempty"`
}
