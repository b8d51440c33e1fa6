package load

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// Pods of the tests' API server run from the start, or never.
func init() { podsTimeout = 2 * time.Second }

// kubelet serves execs as a kubelet does, or as the API server in front of it: the upgrades and their
// protocols are upstream's, the programs are a few words. It is the far side of the action's tests.
type kubelet struct {
	mu    sync.Mutex
	execs []execRequest
	// hanging counts the programs that hang, over ends them.
	hanging int
	over    chan struct{}
}

// execRequest is an exec as it arrived.
type execRequest struct {
	path, container, protocol string
	command                   []string
	tty                       bool
}

// channels of an exec.
type channels struct{ stdin, stdout, stderr, status io.ReadWriteCloser }

func (k *kubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	request := execRequest{path: r.URL.Path, container: q.Get("container"), command: q["command"], tty: given(q.Get("tty"))}
	if request.protocol = protocolSPDY; wsstream.IsWebSocketRequest(r) {
		request.protocol = protocolWebSocket
	}
	k.mu.Lock()
	k.execs = append(k.execs, request)
	k.mu.Unlock()
	switch request.command[0] {
	case "never-upgraded":
		k.hang()
		return
	case "refused":
		http.Error(w, "no exec here", http.StatusForbidden)
		return
	case "hang-up":
		panic(http.ErrAbortHandler)
	}
	hasStdin, hasStderr := given(q.Get("stdin")) || given(q.Get("input")), given(q.Get("stderr")) || given(q.Get("error"))
	streams, done, err := accept(w, r, request.protocol, hasStdin, hasStderr && !request.tty, request.tty)
	if err != nil {
		return
	}
	defer done()
	k.program(request.command, streams)
}

// seen are the execs so far.
func (k *kubelet) seen() []execRequest {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.execs)
}

func (k *kubelet) hang() {
	k.mu.Lock()
	k.hanging++
	k.mu.Unlock()
	<-k.over
}

func given(s string) bool { return s == "1" || s == "true" }

// program runs one of the words that this kubelet knows.
func (k *kubelet) program(command []string, s channels) {
	exit := 0
	switch command[0] {
	case "hang":
		k.hang()
		return
	case "half": // the output is there, the end never comes
		fmt.Fprintln(s.stdout, "half")
		k.hang()
		return
	case "flood": // more than anyone keeps
		for range 3000 {
			fmt.Fprintln(s.stdout, strings.Repeat("x", 99))
		}
		fmt.Fprintln(s.stdout, "the end")
	case "silent":
	case "say":
		fmt.Fprintln(s.stdout, strings.Join(command[1:], " "))
	case "cat":
		_, _ = io.Copy(s.stdout, s.stdin)
	case "fail":
		fmt.Fprintf(s.stderr, "usage:\n%s: no such thing\n\n", command[1])
		exit = 3
	}
	status := metav1.Status{Status: metav1.StatusSuccess}
	if exit != 0 {
		status = metav1.Status{Status: metav1.StatusFailure, Reason: remotecommand.NonZeroExitCodeReason, Details: &metav1.StatusDetails{
			Causes: []metav1.StatusCause{{Type: remotecommand.ExitCodeCauseType, Message: fmt.Sprint(exit)}},
		}}
	}
	_ = json.NewEncoder(s.status).Encode(status)
}

func accept(w http.ResponseWriter, r *http.Request, protocol string, hasStdin, hasStderr, hasTTY bool) (c channels, done func(), err error) {
	if protocol == protocolWebSocket {
		conn := wsstream.NewConn(map[string]wsstream.ChannelProtocolConfig{remotecommand.StreamProtocolV5Name: {Binary: true, Channels: []wsstream.ChannelType{
			wsstream.ReadChannel, wsstream.WriteChannel, wsstream.WriteChannel, wsstream.WriteChannel, wsstream.ReadChannel,
		}}})
		_, all, err := conn.Open(w, r)
		if err != nil {
			return c, nil, err
		}
		return channels{all[0], all[1], all[2], all[3]}, func() { conn.Close() }, nil
	}
	if _, err := httpstream.Handshake(r, w, []string{remotecommand.StreamProtocolV5Name, remotecommand.StreamProtocolV4Name}); err != nil {
		return c, nil, err
	}
	want := []string{corev1.StreamTypeError, corev1.StreamTypeStdout}
	if hasStdin {
		want = append(want, corev1.StreamTypeStdin)
	}
	if hasStderr {
		want = append(want, corev1.StreamTypeStderr)
	}
	if hasTTY {
		want = append(want, corev1.StreamTypeResize)
	}
	arrived := make(chan httpstream.Stream, 5)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, replied <-chan struct{}) error {
		go func() { // the reply is sent once this function has returned
			<-replied
			arrived <- s
		}()
		return nil
	})
	if conn == nil {
		return c, nil, io.ErrUnexpectedEOF
	}
	for len(want) > 0 {
		select {
		case s := <-arrived:
			kind := s.Headers().Get(corev1.StreamType)
			want = slices.DeleteFunc(want, func(w string) bool { return w == kind })
			switch kind {
			case corev1.StreamTypeStdin:
				c.stdin = s
			case corev1.StreamTypeStdout:
				c.stdout = s
			case corev1.StreamTypeStderr:
				c.stderr = s
			case corev1.StreamTypeError:
				c.status = s
			}
		case <-time.After(10 * time.Second):
			conn.Close()
			return c, nil, io.ErrUnexpectedEOF
		}
	}
	return c, func() {
		// If frames of the other side are unread when the connection closes, it may be reset, and the last message is
		// lost.
		select {
		case <-conn.CloseChan():
		case <-time.After(time.Second):
		}
		conn.Close()
	}, nil
}
