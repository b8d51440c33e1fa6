// Command cri-exec-resize serves an exec with a terminal, as a CRI runtime does, whose command fails to start. In
// containerd before v1.6.12, the goroutine that has received the size of the terminal waits for a command that never reads
// it.
package main

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"time"

	"github.com/containerd/containerd/pkg/cri/streaming"
	"github.com/leakrig/leakrig/subjects/serve"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func main() {
	server, err := streaming.NewServer(streaming.DefaultConfig, container{})
	if err != nil {
		log.Fatalf("cri-exec-resize: %v", err)
	}
	listener := httptest.NewServer(server)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /exec", func(w http.ResponseWriter, _ *http.Request) {
		if err := execute(server, listener.URL); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	serve.Main(mux)
}

// container runs no command.
type container struct{}

var errStart = errors.New("no such command")

func (container) Exec(string, []string, io.Reader, io.WriteCloser, io.WriteCloser, bool, <-chan remotecommand.TerminalSize) error {
	time.Sleep(20 * time.Millisecond) // as a runtime that looks for the command
	return errStart
}

func (container) Attach(string, io.Reader, io.WriteCloser, io.WriteCloser, bool, <-chan remotecommand.TerminalSize) error {
	return errStart
}

func (container) PortForward(string, int32, io.ReadWriteCloser) error { return errStart }

// size is the size of a terminal, which the client sends once.
type size chan remotecommand.TerminalSize

func (s size) Next() *remotecommand.TerminalSize {
	first, ok := <-s
	if !ok {
		return nil
	}
	return &first
}

// execute runs a command with a terminal and expects that it does not start.
func execute(server streaming.Server, base string) error {
	answer, err := server.GetExec(&runtime.ExecRequest{ContainerId: "container", Cmd: []string{"none"}, Tty: true, Stdin: true, Stdout: true})
	if err != nil {
		return err
	}
	target, err := url.Parse(answer.Url)
	if err != nil {
		return err
	}
	target.Scheme, target.Host = "http", strings.TrimPrefix(base, "http://")
	executor, err := remotecommand.NewSPDYExecutor(&rest.Config{}, http.MethodPost, target)
	if err != nil {
		return err
	}
	terminal := make(size, 1)
	terminal <- remotecommand.TerminalSize{Width: 80, Height: 24}
	close(terminal)
	err = executor.Stream(remotecommand.StreamOptions{Stdin: strings.NewReader(""), Stdout: io.Discard, Tty: true, TerminalSizeQueue: terminal})
	if err == nil || !strings.Contains(err.Error(), errStart.Error()) {
		return fmt.Errorf("exec: %v, want %w", err, errStart)
	}
	return nil
}
