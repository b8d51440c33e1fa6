package profiles

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/leakrig/leakrig/leak"
)

// The runtime's leak profile, a subject that does not serve it, and one that serves something else there.
func TestLeaked(t *testing.T) {
	f := &profile.Function{ID: 1, Name: "main.leak", Filename: "main.go"}
	l := &profile.Location{ID: 1, Line: []profile.Line{{Function: f, Line: 7}}}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "goroutineleak", Unit: "count"}},
		Sample:     []*profile.Sample{{Value: []int64{3}, Location: []*profile.Location{l}}},
		Location:   []*profile.Location{l}, Function: []*profile.Function{f},
	}
	var raw bytes.Buffer
	if err := p.Write(&raw); err != nil {
		t.Fatal(err)
	}
	s := serve(t, answer(http.StatusOK, raw.Bytes()))
	r, err := (&Leaked{}).Sample(t.Context(), s.Target)
	if err != nil || r.Sample.Values["count"] != 3 || len(r.Sample.Groups[SourceLeaked]) != 1 || r.Files[0].Name != "goroutineleak.pb.gz" || r.Sample.Unavailable != "" {
		t.Errorf("%+v, %v", r, err)
	}
	if shot := parsed(t, raw.Bytes()); shot.Source != SourceLeaked || shot.Total() != 3 || shot.Unit() != "goroutines" {
		t.Errorf("%+v", shot)
	}
	s.allClosed(t)

	r, err = (&Leaked{}).Sample(t.Context(), serve(t, http.HandlerFunc(http.NotFound)).Target)
	if err != nil || r.Sample.Unavailable == "" || len(r.Sample.Values) != 0 || len(r.Sample.Groups) != 0 {
		t.Errorf("404: %+v, %v", r, err)
	}
	for name, h := range map[string]http.HandlerFunc{"a goroutine profile": answer(200, profileOf(t, "goroutine")), "garbage": answer(200, []byte("x")), "an error": answer(500, nil)} {
		if _, err := (&Leaked{}).Sample(t.Context(), serve(t, h).Target); err == nil || leak.Hint(err) == "" || !strings.Contains(err.Error(), "goroutineleak") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
