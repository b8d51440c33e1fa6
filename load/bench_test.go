package load

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// A thousand operations of the post action, server included.
func BenchmarkPost(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	p := postKind.New().(*Post)
	p.Path, p.Times, p.Concurrency = "/work?id={{.Op}}", 1000, 20
	target := leak.Target{URL: server.URL, Transport: func() http.RoundTripper { return &http.Transport{MaxIdleConnsPerHost: p.Concurrency} }}
	b.ReportAllocs()
	for b.Loop() {
		if tally, err := p.Run(context.Background(), target, 1); err != nil || tally.Succeeded != p.Times {
			b.Fatal(tally, err)
		}
	}
}
