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
	"github.com/leakrig/leakrig/leak/httpclient"
	"github.com/leakrig/leakrig/rundir"
)

// remote is a running program. leakrig neither starts nor stops it.
type remote struct {
	target leak.Target
	info   leak.SubjectInfo
	done   chan struct{}
}

// reach prepares access to pprof at an address. Relative files of spec.Access are in dir.
func reach(spec leak.SubjectSpec, address, dir string) (*remote, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("subject.url: %w", err)
	}
	transport, err := transportTo(u, spec.Access, dir)
	if err != nil {
		return nil, err
	}
	// User name and password go with each request. They are not part of the address, which errors may contain.
	shown, user := rundir.ShownURL(u), u.User
	u.User = nil
	base := strings.TrimSuffix(u.String(), "/")
	if u.Scheme == "unix" {
		base = "http://localhost"
	}
	target := leak.Target{URL: base, Pprof: base + strings.TrimSuffix(spec.Pprof, "/"), Transport: transport}
	if elsewhere(u) && user == nil && spec.Access == (leak.Access{}) {
		target.InCluster = func(context.Context) (string, error) { return base, nil }
	}
	return &remote{
		target: target,
		// Credentials are not part of the record.
		info: leak.SubjectInfo{Command: []string{shown}},
		done: make(chan struct{}),
	}, nil
}

// elsewhere reports whether u may refer to the same program from another machine.
func elsewhere(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return u.Scheme != "unix" && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback() && !ip.IsUnspecified())
}

// transportTo returns a function that makes transports to u. It reads all files of the access first.
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
	origin, user := httpclient.OriginOf(u), u.User
	if u.Scheme == "unix" {
		origin = httpclient.OriginOf(&url.URL{Scheme: "http", Host: "localhost"})
	}
	dialer := &net.Dialer{Timeout: dialTimeout}
	return func() http.RoundTripper {
		t := &http.Transport{TLSClientConfig: config, DialContext: dialer.DialContext}
		if u.Scheme == "unix" {
			t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
				return dialer.DialContext(ctx, "unix", u.Path)
			}
		}
		return &bearer{t, origin, user, token}
	}, nil
}

// dialTimeout bounds connecting to a running program.
const dialTimeout = 10 * time.Second

// bearer adds a token, or else a name and its password, to every request to one origin, and to none that goes elsewhere:
// another port of the same host may be another program, another scheme is read by everybody on the way.
type bearer struct {
	*http.Transport
	origin httpclient.Origin
	user   *url.Userinfo
	token  string
}

func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if (b.token != "" || b.user != nil) && httpclient.OriginOf(r.URL) == b.origin {
		r = r.Clone(r.Context())
		if b.token != "" {
			r.Header.Set("Authorization", "Bearer "+b.token)
		} else {
			password, _ := b.user.Password()
			r.SetBasicAuth(b.user.Username(), password)
		}
	}
	return b.Transport.RoundTrip(r)
}

func (r *remote) Target() leak.Target        { return r.target }
func (r *remote) Info() leak.SubjectInfo     { return r.info }
func (r *remote) Done() <-chan struct{}      { return r.done }
func (r *remote) Err() error                 { return nil }
func (r *remote) Stop(context.Context) error { return nil }
