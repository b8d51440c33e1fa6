package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"regexp"
	"strings"
	"text/template"
	"time"

	"github.com/leakrig/leakrig/leak"
)

var postKind = leak.Kind[leak.Action]{
	Name: "post",
	Doc: "HTTP requests to the subject, one an operation. " +
		"{{.Op}} in path, header values and body is the number of the operation, unique within a variant.",
	New: func() leak.Action {
		return &Post{Method: http.MethodPost, Times: 1, Concurrency: 1, Timeout: leak.Duration(30 * time.Second), Status: http.StatusOK}
	},
}

// Bounds of one round, so that a slip of the pen does not become an attack.
const (
	maxTimes       = 1_000_000
	maxConcurrency = 10_000
	maxBody        = 16 << 20
	maxShown       = 200 // bytes of an answer that an error shows
	minRate        = 0.001
)

// Post sends HTTP requests to the subject.
type Post struct {
	Method      string            `yaml:"method,omitempty" doc:"HTTP method"`
	Path        string            `yaml:"path" doc:"path and query below the subject's address"`
	Headers     map[string]string `yaml:"headers,omitempty" doc:"request headers"`
	Body        string            `yaml:"body,omitempty" doc:"request body"`
	BodyFile    string            `yaml:"bodyFile,omitempty" doc:"file beside the scenario that holds the body, instead of body"`
	Times       int               `yaml:"times,omitempty" doc:"operations a round"`
	Concurrency int               `yaml:"concurrency,omitempty" doc:"operations under way at once, at most"`
	Rate        float64           `yaml:"rate,omitempty" doc:"operations started a second, at most (default: as fast as concurrency allows)"`
	Timeout     leak.Duration     `yaml:"timeout,omitempty" doc:"an operation that takes longer has failed"`
	Status      int               `yaml:"status,omitempty" doc:"the expected status; any other is a failed operation"`
	Answer      string            `yaml:"answer,omitempty" doc:"Go regular expression that the body of the answer must match; any other is a failed operation"`
}

// Validate tells all problems at once.
func (p *Post) Validate() error {
	var errs []error
	bad := func(field, hint, problem string, args ...any) {
		errs = append(errs, &leak.FieldError{Field: field, Problem: fmt.Sprintf(problem, args...), Hint: hint})
	}
	if !strings.HasPrefix(p.Path, "/") {
		bad("path", "as in /work?name=op-{{.Op}}", "must begin with /")
	}
	if p.Method == "" || strings.ToUpper(p.Method) != p.Method || strings.ContainsAny(p.Method, " \t\r\n/") {
		bad("method", "GET, POST, PUT, PATCH or DELETE", "%q is not an HTTP method", p.Method)
	}
	if p.Times < 1 || p.Times > maxTimes {
		bad("times", "", "must be between 1 and %d, is %d", maxTimes, p.Times)
	}
	if p.Concurrency < 1 || p.Concurrency > maxConcurrency {
		bad("concurrency", "", "must be between 1 and %d, is %d", maxConcurrency, p.Concurrency)
	}
	if p.Rate != 0 && !(p.Rate >= minRate && p.Rate <= maxTimes) {
		bad("rate", "leave it out for as fast as concurrency allows", "must be between %v and %d a second, is %v", minRate, maxTimes, p.Rate)
	}
	if p.Timeout <= 0 {
		bad("timeout", "as in 30s", "must be more than zero")
	}
	if p.Status < 100 || p.Status > 599 {
		bad("status", "as in 200", "%d is not an HTTP status", p.Status)
	}
	if p.Body != "" && p.BodyFile != "" {
		bad("bodyFile", "leave one of them out", "body and bodyFile are both given")
	}
	if _, err := regexp.Compile(p.Answer); err != nil {
		bad("answer", `as in '"unscheduled": *null'`, "%v", err)
	}
	for _, f := range []struct{ field, text string }{{"path", p.Path}, {"body", p.Body}} {
		if _, err := parseTemplate(f.text); err != nil {
			bad(f.field, "{{.Op}} is the number of the operation, and all there is", "%v", err)
		}
	}
	for name, value := range p.Headers {
		if _, err := parseTemplate(value); err != nil {
			bad("headers", "{{.Op}} is the number of the operation, and all there is", "%s: %v", name, err)
		}
	}
	return errors.Join(errs...)
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
		return leak.WithHint(fmt.Errorf("bodyFile: %s: %w", p.BodyFile, err), "{{.Op}} is the number of the operation, and all there is")
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

// Run sends the requests. Its connections are its own, and closed when it returns: one kept open
// would be a goroutine on the subject's side.
func (p *Post) Run(ctx context.Context, t leak.Target, first int) (leak.Tally, error) {
	request, err := p.compile(t.URL)
	if err != nil {
		return leak.Tally{}, err
	}
	want, err := p.wanted()
	if err != nil {
		return leak.Tally{}, err
	}
	transport := t.Transport()
	transport.MaxIdleConnsPerHost = p.Concurrency
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, CheckRedirect: noRedirect}
	pace := pace{times: p.Times, concurrency: p.Concurrency, rate: p.Rate, timeout: p.Timeout.D()}
	return operate(ctx, pace, first, func(ctx context.Context, op int) error {
		req, err := request(ctx, op)
		if err != nil {
			return err
		}
		return send(client, req, want)
	}), nil
}

// noRedirect makes a redirect a status like any other: the load goes to the subject and nowhere else.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// compile parses the templates once, for all operations.
func (p *Post) compile(base string) (func(ctx context.Context, op int) (*http.Request, error), error) {
	path, err1 := parseTemplate(p.Path)
	body, err2 := parseTemplate(p.Body)
	headers := map[string]*template.Template{}
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

// wanted is what an answer must be for the operation to have succeeded.
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
		return &failure{fmt.Sprintf("status %d, want %d", resp.StatusCode, want.status), strings.TrimSpace(string(start))}
	}
	if want.body != nil {
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
		if err != nil {
			return cause(err)
		}
		if !want.body.Match(body) {
			return &failure{"the answer does not match " + want.body.String(), strings.TrimSpace(string(body[:min(len(body), maxShown)]))}
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

type operation struct{ Op int }

// parseTemplate parses s and tries it out, so that a misspelt field is told before any load.
func parseTemplate(s string) (*template.Template, error) {
	t, err := template.New("template").Parse(s)
	if err != nil {
		return nil, err
	}
	return t, t.Execute(io.Discard, operation{})
}

func fill(t *template.Template, op int) (string, error) {
	var b bytes.Buffer
	err := t.Execute(&b, operation{op})
	return b.String(), err
}
