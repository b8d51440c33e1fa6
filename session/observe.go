package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"
	"time"

	"github.com/leakrig/leakrig/checks"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/scenarios"
	"github.com/leakrig/leakrig/subjects"
)

// Observation is what `leakrig observe` and `leakrig soak` make a scenario of.
type Observation struct {
	Options
	// Name is the scenario's, and that of the folder of its runs. By is the command that makes the scenario.
	Name, By string
	URLs     []string
	Endpoint
	Times, Concurrency     int
	Operations, Warmup     int
	Control, PID           int
	HasProcess             bool
	Rounds, MaxRounds      int
	Quiet, Timeout         time.Duration
	Every, For             time.Duration
	MaxGoroutines, MaxHeap string
	Command                []string
}

// Endpoint is where pprof is below a URL, and what proves who asks for it.
type Endpoint struct {
	Pprof                    string
	CA, Cert, Key, TokenFile string
	Insecure                 bool
}

// Windows for settling, for operations that are added for a time, and for a fixed number.
const (
	scaledQuiet = 300 * time.Millisecond
	fixedQuiet  = time.Second
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
  name: {{json .Name}}
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
        argv: {{json .Command}}
        times: {{.Times}}
        concurrency: {{.Concurrency}}
        operations: {{.Operations}}
        timeout: {{.Timeout}}
  settle: {quiet: {{.Quiet}}}
  probes: [goroutine, heap{{if .HasProcess}}, process{{end}}]
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
{{- if .HasProcess}}
{{- range $kind := .Descriptors}}
    - growth: {name: {{$kind}}, probe: process, metric: {{$kind}}}
{{- end}}
    - growth: {name: threads, probe: process, metric: threads}
{{- if not (or .MaxHeap .MaxGoroutines)}}
    - growth: {name: native, probe: process, metric: native}
    - growth: {name: resident, probe: process, metric: rss}
{{- end}}
{{- end}}
`))

// Descriptors are the metrics of file descriptors to judge: each kind, and all of them.
func (*Observation) Descriptors() []string {
	return []string{"sockets", "files", "pipes", "eventfds", "others", "descriptors"}
}

// Description says in the report where the scenario comes from.
func (o *Observation) Description() string {
	return "Written by leakrig " + o.By + ": " + strings.Join(o.Command, " ") + " against " + programs(len(o.URLs)) + " that ran already."
}

// Access is what proves who asks.
func (e *Endpoint) Access() leak.Access {
	return leak.Access{CA: e.CA, Cert: e.Cert, Key: e.Key, TokenFile: e.TokenFile, Insecure: e.Insecure}
}

// Absolute makes the paths of files independent of the folder that the scenario will be in.
func (e *Endpoint) Absolute() error {
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

// Observe observes, and returns the exit code.
func (o *Observation) Observe(ctx context.Context, out io.Writer) (int, error) {
	format, err := o.Report()
	if err != nil {
		return 0, err
	}
	if o.Quiet == 0 {
		o.Quiet = fixedQuiet
		if o.For > 0 && o.Every == 0 {
			o.Quiet = scaledQuiet
		}
	}
	if err := errors.Join(o.Absolute(), o.trim()); err != nil {
		return 0, &leak.UsageError{Err: err}
	}
	o.KeepSecret(KnownSecrets(o.Args)...)
	progress := o.newProgress(o.Hidden)
	defer progress.Done()
	if err := o.findProcess(ctx, progress); err != nil {
		return 0, err
	}
	var text strings.Builder
	if err := observed.Execute(&text, o); err != nil {
		return 0, err
	}
	src := scenarios.Source{Name: o.By, Data: []byte(text.String())}
	s, err := scenarios.Load(src, Kinds())
	if err != nil {
		return 0, err
	}
	private, err := o.Hide(src, s)
	if err != nil {
		return 0, err
	}
	launcher := o.Launcher(src, s, "")
	if err := errors.Join(checks.Feasible(s, 1), launcher.Check(s.Spec.Variants)); err != nil {
		return 0, &leak.UsageError{Err: err}
	}
	progress.Secrets = &private.Secrets
	return o.once(ctx, out, resolved{scenario: s, variants: s.Spec.Variants, launcher: launcher, private: private, progress: progress, format: format})
}

// findProcess looks for the process behind every URL, so that descriptors, threads and resident memory are read, too.
func (o *Observation) findProcess(ctx context.Context, progress leak.Progress) error {
	if o.PID != 0 && len(o.URLs) > 1 {
		return &leak.UsageError{Err: errors.New("--pid is the process of one URL")}
	}
	for _, u := range o.URLs {
		process, err := subjects.Behind(ctx, u, o.Pprof, o.Access(), o.PID)
		if err != nil {
			o.HasProcess = false
			if o.PID != 0 {
				return &leak.UsageError{Err: leak.WithHint(fmt.Errorf("--pid: %w", err), "it must run on this machine, may be read by you, and be the one that serves pprof")}
			}
			progress.Log("descriptors, threads and resident memory are not read: %v", err)
			return nil
		}
		o.HasProcess = true
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
func (o *Observation) trim() error {
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
