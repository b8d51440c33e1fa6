package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// forwardTimeout bounds the opening of a port-forward.
const forwardTimeout = 20 * time.Second

// Forward opens a port on loopback that leads to a pod's through the API server, until ctx ends, and
// returns its address. A connection that is closed on this side is closed in the pod, too: a proxy
// would keep its own, and each is a goroutine of the subject's.
func (c *Connection) Forward(ctx context.Context, tasks *sync.WaitGroup, namespace, pod string, port int32) (string, error) {
	roundTripper, upgrader, err := spdy.RoundTripperFor(c.Config)
	if err != nil {
		return "", fmt.Errorf("port-forward: %w", err)
	}
	url := c.Client.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("portforward").URL()
	dialer := &endingDialer{ctx, spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: roundTripper}, http.MethodPost, url)}
	isReady := make(chan struct{})
	forwarder, err := portforward.NewOnAddressesForStreamingWithContext(ctx, dialer, []string{"127.0.0.1"}, []string{"0:" + strconv.Itoa(int(port))}, isReady, io.Discard, io.Discard)
	if err != nil {
		return "", fmt.Errorf("port-forward: %w", err)
	}
	failed := make(chan error, 1)
	tasks.Go(func() { failed <- forwarder.ForwardPorts() })
	opening, cancel := context.WithTimeoutCause(ctx, forwardTimeout, fmt.Errorf("not open after %s", forwardTimeout))
	defer cancel()
	select {
	case <-opening.Done():
		return "", fmt.Errorf("port-forward: %w", context.Cause(opening))
	case err := <-failed:
		return "", fmt.Errorf("port-forward: %w", errors.Join(err, context.Cause(ctx)))
	case <-isReady:
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		return "", fmt.Errorf("port-forward: %w", err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(ports[0].Local))), nil
}

// endingDialer returns when ctx ends. client-go's own dialer waits for the response to its upgrade even if the API
// server hangs.
type endingDialer struct {
	ctx    context.Context
	dialer httpstream.Dialer
}

func (d *endingDialer) Dial(protocols ...string) (httpstream.Connection, string, error) {
	type dialled struct {
		conn     httpstream.Connection
		protocol string
		err      error
	}
	answer := make(chan dialled, 1)
	go func() {
		conn, protocol, err := d.dialer.Dial(protocols...)
		answer <- dialled{conn, protocol, err}
	}()
	select {
	case got := <-answer:
		return got.conn, got.protocol, got.err
	case <-d.ctx.Done():
		go func() {
			if late := <-answer; late.err == nil {
				late.conn.Close()
			}
		}()
		return nil, "", context.Cause(d.ctx)
	}
}
