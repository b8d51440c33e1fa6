package profiles

import (
	"bytes"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/leakrig/leakrig/rundir"
)

// A secret in a label or a comment of a profile is taken out; its stacks and counts stay, and a file without any is
// not touched.
func TestAttackLabels(t *testing.T) {
	f := &profile.Function{ID: 1, Name: "main.samples", SystemName: "main.samples", Filename: "main.go"}
	l := &profile.Location{ID: 1, Line: []profile.Line{{Function: f, Line: 7}}}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "goroutine", Unit: "count"}}, Function: []*profile.Function{f}, Location: []*profile.Location{l},
		Sample:   []*profile.Sample{{Location: []*profile.Location{l}, Value: []int64{42}, Label: map[string][]string{"token": {"planted-1"}}}},
		Comments: []string{"planted-1 was here"},
	}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	same, err := Clean("x/goroutine.pb.gz", b.Bytes(), rundir.Secrets{"another"})
	if err != nil || !bytes.Equal(same, b.Bytes()) {
		t.Errorf("it was touched: %v", err)
	}
	clean, err := Clean("x/goroutine.pb.gz", b.Bytes(), rundir.Secrets{"planted-1", "main.samples", "goroutine"})
	if err != nil {
		t.Fatal(err)
	}
	plain, err := gunzip(clean, maxProfile)
	if err != nil || bytes.Contains(plain, []byte("planted")) {
		t.Errorf("%v: %q", err, plain)
	}
	got, err := parsePprof(clean)
	if err != nil || got.Sample[0].Value[0] != 42 || got.Function[0].Name != "main.samples" || got.SampleType[0].Type != "goroutine" {
		t.Errorf("%v: %v", err, got)
	}
}
