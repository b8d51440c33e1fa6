package load

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// replicas are servers that count; the last one answers with an error.
func replicas(t *testing.T, n int) (leak.Target, []*atomic.Int64) {
	target, counts := leak.Target{}, make([]*atomic.Int64, n)
	for i := range n {
		counts[i] = &atomic.Int64{}
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			counts[i].Add(1)
			if i == n-1 {
				w.WriteHeader(http.StatusTeapot)
			}
		}))
		t.Cleanup(s.Close)
		target.Replicas = append(target.Replicas, leak.Target{URL: s.URL, Transport: func() http.RoundTripper { return &http.Transport{} }})
	}
	target.URL, target.Transport = target.Replicas[0].URL, target.Replicas[0].Transport
	return target, counts
}

// Every replica gets each of its operations, and its own tally of them.
func TestPostReplicas(t *testing.T) {
	target, counts := replicas(t, 3)
	p := postKind.New().(*Post)
	p.Path, p.Times, p.Concurrency = "/", 11, 4
	tally, err := p.Run(t.Context(), target, 7)
	if err != nil {
		t.Fatal(err)
	}
	if tally.Attempted != 11 || tally.Failed != 3 || len(tally.Shares) != 3 {
		t.Fatalf("%+v", tally)
	}
	for i, want := range []int{4, 4, 3} {
		share := tally.Shares[i]
		if got := int(counts[i].Load()); got != want || share.Attempted != want || share.Succeeded+share.Failed != want || share.Latency.Max <= 0 || share.Seconds != tally.Seconds {
			t.Errorf("replica %d got %d operations, its tally is %+v", i, got, share)
		}
		if failed := i == 2; (share.Failed == want) != failed || (len(share.Errors) > 0) != failed {
			t.Errorf("replica %d: %+v", i, share)
		}
	}
}

// A program as the load finds the replica that is its turn in its environment.
func TestCommandReplicas(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	target := leak.Target{URL: "http://a", Replicas: []leak.Target{{URL: "http://a"}, {URL: "http://b"}}}
	tally := runCommand(t, command(func(c *Command) {
		c.Shell, c.Times, c.Operations = `echo "$OP $URL" >> `+out+`; test "$URL" = http://a`, 3, 10
	}), target, 21)
	data, err := os.ReadFile(out)
	if want := "21 http://a\n31 http://b\n41 http://a"; err != nil || strings.TrimSpace(string(data)) != want {
		t.Errorf("%s, %v", data, err)
	}
	var shares []int
	for _, s := range tally.Shares {
		shares = append(shares, s.Attempted, s.Succeeded, s.Failed)
	}
	if tally.Attempted != 30 || tally.Failed != 10 || !slices.Equal(shares, []int{20, 20, 0, 10, 0, 10}) || tally.Shares[1].Errors[0].Count != 10 {
		t.Errorf("%+v", tally)
	}
}
