package reports

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/leakrig/leakrig/leak"
)

// svgFrames limits the picture, which people paste into issues.
const svgFrames = 1200

// svgFile is the picture for an issue. It shows the changes in the most important variant, with a panel per metric.
// It has no style sheet, because most sites remove them.
type svgFile struct {
	Title, Subtitle string
	Height          int
	Panels          []svgPanel
}

type svgPanel struct {
	Name, Summary string
	Y             int
	Flame         flame
}

func svg(b *bytes.Buffer, v view) error {
	const head, foot, panel = 62, 16, 52
	f := svgFile{Title: v.Name(), Height: head}
	if x, ok := v.lead(); ok {
		f.Title += ", " + x.Name
		f.Subtitle = fmt.Sprintf("%s · after %s · red grew, blue shrank, ◆ fingerprint", x.Outcome(), count(x.Operations(), "operation"))
		metrics := newFlameSet(x.flameSubject(), x.Name, svgFrames).Metrics
		// The graph of the leak comes first, for a heap leak the graph of its bytes.
		slices.SortStableFunc(metrics, func(a, b flameMetric) int { return lead(b) - lead(a) })
		for _, m := range metrics {
			whole := m.Views[0]
			if m.Unit == "objects" || len(whole.Frames) == 0 {
				continue // objects are on the same stacks as bytes
			}
			f.Panels = append(f.Panels, svgPanel{m.Name, whole.Summary, f.Height, whole.flame})
			f.Height += panel + whole.Height
		}
	}
	if len(f.Panels) == 0 {
		f.Subtitle = strings.TrimPrefix(f.Subtitle+" · no stack changed, or none was taken", " · ")
	}
	f.Height += foot
	var picture bytes.Buffer
	if err := pageTemplate.ExecuteTemplate(&picture, "flame-file", f); err != nil {
		return err
	}
	b.Write(plainPlus(picture.Bytes()))
	return nil
}

func lead(m flameMetric) int {
	if m.Lead {
		return 1
	}
	return 0
}

// lead returns the most important variant: the first that shows its fingerprint, else the first that leaks, else the
// first.
func (v view) lead() (variant, bool) {
	best, rank := variant{}, -1
	for _, x := range v.Variants {
		r := 0
		if x.Verdict.Outcome == leak.Leaking {
			r = 1
			for _, f := range x.Verdict.Findings {
				if f.Fingerprint && f.Outcome == leak.Leaking {
					r = 2
				}
			}
		}
		if r > rank {
			best, rank = x, r
		}
	}
	return best, rank >= 0
}
