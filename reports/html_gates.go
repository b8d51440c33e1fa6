package reports

import (
	"fmt"
	"slices"
	"strings"

	"github.com/leakrig/leakrig/leak"
)

// gateTable shows all gates of one check, with a ladder for each outcome.
type gateTable struct {
	checkRow
	Open    bool
	Ladders []gateLadder
}

// gateLadder lists the gates of a check for the variants with the same outcome by the same gates, the decisive gate
// first.
type gateLadder struct {
	Variants []string
	Outcome  leak.Outcome
	// Summary is that of the first variant.
	Summary string
	// Agree says how many gates support the outcome, and how many the other one. Open is set if they do not agree.
	Agree string
	Open  bool
	Steps []gateStep
}

// Names lists the variants.
func (l gateLadder) Names() string { return strings.Join(l.Variants, ", ") }

// gateStep is a gate with its comparison in the column of what it means.
type gateStep struct {
	// Doc is "" if an earlier ladder explains the gate.
	Name, Doc string
	Decisive  bool
	Supports  leak.Supports
	// Cells are the comparisons, each with its variants.
	Cells []gateCell
}

// gateCell is a comparison. Variants is "" if all variants of the ladder have it.
type gateCell struct{ Text, Variants string }

// Leak and Clean are the cells of a column, and Neither those of both.
func (s gateStep) Leak() bool { return s.Supports == leak.SupportsLeak }

// Clean reports whether the gate rules a leak out.
func (s gateStep) Clean() bool { return s.Supports == leak.SupportsClean }

// gateTables returns a table per check. The first is open, and so is every check that keeps a variant from its
// expectation.
func (v view) gateTables() []gateTable {
	var tables []gateTable
	explained := map[string]bool{} // explained earlier on this page
	for _, row := range v.rankedRows() {
		t := gateTable{checkRow: row, Open: len(tables) == 0}
		var keys []string
		byKey := map[string][]checkCell{}
		for i, c := range row.Cells {
			if c.Finding == nil {
				continue
			}
			t.Open = t.Open || v.Variants[i].Against(*c.Finding)
			key := gateKey(c.Finding)
			if byKey[key] == nil {
				keys = append(keys, key)
			}
			byKey[key] = append(byKey[key], c)
		}
		for _, key := range keys {
			t.Ladders = append(t.Ladders, newLadder(byKey[key], explained))
		}
		tables = append(tables, t)
	}
	return tables
}

// gateKey is equal for findings with the same outcome by the same gates.
func gateKey(f *leak.Finding) string {
	key := f.Outcome.String()
	for _, g := range f.Gates {
		key += "\n" + g.Name + "\t" + string(g.Supports)
	}
	return key
}

func newLadder(cells []checkCell, explained map[string]bool) gateLadder {
	first := cells[0].Finding
	l := gateLadder{Outcome: first.Outcome, Summary: first.Summary}
	for _, c := range cells {
		l.Variants = append(l.Variants, c.Variant)
	}
	want := map[leak.Outcome]leak.Supports{leak.Leaking: leak.SupportsLeak, leak.Clean: leak.SupportsClean, leak.Inconclusive: leak.Undecides}[first.Outcome]
	agree, other := 0, 0
	for i, g := range first.Gates {
		s := gateStep{Name: g.Name, Supports: g.Supports}
		if !explained[g.Name+": "+g.Doc] {
			s.Doc = g.Doc
		}
		explained[g.Name+": "+g.Doc] = true
		var texts []string
		for _, c := range cells {
			texts = append(texts, comparison(c.Finding.Gates[i]))
		}
		for _, text := range unique(slices.Clone(texts)) {
			cell := gateCell{Text: text}
			var of []string
			for k, c := range cells {
				if texts[k] == text {
					of = append(of, c.Variant)
				}
			}
			if len(of) < len(cells) {
				cell.Variants = strings.Join(of, ", ")
			}
			s.Cells = append(s.Cells, cell)
		}
		switch g.Supports {
		case want:
			agree++
		case leak.SupportsLeak, leak.SupportsClean:
			other++
		}
		l.Steps = append(l.Steps, s)
	}
	if k := slices.IndexFunc(l.Steps, func(s gateStep) bool { return s.Supports == want }); k >= 0 {
		decisive := l.Steps[k]
		decisive.Decisive = true
		l.Steps = slices.Insert(slices.Delete(l.Steps, k, k+1), 0, decisive)
	}
	if len(first.Gates) > 0 {
		l.Agree = agreement(first.Outcome, agree, other)
	}
	l.Open = other > 0 || first.Outcome == leak.Inconclusive
	return l
}

// agreement is "2 gates support a leak, none rules it out". Gates that allow both outcomes do not count.
func agreement(o leak.Outcome, agree, other int) string {
	say := func(n int, one, many string) string {
		switch n {
		case 0:
			return "none " + one
		case 1:
			return "1 gate " + one
		}
		return fmt.Sprintf("%d gates %s", n, many)
	}
	leaks := func(n int) string { return say(n, "supports a leak", "support a leak") }
	clean := func(n int) string { return say(n, "rules it out", "rule it out") }
	switch o {
	case leak.Leaking:
		return leaks(agree) + ", " + clean(other)
	case leak.Clean:
		return clean(agree) + ", " + leaks(other)
	}
	return say(agree, "leaves it open", "leave it open")
}

// crowded is the number of variants above which they are rows of a table instead of cards.
const crowded = 3

// variantRow is a variant as a row, with a cell for each check.
type variantRow struct {
	variant
	Cells   []checkCell
	Culprit *culprit
}

// foldedVariants are variants with the same outcome that nobody has to look at: clean, as expected.
type foldedVariants struct {
	Rows []variantRow
}

// Names lists the variants.
func (f foldedVariants) Names() string {
	var names []string
	for _, r := range f.Rows {
		names = append(names, r.Name)
	}
	return strings.Join(names, ", ")
}

// variantRows returns the variants as rows, those to look at first: leaking, then undecided. Two or more clean ones
// that are as expected are folded. It returns nothing for few variants, which have cards.
func (v view) variantRows() (rows []variantRow, folded []foldedVariants) {
	if len(v.Variants) <= crowded {
		return nil, nil
	}
	checks := v.rankedRows()
	var clean []variantRow
	for i, x := range v.Variants {
		r := variantRow{variant: x, Culprit: v.Culprit(x)}
		for _, c := range checks {
			r.Cells = append(r.Cells, c.Cells[i])
		}
		if x.Outcome() == leak.Clean && x.Verdict.Result == leak.Met && x.Record.Failure == nil && len(x.Replicas()) == 0 {
			clean = append(clean, r)
			continue
		}
		rows = append(rows, r)
	}
	rank := func(r variantRow) int {
		switch {
		case r.Verdict.Result == leak.NotMet:
			return 0
		case r.Outcome() == leak.Leaking:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(rows, func(a, b variantRow) int { return rank(a) - rank(b) })
	if len(clean) > 1 {
		return rows, []foldedVariants{{clean}}
	}
	return append(rows, clean...), nil
}

// variantTable is a table of variants as rows.
type variantTable struct {
	Name string
	Page page
	Rows []variantRow
}

func newVariantTable(name string, p page, rows []variantRow) variantTable {
	return variantTable{name, p, rows}
}

// Columns is the number of columns.
func (t variantTable) Columns() int { return 1 + len(t.Page.Checks) }
