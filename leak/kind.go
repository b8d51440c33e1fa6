package leak

import (
	"context"
	"io/fs"
	"net/http"
	"time"
)

// Kind declares one kind of action, probe or check as a value. New returns the kind's configuration
// with its defaults set; the scenario loader fills it in place, so the configuration is the thing
// itself.
type Kind[T any] struct {
	// Name is the word that a scenario uses.
	Name string
	// Doc is one or more sentences for `leakrig kinds`; the first one stands alone.
	Doc string
	// Metrics is what a probe reads, the default first; empty for everything but probes.
	Metrics []Metric
	// New returns a fresh value, defaults set. It must be a pointer to a struct whose fields carry
	// `yaml` and `doc` tags.
	New func() T
}

// Metric is one number that a probe reads at every snapshot.
type Metric struct {
	Name string `json:"name"`
	// Unit is "goroutines", "bytes", "objects", "descriptors" or "threads".
	Unit string `json:"unit"`
	Doc  string `json:"doc"`
	// Coarse is how much the metric changes without growth, in steps of memory that the runtime or the kernel
	// allocate; 0 if every change counts.
	Coarse float64 `json:"coarse,omitempty"`
	// Outside is the series, as "probe.metric", whose memory this metric does not include; "" if it has none. Growth
	// of this metric alone is outside of that memory.
	Outside string `json:"outside,omitempty"`
	// Signed is set if the metric is a difference, which can be below zero.
	Signed bool `json:"signed,omitempty"`
	// Default marks the metric that a check means when it names none: a probe's first.
	Default bool `json:"default,omitempty"`
}

// MetricsByName makes of a probe's metrics, the default first, those of a record: by "probe.metric".
func MetricsByName(byProbe map[string][]Metric) map[string]Metric {
	all := map[string]Metric{}
	for probe, metrics := range byProbe {
		for i, m := range metrics {
			m.Default = i == 0
			all[probe+"."+m.Name] = m
		}
	}
	return all
}

// Kinds is everything that a scenario may name. Package main lists it; nothing registers itself.
type Kinds struct {
	Actions   []Kind[Action]
	Probes    []Kind[Probe]
	Checks    []Kind[Check]
	Providers []string
}

// Action is a kind of load. Run performs the operations of one round against t and returns when all
// of them ended. Operations are numbered from first, without a gap, so that names made from the
// number never repeat within a variant. A failed operation belongs in the tally; an error means that
// the load itself could not be run.
type Action interface {
	Run(ctx context.Context, t Target, first int) (Tally, error)
}

// Validator is an optional interface of every kind. It returns all problems of a decoded configuration as FieldErrors
// joined with errors.Join.
type Validator interface {
	Validate() error
}

// Preparer is an optional extra of an action: it reads what it needs from the folder of the scenario
// file, before anything is booted.
type Preparer interface {
	Prepare(files fs.FS) error
}

// ClusterUser is an optional interface of an action that works through the API server, so that the scenario needs a
// cluster. UsesPods reports whether it also needs running pods, and therefore nodes.
type ClusterUser interface {
	UsesPods() bool
}

// Scaler is an optional interface of an action. Scaled returns the same action with factor times the operations.
type Scaler interface {
	Scaled(factor int) Action
}

// Probe is a way to read a subject. Sample takes one reading.
type Probe interface {
	Sample(ctx context.Context, t Target) (Reading, error)
}

// Poller is an optional extra of a probe that can be read cheaply and often. The settle loop watches
// the groups that Poll returns, and the snapshot takes their minimum over the last quiet window.
type Poller interface {
	// Poll reads t once. before is the previous reading of t, the zero Poll if there is none: it lets the probe
	// read only the source that it will use.
	Poll(ctx context.Context, t Target, before Poll) (Poll, error)
}

// Poll is one cheap reading between load and snapshot.
type Poll struct {
	// Total is the number of goroutines.
	Total int64
	// Source says where the groups were read ("dump" or "profile"); sources are never mixed.
	Source string
	Groups []Group
	Stacks map[string]Stack
	// Count is the largest number in the pprof label of the poller on any goroutine, 0 if no goroutine has the label.
	Count float64
}

// Reading is the result of a probe: the sample, the stacks of its groups, and the raw files as read.
type Reading struct {
	Sample Sample
	Stacks map[string]Stack
	Files  []File
}

// File is a raw file of a reading; Name has no folder ("heap.pb.gz").
type File struct {
	Name string
	Data []byte
	// Same is equal for files with the same content that were read at different times; "" if only their bytes can be
	// compared.
	Same string
}

// Check judges one variant from its record alone. It has no side effects.
type Check interface {
	Check(e Evidence) Finding
}

// Evidence is what a check may look at.
type Evidence struct {
	// Check is the name that the scenario gave this check.
	Check   string
	Variant VariantRecord
	// Metrics are those of the record, by "probe.metric".
	Metrics map[string]Metric
	// Rounds is how many rounds were planned after the baseline.
	Rounds int
	// Alpha is this check's share of the run's false-alarm budget.
	Alpha float64
	// For is the time budget of the run, 0 where rounds were fixed; Spent is the share of it that has gone by, 1
	// where no more operations will come.
	For   time.Duration
	Spent float64
	// Linger is how long growth may linger, 0 for the default.
	Linger time.Duration
	// Allow are the known leaks that do not count.
	Allow []Allowance
	// Attribution says whose code the growing stacks name.
	Attribution Attribution
}

// Reader is an optional extra of a check: which probe and metric it judges ("" is the default
// metric). The loader refuses a check whose probe the scenario does not take.
type Reader interface {
	Reads() (probe, metric string)
}

// LoadReader is an optional interface of a check that judges the load: the name of an action of the round, "" for the
// one whose operations count, or AllActions. The loader refuses a check of an action that the round does not have.
type LoadReader interface {
	ReadsLoad() string
}

// AllActions stands for all actions of a round.
const AllActions = "*"

// TrendTester is an optional extra of a check that draws on the false-alarm budget.
type TrendTester interface {
	TestsTrend() bool
}

// Target is how load and probes reach a running subject.
type Target struct {
	// URL is the base of the subject's operations, without a trailing slash.
	URL string
	// Pprof is the base of its net/http/pprof handlers, without a trailing slash.
	Pprof string
	// Transport returns a new transport that reaches the subject with the credentials of the scenario. The caller
	// closes its idle connections when done: an open connection is a goroutine of the subject.
	Transport func() http.RoundTripper
	// Dump returns a text dump of all goroutines (runtime.Stack), for a subject without pprof; nil
	// where Pprof serves them.
	Dump func(ctx context.Context) ([]byte, error)
	// Replicas are the targets of all replicas of the subject; nil where it is alone. An action whose operations
	// are for the subject gives each of them one in turn, the first of the list first, and tallies their shares
	// in the list's order.
	Replicas []Target
	// Freeze stops the processes of the subject (true) or continues them (false); nil if leakrig did not start them here.
	Freeze func(stop bool) error
	// Down stops a dependency or a part of the cluster, like that of Breakable; nil if there is none.
	Down func(ctx context.Context, p Part) (up func(ctx context.Context) error, err error)
	// Links are the connections of the subject that lead through a proxy, by the name of what is behind it.
	Links map[string]Link
	// Dependencies are the targets of the dependencies, by name.
	Dependencies map[string]Target
	// Env has additional environment variables for programs that run as load.
	Env []string
	// InCluster returns URL as pods of the cluster reach it; nil where they cannot.
	InCluster func(ctx context.Context) (string, error)
	// Kubeconfig leads to the cluster, "" where there is none.
	Kubeconfig string
	// Namespace and Selector find the subject's pod, "" where it is none.
	Namespace, Selector string
	// Program is the file of the subject's executable on this machine, "" if only Proc has it.
	Program string
	// Proc is the subject's folder below /proc, nil where it cannot be read.
	Proc fs.FS
	// Process returns the platform's name of the measured process, which changes if another process takes its place;
	// "" if no process is there. It is nil if the platform does not know.
	Process func(ctx context.Context) (string, error)
	// Resident is resident memory in bytes as something else reports it, with the time at which that
	// read it; nil where nothing does. It is used where Proc is nil.
	Resident func(ctx context.Context) (bytes float64, read time.Time, err error)
}

// Provider boots clusters.
type Provider interface {
	// Boot returns a ready cluster. When it fails or ctx ends, nothing that it started is left.
	Boot(ctx context.Context, o BootOptions) (Cluster, error)
}

// Preflighter is an optional interface of a provider. It returns why a boot cannot succeed on this machine, before
// anything boots. It may download what the boot needs.
type Preflighter interface {
	Preflight(ctx context.Context, o BootOptions) error
}

// LogSaver is an optional extra of a cluster: it collects the logs of its components into
// BootOptions.Logs, for a run that went wrong.
type LogSaver interface {
	SaveLogs(ctx context.Context) error
}

// BootOptions is what a provider needs to boot a cluster.
type BootOptions struct {
	Spec ClusterSpec
	// Fixtures are what a booted cluster is filled with.
	Fixtures Fixtures
	// Run names this run, in the form of a DNS label.
	Run string
	// Pods is set where the subject is to run as a pod, LoadsPods where the load works on pods that run.
	Pods, LoadsPods bool
	// Workers is set where load comes from workers in the cluster.
	Workers bool
	// Programs are the programs that those workers run in addition to leakrig, by their names on the PATH.
	Programs []string
	// Node has commands of the nodes at versions that differ from the image. Components are the parts of the cluster
	// to observe.
	Node       []NodePin
	Components []ComponentSpec
	// Scratch is a private folder that exists and outlives the cluster.
	Scratch string
	// Logs is a folder that exists, for the logs of the cluster's own components.
	Logs     string
	Progress Progress
}

// Cluster is a running control plane, with or without nodes.
type Cluster interface {
	Info() ClusterInfo
	// Kubeconfig is the path of a kubeconfig whose current context points at this cluster, with the
	// namespace for the run set.
	Kubeconfig() string
	// Check returns an error when the API server no longer answers.
	Check(ctx context.Context) error
	// Close ends everything that Boot started.
	Close(ctx context.Context) error
}

// Launcher builds and starts the variants of one scenario's subject.
type Launcher interface {
	// Build makes the variant's binary, where there is something to build.
	Build(ctx context.Context, v Variant) error
	// Start starts the variant, which was built, and returns when it is ready. c is nil where the
	// scenario has no cluster; the subject's output goes to the file log.
	Start(ctx context.Context, v Variant, c Cluster, log string) (Subject, error)
}

// PodRunner is an optional extra of a cluster that can run a subject as a pod.
type PodRunner interface {
	RunPod(ctx context.Context, l Launch) (Subject, error)
}

// Observer is an optional interface of a cluster with observable components. program runs in addition to them; it is
// nil if there is none.
type Observer interface {
	Observe(ctx context.Context, c ComponentSpec, program Subject) (Subject, error)
}

// Composed is an optional interface of a subject with components, in addition to its program or instead of one.
type Composed interface {
	// Component is the target of the component that the scenario calls name.
	Component(name string) Target
	Components() []ComponentInfo
}

// Subject is a running program under observation.
type Subject interface {
	Target() Target
	Info() SubjectInfo
	// Done is closed when the program has exited or was stopped.
	Done() <-chan struct{}
	// Err returns why the program ended, with the last lines of its log; nil while it runs.
	Err() error
	// Stop ends the program and everything it started.
	Stop(ctx context.Context) error
}

// Replicated is an optional interface of a subject with several replicas, each of which is a subject. Target is the
// first one's target and has those of all in Replicas. Done and Err are those of the first that ends.
type Replicated interface {
	Replicas() []Subject
}

// Progress reports to the user what leakrig is doing.
type Progress interface {
	// Log writes a line that stays.
	Log(format string, args ...any)
	// Status replaces the last status line. It does nothing if the output is not a terminal.
	Status(format string, args ...any)
}

// Watcher is an optional extra of a Progress: it shows how a measurement stands, in place of a status.
type Watcher interface {
	Watch(Standing)
}

// Standing is how the measurement of one variant stands.
type Standing struct {
	Variant string
	// Doing is what goes on now, as in "round 3/8" or "idling".
	Doing string
	// Rate is operations per second under the last round's load, 0 before the first.
	Rate float64
	// Series are the default metrics of the probes, from the baseline on.
	Series []Series
	// Left is an estimate for all variants together, negative where nothing is known yet.
	Left time.Duration
}

// Series is one metric, snapshot by snapshot.
type Series struct {
	Name, Unit string
	Values     []float64
}
