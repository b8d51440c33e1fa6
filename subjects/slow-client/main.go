// Command slow-client is a chat server whose clients vanish: they upload half a message, or open a WebSocket and end the
// connection without a close frame.
//
// The server is written against nhooyr.io/websocket v1.8.10, which closes a connection when a read from it fails.
// v1.8.11 does not (coder/websocket#445): its timeoutLoop runs until the program itself closes the connection, and the
// handler of a client that is gone has no reason to.
package main

import (
	"context"
	"io"
	"net/http"

	"github.com/leakrig/leakrig/subjects/serve"
	"nhooyr.io/websocket"
)

func main() {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /message", func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	})
	mux.HandleFunc("GET /socket", socket)
	serve.Main(mux)
}

// socket echoes messages until the client is gone.
func socket(w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // Accept has answered
	}
	ctx := context.Background() // that of the request ends with the hijack only when the handler returns
	if err := c.Write(ctx, websocket.MessageText, []byte("welcome")); err != nil {
		return
	}
	for {
		kind, message, err := c.Read(ctx)
		if err != nil {
			return
		}
		if err := c.Write(ctx, kind, message); err != nil {
			return
		}
	}
}
