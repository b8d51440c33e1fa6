package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
	"github.com/leakrig/leakrig/leak/httpclient"
)

// TestAttackCounterRedirect checks that a redirected metrics page is an error with the redirect's address, and that
// leakrig does not follow it.
func TestAttackCounterRedirect(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the other server was asked") }))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL+"/metrics", http.StatusPermanentRedirect))
	defer server.Close()
	_, err := readCounter(t.Context(), Target{
		Metrics: server.URL, Subject: leak.Target{Transport: func() http.RoundTripper { return &http.Transport{} }},
	}, "requests")
	var redirect *httpclient.RedirectError
	if !errors.As(err, &redirect) || redirect.To != other.URL+"/metrics" || leak.Hint(err) == "" {
		t.Errorf("%v", err)
	}
}

// TestAttackVerdict checks that the record, the verdict and its page stay bounded for any data of a fleet's targets.
func TestAttackVerdict(t *testing.T) {
	v := &Verdict{Outcome: leak.Leaking}
	name := strings.Repeat("<&>\"", 1000)
	for i := range 400 {
		sv := StackVerdict{Leaking: 64, Stack: &leak.Stack{State: "x", Frames: []leak.Frame{{Func: fmt.Sprint(i, name), File: name}}}}
		for range 64 {
			sv.Targets = append(sv.Targets, Growth{Target: "a", Counts: make([]int32, 120), Seconds: make([]float64, 120)})
		}
		v.Stacks = append(v.Stacks, sv)
	}
	data, err := JSON(v)
	if err != nil || len(data) > display.MaxOutput {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	var back Verdict
	if err := json.Unmarshal(data, &back); err != nil || len(back.Stacks) == 0 || len(back.Warnings) != 1 || !strings.Contains(back.Warnings[0], "of 400 stacks are omitted") {
		t.Errorf("%v: %d stacks, %q", err, len(back.Stacks), back.Warnings)
	}
	var page strings.Builder
	if err := HTML(&page, v); err != nil || page.Len() > display.MaxOutput || !strings.Contains(page.String(), "</html>") {
		t.Errorf("%d bytes, %v", page.Len(), err)
	}

	var record Record
	stacks := newInterned(&record.Stacks)
	for i := range 2 * maxInterned {
		s := leak.Stack{Frames: []leak.Frame{{Func: fmt.Sprint(i, name)}}}
		stacks.counts(leak.Poll{Groups: []leak.Group{{Stack: s.ID(), Count: 1}, {Count: 5}}, Stacks: map[string]leak.Stack{s.ID(): s}})
	}
	text := 0
	for _, s := range record.Stacks {
		text += len(s.Frames[0].Func)
	}
	if text > maxStackText || text < maxStackText/2 {
		t.Errorf("%d stacks, %d bytes of names", len(record.Stacks), text)
	}
	if n := stacks.counts(leak.Poll{Groups: []leak.Group{{Count: 5}}}); len(n) != 1 || n[0].stack != Other || n[0].n != 5 {
		t.Errorf("goroutines that were not counted one by one: %v", n)
	}
}
