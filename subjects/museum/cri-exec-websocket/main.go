// Command cri-exec-websocket serves an exec over WebSocket, as a CRI runtime does, to a client whose handshake is not
// valid. In containerd before v1.7.21, the handler of the request waits for a connection that never comes.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"

	"github.com/containerd/containerd/pkg/cri/streaming"
	"github.com/leakrig/leakrig/subjects/serve"
	"k8s.io/client-go/tools/remotecommand"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func main() {
	server, err := streaming.NewServer(streaming.DefaultConfig, container{})
	if err != nil {
		log.Fatalf("cri-exec-websocket: %v", err)
	}
	listener := httptest.NewServer(server).Listener
	mux := http.NewServeMux()
	mux.HandleFunc("POST /exec", func(w http.ResponseWriter, _ *http.Request) {
		if err := execute(server, listener.Addr().String()); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	serve.Main(mux)
}

// container runs no command.
type container struct{}

var errStart = errors.New("no such command")

func (container) Exec(string, []string, io.Reader, io.WriteCloser, io.WriteCloser, bool, <-chan remotecommand.TerminalSize) error {
	return errStart
}

func (container) Attach(string, io.Reader, io.WriteCloser, io.WriteCloser, bool, <-chan remotecommand.TerminalSize) error {
	return errStart
}

func (container) PortForward(string, int32, io.ReadWriteCloser) error {
	return errStart
}

// execute asks for an exec over WebSocket without a key, and expects that the server refuses it.
func execute(server streaming.Server, address string) error {
	answer, err := server.GetExec(&runtime.ExecRequest{ContainerId: "container", Cmd: []string{"none"}, Stdout: true})
	if err != nil {
		return err
	}
	target, err := url.Parse(answer.Url)
	if err != nil {
		return err
	}
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: node\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", target.RequestURI()); err != nil {
		return err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusBadRequest {
		return fmt.Errorf("status %d", response.StatusCode)
	}
	return nil
}
