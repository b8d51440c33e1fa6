package reports

import (
	"slices"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
)

// checkRow is a row of the growth table: the findings of one check in every variant.
type checkRow struct {
	Check, Kind  string
	Series, Unit string
	Bound        string
	PerOperation bool
	Fingerprint  bool
	// Cells are in the order of the variants in the view.
	Cells []checkCell
}

// InAll reports whether the findings of the row are about total growth.
func (r checkRow) InAll() bool {
	return slices.ContainsFunc(r.Cells, func(c checkCell) bool { return c.InAll() })
}

// checkCell is the finding of a check in one variant. Finding is nil if the check did not run.
type checkCell struct {
	Variant string
	Finding *leak.Finding
}

// checkRows returns the table that all formats draw, with a row per check and a column per variant.
func (v view) checkRows() []checkRow {
	var rows []checkRow
	for i, x := range v.Variants {
		for _, f := range x.Verdict.Findings {
			k := slices.IndexFunc(rows, func(r checkRow) bool { return r.Check == f.Check })
			if k < 0 {
				k, rows = len(rows), append(rows, v.newRow(f))
			}
			rows[k].Fingerprint = rows[k].Fingerprint || f.Fingerprint
			rows[k].Cells[i].Finding = &f
		}
	}
	return rows
}

func (v view) newRow(f leak.Finding) checkRow {
	r := checkRow{Check: f.Check, Kind: f.Kind, Series: f.Series, Unit: f.Unit, Bound: bound(f), PerOperation: f.BoundPerOperation}
	for _, x := range v.Variants {
		r.Cells = append(r.Cells, checkCell{Variant: x.Name})
	}
	return r
}

// growthColumns returns the checks for a table of at most max columns: the fingerprint first, and each series once,
// by the check that bounds it per operation.
func (v view) growthColumns(max int) []checkRow {
	rows := v.rankedRows()
	seen := map[string]bool{}
	rows = slices.DeleteFunc(rows, func(r checkRow) bool {
		twice := r.Series != "" && seen[r.Series]
		seen[r.Series] = true
		return twice
	})
	rows, _ = head(rows, max)
	return rows
}

// rankedRows returns the checks, most important first.
func (v view) rankedRows() []checkRow {
	rows := v.checkRows()
	slices.SortStableFunc(rows, func(a, b checkRow) int { return a.rank() - b.rank() })
	return rows
}

// Figure returns the check to show for a variant if there is room for only one: the one that decided, else its
// fingerprint, a leaking check, an inconclusive one, or the first.
func (v view) Figure(x variant) *checkCell {
	var best *checkCell
	most := -1
	for _, row := range v.rankedRows() {
		for _, c := range row.Cells {
			if c.Variant != x.Name || c.Finding == nil {
				continue
			}
			rank := 0
			lead := x.Verdict.Lead()
			switch {
			case lead != nil && c.Finding.Check == lead.Check: // the rest of the page is about this one
				rank = 4
			case c.Finding.Fingerprint:
				rank = 3
			case c.Finding.Outcome == leak.Leaking:
				rank = 2
			case c.Finding.Outcome == leak.Inconclusive:
				rank = 1
			}
			if rank > most {
				best, most = &c, rank
			}
		}
	}
	return best
}

func (r checkRow) rank() int {
	switch {
	case r.Fingerprint:
		return 0
	case r.PerOperation:
		return 1
	}
	return 2
}

// Title returns the series that the check judged, or the name of the check if it judged stacks.
func (r checkRow) Title() string {
	if r.Series != "" {
		return r.Series
	}
	return r.Check
}

// Growth returns the growth per operation, or "–" with fewer than two rounds. It returns a total such as "+1 in
// total" if the check judges sudden growth, for which a rate is meaningless.
func (c checkCell) Growth() string {
	if c.Finding == nil || len(rounds(c.Finding.Points)) < 2 {
		return "–"
	}
	if c.InAll() {
		return c.gained()
	}
	return rate(c.Finding.PerOperation, c.Finding.Unit)
}

// InAll reports whether a rate is meaningless.
func (c checkCell) InAll() bool { return c.Finding.InAll() }

// Change returns the growth of the series from the baseline to the last round: "+140 in total".
func (c checkCell) Change() string {
	if c.Finding == nil || c.InAll() || len(rounds(c.Finding.Points)) < 2 {
		return ""
	}
	return c.gained()
}

func (c checkCell) gained() string {
	points := rounds(c.Finding.Points)
	return display.Delta(points[len(points)-1].Value-points[0].Value, c.Finding.Unit) + " in total"
}

// Interval returns the 95 % interval of Growth, or "" if none was computed.
func (c checkCell) Interval() string {
	f := c.Finding
	if f == nil || c.InAll() || f.Low == f.High {
		return ""
	}
	return "(" + rate(f.Low, f.Unit) + " to " + rate(f.High, f.Unit) + ")"
}
