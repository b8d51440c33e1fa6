// Command fasthttp-fslock serves a new file, compressed, for every POST, as a server of generated files does. In
// fasthttp before v1.72.0, the file system handler keeps a mutex and a name for every file that it has compressed.
package main

import (
	"bytes"
	"fmt"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/leakrig/leakrig/subjects/serve"
	"github.com/valyala/fasthttp"
)

func main() {
	root, err := os.MkdirTemp("", "fasthttp-fslock-")
	if err != nil {
		log.Fatalf("fasthttp-fslock: %v", err)
	}
	files := &fasthttp.FS{Root: root, Compress: true, CacheDuration: 100 * time.Millisecond}
	handler := files.NewRequestHandler()
	var last atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("POST /get", func(w http.ResponseWriter, _ *http.Request) {
		if err := get(handler, root, fmt.Sprintf("%09d.txt", last.Add(1))); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	serve.Main(mux)
	if err := os.RemoveAll(root); err != nil {
		log.Fatalf("fasthttp-fslock: %v", err)
	}
}

// get writes a file, requests it compressed, and deletes it.
func get(handler fasthttp.RequestHandler, root, name string) error {
	path := filepath.Join(root, name)
	if err := os.WriteFile(path, bytes.Repeat([]byte("compressible "), 100), 0o600); err != nil {
		return err
	}
	defer os.Remove(path)
	defer os.Remove(path + fasthttp.FSCompressedFileSuffix)

	var request fasthttp.Request
	request.SetRequestURI("/" + name)
	request.Header.Set("Accept-Encoding", "gzip")
	var ctx fasthttp.RequestCtx
	ctx.Init(&request, nil, nil)
	handler(&ctx)
	ctx.Response.Body() // reads and closes the file
	if status, encoding := ctx.Response.StatusCode(), ctx.Response.Header.ContentEncoding(); status != http.StatusOK || string(encoding) != "gzip" {
		return fmt.Errorf("GET %s: status %d, encoding %q", name, status, encoding)
	}
	return nil
}
