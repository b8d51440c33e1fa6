package leak

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
	Name        string   `yaml:"name" doc:"lower-case letters, digits and dashes; the name of the run directory"`
	Description string   `yaml:"description,omitempty" doc:"one or two sentences for the report"`
	Links       []string `yaml:"links,omitempty" doc:"upstream issues and write-ups, https only"`
}

// Spec is the body of a scenario.
type Spec struct {
	Parameters map[string]string `yaml:"parameters,omitempty" doc:"names and default values; $(name) in any other value of the file stands for one, and --set name=value changes it"`
	Cluster    *ClusterSpec      `yaml:"cluster,omitempty" doc:"the cluster that the subject talks to; left out, none is booted"`
	Fixtures   Fixtures          `yaml:"fixtures,omitempty" doc:"what the cluster is filled with before the subject starts"`
	Subject    SubjectSpec       `yaml:"subject" doc:"the program under observation"`
	Variants   []Variant         `yaml:"variants" doc:"the same program, built or started differently; each has its expectation"`
	Warmup     Warmup            `yaml:"warmup,omitempty" doc:"rounds that are run and thrown away before the baseline"`
	Rounds     int               `yaml:"rounds,omitempty" doc:"measured rounds after the baseline (default 7)"`
	Round      []Block[Action]   `yaml:"round" doc:"the actions of one round, in order"`
	Operation  string            `yaml:"operation,omitempty" doc:"which action's operations growth is counted per; needed where a round has several actions"`
	Settle     SettleSpec        `yaml:"settle,omitempty" doc:"when a round counts as over"`
	Probes     []Block[Probe]    `yaml:"probes" doc:"what is read at every snapshot"`
	Checks     []Block[Check]    `yaml:"checks" doc:"the bounds to hold"`
}

// Block is one entry of a list of kinds: which kind it is, the name that findings use, and the
// decoded configuration.
type Block[T any] struct {
	Kind  string
	Name  string
	Value T
}

// ClusterSpec is what a scenario asks of a cluster.
type ClusterSpec struct {
	Providers  []string `yaml:"providers,omitempty" doc:"the providers that this scenario runs on (default: all that are built in)"`
	Kubernetes string   `yaml:"kubernetes,omitempty" doc:"version of the control plane (default: the provider's own choice)"`
	Nodes      int      `yaml:"nodes,omitempty" doc:"nodes of the cluster, the first of them the control plane (default 1)"`
}

// Fixtures are objects that a cluster is filled with. Nothing runs behind them: only the API server knows
// them.
type Fixtures struct {
	Nodes int `yaml:"nodes,omitempty" doc:"nodes that are ready and empty, 16 CPUs and 64 GiB each; on the embedded control plane"`
	Pods  int `yaml:"pods,omitempty" doc:"running pods, spread over these nodes"`
}

// PodsPerNode is how many pods fit on a node of the fixtures.
const PodsPerNode = 110

// SubjectSpec says which program is observed and how it is reached. Exactly one of Build and Command
// is set.
type SubjectSpec struct {
	Build        string            `yaml:"build,omitempty" doc:"a folder with one main package: a name below subjects/, or a path relative to the scenario file that starts with ./ or ../"`
	Command      []string          `yaml:"command,omitempty" doc:"a local program and its arguments, instead of build"`
	Args         []string          `yaml:"args,omitempty" doc:"arguments for every variant"`
	Env          map[string]string `yaml:"env,omitempty" doc:"environment for every variant"`
	Port         int               `yaml:"port,omitempty" doc:"port to listen on (default: a free one), given as PORT"`
	Pprof        string            `yaml:"pprof,omitempty" doc:"path of net/http/pprof (default /debug/pprof)"`
	Ready        string            `yaml:"ready,omitempty" doc:"path that answers 200 when the subject can take load (default /healthz)"`
	ReadyTimeout Duration          `yaml:"readyTimeout,omitempty" doc:"how long the start may take (default 60s)"`
	Placement    map[string]string `yaml:"placement,omitempty" doc:"process or pod, by provider (default: process)"`
	Rules        []PolicyRule      `yaml:"rules,omitempty" doc:"what a pod may do in its namespace, as in an RBAC Role; nothing else is allowed"`
	Limits       map[string]string `yaml:"limits,omitempty" doc:"resource limits of a pod, as Kubernetes writes them (default memory: 1Gi)"`
}

// Placements of a subject.
const (
	PlacementProcess = "process"
	PlacementPod     = "pod"
)

// PolicyRule is one rule of an RBAC Role.
type PolicyRule struct {
	APIGroups []string `yaml:"apiGroups,omitempty" doc:"API groups (default: the core group)"`
	Resources []string `yaml:"resources" doc:"resources, as in pods or pods/status"`
	Verbs     []string `yaml:"verbs" doc:"verbs, as in create or watch"`
}

// Variant is one way to build or start the subject, and what is expected of it.
type Variant struct {
	Name        string            `yaml:"name" doc:"unique within the scenario"`
	Description string            `yaml:"description,omitempty" doc:"one sentence for the report"`
	Modfile     string            `yaml:"modfile,omitempty" doc:"the go.mod that this variant is built with, a file in the subject's folder"`
	Rewrite     string            `yaml:"rewrite,omitempty" doc:"a Go file in the subject's folder with one function, whose body replaces that of the same function of a module at build time; it re-enacts a version that can no longer be had, and the report says so"`
	Args        []string          `yaml:"args,omitempty" doc:"arguments after the subject's own"`
	Env         map[string]string `yaml:"env,omitempty" doc:"environment on top of the subject's own"`
	Expect      Expectation       `yaml:"expect" doc:"clean or leaking"`
	Fingerprint []string          `yaml:"fingerprint,omitempty" doc:"names of the checks that must all find the leak; needed where leaking is expected"`
}

// Warmup is load that is not measured: first-use allocations and connection pools belong there.
type Warmup struct {
	Rounds int `yaml:"rounds" doc:"rounds to throw away (default 1)"`
}

// SettleSpec says when the goroutines of a subject count as settled.
type SettleSpec struct {
	Quiet   Duration `yaml:"quiet,omitempty" doc:"settled when no group of goroutines had a lower minimum over this window than over the window before (default 1s); the idle wait after the last round is ten times as long"`
	Timeout Duration `yaml:"timeout,omitempty" doc:"a snapshot taken after this long is marked unsettled (default 30s)"`
}

// SourceDir is where subjects that are named, not pathed, are built from.
const SourceDir = "subjects"
