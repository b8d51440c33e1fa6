// Command calls is both ends of one ttrpc connection, as containerd and a shim are: every POST to /call is one
// call of some KiB that takes a moment and is answered with more.
package main

import (
	"bytes"
	"context"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/containerd/ttrpc"
	"github.com/gogo/protobuf/types"
	"github.com/leakrig/leakrig/subjects/serve"
)

// Sizes and times of the incident's own calls, in bytes.
const (
	request  = 4 << 10
	response = 64 << 10
	work     = 50 * time.Millisecond
)

func main() {
	client, err := connect()
	if err != nil {
		log.Fatalf("calls: %v", err)
	}
	payload := bytes.Repeat([]byte("x"), request)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /call", func(w http.ResponseWriter, _ *http.Request) {
		var out types.BytesValue
		// Without a deadline, as containerd calls its shims.
		if err := client.Call(context.Background(), "shim.Task", "Exec", &types.BytesValue{Value: payload}, &out); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	serve.Main(mux)
}

func connect() (*ttrpc.Client, error) {
	dir, err := os.MkdirTemp("", "calls-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) // an open connection does not need its name
	l, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		return nil, err
	}
	server, err := ttrpc.NewServer()
	if err != nil {
		return nil, err
	}
	answer := bytes.Repeat([]byte("y"), response)
	server.Register("shim.Task", map[string]ttrpc.Method{
		"Exec": func(_ context.Context, unmarshal func(any) error) (any, error) {
			var in types.BytesValue
			if err := unmarshal(&in); err != nil {
				return nil, err
			}
			time.Sleep(work)
			return &types.BytesValue{Value: answer}, nil
		},
	})
	go func() { _ = server.Serve(context.Background(), l) }()
	conn, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		return nil, err
	}
	return ttrpc.NewClient(conn), nil
}
