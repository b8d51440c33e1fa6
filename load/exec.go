package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	spdyclient "k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/transport/websocket"
	"k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/leakrig/leakrig/leak"
)

var execKind = leak.Kind[leak.Action]{
	Name: "exec",
	Doc: "Runs a command in a pod per operation, as kubectl exec does, each on its own connection. " +
		"{{.Op}} in command and stdin is the number of the operation, unique within a variant. Several pods are used in turn. " +
		"It does not fall back to another protocol, so that variants get the same load: operations fail if the API server does not support it (websocket: before v1.30).",
	New: func() leak.Action { return &Exec{Protocol: protocolWebSocket, pace: defaultPace()} },
}

// Protocols between leakrig and the API server; kubelet and containerd see SPDY in either case.
const (
	protocolWebSocket = "websocket"
	protocolSPDY      = "spdy"
)

// Exec runs commands in pods.
type Exec struct {
	Command   []string `yaml:"command" doc:"program and arguments, without a shell"`
	podsOf    `yaml:",inline"`
	Container string `yaml:"container,omitempty" doc:"container of the pod (default: its first)"`
	Stdin     string `yaml:"stdin,omitempty" doc:"text for the standard input, which then ends"`
	TTY       bool   `yaml:"tty,omitempty" doc:"allocate a terminal, which merges standard error into standard output"`
	Protocol  string `yaml:"protocol,omitempty" doc:"websocket, as in kubectl since v1.31, or spdy"`
	pace      `yaml:",inline"`
	expected  `yaml:",inline"`
}

// UsesPods is true: a pod that never runs has no commands.
func (*Exec) UsesPods() bool { return true }

// Scaled has factor times the operations (leak.Scaler).
func (e *Exec) Scaled(factor int) leak.Action {
	scaled := *e
	scaled.pace = e.pace.scaled(factor)
	return &scaled
}

// Validate returns all problems.
func (e *Exec) Validate() error {
	var bad problems
	if len(e.Command) == 0 || e.Command[0] == "" {
		bad.add("command", "as in [ls, /]", "is missing")
	}
	for _, arg := range e.Command {
		bad.template("command", arg)
	}
	bad.template("stdin", e.Stdin)
	if err := e.underWay(e.Stdin); err != nil {
		bad.add("stdin", underWayHint, "%v", err)
	}
	if e.Protocol != protocolWebSocket && e.Protocol != protocolSPDY {
		bad.add("protocol", "it is websocket or spdy", "unknown protocol %q", e.Protocol)
	}
	e.podsOf.validate(&bad)
	e.pace.validate(&bad)
	e.expected.validate(&bad)
	return errors.Join(bad...)
}

// Run runs the commands. An operation that hangs is over at its deadline, with its connection cut:
// nothing of it is left in leakrig.
func (e *Exec) Run(ctx context.Context, t leak.Target, first int) (leak.Tally, error) {
	return summed(e.run(ctx, t, first))
}

func (e *Exec) run(ctx context.Context, t leak.Target, first int) (*outcome, error) {
	command, err1 := parseTemplates(e.Command)
	stdin, err2 := parseTemplate(e.Stdin)
	judge, err3 := e.judge()
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	a, err := reach(t)
	if err != nil {
		return nil, err
	}
	defer a.close()
	in := inTurn(t, first)
	if e.Selector != "" {
		in = nil // the pods are others than the subject's
	}
	var namespace string
	var each [][]string // pods, by replica
	for _, t := range targets(t) {
		var selector string
		namespace, selector = e.where(a, t)
		pods, err := a.pods(ctx, namespace, selector)
		if err != nil {
			return nil, err
		}
		each = append(each, pods)
	}
	return perform(ctx, e.pace, first, in, func(ctx context.Context, op int) error {
		pods := each[in.of(op)]
		options, streams, err := e.fill(command, stdin, op)
		if err != nil {
			return err
		}
		at := a.client.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pods[op%len(pods)]).
			SubResource("exec").VersionedParams(options, scheme.ParameterCodec).URL()
		exit, err := a.exec(ctx, e.Protocol, at, streams)
		if err != nil {
			return err
		}
		return judge(exit, streams.Stdout.(*captured), streams.Stderr.(*captured))
	}), nil
}

// fill returns the request of one operation and the destinations of its output.
func (e *Exec) fill(command []*pattern, stdin *pattern, op int) (*corev1.PodExecOptions, remotecommand.StreamOptions, error) {
	options := &corev1.PodExecOptions{
		Container: e.Container, Stdin: e.Stdin != "", Stdout: true, Stderr: !e.TTY, TTY: e.TTY,
	}
	streams := remotecommand.StreamOptions{Stdout: &captured{}, Stderr: &captured{}, Tty: e.TTY}
	var err error
	if options.Command, err = fillAll(command, op); err != nil {
		return nil, streams, err
	}
	if options.Stdin {
		text, err := fill(stdin, op)
		if err != nil {
			return nil, streams, err
		}
		streams.Stdin = strings.NewReader(text)
	}
	return options, streams, nil
}

// exec performs one exec and returns its exit code. It ends with ctx.
func (a *api) exec(ctx context.Context, protocol string, at *url.URL, streams remotecommand.StreamOptions) (exit int, err error) {
	stream := a.execWebSocket
	if protocol == protocolSPDY {
		stream = a.execSPDY
	}
	err = stream(ctx, at, streams)
	var ended exec.ExitError
	switch {
	case ctx.Err() != nil:
		return 0, cause(ctx.Err())
	case errors.As(err, &ended) && ended.Exited():
		return ended.ExitStatus(), nil
	case err != nil:
		return 0, execError(err)
	}
	return 0, nil
}

// The executors of client-go observe their context while they dial and while they stream. They ignore it while they
// wait for the answer to the upgrade, and while they close a connection that is blocked for writing. So the functions
// below close the connection when ctx ends.

func (a *api) execSPDY(ctx context.Context, at *url.URL, streams remotecommand.StreamOptions) error {
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err == nil {
			context.AfterFunc(ctx, func() { _ = conn.Close() })
		}
		return conn, err
	}
	upgrade, err := spdy.NewRoundTripperWithConfig(spdy.RoundTripperConfig{
		UpgradeTransport: &http.Transport{DialContext: dial, TLSClientConfig: a.tls}, PingPeriod: 5 * time.Second,
	})
	if err != nil {
		return err
	}
	wrapped, err := rest.HTTPWrappersForConfig(a.config, upgrade)
	if err != nil {
		return err
	}
	executor, err := remotecommand.NewSPDYExecutorForTransports(wrapped, spdyclient.NewUpgraderForStreaming(upgrade), http.MethodPost, at)
	if err != nil {
		return err
	}
	return executor.StreamWithContext(ctx, streams)
}

func (a *api) execWebSocket(ctx context.Context, at *url.URL, streams remotecommand.StreamOptions) error {
	config := rest.CopyConfig(a.config)
	// The executor would parse the TLS settings for each connection.
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		if upgrade, ok := rt.(*websocket.RoundTripper); ok {
			upgrade.TLSConfig = a.tls
		}
		return rt
	})
	executor, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, at.String())
	if err != nil {
		return err
	}
	// The executor leaks its readers when its context ends, or its connection is closed, right after the
	// upgrade. So its context is only for the dialling, and the connection is shut down, not closed:
	// the readers see its end.
	dialing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, cancel)
	trace := &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		stop()
		context.AfterFunc(ctx, func() { shutDown(got.Conn) })
	}}
	return executor.StreamWithContext(httptrace.WithClientTrace(dialing, trace), streams)
}

// shutDown ends both directions below TLS, whose own end would wait for the other side.
func shutDown(conn net.Conn) {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.CloseRead()
		_ = tcp.CloseWrite()
		return
	}
	_ = conn.Close()
}

var (
	// ends are the addresses of a connection in an error; its port differs from one operation to the next.
	ends = regexp.MustCompile(`\S+->\S+: `)
	// manyBlanks are line ends, too.
	manyBlanks = regexp.MustCompile(`\s+`)
)

// execError is err as one line, alike for alike failures.
func execError(err error) error {
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	text := []rune(manyBlanks.ReplaceAllString(ends.ReplaceAllString(err.Error(), ""), " "))
	return fmt.Errorf("%s", string(text[:min(len(text), maxLine)]))
}
