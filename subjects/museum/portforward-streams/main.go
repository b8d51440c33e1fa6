// Command portforward-streams opens a connection through one port forwarder for every POST, as `kubectl port-forward`
// does that runs for days. In client-go before v0.26.0, the SPDY connection keeps both streams of every connection.
//
// The kubelet's end of the SPDY connection is a second process of this program, so that its streams do not count.
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
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/leakrig/leakrig/subjects/serve"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/apimachinery/pkg/util/httpstream/spdy"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	clientspdy "k8s.io/client-go/transport/spdy"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "kubelet" {
		server := httptest.NewServer(http.HandlerFunc(kubelet))
		fmt.Println(server.URL)
		select {}
	}
	address, err := forward()
	if err != nil {
		log.Fatalf("portforward-streams: %v", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /connect", func(w http.ResponseWriter, _ *http.Request) {
		if err := connect(address); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	serve.Main(mux)
}

// connect sends a message to the pod and reads it back.
func connect(address string) error {
	conn, err := net.DialTimeout("tcp", address, 10*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	const message = "hello"
	if _, err := io.WriteString(conn, message); err != nil {
		return err
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	answer, err := io.ReadAll(conn)
	if err == nil && string(answer) != message {
		err = fmt.Errorf("got %q, want %q", answer, message)
	}
	return err
}

// forward starts the kubelet and a port forwarder to it, and returns the local address.
func forward() (string, error) {
	upstream, err := startKubelet()
	if err != nil {
		return "", err
	}
	transport, upgrader, err := clientspdy.RoundTripperFor(&rest.Config{Host: upstream.Host})
	if err != nil {
		return "", err
	}
	dialer := clientspdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, upstream)
	ready := make(chan struct{})
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{"0:80"}, nil, ready, io.Discard, os.Stderr)
	if err != nil {
		return "", err
	}
	failed := make(chan error, 1)
	go func() { failed <- forwarder.ForwardPorts() }()
	select {
	case err := <-failed:
		return "", errors.Join(err, errors.New("the forwarder has ended"))
	case <-ready:
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("127.0.0.1:%d", ports[0].Local), nil
}

// startKubelet starts the other process, which ends with this one.
func startKubelet() (*url.URL, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "kubelet")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return nil, err
	}
	return url.Parse(line[:len(line)-1])
}

// kubelet takes the streams of a port forwarder and echoes the data of each connection.
func kubelet(w http.ResponseWriter, r *http.Request) {
	if _, err := httpstream.Handshake(r, w, []string{portforward.PortForwardProtocolV1Name}); err != nil {
		return
	}
	streams := make(chan httpstream.Stream, 1)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		streams <- s
		return nil
	})
	if conn == nil {
		return
	}
	defer conn.Close()
	waiting := map[string]httpstream.Stream{} // streams for errors, by connection
	for {
		select {
		case s := <-streams:
			id := s.Headers().Get(corev1.PortForwardRequestIDHeader)
			if s.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
				waiting[id] = s
				continue
			}
			errorStream := waiting[id]
			delete(waiting, id)
			go func() {
				_, _ = io.Copy(s, s)
				s.Close()
				errorStream.Close()
				conn.RemoveStreams(s, errorStream)
			}()
		case <-conn.CloseChan():
			return
		}
	}
}
