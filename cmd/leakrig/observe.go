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
)

// observation is what `leakrig observe` makes a scenario of.
type observation struct {
	runFlags
	URLs                     []string
	Pprof                    string
	CA, Cert, Key, TokenFile string
	Insecure                 bool
	Times, Concurrency       int
	Operations, Warmup       int
	Control, PID             int
	Process                  bool
	Rounds, MaxRounds        int
	Quiet, Timeout           time.Duration
	Every, For               time.Duration
	MaxGoroutines, MaxHeap   string
	Argv                     []string
	fleet                    fleetFlags
}

// What observe does unless flags say otherwise.
const (
	defaultBudget = time.Minute
	scaledQuiet   = 300 * time.Millisecond
	controlRounds = 2
)

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

// Description tells the report where the scenario comes from.
func (o *observation) Description() string {
	return "Written by leakrig observe: " + strings.Join(o.Argv, " ") + " against " + programs(len(o.URLs)) + " that ran already."
}

func (a *app) observeCommand() *cobra.Command {
	o := observation{runFlags: runFlags{args: a.args, hidden: &a.hidden, cluster: "auto", times: 1}}
	c := &cobra.Command{
		Use:   "observe URL... [flags] -- COMMAND [ARG...] | observe --selector LABELS|--targets FILE",
		Short: "Judge any process that serves pprof, under the load of any command, or a whole fleet as it is",
		Long: `Run a command round after round against a process that serves net/http/pprof, and judge how its
goroutines and its heap grow: the judgement of leakrig run without a scenario file and without a cluster.
It expects clean, so a leak ends it with exit code 1. The process is only read, never started or stopped.

URL is http, https or unix (unix:///run/app.sock). Where it has a path, pprof is looked for below it, at
/debug/pprof unless --pprof says otherwise. The command finds URL in its environment, and in OP the number
of its first operation, which {{.Op}} in its arguments is, too.

Several URLs, with -- before the command, are replicas of one program: each is read and judged by itself, and
the worst is shown. URL in the command's environment is then each of them in turn.

With --every and --for it soaks: a round comes so often, for so long, and the run directory stays small. With
--resume the same command goes on with a soak that was cut short, while the process is the same one.

The run directory holds the scenario that was run: a start for one of your own.

With --selector, or --targets, and without a command it observes a fleet, hundreds or a thousand processes
under whatever load they have: it sweeps over them, --every so often --for so long, and tells on which
stacks goroutines grow, in how many of them, and where it is worst. It only reads.`,
		Example: `  leakrig observe http://127.0.0.1:6060 -- curl -sf http://127.0.0.1:8080/orders
  leakrig observe https://127.0.0.1:8443/admin --ca ca.pem --cert me.pem --key me.key -- ./load.sh
  leakrig observe http://10.0.0.7:6060 http://10.0.0.8:6060 -- sh -c 'curl -sf $URL/orders'
  leakrig observe http://127.0.0.1:6060 --every 10m --for 72h --resume -- ./load.sh
  leakrig observe unix:///run/app.sock --operations 100 --times 1 -- hey -n 100 http://127.0.0.1:8080/
  leakrig observe --selector app=orders --all-namespaces --every 1m --for 30m
  leakrig observe --targets hosts.txt --counter http_requests_total`,
		Args: func(c *cobra.Command, args []string) error {
			if o.fleet.asked() {
				return cobra.NoArgs(c, args)
			}
			return cobra.MinimumNArgs(2)(c, args)
		},
		RunE: func(c *cobra.Command, args []string) (err error) {
			if o.fleet.asked() {
				if o.resume {
					return usage(c, errors.New("--resume is for a soak, a fleet begins anew"))
				}
				a.code, err = o.survey(c)
				return err
			}
			n := max(1, c.ArgsLenAtDash())
			if n == len(args) {
				return usage(c, errors.New("a command is missing after --"))
			}
			o.URLs, o.Argv = args[:n:n], args[n:]
			switch flags := c.Flags(); {
			case flags.Changed("every") && !flags.Changed("for"):
				return usage(c, errors.New("--every and --for need each other"))
			case flags.Changed("for") && !flags.Changed("every") && (flags.Changed("rounds") || flags.Changed("times") || flags.Changed("max-rounds")):
				return usage(c, errors.New("--for says how long operations are added, --rounds, --times and --max-rounds fix how many there are"))
			case flags.Changed("every") && (flags.Changed("rounds") || flags.Changed("max-rounds")):
				return usage(c, errors.New("rounds come by time (--every, --for) or by number (--rounds, --max-rounds)"))
			case flags.Changed("every") && (o.Every <= 0 || o.For <= 0):
				return usage(c, errors.New("--every and --for must be more than 0"))
			case !flags.Changed("every") && !flags.Changed("rounds") && !flags.Changed("times") && !flags.Changed("max-rounds"):
				o.Times, o.Control = 1, controlRounds
				if !flags.Changed("for") {
					o.For = defaultBudget
				}
				if !flags.Changed("quiet") {
					o.Quiet = scaledQuiet
				}
			}
			a.code, err = o.run(c)
			return err
		},
	}
	f := c.Flags()
	f.IntVar(&o.Rounds, "rounds", 7, "measured rounds, all alike, instead of --for")
	f.IntVar(&o.MaxRounds, "max-rounds", 0, "where some check is undecided, go on, as many rounds at a time, up to so many (default: no more)")
	f.DurationVar(&o.Every, "every", 0, "soak: a round so often instead of --rounds, with --for; a fleet: sweep so often (default 1m)")
	f.DurationVar(&o.For, "for", 0, "how long to add operations until all is decided (default 1m); with --every how long to soak; a fleet: from the first sweep to the last (default 30m)")
	f.BoolVar(&o.resume, "resume", false, resumeDoc)
	f.IntVar(&o.Warmup, "warmup", 1, "rounds to throw away before the baseline")
	f.IntVar(&o.Times, "times", 10, "invocations of the command in a round, all rounds alike, instead of --for")
	f.IntVar(&o.Concurrency, "concurrency", 1, "invocations under way at once, at most; of a fleet, targets read at once (default 32)")
	f.IntVar(&o.Operations, "operations", 1, "operations that one invocation counts for")
	f.DurationVar(&o.Timeout, "timeout", 5*time.Minute, "an invocation that takes longer has failed; of a fleet, a target that does not answer for so long (default 10s)")
	f.DurationVar(&o.Quiet, "quiet", time.Second, "settled when no group of goroutines shrank between two such windows; with --for alone 300ms")
	f.StringVar(&o.MaxGoroutines, "max-goroutines", "", "budget: how many goroutines an operation may leave behind, as in 0.05 (default: none, any growth that goes on is a leak)")
	f.StringVar(&o.MaxHeap, "max-heap", "", "budget: how much heap an operation may leave behind, as in 4KiB (default: none)")
	f.IntVar(&o.PID, "pid", 0, "process on this machine that serves URL (default: the one whose socket listens there)")
	f.StringVar(&o.Pprof, "pprof", "/debug/pprof", "`path` of net/http/pprof below URL")
	f.StringVar(&o.CA, "ca", "", "PEM `file` with the authorities that its certificate may come from")
	f.StringVar(&o.Cert, "cert", "", "PEM `file` with the client's certificate")
	f.StringVar(&o.Key, "key", "", "PEM `file` with its key")
	f.StringVar(&o.TokenFile, "token-file", "", "`file` with a bearer token")
	f.BoolVar(&o.Insecure, "insecure", false, "take any certificate")
	f.StringVar(&o.runsDir, "runs-dir", "runs", "folder for run directories")
	o.fleet.add(c)
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
	o.hidden.AddAll(o.known()...)
	progress := newProgress(os.Stderr)
	progress.secrets = o.hidden
	defer progress.Done()
	if err := o.findProcess(c.Context(), progress); err != nil {
		return 0, err
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
	private, err := o.hide(src, s)
	if err != nil {
		return 0, err
	}
	launcher := o.launcher(src, s, "")
	if err := errors.Join(checks.Feasible(s, 1), launcher.Check(s.Spec.Variants)); err != nil {
		return 0, &leak.UsageError{Err: err}
	}
	progress.secrets = &private.secrets
	return o.once(c, private, s, s.Spec.Variants, leak.Kind[leak.Provider]{}, launcher, progress, format)
}

// findProcess looks for the process behind every URL, so that descriptors, threads and resident memory are read, too.
func (o *observation) findProcess(ctx context.Context, progress leak.Progress) error {
	access := leak.Access{CA: o.CA, Cert: o.Cert, Key: o.Key, TokenFile: o.TokenFile, Insecure: o.Insecure}
	if o.PID != 0 && len(o.URLs) > 1 {
		return &leak.UsageError{Err: errors.New("--pid is the process of one URL")}
	}
	for _, u := range o.URLs {
		process, err := subjects.Behind(ctx, u, o.Pprof, access, o.PID)
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

// absolute makes the paths of files independent of the folder that the scenario will lie in, and takes URLs
// that lead to pprof itself for what they are.
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
