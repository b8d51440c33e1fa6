// Command tsdb-open-corrupt opens a Prometheus database for every POST whose newest chunks are corrupt, as a program does
// that tries again after an error. In Prometheus before v0.314.0, an attempt that fails leaves the write-ahead log open.
package main

import (
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"

	"github.com/leakrig/leakrig/subjects/serve"
	"github.com/prometheus/prometheus/tsdb"
)

func main() {
	dir, err := corrupt()
	if err != nil {
		log.Fatalf("tsdb-open-corrupt: %v", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /open", func(w http.ResponseWriter, _ *http.Request) {
		if err := open(dir); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	serve.Main(mux)
	if err := os.RemoveAll(dir); err != nil {
		log.Fatalf("tsdb-open-corrupt: %v", err)
	}
}

// corrupt returns the folder of a database whose chunk files have a gap in their numbers.
func corrupt() (string, error) {
	dir, err := os.MkdirTemp("", "tsdb-open-corrupt-")
	if err != nil {
		return "", err
	}
	chunks := filepath.Join(dir, "chunks_head")
	if err := os.Mkdir(chunks, 0o700); err != nil {
		return "", err
	}
	for _, name := range []string{"000001", "000003"} {
		if err := os.WriteFile(filepath.Join(chunks, name), []byte("corrupt!"), 0o600); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// open expects that the database does not open, and removes the log that the attempt has written.
func open(dir string) error {
	options := tsdb.DefaultOptions()
	options.NoLockfile = true
	db, err := tsdb.Open(dir, slog.New(slog.DiscardHandler), nil, options, nil)
	if err == nil {
		_ = db.Close()
		return fmt.Errorf("the database in %s has opened", dir)
	}
	return os.RemoveAll(filepath.Join(dir, "wal"))
}
