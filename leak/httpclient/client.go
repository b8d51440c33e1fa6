// Package httpclient is the HTTP client for subjects. It limits the time of a request and follows no redirect.
package httpclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
)

// readTimeout bounds one request to a subject, from the dial to the last byte of the answer.
const readTimeout = 30 * time.Second

// maxShownURL bounds how much of an address that a server names an error shows.
const maxShownURL = 300

// RedirectError is a response that redirects to another address. leakrig does not follow it, because it would then judge
// another process in place of the subject.
type RedirectError struct {
	// From is what was asked for, To where the answer leads, without user, password and query.
	From, To string
}

func (e *RedirectError) Error() string { return "redirected to " + e.To }

// New returns the client for everything that is read from a subject: its pprof, its metrics, whether it is ready.
// It follows no redirect, and a request ends after 30 s. Its user closes its idle connections.
func New(t http.RoundTripper) *http.Client {
	return &http.Client{Transport: t, CheckRedirect: RefuseRedirect, Timeout: readTimeout}
}

// RefuseRedirect is the CheckRedirect of a client that follows no redirect: an answer that is one is an error, which names
// the address that it leads to.
func RefuseRedirect(req *http.Request, via []*http.Request) error {
	e := &RedirectError{To: shownURL(req.URL)}
	if len(via) > 0 {
		e.From = shownURL(via[len(via)-1].URL)
	}
	return leak.WithHint(e, "leakrig reads the address that it was given and no other; if %s is the subject, name it instead", e.To)
}

// shownURL is an address without what may be secret in it, on one line and not longer than an error should be.
func shownURL(u *url.URL) string {
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return display.OneLine(shown.String(), maxShownURL)
}

// Get sends a GET request to a subject and closes the connection after the response: an open connection is a goroutine in
// the subject. The caller limits how much of the body it reads.
func Get(ctx context.Context, client *http.Client, address string, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	req.Close = true
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, plainError(err)
	}
	resp.Status = display.OneLine(resp.Status, maxShownURL)
	return resp, nil
}

// plainError drops what net/http puts around a redirect: the address twice.
func plainError(err error) error {
	var redirect *RedirectError
	if errors.As(err, &redirect) {
		return leak.WithHint(fmt.Errorf("GET %s: %w", redirect.From, redirect), "%s", leak.Hint(err))
	}
	return err
}

// Origin is what credentials belong to: scheme, host and port of an address.
type Origin struct{ scheme, host, port string }

// OriginOf is the origin of an address. A port that is not named is that of the scheme.
func OriginOf(u *url.URL) Origin {
	scheme := strings.ToLower(u.Scheme)
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[scheme]
	}
	return Origin{scheme, strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")), port}
}

func (o Origin) String() string {
	return cmp.Or(o.scheme, "?") + "://" + o.host + ":" + o.port
}

// OnlyTo returns a transport for credentials that belong to one origin: it refuses every request to another one.
func OnlyTo(o Origin, t http.RoundTripper) http.RoundTripper { return &onlyTo{o, t} }

type onlyTo struct {
	origin Origin
	http.RoundTripper
}

func (t *onlyTo) RoundTrip(r *http.Request) (*http.Response, error) {
	if to := OriginOf(r.URL); to != t.origin {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, fmt.Errorf("%s was to be asked with the credentials of %s", to, t.origin)
	}
	return t.RoundTripper.RoundTrip(r)
}

// CloseIdleConnections closes those of the transport.
func (t *onlyTo) CloseIdleConnections() {
	if c, ok := t.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
