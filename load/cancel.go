package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/leakrig/leakrig/leak"
)

var cancelKind = leak.Kind[leak.Action]{
	Name: "cancel",
	Doc: "Abandons an HTTP request to the subject per operation, on a separate connection: in the middle of its headers or " +
		"its body, while it waits for the answer, or in the middle of the answer. An operation fails if the subject answers first.",
	New: func() leak.Action {
		return &Cancel{
			Method: http.MethodPost, At: atBody, After: leak.Duration(100 * time.Millisecond), Status: http.StatusOK, pace: defaultPace(),
		}
	},
}

// Moments at which a client abandons its request.
const (
	atHeaders = "headers"
	atBody    = "body"
	atWait    = "wait"
	atAnswer  = "answer"
)

func moments() []string { return []string{atHeaders, atBody, atWait, atAnswer} }

// abandonedBody is the size of the body of a request that has none of its own.
const abandonedBody = 64 << 10

// Cancel abandons requests.
type Cancel struct {
	Method  string            `yaml:"method,omitempty" doc:"HTTP method"`
	Path    string            `yaml:"path" doc:"path and query below the subject's address"`
	Headers map[string]string `yaml:"headers,omitempty" doc:"request headers"`
	Body    string            `yaml:"body,omitempty" doc:"request body (default: 64 KiB of zeros with at: body, none otherwise)"`
	At      string            `yaml:"at,omitempty" doc:"headers: after half of the headers; body: after half of the body; wait: after the whole request; answer: after the headers of the answer"`
	After   leak.Duration     `yaml:"after,omitempty" doc:"time from that moment to the end of the connection"`
	Reset   bool              `yaml:"reset,omitempty" doc:"reset the connection instead of closing it"`
	Status  int               `yaml:"status,omitempty" doc:"with at: answer: expected status, as in 101 for a WebSocket; operations with another one fail"`
	pace    `yaml:",inline"`
}

// Scaled has factor times the operations (leak.Scaler).
func (c *Cancel) Scaled(factor int) leak.Action {
	scaled := *c
	scaled.pace = c.pace.scaled(factor)
	return &scaled
}

// Validate returns all problems.
func (c *Cancel) Validate() error {
	var bad problems
	request := &Post{Method: c.Method, Path: c.Path, Headers: c.Headers, Body: c.Body, pace: c.pace, Status: c.Status}
	bad = append(bad, request.Validate())
	if !slices.Contains(moments(), c.At) {
		bad.add("at", "it is "+strings.Join(moments(), ", "), "unknown moment %q", c.At)
	}
	if c.After < 0 || c.After >= c.Timeout {
		bad.add("after", "a longer timeout, or a shorter time", "must be between zero and timeout, is %s", c.After)
	}
	return errors.Join(bad...)
}

// Run abandons the requests. It leaves no connection.
func (c *Cancel) Run(ctx context.Context, t leak.Target, first int) (leak.Tally, error) {
	request := &Post{Method: c.Method, Headers: c.Headers, Path: c.Path, Body: c.Body}
	if request.Body == "" && c.At == atBody {
		request.Body = strings.Repeat("\x00", abandonedBody)
	}
	type way struct {
		host    string
		request func(ctx context.Context, op int) (*http.Request, error)
	}
	var ways []way
	for _, to := range targets(t) {
		at, err := url.Parse(to.URL)
		if err != nil || at.Scheme != "http" || at.Port() == "" || to.Selector != "" {
			return leak.Tally{}, leak.WithHint(errors.New("cancel: reaches only subjects that listen with HTTP at a TCP port of this machine"), "use placement process")
		}
		compiled, err := request.compile(to.URL)
		if err != nil {
			return leak.Tally{}, err
		}
		ways = append(ways, way{at.Host, compiled})
	}
	in := inTurn(t, first)
	return perform(ctx, c.pace, first, in, func(ctx context.Context, op int) error {
		to := ways[in.of(op)]
		req, err := to.request(ctx, op)
		if err != nil {
			return err
		}
		return c.abandon(ctx, to.host, req)
	}).tally(), nil
}

// abandon sends a part of the request, waits, and ends the connection.
func (c *Cancel) abandon(ctx context.Context, host string, req *http.Request) error {
	var all bytes.Buffer
	if err := req.Write(&all); err != nil {
		return cause(err)
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", host)
	if err != nil {
		return cause(err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if tcp, ok := conn.(*net.TCPConn); ok && c.Reset {
		if err := tcp.SetLinger(0); err != nil {
			return err
		}
	}
	head := bytes.Index(all.Bytes(), []byte("\r\n\r\n")) + len("\r\n\r\n")
	part := all.Bytes()
	switch c.At {
	case atHeaders:
		part = part[:head/2]
	case atBody:
		part = part[:head+(len(part)-head)/2]
	}
	if _, err := conn.Write(part); err != nil {
		return expired(ctx, cause(err))
	}
	from := bufio.NewReader(conn)
	var body io.Reader = from
	if c.At == atAnswer {
		resp, err := http.ReadResponse(from, req)
		if err != nil {
			return expired(ctx, fmt.Errorf("read the answer: %w", cause(err)))
		}
		defer resp.Body.Close()
		if resp.StatusCode != c.Status {
			return fmt.Errorf("status %d, want %d", resp.StatusCode, c.Status)
		}
		if body = resp.Body; c.Status == http.StatusSwitchingProtocols {
			body = from
		}
	}
	return expired(ctx, c.wait(ctx, conn, body))
}

// wait waits until the client has waited long enough. Amid an answer the client reads one byte and then no more: the
// subject has to wait when its buffers are full. The error says that there is nothing left to abandon.
func (c *Cancel) wait(ctx context.Context, conn net.Conn, from io.Reader) error {
	until := time.Now().Add(c.After.D())
	if err := conn.SetReadDeadline(until); err != nil {
		return err
	}
	n, err := io.ReadFull(from, make([]byte, 1))
	switch {
	case isTimeout(err):
		return nil
	case n > 0 && c.At == atAnswer:
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		return ctx.Err()
	case n > 0:
		return errors.New("the subject answered before the client abandoned the request")
	case c.At == atAnswer:
		return errors.New("the answer was complete before the client abandoned it")
	}
	return fmt.Errorf("the subject closed the connection before the client did: %w", cause(err))
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// expired returns why the operation ended early if its deadline is the reason.
func expired(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return cause(ctx.Err())
	}
	return err
}
