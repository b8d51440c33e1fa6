package reports

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// dozen returns a run of twelve variants: leaky ones, and clean ones that all look alike.
func dozen() Input {
	in := fixture()
	for i := range 6 {
		vr, vv := in.Record.Variants[1], in.Verdict.Variants[1] // fixed
		vr.Name = fmt.Sprintf("release-%d", i)
		vv.Variant = vr.Name
		in.Record.Variants, in.Verdict.Variants = append(in.Record.Variants, vr), append(in.Verdict.Variants, vv)
		in.Record.Plan.Variants = append(in.Record.Plan.Variants, vr.Name)
		in.Scenario.Spec.Variants = append(in.Scenario.Spec.Variants, leak.Variant{Name: vr.Name, Expect: leak.ExpectClean})
	}
	return in
}

// TestVariantsAreRows checks that more than three variants are rows, that every variant is on the page once, and that
// identical outcomes are folded, but none that needs a look.
func TestVariantsAreRows(t *testing.T) {
	if rows, folded := newView(Input{Record: &leak.Record{Plan: leak.Plan{Variants: []string{"a", "b", "c"}}}}).variantRows(); rows != nil || folded != nil {
		t.Error("three variants have no cards")
	}
	in := dozen()
	in.Verdict.Variants[11].Result, in.Verdict.Variants[11].Outcome = leak.Undecided, leak.Inconclusive
	v := newView(in)
	rows, folded := v.variantRows()
	var shown, hidden []string
	for _, r := range rows {
		shown = append(shown, r.Name)
	}
	for _, f := range folded {
		for _, r := range f.Rows {
			hidden = append(hidden, r.Name)
			if r.Outcome() != leak.Clean || r.Verdict.Result != leak.Met {
				t.Errorf("%s is folded", r.Name)
			}
		}
	}
	if !slices.Equal(shown, []string{"leaky", "natural", "release-5"}) || len(hidden) != 9 {
		t.Errorf("shown %q, folded %q", shown, hidden)
	}
	page := render(t, "html", in)
	checkHTML(t, page)
	for _, x := range v.Variants {
		if n := strings.Count(page, `<th scope="row">`+x.Name+` <span class="word`); n != 1 {
			t.Errorf("%s has %d rows", x.Name, n)
		}
	}
	if strings.Contains(page, `class="cards"`) {
		t.Error("there are cards, too")
	}
}

// TestGateLadder checks that variants with the same outcome by the same gates share a ladder, that the decisive gate
// comes first, that every comparison of the record is on the page, and that ladders of gates that agree are closed.
func TestGateLadder(t *testing.T) {
	v := newView(dozen())
	for _, table := range v.gateTables() {
		seen := map[string]bool{}
		for _, l := range table.Ladders {
			for _, name := range l.Variants {
				if seen[name] {
					t.Errorf("%s: %s twice", table.Check, name)
				}
				seen[name] = true
			}
			for i, s := range l.Steps {
				if s.Decisive != (i == 0) && l.Steps[0].Decisive {
					t.Errorf("%s: gate %d of %s decides", table.Check, i, l.Names())
				}
			}
			against := slices.ContainsFunc(l.Steps, func(s gateStep) bool {
				return l.Outcome == leak.Leaking && s.Supports == leak.SupportsClean || l.Outcome == leak.Clean && s.Supports == leak.SupportsLeak
			})
			if l.Open != (against || l.Outcome == leak.Inconclusive) {
				t.Errorf("%s, %s: open %t", table.Check, l.Names(), l.Open)
			}
		}
		for i, c := range table.Cells {
			if c.Finding == nil {
				continue
			}
			for _, g := range c.Finding.Gates {
				found := false
				for _, l := range table.Ladders {
					if !slices.Contains(l.Variants, v.Variants[i].Name) {
						continue
					}
					for _, s := range l.Steps {
						for _, cell := range s.Cells {
							named := cell.Variants == "" || slices.Contains(strings.Split(cell.Variants, ", "), v.Variants[i].Name)
							found = found || s.Name == g.Name && s.Supports == g.Supports && cell.Text == comparison(g) && named
						}
					}
				}
				if !found {
					t.Errorf("%s of %s: gate %s is missing", table.Check, v.Variants[i].Name, g.Name)
				}
			}
		}
	}
	for _, c := range []struct {
		outcome      leak.Outcome
		agree, other int
		want         string
	}{
		{leak.Leaking, 2, 0, "2 gates support a leak, none rules it out"},
		{leak.Clean, 1, 3, "1 gate rules it out, 3 gates support a leak"},
		{leak.Inconclusive, 2, 1, "2 gates leave it open"},
	} {
		if got := agreement(c.outcome, c.agree, c.other); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
	first := v.gateTables()[0]
	if len(first.Ladders) > 4 || !strings.Contains(first.Ladders[1].Names(), "fixed, ") || !strings.Contains(first.Ladders[1].Names(), "release-5") {
		t.Errorf("%d ladders, the second of %s", len(first.Ladders), first.Ladders[1].Names())
	}
}
