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
	// Operations is the number of operations between the two profiles, 0 if unknown.
	Operations int `json:"operations,omitempty"`
	// Stacks are those that changed, largest growth first.
	Stacks []StackGrowth `json:"stacks"`
	// Same counts the stacks that did not change.
	Same int `json:"same"`
	// Omitted counts the stacks with the smallest changes that are omitted to limit the size of a page.
	Omitted int `json:"omitted,omitempty"`
}
