package reports

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
)

// TestAttackPages checks the pages of a run whose subject invents names and stacks. Every page is at most 20 MiB, is
// complete, and states that it omits stacks.
func TestAttackPages(t *testing.T) {
	name := strings.Repeat("<&>\"'", 800)
	huge := func(i int) leak.Stack {
		s := leak.Stack{State: "x" + name, Creator: &leak.Frame{Func: "c" + name, File: name}}
		for k := range 60 {
			s.Frames = append(s.Frames, leak.Frame{Func: fmt.Sprint("f", i, ".", k, name), File: name, Line: k})
		}
		return s
	}
	in := fixture()
	for i := range in.Verdict.Variants {
		v := &in.Verdict.Variants[i]
		v.Growing, v.HeapGrowing = nil, nil
		for k := range 20 {
			g := leak.StackGrowth{ID: fmt.Sprint(k), Probe: "goroutine", Stack: huge(k), To: int64(100 - k), PerOperation: 1}
			v.Growing, v.HeapGrowing = append(v.Growing, g), append(v.HeapGrowing, g)
		}
		for k := range v.Findings {
			v.Findings[k].Stacks = v.Growing
		}
	}
	whole := in.Verdict.Variants[0].Growing[0].Stack.Frames[0].Func
	for i := range in.Record.Variants {
		for id := range in.Record.Variants[i].Stacks {
			in.Record.Variants[i].Stacks[id] = huge(len(id))
		}
	}
	for _, f := range Formats() {
		var b bytes.Buffer
		if err := f.Render(&b, in); err != nil {
			t.Errorf("%s: %v", f.Name, err)
			continue
		}
		t.Logf("%s: %d KiB", f.Name, b.Len()>>10)
		if b.Len() > display.MaxOutput {
			t.Errorf("%s: %d bytes", f.Name, b.Len())
		}
		var err error
		switch f.Name {
		case "json":
			var r Report
			if err = json.Unmarshal(b.Bytes(), &r); err == nil && !strings.Contains(fmt.Sprint(r.Record.Warnings), "are cut") {
				t.Errorf("json: %q", r.Record.Warnings)
			}
		case "junit", "svg":
			d := xml.NewDecoder(&b)
			for err == nil {
				_, err = d.Token()
			}
			if err == io.EOF {
				err = nil
			}
		case "html":
			if !bytes.Contains(b.Bytes(), []byte("</html>")) {
				t.Error("html: it has no end")
			}
		}
		if err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
	if in.Verdict.Variants[0].Growing[0].Stack.Frames[0].Func != whole || len(in.Verdict.Variants[0].Growing) != 20 {
		t.Error("the input was changed")
	}
}
