package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leakrig/leakrig/cluster"
	"github.com/leakrig/leakrig/fleet"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/profiles"
	"github.com/leakrig/leakrig/subjects"
)

// fleetFlags are those of `leakrig observe` that are for fleets alone.
type fleetFlags struct {
	selector, namespace string
	allNamespaces       bool
	targets             string
	port                int
	counter, metrics    string
	label               string
	via                 string
	options             cluster.Options
	fleetBounds
}

const (
	fleetConcurrency = 32
	fleetTimeout     = 10 * time.Second
	fleetEvery       = time.Minute
	fleetFor         = 30 * time.Minute

	viaProxy   = "proxy"
	viaForward = "port-forward"
)

func (f *fleetFlags) add(c *cobra.Command) {
	o := c.Flags()
	o.StringVar(&f.selector, "selector", "", "a fleet: the pods with these labels, read through the API server")
	o.StringVarP(&f.namespace, "namespace", "n", "", "their namespace (default: that of the context)")
	o.BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "in all namespaces")
	o.IntVar(&f.port, "port", 6060, "where pprof is served in the pods")
	wordFlag(c, &f.via, "via", viaProxy, []string{viaProxy, viaForward}, "how they are reached through it; a port-forward reaches their loopback, too, and costs more")
	o.StringVar(&f.targets, "targets", "", "a fleet: the URLs in this `file`, one a line, read again before each sweep (- for standard input, once)")
	o.StringVar(&f.counter, "counter", "", "`metric` of the targets that counts operations, for growth per operation instead of per hour")
	o.StringVar(&f.label, "counter-label", "", "the same from a pprof `label` of their goroutines: its largest number")
	o.StringVar(&f.metrics, "metrics", "/metrics", "where they serve metrics, `[:PORT]/PATH`")
	f.fleetBounds.add(c)
	o.StringVar(&f.options.KubeconfigFile, "kubeconfig", "", "kubeconfig `file` of the fleet's cluster (default: as kubectl)")
	o.StringVar(&f.options.Context, "context", "", "context of the fleet's cluster (default: the current one)")
}

// fleetBounds are what the verdict on a fleet goes by.
type fleetBounds struct{ minJudged, maxPerHour, maxPerOperation float64 }

func (b *fleetBounds) add(c *cobra.Command) {
	o := c.Flags()
	o.Float64Var(&b.minJudged, "min-judged", 0.99, "share of a fleet that must be judged for it to be clean")
	o.Float64Var(&b.maxPerHour, "max-per-hour", 10, "the most that goroutines of one stack of one target of a fleet may grow per hour")
	o.Float64Var(&b.maxPerOperation, "max-per-op", 0, "the same per operation, where --counter or --counter-label tells them")
}

func (b *fleetBounds) bounds() fleet.Bounds {
	return fleet.Bounds{PerHour: b.maxPerHour, PerOperation: b.maxPerOperation, MinJudged: b.minJudged}
}

func (b *fleetBounds) check(format string) []error {
	var errs []error
	if !(b.minJudged >= 0 && b.minJudged <= 1) {
		errs = append(errs, leak.WithHint(fmt.Errorf("--min-judged %g: it is a share, from 0 to 1", b.minJudged), "0.99 is 99 %%"))
	}
	if !(b.maxPerHour >= 0 && b.maxPerOperation >= 0) {
		errs = append(errs, leak.WithHint(errors.New("--max-per-hour and --max-per-op are not negative"), "0 allows none"))
	}
	if !slices.Contains([]string{"text", "json", "html"}, format) {
		errs = append(errs, leak.WithHint(fmt.Errorf("--format %s: there is no such report of a fleet", format), "it is text, json or html"))
	}
	return errs
}

// isFleet tells whether a run directory is that of a fleet.
func isFleet(dir leak.RunDir) bool {
	_, err := os.Stat(dir.Path(fleet.RecordFile))
	return err == nil
}

// judge decides again on a fleet, with the bounds of its survey where no others are given; an interruption
// belonged to the survey.
func (b *fleetBounds) judge(c *cobra.Command, dir leak.RunDir, format string, accept bool) (int, error) {
	if errs := b.check(format); len(errs) > 0 {
		return 0, &leak.UsageError{Err: leak.WithHint(errors.Join(errs...), "%s", leak.Hint(errs[0]))}
	}
	r, seal, err := fleet.ReadSealed(dir)
	if err == nil && len(seal.Altered) > 0 && !accept {
		_, err = fleet.Read(dir) // which refuses it
		err = leak.WithHint(err, "%s", leak.SealHint)
	}
	if err != nil {
		return 0, err
	}
	warnSeal(string(dir), seal, accept)
	if !seal.Holds() {
		r.Warnings = append(r.Warnings, seal.String())
	}
	r.Interrupted = false
	for flag, bound := range map[string]struct{ from, to *float64 }{
		"min-judged":   {&b.minJudged, &r.Bounds.MinJudged},
		"max-per-hour": {&b.maxPerHour, &r.Bounds.PerHour},
		"max-per-op":   {&b.maxPerOperation, &r.Bounds.PerOperation},
	} {
		if c.Flags().Changed(flag) {
			*bound.to = *bound.from
		}
	}
	return concludeFleet(c.OutOrStdout(), dir, r, format, false, !seal.Holds() && !accept)
}

// asked tells whether a fleet is to be observed.
func (f *fleetFlags) asked() bool { return f.selector != "" || f.targets != "" }

// check refuses what cannot be.
func (f *fleetFlags) check(format string, every, during time.Duration) error {
	var errs []error
	bad := func(hint, problem string, args ...any) {
		errs = append(errs, leak.WithHint(fmt.Errorf(problem, args...), "%s", hint))
	}
	if f.selector != "" && f.targets != "" {
		bad("leave one of them out", "--selector and --targets: a fleet is either")
	}
	if f.namespace != "" && f.allNamespaces {
		bad("leave one of them out", "--namespace and --all-namespaces: it is either")
	}
	if f.counter != "" && f.label != "" {
		bad("leave one of them out", "--counter and --counter-label: operations are counted by either")
	}
	if every <= 0 || during < every {
		bad("as in --every 1m --for 30m", "--every %s --for %s: no two sweeps", every, during)
	}
	errs = append(errs, f.fleetBounds.check(format)...)
	if _, _, err := f.metricsAt(); err != nil {
		bad("as in /metrics or :9090/metrics", "--metrics %s: %w", f.metrics, err)
	}
	if len(errs) == 0 {
		return nil
	}
	return &leak.UsageError{Err: leak.WithHint(errors.Join(errs...), "%s", leak.Hint(errs[0]))}
}

// metricsAt are the port, 0 for that of pprof, and the path of the metrics.
func (f *fleetFlags) metricsAt() (port int, path string, err error) {
	rest, ok := strings.CutPrefix(f.metrics, ":")
	if ok {
		number, tail, _ := strings.Cut(rest, "/")
		if port, err = strconv.Atoi(number); err != nil || port < 1 || port > 65535 {
			return 0, "", fmt.Errorf("%q is no port", number)
		}
		return port, "/" + tail, nil
	}
	if !strings.HasPrefix(f.metrics, "/") {
		return 0, "", errors.New("it begins with a slash, or with a port")
	}
	return 0, f.metrics, nil
}

// survey observes a fleet: sweeps, judges and prints.
func (o *observation) survey(c *cobra.Command) (int, error) {
	flags, f := c.Flags(), &o.fleet
	if !flags.Changed("every") {
		o.Every = fleetEvery
	}
	if !flags.Changed("for") {
		o.For = fleetFor
	}
	if err := f.check(o.format, o.Every, o.For); err != nil {
		return 0, err
	}
	if err := o.absolute(); err != nil {
		return 0, &leak.UsageError{Err: err}
	}
	lister, err := o.lister(c.InOrStdin())
	if err != nil {
		return 0, err
	}
	dir, err := newRunDir(o.runsDir, "fleet")
	if err != nil {
		return 0, err
	}
	progress := newProgress(os.Stderr)
	defer progress.Done()
	secrets := o.known()
	secrets.AddAll(tokenOf(o.TokenFile, "."))
	o.hidden.AddAll(secrets...)
	progress.secrets = o.hidden
	args := keptArgs(o.args, nil, secrets)
	config := fleet.Config{
		Lister: lister, Poller: profiles.NewSweep(f.label), Vitals: profiles.Vitals, Every: o.Every, For: o.For,
		Timeout: fleetTimeout, Concurrency: fleetConcurrency, Counter: cmp.Or(f.counter, f.label), Label: f.label != "", Progress: progress,
		Save: func(r *fleet.Record) error {
			r.Leakrig, r.Command, r.Bounds = version(), args, f.bounds()
			return r.Write(dir, secrets...)
		},
	}
	if flags.Changed("timeout") {
		config.Timeout = o.Timeout
	}
	if flags.Changed("concurrency") {
		config.Concurrency = max(1, o.Concurrency)
	}
	_, err = fleet.Run(c.Context(), config)
	progress.Done()
	if err != nil {
		return 0, err
	}
	record, err := fleet.Read(dir) // what is judged is what was kept
	if err != nil {
		return 0, err
	}
	return concludeFleet(c.OutOrStdout(), dir, record, o.format, true, false)
}

// concludeFleet judges a fleet, prints the verdict and, where write is set, keeps it. Where withheld is set, its record
// cannot be relied on, and the fleet is not clean.
func concludeFleet(w io.Writer, dir leak.RunDir, r *fleet.Record, format string, write, withheld bool) (int, error) {
	v := fleet.Judge(r, r.Bounds)
	if withheld && v.ExitCode == leak.ExitMet {
		v.Outcome, v.Result, v.ExitCode = leak.Inconclusive, leak.Undecided, leak.ExitInconclusive
		v.Sentence = "Undecided, since the record carries no seal. " + v.Sentence
	}
	v.RunDir = string(dir)
	data, err := fleet.JSON(v)
	if err != nil {
		return 0, err
	}
	var page bytes.Buffer
	if err := fleet.HTML(&page, v); err != nil {
		return 0, err
	}
	if write {
		if err := errors.Join(dir.WriteFile(fleet.VerdictFile, data), dir.WriteFile(fleet.HTMLFile, page.Bytes())); err != nil {
			return 0, &leak.DiskError{Err: err}
		}
	}
	switch format {
	case "json":
		_, err = w.Write(data)
	case "html":
		_, err = w.Write(page.Bytes())
	default:
		err = fleet.Text(w, v)
	}
	return v.ExitCode, err
}

// lister is where the targets come from.
func (o *observation) lister(stdin io.Reader) (fleet.Lister, error) {
	f := &o.fleet
	port, path, err := f.metricsAt()
	if err != nil {
		return nil, err
	}
	if f.targets != "" {
		access := leak.Access{CA: o.CA, Cert: o.Cert, Key: o.Key, TokenFile: o.TokenFile, Insecure: o.Insecure}
		return &fleet.List{File: f.targets, Stdin: stdin, Reach: func(address string) (fleet.Target, error) {
			return reachTarget(address, o.Pprof, access, port, path)
		}}, nil
	}
	pods, err := cluster.NewPods(f.options, cluster.PodQuery{Selector: f.selector, Namespace: f.namespace, All: f.allNamespaces, Port: f.port, Forward: f.via == viaForward})
	if err != nil {
		return nil, err
	}
	if port == 0 {
		port = f.port
	}
	return podLister{pods, f.port, strings.TrimSuffix(o.Pprof, "/"), port, path}, nil
}

// reachTarget is a target at a URL; its metrics are beside its pprof, or on another port of the same host.
func reachTarget(address, pprof string, access leak.Access, port int, path string) (fleet.Target, error) {
	u, err := url.Parse(address)
	if err != nil {
		return fleet.Target{}, err
	}
	if base, ok := strings.CutSuffix(strings.TrimSuffix(u.Path, "/"), pprof); ok && u.Scheme != "unix" {
		u.Path = base // it leads to pprof itself
	}
	subject, err := subjects.Remote(u.String(), pprof, access)
	if err != nil {
		return fleet.Target{}, err
	}
	metrics := url.URL{Scheme: u.Scheme, Host: u.Host, Path: path} // who asks, the subject's transport says
	switch {
	case u.Scheme == "unix":
		metrics.Scheme, metrics.Host = "http", "localhost"
	case port != 0:
		metrics.Host = net.JoinHostPort(u.Hostname(), strconv.Itoa(port))
	}
	return fleet.Target{Subject: subject, Metrics: metrics.String()}, nil
}

// podLister lists pods as targets.
type podLister struct {
	pods        *cluster.Pods
	port        int
	pprof       string
	metricsPort int
	metrics     string
}

// List asks the API server.
func (l podLister) List(ctx context.Context) ([]fleet.Target, error) {
	pods, err := l.pods.List(ctx)
	if err != nil {
		return nil, err
	}
	targets := make([]fleet.Target, 0, len(pods))
	for _, p := range pods {
		targets = append(targets, fleet.Target{
			ID: p.ID, Name: p.Name,
			Subject: leak.Target{Pprof: l.pods.URL(p, l.port, l.pprof), Transport: func() http.RoundTripper { return l.pods.Transport(p) }},
			Metrics: l.pods.URL(p, l.metricsPort, l.metrics),
		})
	}
	return targets, nil
}
