package reports

import (
	"bytes"
	"encoding/json"
	"slices"
)

// speedscopeFile is the file format of https://www.speedscope.app.
type speedscopeFile struct {
	Schema   string `json:"$schema"`
	Exporter string `json:"exporter"`
	Name     string `json:"name"`
	Active   int    `json:"activeProfileIndex"`
	Shared   struct {
		Frames []speedscopeFrame `json:"frames"`
	} `json:"shared"`
	Profiles []speedscopeProfile `json:"profiles"`
}

type speedscopeFrame struct {
	Name string `json:"name"`
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
}

// speedscopeProfile has a stack of frame numbers, outermost first, and a weight for each sample.
type speedscopeProfile struct {
	Type    string  `json:"type"`
	Name    string  `json:"name"`
	Unit    string  `json:"unit"`
	Start   int64   `json:"startValue"`
	End     int64   `json:"endValue"`
	Samples [][]int `json:"samples"`
	Weights []int64 `json:"weights"`
}

// speedscope writes the changes with two profiles for each variant and metric: the stacks that grew and those that
// shrank, because weights cannot be negative.
func speedscope(b *bytes.Buffer, v view) error {
	file := speedscopeFile{
		Schema: "https://www.speedscope.app/file-format-schema.json", Exporter: "leakrig " + v.Record.Leakrig, Name: v.Name(),
		Profiles: []speedscopeProfile{},
	}
	file.Shared.Frames = []speedscopeFrame{}
	at := map[speedscopeFrame]int{}
	number := func(f speedscopeFrame) int {
		i, known := at[f]
		if !known {
			i, at[f] = len(file.Shared.Frames), len(file.Shared.Frames)
			file.Shared.Frames = append(file.Shared.Frames, f)
		}
		return i
	}
	leader, _ := v.lead()
	for _, x := range v.Variants {
		s := x.flameSubject()
		for _, m := range s.sources() {
			list, _ := s.changes(m.Probe, m.Source, m.Amount)
			if x.Name == leader.Name && m.Probe == s.Lead && file.Active == 0 {
				file.Active = len(file.Profiles)
			}
			for _, sign := range []struct {
				name string
				of   int64
			}{{"grew", 1}, {"shrank", -1}} {
				p := speedscopeProfile{Type: "sampled", Name: x.Name + ": " + m.Name + ", " + sign.name, Unit: "none"}
				if m.Unit == "bytes" {
					p.Unit = "bytes"
				}
				for _, c := range list {
					weight := c.delta() * sign.of
					if weight <= 0 {
						continue
					}
					p.Samples, p.Weights = append(p.Samples, c.numbers(number)), append(p.Weights, weight)
					p.End += weight
				}
				if len(p.Samples) > 0 {
					file.Profiles = append(file.Profiles, p)
				}
			}
		}
	}
	file.Active = min(file.Active, max(len(file.Profiles)-1, 0))
	data, err := json.Marshal(file)
	if err != nil {
		return err
	}
	b.Write(data)
	return b.WriteByte('\n')
}

// numbers returns the frames, outermost first. The innermost has the wait state, as in the flame graphs of a page.
func (c stackChange) numbers(number func(speedscopeFrame) int) []int {
	out := []int{}
	for i, f := range slices.Backward(c.Stack.Frames) {
		name := f.Func
		if i == 0 && c.Stack.State != "" {
			name += " [" + c.Stack.State + "]"
		}
		out = append(out, number(speedscopeFrame{name, f.File, f.Line}))
	}
	return out
}
