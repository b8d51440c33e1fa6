package reports

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
)

// Most holders of an allocation site, and of a variant, that a report lists.
const (
	siteHolders    = 3
	variantHolders = 12
)

// leastHeld is the share of all growth from which a report lists a holder.
const leastHeld = 0.01

// held describes who holds the objects of an allocation site, and what the goroutines of a stack hold.
func (x variant) held(g leak.StackGrowth, unit string) []string {
	h := x.Verdict.Holders.Of(g.Probe)
	if h == nil {
		return nil
	}
	var lines []string
	if unit != stackUnit(true) {
		for _, r := range h.Goroutines {
			if r.Stack == g.ID {
				lines = append(lines, fmt.Sprintf("%s hold %s of heap, %s each", count(r.Count, "goroutine"), display.Value(r.Bytes, "bytes"), display.Value(r.Each(), "bytes")))
			}
		}
		if sites := x.sitesOf(g); len(sites) > 0 {
			lines = append(lines, "of this, "+allocated(sites, len(x.Verdict.HeapGrowing)))
		}
		return lines
	}
	for _, held := range h.Growth {
		if held.Stack == g.ID && len(lines) < siteHolders {
			lines = append(lines, heldBy(held))
		}
	}
	return lines
}

// mostlyHeld is the share of an allocation site's growth from which the site belongs to the goroutines that hold it.
const mostlyHeld = 0.9

// sitesOf returns the allocation sites whose growth the goroutines of a growing stack hold.
func (x variant) sitesOf(g leak.StackGrowth) []leak.StackGrowth {
	return slices.DeleteFunc(slices.Clone(x.Verdict.HeapGrowing), func(site leak.StackGrowth) bool {
		return component(site) != component(g) || x.heldByGoroutines(site) != g.ID
	})
}

// heldByGoroutines returns the ID of the growing goroutine stack that holds the growth of an allocation site, or "".
func (x variant) heldByGoroutines(site leak.StackGrowth) string {
	h := x.Verdict.Holders.Of(site.Probe)
	if h == nil || site.Fingerprint || leak.ProbeKind(x.leadProbe()) == "heap" {
		return ""
	}
	for _, held := range h.Growth {
		if held.Stack == site.ID && held.Share >= mostlyHeld && held.Goroutines != "" &&
			slices.ContainsFunc(x.Verdict.Growing, func(g leak.StackGrowth) bool {
				return g.ID == held.Goroutines && component(g) == component(site)
			}) {
			return held.Goroutines
		}
	}
	return ""
}

// heapApart returns the growing allocation sites that do not belong to a growing goroutine stack.
func (x variant) heapApart() []leak.StackGrowth {
	return slices.DeleteFunc(x.Heap(), func(site leak.StackGrowth) bool { return x.heldByGoroutines(site) != "" })
}

// allocated is "+12.1 KiB per operation allocated at json.(*Decoder).refill (encoding/json/stream.go:161) and 18 more
// sites of the 20 largest".
func allocated(sites []leak.StackGrowth, of int) string {
	sum := 0.0
	for _, site := range sites {
		sum += site.PerOperation
	}
	at := sites[0].Stack.Place()
	text := fmt.Sprintf("%s allocated at %s (%s)", perOperation(sum, stackUnit(true)), at.Short(), at.Position())
	if more := len(sites) - 1; more > 0 {
		text += fmt.Sprintf(" and %s of the %d largest", count(more, "more site"), of)
	}
	return text
}

// heldBy is "97 % held by main.registry: main.registry (map[string]*main.Order) → *main.Order.items".
func heldBy(held leak.Held) string {
	text := fmt.Sprintf("%.0f %% held by %s", 100*held.Share, held.Holder)
	if held.Path != "" && held.Path != held.Holder {
		text += ": " + held.Path
	}
	return text
}

// holder is what one holder has gained, with the allocation sites.
type holder struct {
	Name  string
	Bytes float64
	Sites []heldSite
}

// Grew formats the growth of the holder.
func (h holder) Grew() string { return display.Delta(math.Round(h.Bytes), "bytes") }

type heldSite struct{ leak.Held }

// Grew formats the growth of the site that this holder holds.
func (s heldSite) Grew() string { return display.Delta(math.Round(s.Bytes), "bytes") }

// Part is "97 % of the growth of this site", "" for all of it.
func (s heldSite) Part() string {
	if s.Share > 0.995 {
		return ""
	}
	return fmt.Sprintf("%.0f %% of the growth of this site", 100*s.Share)
}

// Shown reports whether the path adds something to the name of the holder.
func (s heldSite) Shown() bool { return s.Path != "" && s.Path != s.Holder }

// WhoHolds returns the holders that gained most, largest first, without those that gained less than leastHeld of all.
func (x variant) WhoHolds() []holder {
	h := x.Verdict.Holders
	if h == nil {
		return nil
	}
	var list []holder
	at, sum := map[string]int{}, 0.0
	add := func(prefix string, growth []leak.Held) {
		for _, held := range growth {
			name := prefix + held.Holder
			i, ok := at[name]
			if !ok {
				i, at[name] = len(list), len(list)
				list = append(list, holder{Name: name})
			}
			list[i].Bytes += held.Bytes
			list[i].Sites = append(list[i].Sites, heldSite{held})
			sum += max(held.Bytes, 0)
		}
	}
	add("", h.Growth)
	for _, name := range slices.Sorted(maps.Keys(h.Components)) {
		add(name+": ", h.Components[name].Growth)
	}
	list = slices.DeleteFunc(list, func(h holder) bool { return h.Bytes < leastHeld*sum || h.Bytes <= 0 })
	slices.SortStableFunc(list, func(a, b holder) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return list[:min(len(list), variantHolders)]
}

// NoHolders says why a leak of memory has no holders, "" if it has or needs none.
func (x variant) NoHolders() string {
	if h := x.Verdict.Holders.Of(x.leadProbe()); h != nil && h.Problem != "" && leak.ProbeKind(x.leadProbe()) == "heap" {
		return "holders are unknown: " + h.Problem
	}
	return ""
}
