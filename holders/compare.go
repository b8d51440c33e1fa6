package holders

import (
	"cmp"
	"slices"
	"strings"

	"github.com/leakrig/leakrig/leak"
)

// Growth is what one holder has gained of one allocation site between two dumps.
type Growth struct {
	// Frames are the allocation stack, as in Site.
	Frames []leak.Frame `json:"frames"`
	// Holding is the holding in the second dump, with the growth of its Objects, Bytes and Sampled. Share is the part of
	// the site's growth.
	Holding
	// Before is the number of goroutines, timers or finalizers of the first holder in the first dump.
	Before int `json:"before,omitempty"`
}

// Compare returns what grew between two dumps of one process, by allocation stack and holder, largest first.
func Compare(baseline, last *Summary) []Growth {
	type before struct {
		bytes, objects float64
		sampled, count int
	}
	old := map[string]before{}
	for _, s := range baseline.Sites {
		for _, h := range s.Holdings {
			key := siteKey(s.Frames) + h.key()
			b := old[key]
			b.bytes, b.objects, b.sampled = b.bytes+h.Bytes, b.objects+h.Objects, b.sampled+h.Sampled
			if len(h.Holders) > 0 {
				b.count = h.Holders[0].Count
			}
			old[key] = b
		}
	}
	var out []Growth
	for _, s := range last.Sites {
		first := len(out)
		total := 0.0
		for _, h := range s.Holdings {
			key := siteKey(s.Frames) + h.key()
			b := old[key]
			delete(old, key)
			g := Growth{Frames: s.Frames, Holding: h, Before: b.count}
			g.Bytes -= b.bytes
			g.Objects -= b.objects
			g.Sampled -= b.sampled
			if g.Bytes > 0 {
				total += g.Bytes
				out = append(out, g)
			}
		}
		for i := first; i < len(out); i++ {
			out[i].Share = out[i].Bytes / total
		}
	}
	slices.SortStableFunc(out, func(x, y Growth) int { return cmp.Compare(y.Bytes, x.Bytes) })
	return out
}

// key identifies the holders of a holding in dumps of one process.
func (h Holding) key() string {
	var names []string
	for _, holder := range h.Holders {
		names = append(names, holder.Kind+" "+holder.Name+" "+holder.Creator)
	}
	slices.Sort(names)
	return strings.Join(names, "\n")
}
