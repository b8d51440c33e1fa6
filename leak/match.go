package leak

// Match is how much of a production profile the growing stacks of a run explain.
type Match struct {
	// Unit is "goroutines", or "bytes" for the heap.
	Unit string `json:"unit"`
	// Variant is the variant of the run that explains most. Variants are all that were compared.
	Variant  string           `json:"variant"`
	Variants []MatchedVariant `json:"variants,omitempty"`
	// Total is what stands in the production profile, Explained what of it is on stacks that grew in the run.
	Total     int64 `json:"total"`
	Explained int64 `json:"explained"`
	// Stacks are those that grew in the run, by how much of production they explain.
	Stacks []MatchedStack `json:"stacks"`
	// Unexplained are the other stacks of production, largest first.
	Unexplained []StackGrowth `json:"unexplained"`
	// Omitted counts the stacks that are omitted to limit the size of a page.
	Omitted int `json:"omitted,omitempty"`
}

// MatchedVariant is how much of the profile one variant explains.
type MatchedVariant struct {
	Variant   string `json:"variant"`
	Explained int64  `json:"explained"`
	// Problem is why the variant could not be compared, "" if it was.
	Problem string `json:"problem,omitempty"`
}

// MatchedStack is a stack that grew in the run, and what production has on it.
type MatchedStack struct {
	StackGrowth
	// Production is what stands on it there, Groups on how many different stacks.
	Production int64 `json:"production"`
	Groups     int   `json:"groups"`
}

// Share is the explained part, 0 of nothing.
func (m *Match) Share() float64 {
	if m.Total <= 0 {
		return 0
	}
	return float64(m.Explained) / float64(m.Total)
}
