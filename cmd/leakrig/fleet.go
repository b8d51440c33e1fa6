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
	"github.com/leakrig/leakrig/session"
	"github.com/leakrig/leakrig/subjects"
	"github.com/leakrig/leakrig/terminal"
)

// fleetFlags are the flags of `leakrig fleet`.
type fleetFlags struct {
	args   []string
	hidden *leak.Secrets
	session.Endpoint
	selector, namespace string
	allNamespaces       bool
	targets             string
	port                int
	counter, metrics    string
	label               string
	via                 string
	every, during       time.Duration
	timeout             time.Duration
	concurrency         int
	options             cluster.Options
	runsDir, format     string
	fleetBounds
}

// Ways to reach pods through the API server.
const (
	viaProxy   = "proxy"
	viaForward = "port-forward"
)

func (a *app) fleetCommand() *cobra.Command {
	f := fleetFlags{args: a.args, hidden: &a.hidden}
	c := &cobra.Command{
		Use:   "fleet --selector LABELS|--targets FILE",
		Short: "Observe many running processes under their existing load",
		Long: `Read the goroutines of many processes at a fixed interval, and report the stacks that grow, how many
processes they grow in, and the worst of these. leakrig starts nothing and sends no load.
The exit code is 1 if a process leaks.

--selector reads pods through the API server. --targets reads a list of URLs.`,
		Example: `  leakrig fleet --selector app=orders --all-namespaces --every 1m --for 30m
  leakrig fleet --targets hosts.txt --counter http_requests_total`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			a.code, err = f.survey(c)
			return err
		},
	}
	o := c.Flags()
	o.StringVar(&f.selector, "selector", "", "labels of the pods to read through the API server")
	o.StringVarP(&f.namespace, "namespace", "n", "", "namespace of the pods (default: that of the context)")
	o.BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "read pods in all namespaces")
	o.IntVar(&f.port, "port", 6060, "port of pprof in the pods")
	wordFlag(c, &f.via, "via", viaProxy, []string{viaProxy, viaForward}, "way to the pods; port-forward also reaches loopback addresses and costs more")
	o.StringVar(&f.targets, "targets", "", "`file` with one URL per line, read again before each sweep (-: standard input, read once)")
	o.DurationVar(&f.every, "every", time.Minute, "interval between sweeps")
	o.DurationVar(&f.during, "for", 30*time.Minute, "time from the first sweep to the last")
	o.IntVar(&f.concurrency, "concurrency", 32, "maximum number of targets read at once")
	o.DurationVar(&f.timeout, "timeout", 10*time.Second, "timeout of a target")
	o.StringVar(&f.counter, "counter", "", "`metric` that counts operations, for growth per operation instead of per hour")
	o.StringVar(&f.label, "counter-label", "", "pprof `label` of goroutines whose largest number counts operations")
	o.StringVar(&f.metrics, "metrics", "/metrics", "port and path of the metrics, `[:PORT]/PATH`")
	f.fleetBounds.add(c)
	o.StringVar(&f.options.KubeconfigFile, "kubeconfig", "", "kubeconfig `file` of the cluster (default: as kubectl)")
	o.StringVar(&f.options.Context, "context", "", "context of the cluster (default: the current one)")
	o.StringVar(&f.runsDir, "runs-dir", "runs", "folder for run directories")
	addEndpointFlags(c, &f.Endpoint)
	wordFlag(c, &f.format, "format", "text", fleetFormats, "output format")
	return c
}

// fleetFormats are the reports of a fleet.
var fleetFormats = []string{"text", "json", "html"}

// fleetBounds are what the verdict on a fleet goes by.
type fleetBounds struct{ minJudged, maxPerHour, maxPerOperation float64 }

func (b *fleetBounds) add(c *cobra.Command) {
	o := c.Flags()
	o.Float64Var(&b.minJudged, "min-judged", 0.99, "minimum share of judged targets for a clean fleet")
	o.Float64Var(&b.maxPerHour, "max-per-hour", 10, "maximum growth of goroutines per hour, for one stack of one target of a fleet")
	o.Float64Var(&b.maxPerOperation, "max-per-op", 0, "maximum growth per operation, for targets with --counter or --counter-label")
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
	if !slices.Contains(fleetFormats, format) {
		errs = append(errs, leak.WithHint(fmt.Errorf("--format %s: unknown report of a fleet", format), "it is text, json or html"))
	}
	return errs
}

// isFleet reports whether a run directory is of a fleet.
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
	session.WarnSeal(string(dir), seal, accept)
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

// check refuses what cannot be.
func (f *fleetFlags) check() error {
	var errs []error
	bad := func(hint, problem string, args ...any) {
		errs = append(errs, leak.WithHint(fmt.Errorf(problem, args...), "%s", hint))
	}
	if (f.selector == "") == (f.targets == "") {
		bad("--selector reads pods, --targets a list of URLs", "give either --selector or --targets")
	}
	if f.namespace != "" && f.allNamespaces {
		bad("leave one of them out", "--namespace and --all-namespaces: it is either")
	}
	if f.counter != "" && f.label != "" {
		bad("leave one of them out", "--counter and --counter-label: operations are counted by either")
	}
	if f.every <= 0 || f.during < f.every {
		bad("as in --every 1m --for 30m", "--every %s --for %s: no two sweeps", f.every, f.during)
	}
	errs = append(errs, f.fleetBounds.check(f.format)...)
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
			return 0, "", fmt.Errorf("%q is not a port", number)
		}
		return port, "/" + tail, nil
	}
	if !strings.HasPrefix(f.metrics, "/") {
		return 0, "", errors.New("it begins with a slash, or with a port")
	}
	return 0, f.metrics, nil
}

// survey observes a fleet: sweeps, judges and prints.
func (f *fleetFlags) survey(c *cobra.Command) (int, error) {
	if err := f.check(); err != nil {
		return 0, err
	}
	if err := f.Absolute(); err != nil {
		return 0, &leak.UsageError{Err: err}
	}
	lister, err := f.lister(c.InOrStdin())
	if err != nil {
		return 0, err
	}
	dir, err := session.NewRunDir(f.runsDir, "fleet")
	if err != nil {
		return 0, err
	}
	progress := terminal.NewProgress(os.Stderr)
	defer progress.Done()
	secrets := session.KnownSecrets(f.args)
	secrets.AddAll(session.TokenOf(f.TokenFile, "."))
	f.hidden.AddAll(secrets...)
	progress.Secrets = f.hidden
	args := session.KeptArgs(f.args, nil, secrets)
	config := fleet.Config{
		Lister: lister, Poller: profiles.NewSweep(f.label), Vitals: profiles.Vitals, Every: f.every, For: f.during,
		Timeout: f.timeout, Concurrency: max(1, f.concurrency), Counter: cmp.Or(f.counter, f.label), Label: f.label != "", Progress: progress,
		Save: func(r *fleet.Record) error {
			r.Leakrig, r.Command, r.Bounds = version(), args, f.bounds()
			return r.Write(dir, secrets...)
		},
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
	return concludeFleet(c.OutOrStdout(), dir, record, f.format, true, false)
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
func (f *fleetFlags) lister(stdin io.Reader) (fleet.Lister, error) {
	port, path, err := f.metricsAt()
	if err != nil {
		return nil, err
	}
	if f.targets != "" {
		return &fleet.List{File: f.targets, Stdin: stdin, Reach: func(address string) (fleet.Target, error) {
			return reachTarget(address, f.Pprof, f.Access(), port, path)
		}}, nil
	}
	pods, err := cluster.NewPods(f.options, cluster.PodQuery{Selector: f.selector, Namespace: f.namespace, All: f.allNamespaces, Port: f.port, Forward: f.via == viaForward})
	if err != nil {
		return nil, err
	}
	if port == 0 {
		port = f.port
	}
	return podLister{pods, f.port, strings.TrimSuffix(f.Pprof, "/"), port, path}, nil
}

// reachTarget returns a target at a URL. Its metrics are on the same port as its pprof, or on another port of the
// same host.
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
