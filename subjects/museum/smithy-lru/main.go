// Command smithy-lru renews the credentials of 50 buckets for every POST, as the client of S3 Express does every five
// minutes. In smithy-go before v1.25.1, the cache keeps an element for each value that it has replaced.
package main

import (
	"fmt"
	"net/http"
	"sync"

	"github.com/aws/smithy-go/container/private/cache"
	"github.com/aws/smithy-go/container/private/cache/lru"
	"github.com/leakrig/leakrig/subjects/serve"
)

func main() {
	c := &credentials{buckets: lru.New(100)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /renew", func(w http.ResponseWriter, _ *http.Request) {
		if err := c.renew(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	serve.Main(mux)
}

type credentials struct {
	mu       sync.Mutex
	renewals int
	buckets  cache.Cache
}

// renew replaces the token of every bucket and reads it back.
func (c *credentials) renew() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.renewals++
	for bucket := range 50 {
		c.buckets.Put(bucket, c.renewals)
		if token, ok := c.buckets.Get(bucket); !ok || token != c.renewals {
			return fmt.Errorf("bucket %d has token %v, want %d", bucket, token, c.renewals)
		}
	}
	return nil
}
