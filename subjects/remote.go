package subjects

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// remote is a program that somebody else runs: it is read, and nothing of it is started or stopped.
type remote struct {
	target leak.Target
	info   leak.SubjectInfo
	done   chan struct{}
}

// reach makes ready to read what serves pprof at spec.URL. Relative files of spec.Access are looked up from
// the folder dir.
func reach(spec leak.SubjectSpec, dir string) (*remote, error) {
	u, err := url.Parse(spec.URL)
	if err != nil {
		return nil, fmt.Errorf("subject.url: %w", err)
	}
	transport, err := transportTo(u, spec.Access, dir)
	if err != nil {
		return nil, err
	}
	base := strings.TrimSuffix(spec.URL, "/")
	if u.Scheme == "unix" {
		base = "http://localhost"
	}
	return &remote{
		target: leak.Target{URL: base, Pprof: base + strings.TrimSuffix(spec.Pprof, "/"), Transport: transport},
		// Whatever proves who asks stays out of the record.
		info: leak.SubjectInfo{Command: []string{u.Redacted()}},
		done: make(chan struct{}),
	}, nil
}

// transportTo returns what makes transports to u, with all files read.
func transportTo(u *url.URL, a leak.Access, dir string) (func() http.RoundTripper, error) {
	file := func(name string) ([]byte, error) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return os.ReadFile(name)
	}
	config := &tls.Config{InsecureSkipVerify: a.Insecure} //nolint:gosec // asked for by name, for a subject of one's own
	if a.CA != "" {
		pem, err := file(a.CA)
		if err != nil {
			return nil, fmt.Errorf("subject.access.ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, leak.WithHint(fmt.Errorf("subject.access.ca: no certificate in %s", a.CA), "it is a PEM file")
		}
	}
	if a.Cert != "" || a.Key != "" {
		cert, err1 := file(a.Cert)
		key, err2 := file(a.Key)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("subject.access: %w", err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, leak.WithHint(fmt.Errorf("subject.access: %w", err), "cert and key are PEM files that belong together")
		}
		config.Certificates = []tls.Certificate{pair}
	}
	token := ""
	if a.TokenFile != "" {
		data, err := file(a.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("subject.access.tokenFile: %w", err)
		}
		token = strings.TrimSpace(string(data))
	}
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	return func() http.RoundTripper {
		t := &http.Transport{TLSClientConfig: config, DialContext: dialer.DialContext}
		if u.Scheme == "unix" {
			t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
				return dialer.DialContext(ctx, "unix", u.Path)
			}
		}
		return &bearer{t, token}
	}, nil
}

// bearer adds a token to every request.
type bearer struct {
	*http.Transport
	token string
}

func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return b.Transport.RoundTrip(r)
}

func (r *remote) Target() leak.Target        { return r.target }
func (r *remote) Info() leak.SubjectInfo     { return r.info }
func (r *remote) Done() <-chan struct{}      { return r.done }
func (r *remote) Err() error                 { return nil }
func (r *remote) Stop(context.Context) error { return nil }
