package leak

import (
	"slices"
	"strings"
)

// APIVersion and ScenarioKind are the head of every scenario file.
const (
	APIVersion   = "leakrig.dev/v1"
	ScenarioKind = "Scenario"
)

// Scenario is a load to replay, the variants to replay it against, and the bounds to hold.
type Scenario struct {
	APIVersion string   `yaml:"apiVersion" doc:"always leakrig.dev/v1"`
	Kind       string   `yaml:"kind" doc:"always Scenario"`
	Metadata   Metadata `yaml:"metadata" doc:"name and description"`
	Spec       Spec     `yaml:"spec" doc:"what to run and what to hold it to"`
}

// Metadata names a scenario.
type Metadata struct {
	Name        string   `yaml:"name" doc:"lower-case letters, digits and dashes; also the name of the run directory"`
	Description string   `yaml:"description,omitempty" doc:"one or two sentences for the report"`
	Links       []string `yaml:"links,omitempty" doc:"upstream issues and write-ups, https only"`
}

// Spec is the body of a scenario.
type Spec struct {
	Parameters   map[string]string `yaml:"parameters,omitempty" doc:"names and default values; $(name) in another value of the file refers to one, --set name=value overrides it"`
	Cluster      *ClusterSpec      `yaml:"cluster,omitempty" doc:"the cluster that the subject uses (default: none)"`
	Fixtures     Fixtures          `yaml:"fixtures,omitempty" doc:"objects that are created before the subject starts"`
	Subject      SubjectSpec       `yaml:"subject" doc:"the program or the components of the cluster under observation"`
	Dependencies []Dependency      `yaml:"dependencies,omitempty" doc:"programs that the subject needs: leakrig starts each before the subject, and restarts it for every variant"`

	Variants  []Variant       `yaml:"variants" doc:"builds or configurations of the subject, each with an expected outcome"`
	Warmup    Warmup          `yaml:"warmup,omitempty" doc:"rounds before the baseline that are discarded"`
	Rounds    int             `yaml:"rounds,omitempty" doc:"measured rounds after the baseline (default 7)"`
	MaxRounds int             `yaml:"maxRounds,omitempty" doc:"maximum number of rounds: while a check is undecided, rounds are added in batches of rounds (default: none)"`
	For       Duration        `yaml:"for,omitempty" doc:"time budget instead of a number of rounds: rounds grow until every check is decided"`
	Linger    Duration        `yaml:"linger,omitempty" doc:"with for: age at which growth counts as a leak and no longer as lingering (default 40s)"`
	Soak      *SoakSpec       `yaml:"soak,omitempty" doc:"rounds by time instead of by number, with bounded disk use; --resume resumes an interrupted soak"`
	Sizes     []int           `yaml:"sizes,omitempty" doc:"repetitions of the actions per round, in turn (default [1]); different sizes distinguish growth per operation, per round and per minute"`
	Control   int             `yaml:"control,omitempty" doc:"rounds without load before the baseline, which measure growth without load (default 0)"`
	Parallel  int             `yaml:"parallel,omitempty" doc:"number of variants that are measured at once (default 1); they must not share ports, files or objects of the cluster"`
	Round     []Block[Action] `yaml:"round" doc:"the actions of one round, in order"`
	Operation string          `yaml:"operation,omitempty" doc:"the action whose operations count; required if a round has several actions"`
	Settle    SettleSpec      `yaml:"settle,omitempty" doc:"conditions for the end of a round"`
	Probes    []Block[Probe]  `yaml:"probes,omitempty" doc:"measurements of the program at every snapshot; components have separate ones"`
	Holders   string          `yaml:"holders,omitempty" doc:"off: build the subject without the endpoint for heap dumps, and take none (default: on)"`
	Checks    []Block[Check]  `yaml:"checks" doc:"conditions that decide the outcome"`
	Allow     []Allowance     `yaml:"allow,omitempty" doc:"known leaks that do not count in variants that are expected clean, by stack"`

	Attribution Attribution `yaml:"attribution,omitempty" doc:"which code the reports name"`
}

// Values of Spec.Holders.
const (
	HoldersOn  = "on"
	HoldersOff = "off"
)

// Block is one entry of a list of kinds: which kind it is, the name that findings use, and the
// decoded configuration.
type Block[T any] struct {
	Kind  string
	Name  string
	Value T
	// Workers is how many workers in the cluster an action's operations come from, 0 for leakrig itself.
	Workers int
}

// ClusterSpec is what a scenario asks of a cluster.
type ClusterSpec struct {
	Providers  []string `yaml:"providers,omitempty" doc:"supported providers (default: all)"`
	Kubernetes string   `yaml:"kubernetes,omitempty" doc:"version of the control plane (default: chosen by the provider)"`
	Nodes      int      `yaml:"nodes,omitempty" doc:"number of nodes, including the control plane (default 1)"`
}

// ProbeOf is a probe and the component that it reads, "" for the program. Its name is what samples,
// checks and reports call it: goroutine of the program, containerd/goroutine of a component.
type ProbeOf struct {
	Block[Probe]
	Component string
}

// AllProbes lists the probes of the program, then those of the components, in order.
func (s *Spec) AllProbes() []ProbeOf {
	var all []ProbeOf
	for _, b := range s.Probes {
		b.Name = b.Kind
		all = append(all, ProbeOf{Block: b})
	}
	for _, c := range s.Subject.Components {
		for _, b := range c.Probes {
			b.Name = c.Name + "/" + b.Kind
			all = append(all, ProbeOf{Block: b, Component: c.Name})
		}
	}
	return all
}

// ProbeKind is the kind of the probe with that name.
func ProbeKind(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// OwnClusters reports whether every variant needs an unused cluster: if the cluster itself is observed, or differs
// between variants.
func (s *Spec) OwnClusters() bool {
	return len(s.Subject.Components) > 0 || slices.ContainsFunc(s.Variants, func(v Variant) bool { return len(v.Node) > 0 })
}

// AtOnce returns how many variants are measured at once.
func (s *Spec) AtOnce() int { return max(1, s.Parallel) }

// Fixtures are objects that a cluster is filled with. Nothing runs behind them: only the API server knows
// them.
type Fixtures struct {
	Nodes int `yaml:"nodes,omitempty" doc:"number of ready, empty nodes with 16 CPUs and 64 GiB each; embedded control plane only"`
	Pods  int `yaml:"pods,omitempty" doc:"number of running pods on these nodes"`
}

// PodsPerNode is how many pods fit on a node of the fixtures.
const PodsPerNode = 110

// SubjectSpec is the observed program and how to reach it. At most one of Build, Command and URL is set. All are unset
// only if there are components.
type SubjectSpec struct {
	Build        string            `yaml:"build,omitempty" doc:"a folder with one main package: a name below subjects/, or a path relative to the scenario file that starts with ./ or ../"`
	Command      []string          `yaml:"command,omitempty" doc:"a local program and its arguments, instead of build"`
	URL          string            `yaml:"url,omitempty" doc:"URL of a running program (http, https or unix), instead of build"`
	URLs         []string          `yaml:"urls,omitempty" doc:"URLs of several running replicas, instead of url"`
	PID          int               `yaml:"pid,omitempty" doc:"process ID of the program at url on this machine (default: the process that listens at url)"`
	Access       Access            `yaml:"access,omitempty" doc:"credentials for the program at url, and its certificate authority"`
	Replicas     int               `yaml:"replicas,omitempty" doc:"number of instances of the program (default 1): operations go to each in turn, each is judged separately, and the report shows the worst"`
	Args         []string          `yaml:"args,omitempty" doc:"arguments for every variant"`
	Env          map[string]string `yaml:"env,omitempty" doc:"environment for every variant"`
	Port         int               `yaml:"port,omitempty" doc:"port to listen on, passed as PORT (default: a free one)"`
	Pprof        string            `yaml:"pprof,omitempty" doc:"path of net/http/pprof (default /debug/pprof)"`
	Ready        string            `yaml:"ready,omitempty" doc:"path that returns 200 when the subject is ready for load (default /healthz)"`
	ReadyTimeout Duration          `yaml:"readyTimeout,omitempty" doc:"maximum duration of the start (default 60s)"`
	Placement    map[string]string `yaml:"placement,omitempty" doc:"process or pod, by provider (default: process)"`
	Rules        []PolicyRule      `yaml:"rules,omitempty" doc:"permissions of a pod in its namespace, as in an RBAC Role"`
	Limits       map[string]string `yaml:"limits,omitempty" doc:"resource limits of a pod in Kubernetes syntax (default memory: 1Gi)"`
	Aliases      []string          `yaml:"aliases,omitempty" doc:"further names of the program in /bin of its pod"`
	Components   []ComponentSpec   `yaml:"components,omitempty" doc:"components of the cluster to observe, in addition to a program or instead of one; every variant then has its own cluster"`
}

// MaxReplicas bounds how many replicas there may be.
const MaxReplicas = 256

// Copies returns the number of replicas of the program, 1 without replicas.
func (s SubjectSpec) Copies() int { return max(1, s.Replicas, len(s.URLs)) }

// Addresses are where a program that runs already is read, one for each replica; none where leakrig starts it.
func (s SubjectSpec) Addresses() []string {
	if s.URL != "" {
		return []string{s.URL}
	}
	return s.URLs
}

// Dependency is a program next to the subject, or the address of a server that runs already. Exactly one of Build,
// Command and Address is set.
type Dependency struct {
	Name         string            `yaml:"name" doc:"name in $(NAME.addr) and in faults, and of the log file"`
	Build        string            `yaml:"build,omitempty" doc:"a folder with one main package, as in subject.build"`
	Modfile      string            `yaml:"modfile,omitempty" doc:"go.mod of the program, a file in its folder"`
	Command      []string          `yaml:"command,omitempty" doc:"a local program and its arguments, instead of build"`
	Address      string            `yaml:"address,omitempty" doc:"host:port of a server that runs already, or kube-apiserver, instead of build: leakrig starts nothing, and faults act on the subject's connections to it"`
	Args         []string          `yaml:"args,omitempty" doc:"arguments; $(port) is its port"`
	Env          map[string]string `yaml:"env,omitempty" doc:"environment"`
	Port         int               `yaml:"port,omitempty" doc:"port to listen on, passed as PORT (default: a free one)"`
	Ready        string            `yaml:"ready,omitempty" doc:"path that returns 200 when it is ready (default: the port accepts connections)"`
	ReadyTimeout Duration          `yaml:"readyTimeout,omitempty" doc:"maximum duration of the start (default 60s)"`
}

// Access is how a program that runs already lets itself be read. Files are relative to the scenario's.
type Access struct {
	CA        string `yaml:"ca,omitempty" doc:"PEM file with the certificate authorities of the server"`
	Cert      string `yaml:"cert,omitempty" doc:"PEM file with the client's certificate"`
	Key       string `yaml:"key,omitempty" doc:"PEM file with the key of this certificate"`
	TokenFile string `yaml:"tokenFile,omitempty" doc:"file with a bearer token"`
	Insecure  bool   `yaml:"insecure,omitempty" doc:"accept any certificate"`
}

// ComponentSpec is a part of the cluster that is observed.
type ComponentSpec struct {
	Component string         `yaml:"component" doc:"kubelet, containerd, containerd-shim (of the program's pod), kube-apiserver, kube-scheduler or kube-controller-manager"`
	Name      string         `yaml:"name,omitempty" doc:"name in checks and reports (default: the component); its probes are NAME/PROBE"`
	Node      string         `yaml:"node,omitempty" doc:"node, as in control-plane or worker2 (default: the first; for kubelet, containerd and its shim the node of the program's pod)"`
	Probes    []Block[Probe] `yaml:"probes" doc:"measurements at every snapshot"`
}

// Components that can be observed.
const (
	Kubelet               = "kubelet"
	Containerd            = "containerd"
	ContainerdShim        = "containerd-shim"
	KubeAPIServer         = "kube-apiserver"
	KubeScheduler         = "kube-scheduler"
	KubeControllerManager = "kube-controller-manager"
)

// ComponentKinds are all of them.
func ComponentKinds() []string {
	return []string{Kubelet, Containerd, ContainerdShim, KubeAPIServer, KubeScheduler, KubeControllerManager}
}

// Placements of a subject.
const (
	PlacementProcess = "process"
	PlacementPod     = "pod"
	// PlacementNode is that of a component of the cluster.
	PlacementNode = "node"
)

// PolicyRule is one rule of an RBAC Role.
type PolicyRule struct {
	APIGroups []string `yaml:"apiGroups,omitempty" doc:"API groups (default: the core group)"`
	Resources []string `yaml:"resources" doc:"resources, as in pods or pods/status"`
	Verbs     []string `yaml:"verbs" doc:"verbs, as in create or watch"`
}

// Variant is one way to build or start the subject, with its expected outcome.
type Variant struct {
	Name        string            `yaml:"name" doc:"unique within the scenario"`
	Description string            `yaml:"description,omitempty" doc:"one sentence for the report"`
	Modfile     string            `yaml:"modfile,omitempty" doc:"go.mod of this variant, a file in the subject's folder"`
	Rewrite     string            `yaml:"rewrite,omitempty" doc:"Go file in the subject's folder with one function, whose body replaces that of the same function of a module at build time, to restore a version that is no longer available; the report says so"`
	Args        []string          `yaml:"args,omitempty" doc:"arguments after those of the subject"`
	Env         map[string]string `yaml:"env,omitempty" doc:"environment in addition to the subject's"`
	Node        []NodePin         `yaml:"node,omitempty" doc:"commands of the node at other versions, built from upstream modules"`
	When        string            `yaml:"when,omitempty" doc:"full: run only with --all-variants and in nightly runs (default: always)"`
	Expect      Expectation       `yaml:"expect" doc:"clean or leaking"`
	Fingerprint []string          `yaml:"fingerprint,omitempty" doc:"names of the checks that must all find the leak; required if leaking is expected"`
}

// WhenFull is Variant.When of a variant that default runs leave out.
const WhenFull = "full"

// NodePin is a command of the node at a pinned version.
type NodePin struct {
	Command string            `yaml:"command" doc:"containerd (with its shim and ctr), kubelet or runc"`
	Version string            `yaml:"version" doc:"release, as in v1.7.35"`
	Modules map[string]string `yaml:"modules,omitempty" doc:"versions of modules that replace those in its go.mod, by module path"`
}

// Warmup is load that is not measured: first-use allocations and connection pools belong there.
type Warmup struct {
	Rounds int             `yaml:"rounds" doc:"number of rounds (default 1)"`
	Round  []Block[Action] `yaml:"round,omitempty" doc:"actions of a warm-up round (default: those of a measured one)"`
}

// SettleSpec is the condition for the goroutines of a subject to be settled.
type SettleSpec struct {
	Quiet   Duration `yaml:"quiet,omitempty" doc:"quiet window: settled when no group of goroutines has a lower minimum than in the window before (default 1s); idling takes ten windows"`
	Timeout Duration `yaml:"timeout,omitempty" doc:"maximum settling time, after which the snapshot is marked unsettled (default 30s)"`
}

// SourceDir is where subjects that are named, not pathed, are built from.
const SourceDir = "subjects"
