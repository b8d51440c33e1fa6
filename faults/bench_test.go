//go:build bench

package faults

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// BenchmarkLink measures a request of 64 KiB directly, and through a proxy that no fault disturbs.
func BenchmarkLink(b *testing.B) {
	direct := subject(b).URL
	l, err := Open(strings.TrimPrefix(direct, "http://"))
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	for name, url := range map[string]string{"direct": direct, "proxy": "http://" + l.Address()} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				resp, err := http.Get(url)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil {
					b.Fatal(err)
				}
				resp.Body.Close()
			}
		})
	}
}
