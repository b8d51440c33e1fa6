package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"regexp"
	"strings"

	"github.com/leakrig/leakrig/leak"
)

var postKind = leak.Kind[leak.Action]{
	Name: "post",
	Doc: "Sends an HTTP request to the subject per operation. " +
		"{{.Op}} in path, header values and body is the number of the operation, unique within a variant.",
	New: func() leak.Action {
		return &Post{Method: http.MethodPost, pace: defaultPace(), Status: http.StatusOK}
	},
}

// maxBody limits the body of a request and of a checked response. maxShown is how many bytes of a response an error
// shows.
const (
	maxBody  = 16 << 20
	maxShown = 200
)

// Post sends HTTP requests to the subject.
type Post struct {
	Method   string            `yaml:"method,omitempty" doc:"HTTP method"`
	Path     string            `yaml:"path" doc:"path and query below the subject's address"`
	Headers  map[string]string `yaml:"headers,omitempty" doc:"request headers"`
	Body     string            `yaml:"body,omitempty" doc:"request body"`
	BodyFile string            `yaml:"bodyFile,omitempty" doc:"file with the body, relative to the scenario, instead of body"`
	pace     `yaml:",inline"`
	Status   int    `yaml:"status,omitempty" doc:"expected status; operations with another one fail"`
	Answer   string `yaml:"answer,omitempty" doc:"Go regular expression that the response body must match; other operations fail"`
}

// Scaled has factor times the operations (leak.Scaler).
func (p *Post) Scaled(factor int) leak.Action {
	scaled := *p
	scaled.pace = p.pace.scaled(factor)
	return &scaled
}

// Validate returns all problems.
func (p *Post) Validate() error {
	var bad problems
	if !strings.HasPrefix(p.Path, "/") {
		bad.add("path", "as in /work?name=op-{{.Op}}", "must begin with /")
	}
	if p.Method == "" || strings.ToUpper(p.Method) != p.Method || strings.ContainsAny(p.Method, " \t\r\n/") {
		bad.add("method", "GET, POST, PUT, PATCH or DELETE", "%q is not an HTTP method", p.Method)
	}
	p.pace.validate(&bad)
	if p.Status < 100 || p.Status > 599 {
		bad.add("status", "as in 200", "%d is not an HTTP status", p.Status)
	}
	if p.Body != "" && p.BodyFile != "" {
		bad.add("bodyFile", "leave one of them out", "body and bodyFile are both given")
	}
	if _, err := regexp.Compile(p.Answer); err != nil {
		bad.add("answer", `as in '"unscheduled": *null'`, "%v", err)
	}
	bad.template("path", p.Path)
	bad.template("body", p.Body)
	if err := p.underWay(p.Body); err != nil {
		bad.add("body", underWayHint, "%v", err)
	}
	for name, value := range p.Headers {
		if _, err := parseTemplate(value); err != nil {
			bad.add("headers", templateHint, "%s: %v", name, err)
		}
	}
	return errors.Join(bad...)
}

// Prepare reads the body file.
func (p *Post) Prepare(files fs.FS) error {
	if p.BodyFile == "" {
		return nil
	}
	data, err := readFile(files, p.BodyFile)
	if err != nil {
		return leak.WithHint(fmt.Errorf("bodyFile: %w", err), "the path is relative to the scenario file and stays below its folder")
	}
	if _, err := parseTemplate(string(data)); err != nil {
		return leak.WithHint(fmt.Errorf("bodyFile: %s: %w", p.BodyFile, err), templateHint)
	}
	if err := p.underWay(string(data)); err != nil {
		return leak.WithHint(fmt.Errorf("bodyFile: %s: %w", p.BodyFile, err), underWayHint)
	}
	p.Body = string(data)
	return nil
}

func readFile(files fs.FS, name string) ([]byte, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxBody+1))
	if err == nil && len(data) > maxBody {
		err = fmt.Errorf("%s is larger than %d MiB", name, maxBody>>20)
	}
	return data, err
}

// Run sends the requests. It has separate connections, one for each concurrent request, and closes them when it
// returns: an open connection would be a goroutine of the subject. The last request on each connection asks the subject
// to close it. A port-forward keeps a connection that this side closes open for another second.
func (p *Post) Run(ctx context.Context, t leak.Target, first int) (leak.Tally, error) {
	return summed(p.run(ctx, t, first))
}

func (p *Post) run(ctx context.Context, t leak.Target, first int) (*outcome, error) {
	want, err := p.wanted()
	if err != nil {
		return nil, err
	}
	type way struct {
		request func(ctx context.Context, op int) (*http.Request, error)
		clients []*http.Client // by lane
	}
	var ways []way
	for _, to := range targets(t) {
		request, err := p.compile(to.URL)
		if err != nil {
			return nil, err
		}
		w := way{request: request}
		for range p.lanes() {
			transport := to.Transport()
			if own, ok := transport.(*http.Transport); ok && len(t.Replicas) == 0 {
				own.DisableKeepAlives = false // what a transport to a pod does after every request is done after the last
			}
			client := &http.Client{Transport: transport, CheckRedirect: noRedirect}
			defer client.CloseIdleConnections()
			w.clients = append(w.clients, client)
		}
		ways = append(ways, w)
	}
	in := inTurn(t, first)
	return performInLanes(ctx, p.pace, first, in, func(ctx context.Context, l lane, op int) error {
		to := ways[in.of(op)]
		req, err := to.request(ctx, op)
		if err != nil {
			return err
		}
		req.Close = l.last
		return send(to.clients[l.index], req, want)
	}), nil
}

// noRedirect makes a redirect a status like any other: the load goes to the subject and nowhere else.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// compile parses the templates once, for all operations.
func (p *Post) compile(base string) (func(ctx context.Context, op int) (*http.Request, error), error) {
	path, err1 := parseTemplate(p.Path)
	body, err2 := parseTemplate(p.Body)
	headers := map[string]*pattern{}
	var err3 error
	for name, value := range p.Headers {
		var err error
		headers[name], err = parseTemplate(value)
		err3 = errors.Join(err3, err)
	}
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	return func(ctx context.Context, op int) (*http.Request, error) {
		filledPath, err1 := fill(path, op)
		filledBody, err2 := fill(body, op)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		req, err := http.NewRequestWithContext(ctx, p.Method, base+filledPath, strings.NewReader(filledBody))
		if err != nil {
			return nil, cause(err)
		}
		for name, value := range headers {
			filled, err := fill(value, op)
			if err != nil {
				return nil, err
			}
			req.Header.Set(name, filled)
			if http.CanonicalHeaderKey(name) == "Host" {
				req.Host = filled // net/http ignores it among the headers
			}
		}
		return req, nil
	}, nil
}

// wanted is the response that makes an operation successful.
type wanted struct {
	status int
	body   *regexp.Regexp // nil where any will do
}

func (p *Post) wanted() (wanted, error) {
	w := wanted{status: p.Status}
	var err error
	if p.Answer != "" {
		w.body, err = regexp.Compile(p.Answer)
	}
	return w, err
}

// send performs one request and reads the answer to its end, so that the connection can be used again.
func send(client *http.Client, req *http.Request, want wanted) error {
	resp, err := client.Do(req)
	if err != nil {
		return cause(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != want.status {
		start, _ := io.ReadAll(io.LimitReader(resp.Body, maxShown))
		return &failure{fmt.Errorf("status %d, want %d", resp.StatusCode, want.status), strings.TrimSpace(string(start))}
	}
	if want.body != nil {
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
		if err != nil {
			return cause(err)
		}
		if !want.body.Match(body) {
			return &failure{errors.New("the answer does not match " + want.body.String()), strings.TrimSpace(string(body[:min(len(body), maxShown)]))}
		}
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return cause(err)
	}
	return nil
}

// cause drops the URL, which differs by operation, so that alike failures are counted together.
func cause(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("timed out")
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err
}
