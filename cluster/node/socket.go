package node

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"net/http"
	"path"
)

// nodeSocket makes requests on a unix socket inside a node: directly where the engine runs on this
// machine and lets us, else by curl on the node, which every node image has.
type nodeSocket struct {
	node Node
	path string // in the node
	here string // on this machine, "" where it cannot be reached
}

// Socket finds the way to a socket inside the node.
func (n Node) Socket(ctx context.Context, at string) (*nodeSocket, error) {
	s := &nodeSocket{node: n, path: at}
	// The pid may be that of an engine elsewhere: the node's first process has to be the one seen here.
	if _, err := n.procHere(ctx, "/proc/1"); err == nil {
		pid, err := n.Engine.Run(ctx, "inspect", "-f", "{{.State.Pid}}", n.Name)
		if err != nil {
			return nil, err
		}
		s.here = path.Join("/proc", pid, "root", at)
	}
	return s, nil
}

func (s *nodeSocket) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.here != "" {
		return s.dial(r)
	}
	out, err := s.node.Engine.Output(r.Context(), "exec", s.node.Name, "curl", "--silent", "--show-error", "--include", "--raw",
		"--unix-socket", s.path, r.URL.String())
	if err != nil {
		return nil, err
	}
	return http.ReadResponse(bufio.NewReader(bytes.NewReader(out)), r)
}

func (s *nodeSocket) dial(r *http.Request) (*http.Response, error) {
	direct := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", s.here)
	}}
	return direct.RoundTrip(r)
}
