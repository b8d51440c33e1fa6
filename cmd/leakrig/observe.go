package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"
	"time"

	"github.com/spf13/cobra"

	"github.com/leakrig/leakrig/checks"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/scenarios"
)

// observation is what `leakrig observe` makes a scenario of.
type observation struct {
	runFlags
	URL, Pprof               string
	CA, Cert, Key, TokenFile string
	Insecure                 bool
	Times, Concurrency       int
	Operations, Warmup       int
	Rounds, MaxRounds        int
	Quiet, Timeout           time.Duration
	MaxGoroutines, MaxHeap   string
	Argv                     []string
}

// reference is what a scenario would take for a parameter; there, two dollars stand for one.
var reference = regexp.MustCompile(`(\$+)(\([^()\s]*\))`)

// observed is the scenario; every value is written as JSON, which YAML reads.
var observed = template.Must(template.New("observe").Funcs(template.FuncMap{"json": func(v any) (string, error) {
	b, err := json.Marshal(v)
	return reference.ReplaceAllString(string(b), "$1$1$2"), err
}}).Parse(`apiVersion: leakrig.dev/v1
kind: Scenario
metadata:
  name: observe
  description: {{json .Description}}
spec:
  subject:
    url: {{json .URL}}
    pprof: {{json .Pprof}}
    access: {ca: {{json .CA}}, cert: {{json .Cert}}, key: {{json .Key}}, tokenFile: {{json .TokenFile}}, insecure: {{.Insecure}}}
  variants:
    - {name: observed, expect: clean}
  warmup: {rounds: {{.Warmup}}}
  rounds: {{.Rounds}}
{{- if .MaxRounds}}
  maxRounds: {{.MaxRounds}}
{{- end}}
  round:
    - command:
        argv: {{json .Argv}}
        times: {{.Times}}
        concurrency: {{.Concurrency}}
        operations: {{.Operations}}
        timeout: {{.Timeout}}
  settle: {quiet: {{.Quiet}}}
  probes: [goroutine, heap]
  checks:
    - growth: {name: goroutines, probe: goroutine, maxPerOp: {{json .MaxGoroutines}}}
    - stack: {name: any-stack, match: ., each: true, maxPerOp: {{json .MaxGoroutines}}}
    - growth: {name: heap, probe: heap, maxPerOp: {{json .MaxHeap}}}
`))

// Description tells the report where the scenario comes from.
func (o *observation) Description() string {
	return "Written by leakrig observe: " + strings.Join(o.Argv, " ") + " against a program that ran already."
}

func (a *app) observeCommand() *cobra.Command {
	o := observation{runFlags: runFlags{args: a.args, cluster: "auto", times: 1}}
	c := &cobra.Command{
		Use:   "observe URL [flags] -- COMMAND [ARG...]",
		Short: "Judge any process that serves pprof, under the load of any command",
		Long: `Run a command round after round against a process that serves net/http/pprof, and judge how its
goroutines and its heap grow: the judgement of leakrig run without a scenario file and without a cluster.
It expects clean, so a leak ends it with exit code 1. The process is only read, never started or stopped.

URL is http, https or unix (unix:///run/app.sock). Where it has a path, pprof is looked for below it, at
/debug/pprof unless --pprof says otherwise. The command finds URL in its environment, and in OP the number
of its first operation, which {{.Op}} in its arguments is, too.

The run directory holds the scenario that was run: a start for one of your own.`,
		Example: `  leakrig observe http://127.0.0.1:6060 -- curl -sf http://127.0.0.1:8080/orders
  leakrig observe https://127.0.0.1:8443/admin --ca ca.pem --cert me.pem --key me.key -- ./load.sh
  leakrig observe unix:///run/app.sock --operations 100 --times 1 -- hey -n 100 http://127.0.0.1:8080/`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(c *cobra.Command, args []string) (err error) {
			o.URL, o.Argv = args[0], args[1:]
			a.code, err = o.run(c)
			return err
		},
	}
	f := c.Flags()
	f.IntVar(&o.Rounds, "rounds", 7, "measured rounds")
	f.IntVar(&o.MaxRounds, "max-rounds", 0, "where some check is undecided, go on, as many rounds at a time, up to so many (default: no more)")
	f.IntVar(&o.Warmup, "warmup", 1, "rounds to throw away before the baseline")
	f.IntVar(&o.Times, "times", 10, "invocations of the command in a round")
	f.IntVar(&o.Concurrency, "concurrency", 1, "invocations under way at once, at most")
	f.IntVar(&o.Operations, "operations", 1, "operations that one invocation counts for")
	f.DurationVar(&o.Timeout, "timeout", 5*time.Minute, "an invocation that takes longer has failed")
	f.DurationVar(&o.Quiet, "quiet", time.Second, "settled when no group of goroutines shrank between two such windows")
	f.StringVar(&o.MaxGoroutines, "max-goroutines", "0.05", "the most that goroutines may grow per operation")
	f.StringVar(&o.MaxHeap, "max-heap", "4KiB", "the most that the heap may grow per operation")
	f.StringVar(&o.Pprof, "pprof", "/debug/pprof", "`path` of net/http/pprof below URL")
	f.StringVar(&o.CA, "ca", "", "PEM `file` with the authorities that its certificate may come from")
	f.StringVar(&o.Cert, "cert", "", "PEM `file` with the client's certificate")
	f.StringVar(&o.Key, "key", "", "PEM `file` with its key")
	f.StringVar(&o.TokenFile, "token-file", "", "`file` with a bearer token")
	f.BoolVar(&o.Insecure, "insecure", false, "take any certificate")
	f.StringVar(&o.runsDir, "runs-dir", "runs", "folder for run directories")
	formatFlag(c, &o.format)
	return c
}

func (o *observation) run(c *cobra.Command) (int, error) {
	format, err := findFormat(o.format)
	if err != nil {
		return 0, err
	}
	if err := o.absolute(); err != nil {
		return 0, &leak.UsageError{Err: err}
	}
	var text strings.Builder
	if err := observed.Execute(&text, o); err != nil {
		return 0, err
	}
	src := scenarios.Source{Name: "observe", Data: []byte(text.String())}
	s, err := scenarios.Load(src, kinds())
	if err != nil {
		return 0, err
	}
	launcher := o.launcher(src, s, "")
	if err := errors.Join(checks.Feasible(s, 1), launcher.Check(s.Spec.Variants)); err != nil {
		return 0, &leak.UsageError{Err: err}
	}
	dir, err := newRunDir(o.runsDir, s.Metadata.Name)
	if err == nil {
		err = dir.WriteFile(leak.ScenarioFile, src.Data)
	}
	if err != nil {
		return 0, err
	}
	progress := newProgress(os.Stderr)
	defer progress.Done()
	record, err := o.measure(c.Context(), s, s.Spec.Variants, leak.Kind[leak.Provider]{}, launcher, dir, progress)
	progress.Done()
	if err != nil {
		return 0, err
	}
	return conclude(c.OutOrStdout(), dir, s, record, format, conclusion{write: true, fresh: true})
}

// absolute makes the paths of files independent of the folder that the scenario will lie in, and takes a
// URL that leads to pprof itself for what it is.
func (o *observation) absolute() error {
	for _, file := range []*string{&o.CA, &o.Cert, &o.Key, &o.TokenFile} {
		if *file == "" {
			continue
		}
		path, err := filepath.Abs(*file)
		if err != nil {
			return err
		}
		*file = path
	}
	u, err := url.Parse(o.URL)
	if err != nil {
		return fmt.Errorf("URL: %w", err)
	}
	if base, ok := strings.CutSuffix(strings.TrimSuffix(u.Path, "/"), o.Pprof); ok && u.Scheme != "unix" {
		u.Path = base
		o.URL = u.String()
	}
	return nil
}
