package reports

import (
	"cmp"
	"fmt"
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

// held describes who holds the objects of an allocation site, and what the goroutines of a stack hold.
func (x variant) held(g leak.StackGrowth, unit string) []string {
	h := x.Verdict.Holders
	if h == nil || g.Probe != "" {
		return nil
	}
	var lines []string
	if unit != stackUnit(true) {
		for _, r := range h.Goroutines {
			if r.Stack == g.ID {
				lines = append(lines, fmt.Sprintf("%s hold %s of heap, %s each", display.Value(float64(r.Count), "goroutines")+" goroutines",
					display.Value(r.Bytes, "bytes"), display.Value(math.Round(r.Bytes/float64(max(r.Count, 1))), "bytes")))
			}
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
	Sites []leak.Held
}

// Grew is the growth of the holder, or of one of its sites.
func (holder) Grew(bytes float64) string { return display.Delta(math.Round(bytes), "bytes") }

// Holders are the holders that gained most, largest first.
func (x variant) Holders() []holder {
	if x.Verdict.Holders == nil {
		return nil
	}
	var all []holder
	at := map[string]int{}
	for _, held := range x.Verdict.Holders.Growth {
		i, ok := at[held.Holder]
		if !ok {
			i, at[held.Holder] = len(all), len(all)
			all = append(all, holder{Name: held.Holder})
		}
		all[i].Bytes += held.Bytes
		all[i].Sites = append(all[i].Sites, held)
	}
	slices.SortStableFunc(all, func(a, b holder) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return all[:min(len(all), variantHolders)]
}

// NoHolders says why a leak of memory has no holders, "" if it has or needs none.
func (x variant) NoHolders() string {
	if h := x.Verdict.Holders; h != nil && h.Problem != "" && x.leadProbe() == "heap" {
		return "holders are unknown: " + h.Problem
	}
	return ""
}
