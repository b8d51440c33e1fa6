// Command spdystream-close opens a SPDY connection over TLS for every POST, whose peer is gone when it closes, as the
// client of an exec does whose node fails. In spdystream before v0.4.0, a timer keeps the connection for ten minutes after
// an error of Close.
package main

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/leakrig/leakrig/subjects/serve"
	"github.com/moby/spdystream"
)

func main() {
	peer := httptest.NewTLSServer(http.HandlerFunc(reset))
	mux := http.NewServeMux()
	mux.HandleFunc("POST /connect", func(w http.ResponseWriter, _ *http.Request) {
		if err := connect(peer.Listener.Addr().String()); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	serve.Main(mux)
}

// reset ends the TCP connection without the end of TLS.
func reset(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	tcp := conn.(*tls.Conn).NetConn().(*net.TCPConn)
	_ = tcp.SetLinger(0)
	_ = tcp.Close()
}

// connect upgrades a connection, waits until the peer is gone, and closes.
func connect(address string) error {
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		return err
	}
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: peer\r\n\r\n")); err != nil {
		return err
	}
	c, err := spdystream.NewConnection(conn, false)
	if err != nil {
		return err
	}
	go c.Serve(spdystream.NoOpStreamHandler)
	select {
	case <-c.CloseChan():
	case <-time.After(10 * time.Second):
		return errors.New("the peer is still there")
	}
	_ = c.Close() // also fails
	if err := c.Wait(10 * time.Second); err == nil || errors.Is(err, spdystream.ErrTimeout) {
		return errors.Join(errors.New("the connection has closed without an error"), err)
	}
	return nil
}
