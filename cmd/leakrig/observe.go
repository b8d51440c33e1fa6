package main

import (
	"context"
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
	"github.com/leakrig/leakrig/subjects"
	"github.com/leakrig/leakrig/terminal"
)

// observation is what `leakrig observe` and `leakrig soak` make a scenario of.
type observation struct {
	runFlags
	// Name is the scenario's, and that of the folder of its runs.
	Name string
	URLs []string
	endpoint
	Times, Concurrency     int
	Operations, Warmup     int
	Control, PID           int
	Process                bool
	Rounds, MaxRounds      int
	Quiet, Timeout         time.Duration
	Every, For             time.Duration
	MaxGoroutines, MaxHeap string
	Argv                   []string
}

// endpoint is where pprof is below a URL, and what proves who asks for it.
type endpoint struct {
	Pprof                    string
	CA, Cert, Key, TokenFile string
	Insecure                 bool
}

// Defaults of observe.
const (
	defaultBudget = time.Minute
	scaledQuiet   = 300 * time.Millisecond
	fixedQuiet    = time.Second
	controlRounds = 2
)

// reference is what a scenario would take for a parameter; there, two dollars stand for one.
var reference = regexp.MustCompile(`(\$+)(\([^()\s]*\))`)

// observed is the scenario; every value is written as JSON, which YAML reads.
var observed = template.Must(template.New("observation").Funcs(template.FuncMap{"json": func(v any) (string, error) {
	b, err := json.Marshal(v)
	return reference.ReplaceAllString(string(b), "$1$1$2"), err
}}).Parse(`apiVersion: leakrig.dev/v1
kind: Scenario
metadata:
  name: {{.Name}}
  description: {{json .Description}}
spec:
  subject:
{{- if eq (len .URLs) 1}}
    url: {{json (index .URLs 0)}}
{{- else}}
    urls: {{json .URLs}}
{{- end}}
    pprof: {{json .Pprof}}
{{- if .PID}}
    pid: {{.PID}}
{{- end}}
    access: {ca: {{json .CA}}, cert: {{json .Cert}}, key: {{json .Key}}, tokenFile: {{json .TokenFile}}, insecure: {{.Insecure}}}
  variants:
    - {name: observed, expect: clean}
  warmup: {rounds: {{.Warmup}}}
{{- if .Every}}
  soak: {every: {{.Every}}, for: {{.For}}}
{{- else if .For}}
  for: {{.For}}
  control: {{.Control}}
{{- else}}
  rounds: {{.Rounds}}
{{- end}}
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
  probes: [goroutine, heap{{if .Process}}, process{{end}}]
  checks:
    - growth: {name: goroutines, probe: goroutine{{if .MaxGoroutines}}, maxPerOp: {{json .MaxGoroutines}}{{end}}}
    - stack: {name: any-stack, match: ., each: true{{if .MaxGoroutines}}, maxPerOp: {{json .MaxGoroutines}}{{end}}}
    - growth: {name: heap, probe: heap{{if .MaxHeap}}, maxPerOp: {{json .MaxHeap}}{{end}}}
{{- if not .MaxHeap}}
    - growth: {name: objects, probe: heap, metric: objects}
{{- end}}
{{- if not .MaxGoroutines}}
    - growth: {name: stacks, probe: heap, metric: stack}
{{- end}}
{{- if .Process}}
    - growth: {name: descriptors, probe: process, metric: descriptors}
    - growth: {name: threads, probe: process, metric: threads}
{{- if not (or .MaxHeap .MaxGoroutines)}}
    - growth: {name: resident, probe: process, metric: rss}
{{- end}}
{{- end}}
`))

// Description says in the report where the scenario comes from.
func (o *observation) Description() string {
	return "Written by leakrig " + o.Name + ": " + strings.Join(o.Argv, " ") + " against " + programs(len(o.URLs)) + " that ran already."
}

func (a *app) observeCommand() *cobra.Command {
	o := observation{runFlags: runFlags{args: a.args, hidden: &a.hidden, cluster: "auto", times: 1}, Name: "observe"}
	c := &cobra.Command{
		Use:   "observe URL... [flags] -- COMMAND [ARG...]",
		Short: "Observe a running process under the load of a command",
		Long: `Repeat a command in rounds, profile a process that serves net/http/pprof before and after each round,
and judge the growth of its goroutines and its memory. No scenario and no cluster are needed.
The exit code is 1 if the process leaks.

URL is http, https or unix (unix:///run/app.sock). If it has a path, leakrig looks for pprof below it.
The command gets URL and OP, the number of its first operation, in its environment. {{.Op}} in its
arguments is replaced by OP.

Several URLs are replicas of one program. leakrig judges each of them and reports the worst. URL is then
each address in turn.

The run directory contains the scenario of the run. Use leakrig soak for rounds over hours, and leakrig
fleet for many processes under their existing load.`,
		Example: `  leakrig observe http://127.0.0.1:6060 -- curl -sf http://127.0.0.1:8080/orders
  leakrig observe http://127.0.0.1:6060 --operations 100 -- hey -n 100 http://127.0.0.1:8080/
  leakrig observe https://127.0.0.1:8443/admin --ca ca.pem --cert me.pem --key me.key -- ./load.sh
  leakrig observe http://10.0.0.7:6060 http://10.0.0.8:6060 -- sh -c 'curl -sf $URL/orders'`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if err := o.split(c, args); err != nil {
				return err
			}
			flags := c.Flags()
			fixed := flags.Changed("rounds") || flags.Changed("times") || flags.Changed("max-rounds")
			if fixed && flags.Changed("for") {
				return usage(c, errors.New("--for adds operations for a time, --rounds, --times and --max-rounds fix their number"))
			}
			if fixed {
				o.For, o.Control = 0, 0
			} else {
				o.Times = 1
			}
			a.code, err = o.run(c)
			return err
		},
	}
	c.SetFlagErrorFunc(movedFlags(map[string]string{
		"every": "soak URL --every 10m --for 72h -- COMMAND", "resume": "soak URL --resume -- COMMAND",
		"selector": "fleet --selector LABELS", "targets": "fleet --targets FILE",
	}))
	o.Control = controlRounds
	f := c.Flags()
	f.DurationVar(&o.For, "for", defaultBudget, "time budget for adding operations until every series is decided")
	f.IntVar(&o.Rounds, "rounds", 7, "fixed number of measured rounds, instead of --for")
	f.IntVar(&o.MaxRounds, "max-rounds", 0, "maximum number of rounds, added in batches of --rounds while a check is undecided (default: --rounds)")
	f.IntVar(&o.Times, "times", 10, "fixed number of invocations per round, instead of --for")
	f.StringVar(&o.MaxGoroutines, "max-goroutines", "", "budget of goroutines per operation, such as 0.05 (default: none, all sustained growth is a leak)")
	f.StringVar(&o.MaxHeap, "max-heap", "", "budget of heap per operation, such as 4KiB (default: none, all sustained growth is a leak)")
	o.addFlags(c)
	return c
}

// addFlags adds the flags that observe and soak share.
func (o *observation) addFlags(c *cobra.Command) {
	f := c.Flags()
	f.IntVar(&o.Warmup, "warmup", 1, "warm-up rounds before the baseline")
	f.IntVar(&o.Concurrency, "concurrency", 1, "maximum number of concurrent invocations")
	f.IntVar(&o.Operations, "operations", 1, "operations per invocation")
	f.DurationVar(&o.Timeout, "timeout", 5*time.Minute, "timeout of an invocation")
	f.DurationVar(&o.Quiet, "quiet", 0, "window for settling: settled when no goroutine group shrank between two windows (default: 300ms with a time budget, 1s otherwise)")
	f.IntVar(&o.PID, "pid", 0, "process on this machine that serves URL (default: the owner of the listening socket)")
	f.StringVar(&o.runsDir, "runs-dir", "runs", "folder for run directories")
	o.endpoint.addFlags(c)
	o.outputFlags.addFlags(c)
}

func (e *endpoint) addFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&e.Pprof, "pprof", "/debug/pprof", "`path` of net/http/pprof below URL")
	f.StringVar(&e.CA, "ca", "", "PEM `file` with the certificate authorities of the server")
	f.StringVar(&e.Cert, "cert", "", "PEM `file` with the client certificate")
	f.StringVar(&e.Key, "key", "", "PEM `file` with the key of the client certificate")
	f.StringVar(&e.TokenFile, "token-file", "", "`file` with a bearer token")
	f.BoolVar(&e.Insecure, "insecure", false, "do not verify the certificate of the server")
}

func (e *endpoint) access() leak.Access {
	return leak.Access{CA: e.CA, Cert: e.Cert, Key: e.Key, TokenFile: e.TokenFile, Insecure: e.Insecure}
}

// absolute makes the paths of files independent of the folder that the scenario will be in.
func (e *endpoint) absolute() error {
	for _, file := range []*string{&e.CA, &e.Cert, &e.Key, &e.TokenFile} {
		if *file == "" {
			continue
		}
		path, err := filepath.Abs(*file)
		if err != nil {
			return err
		}
		*file = path
	}
	return nil
}

// split parts the arguments into the URLs and the command.
func (o *observation) split(c *cobra.Command, args []string) error {
	n := max(1, c.ArgsLenAtDash())
	if n == len(args) {
		return usage(c, errors.New("a command is missing after --"))
	}
	o.URLs, o.Argv = args[:n:n], args[n:]
	return nil
}

// movedFlags answers flags that c no longer has with the command that has them now.
func movedFlags(now map[string]string) func(*cobra.Command, error) error {
	return func(c *cobra.Command, err error) error {
		if command := now[strings.TrimPrefix(unknownFlag(err), "--")]; command != "" {
			err = leak.WithHint(err, "use `leakrig %s`", command)
		}
		return usage(c, err)
	}
}

func (o *observation) run(c *cobra.Command) (int, error) {
	format, err := o.report()
	if err != nil {
		return 0, err
	}
	if o.Quiet == 0 {
		o.Quiet = fixedQuiet
		if o.For > 0 && o.Every == 0 {
			o.Quiet = scaledQuiet
		}
	}
	if err := errors.Join(o.absolute(), o.trim()); err != nil {
		return 0, &leak.UsageError{Err: err}
	}
	o.hidden.AddAll(knownSecrets(o.args)...)
	progress := terminal.NewProgress(os.Stderr)
	progress.Silent = o.brief
	progress.Secrets = o.hidden
	defer progress.Done()
	if err := o.findProcess(c.Context(), progress); err != nil {
		return 0, err
	}
	var text strings.Builder
	if err := observed.Execute(&text, o); err != nil {
		return 0, err
	}
	src := scenarios.Source{Name: o.Name, Data: []byte(text.String())}
	s, err := scenarios.Load(src, kinds())
	if err != nil {
		return 0, err
	}
	private, err := o.hide(src, s)
	if err != nil {
		return 0, err
	}
	launcher := o.launcher(src, s, "")
	if err := errors.Join(checks.Feasible(s, 1), launcher.Check(s.Spec.Variants)); err != nil {
		return 0, &leak.UsageError{Err: err}
	}
	progress.Secrets = &private.secrets
	return o.once(c, private, s, s.Spec.Variants, leak.Kind[leak.Provider]{}, launcher, progress, format)
}

// findProcess looks for the process behind every URL, so that descriptors, threads and resident memory are read, too.
func (o *observation) findProcess(ctx context.Context, progress leak.Progress) error {
	if o.PID != 0 && len(o.URLs) > 1 {
		return &leak.UsageError{Err: errors.New("--pid is the process of one URL")}
	}
	for _, u := range o.URLs {
		process, err := subjects.Behind(ctx, u, o.Pprof, o.access(), o.PID)
		if err != nil {
			o.Process = false
			if o.PID != 0 {
				return &leak.UsageError{Err: leak.WithHint(fmt.Errorf("--pid: %w", err), "it must run on this machine, may be read by you, and be the one that serves pprof")}
			}
			progress.Log("descriptors, threads and resident memory are not read: %v", err)
			return nil
		}
		o.Process = true
		progress.Log("%s is %s: its descriptors, threads and resident memory are read, too", u, process)
	}
	return nil
}

func programs(n int) string {
	if n == 1 {
		return "a program"
	}
	return fmt.Sprintf("%d replicas of a program", n)
}

// trim cuts the path of pprof off URLs that lead to it.
func (o *observation) trim() error {
	for i := range o.URLs {
		u, err := url.Parse(o.URLs[i])
		if err != nil {
			return fmt.Errorf("URL: %w", err)
		}
		if base, ok := strings.CutSuffix(strings.TrimSuffix(u.Path, "/"), o.Pprof); ok && u.Scheme != "unix" {
			u.Path = base
			o.URLs[i] = u.String()
		}
	}
	return nil
}
