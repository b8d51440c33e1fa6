package scenarios

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// validator checks what types cannot express: bounds, and that names refer to existing blocks.
type validator struct {
	*report
	kinds leak.Kinds
	s     *leak.Scenario
}

func (v *validator) all() {
	v.head()
	v.metadata()
	v.cluster()
	v.fixtures()
	v.subject()
	v.holders()
	v.dependencies()
	v.sequence()
	v.actions()
	v.probes()
	v.checks()
	v.allow()
	v.variants() // last, since they refer to checks
}

func (v *validator) head() {
	v.exactly("apiVersion", v.s.APIVersion, leak.APIVersion)
	v.exactly("kind", v.s.Kind, leak.ScenarioKind)
}

func (v *validator) exactly(path, got, want string) {
	hint := "write " + path + ": " + want
	switch {
	case !v.has(path):
		v.add(path, hint, "is missing")
	case got != want:
		v.add(path, hint, "%s is not supported", quote(got))
	}
}

func (v *validator) metadata() {
	v.name("metadata.name", v.s.Metadata.Name)
	for i, link := range v.s.Metadata.Links {
		if u, err := url.Parse(link); err != nil || u.Scheme != "https" || u.Host == "" {
			v.add(item("metadata.links", i), "for example https://github.com/kubernetes/kubernetes/issues/1", "%s is not an https URL", quote(link))
		}
	}
}

// The allowed values of some keys.
func placements() []string   { return []string{leak.PlacementProcess, leak.PlacementPod} }
func limitNames() []string   { return []string{"cpu", "memory"} }
func nodeCommands() []string { return []string{"containerd", "kubelet", "runc"} }

// choices returns the allowed values by path, in the notation of Schema. [] stands for any entry of a list. Below a
// map, * stands for any value, and the map's own path has its keys.
func choices(kinds leak.Kinds) map[string][]string {
	return map[string][]string{
		"apiVersion":                          {leak.APIVersion},
		"kind":                                {leak.ScenarioKind},
		"spec.cluster.providers[]":            kinds.Providers,
		"spec.subject.placement":              kinds.Providers,
		"spec.subject.placement.*":            placements(),
		"spec.subject.limits":                 limitNames(),
		"spec.subject.components[].component": leak.ComponentKinds(),
		"spec.holders":                        {leak.HoldersOn, leak.HoldersOff},
		"spec.variants[].node[].command":      nodeCommands(),
		"spec.variants[].when":                {leak.WhenFull},
		"spec.variants[].expect":              {string(leak.ExpectClean), string(leak.ExpectLeaking)},
	}
}

var (
	namePattern       = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	folderPattern     = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
	modfilePattern    = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*\.mod$`)
	rewritePattern    = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*\.go$`)
	quantityPattern   = regexp.MustCompile(`^\d+(\.\d+)?(m|k|Ki|M|Mi|G|Gi)?$`)
	aliasPattern      = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*$`)
	versionPattern    = regexp.MustCompile(`^v\d+\.\d+\.\d+([-+][0-9A-Za-z.+-]+)?$`)
	modulePattern     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._~-]*(/[A-Za-z0-9._~-]+)+$`)
	kubernetesPattern = regexp.MustCompile(`^v\d+\.\d+\.\d+$`)
)

const (
	maxName         = 63
	maxClusterNodes = 20
	maxFixtureNodes = 10_000
	defaultReady    = time.Minute
)

// nameHint describes the form of a name.
const nameHint = "lower-case letters, digits and dashes, for example watch-then-delete"

// CheckName returns an error if name is not valid for a scenario or a variant. Names are also folders of the run
// directory.
func CheckName(name string) error {
	switch {
	case len(name) > maxName:
		return fmt.Errorf("has %d characters, %d are allowed", len(name), maxName)
	case !namePattern.MatchString(name):
		return leak.WithHint(fmt.Errorf("%s is not a name", quote(name)), nameHint)
	}
	return nil
}

func (v *validator) name(path, name string) {
	if !v.has(path) {
		v.add(path, "lower-case letters, digits and dashes", "is missing")
	} else if err := CheckName(name); err != nil {
		v.add(path, leak.Hint(err), "%s", err)
	}
}

func (v *validator) cluster() {
	c := v.s.Spec.Cluster
	if c == nil {
		return
	}
	const providers, kubernetes = "spec.cluster.providers", "spec.cluster.kubernetes"
	if len(c.Providers) == 0 {
		v.add(providers, "leave it out for all of them", "names no provider")
	}
	for i, p := range c.Providers {
		if !slices.Contains(v.kinds.Providers, p) {
			v.add(item(providers, i), choice(p, "providers", v.kinds.Providers), "no provider is named %s", quote(p))
		}
	}
	duplicates(c.Providers, func(i int) {
		v.add(item(providers, i), "", "%s is listed twice", quote(c.Providers[i]))
	})
	if v.has(kubernetes) && !kubernetesPattern.MatchString(c.Kubernetes) {
		v.add(kubernetes, "a full version, for example v1.34.4", "%s is not a version of Kubernetes", quote(c.Kubernetes))
	}
	if c.Nodes < 1 || c.Nodes > maxClusterNodes {
		v.add("spec.cluster.nodes", "", "%d is not between 1 and %d", c.Nodes, maxClusterNodes)
	}
}

func (v *validator) fixtures() {
	const path = "spec.fixtures"
	f := v.s.Spec.Fixtures
	if v.has(path) && v.s.Spec.Cluster == nil && !v.isReported("spec.cluster") {
		v.add(path, "give spec.cluster, or leave the fixtures out", "no cluster for the fixtures")
	}
	if f.Nodes < 0 || f.Nodes > maxFixtureNodes {
		v.add(path+".nodes", "", "%d is not between 0 and %d", f.Nodes, maxFixtureNodes)
	} else if most := f.Nodes * leak.PodsPerNode; f.Pods < 0 || f.Pods > most {
		v.add(path+".pods", fmt.Sprintf("a node has room for %d", leak.PodsPerNode), "%d is not between 0 and %d", f.Pods, most)
	}
}

func (v *validator) subject() {
	s, path := v.s.Spec.Subject, "spec.subject"
	v.program(s)
	if s.Port < 0 || s.Port > 65535 {
		v.add(path+".port", "leave it out for a free one", "%d is not between 0 and 65535", s.Port)
	}
	v.urlPath(path+".pprof", s.Pprof)
	v.urlPath(path+".ready", s.Ready)
	if s.ReadyTimeout <= 0 {
		v.add(path+".readyTimeout", "for example 60s", "%v is not positive", s.ReadyTimeout)
	}
	v.env(path+".env", s.Env)
	v.placement(path+".placement", s)
	for i, alias := range s.Aliases {
		if !aliasPattern.MatchString(alias) {
			v.add(item(path+".aliases", i), "for example ls", "%s is not the name of a command", quote(alias))
		}
	}
	v.components(path + ".components")
	for i, rule := range s.Rules {
		at := item(path+".rules", i)
		if len(rule.Resources) == 0 && v.has(at) {
			v.add(at+".resources", "as in [pods, pods/status]", "is missing")
		}
		if len(rule.Verbs) == 0 && v.has(at) {
			v.add(at+".verbs", "as in [create, get, watch]", "is missing")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Limits)) {
		at := path + ".limits." + name
		if !slices.Contains(limitNames(), name) {
			v.add(at, choice(name, "limits", limitNames()), "no limit is named %s", quote(name))
		} else if !quantityPattern.MatchString(s.Limits[name]) {
			v.add(at, "as in cpu: 500m or memory: 1Gi", "%s is not a quantity", quote(s.Limits[name]))
		}
	}
}

// placement checks where the subject runs for each provider.
func (v *validator) placement(path string, s leak.SubjectSpec) {
	for _, provider := range slices.Sorted(maps.Keys(s.Placement)) {
		at, where := path+"."+provider, s.Placement[provider]
		if !slices.Contains(v.kinds.Providers, provider) {
			v.add(at, choice(provider, "providers", v.kinds.Providers), "no provider is named %s", quote(provider))
		}
		switch {
		case !slices.Contains(placements(), where):
			v.add(at, choice(where, "placements", placements()), "no placement is named %s", quote(where))
		case where == leak.PlacementPod && s.Build == "":
			v.add(at, "subject.build makes a static binary, which becomes an image", "only what is built from source can run as a pod")
		}
	}
}

// program checks that there is exactly one way to start the subject.
func (v *validator) program(s leak.SubjectSpec) {
	const build, command, address, addresses = "spec.subject.build", "spec.subject.command", "spec.subject.url", "spec.subject.urls"
	v.replicas(s)
	switch {
	case v.has(build) && v.has(command):
		v.add(command, "keep one of them", "build and command exclude each other")
	case v.has(address) && (v.has(build) || v.has(command)):
		v.add(address, "keep one of them", "a program is either started or runs already")
	case v.has(addresses) && (v.has(build) || v.has(command) || v.has(address)):
		v.add(addresses, "keep one of them", "a program is either started or runs already, at url or at urls")
	case v.has(address):
		v.address(address, s.URL, s.Access)
	case v.has(addresses):
		for i, u := range s.URLs {
			v.address(item(addresses, i), u, s.Access)
		}
		duplicates(s.URLs, func(i int) {
			v.add(item(addresses, i), "", "%s is listed twice", quote(s.URLs[i]))
		})
	case v.has(build):
		relative := strings.HasPrefix(s.Build, "./") || strings.HasPrefix(s.Build, "../")
		if !relative && !folderPattern.MatchString(s.Build) {
			v.add(build, "a name below "+leak.SourceDir+"/, or a path from this file that starts with ./ or ../", "%s is neither a name nor a relative path", quote(s.Build))
		}
	case v.has(command):
		if len(s.Command) == 0 || s.Command[0] == "" {
			v.add(command, "for example [./server, --verbose]", "names no program")
		}
	case !v.isReported(command) && !v.has("spec.subject.components"):
		v.add(build, "give build: a folder with a main package, or command: [program, argument]", "is missing, and so is command")
	}
}

// replicas checks the number of replicas of the program.
func (v *validator) replicas(s leak.SubjectSpec) {
	const replicas, addresses = "spec.subject.replicas", "spec.subject.urls"
	if v.has(replicas) && (s.Replicas < 1 || s.Replicas > leak.MaxReplicas) {
		v.add(replicas, "", "%d is not between 1 and %d", s.Replicas, leak.MaxReplicas)
	}
	if v.has(replicas) && (v.has("spec.subject.url") || v.has(addresses)) {
		v.add(replicas, "list the addresses of all of them as urls", "a program that runs already is not started")
	}
	if v.has(addresses) && (len(s.URLs) < 1 || len(s.URLs) > leak.MaxReplicas) {
		v.add(addresses, "", "%d addresses are not between 1 and %d", len(s.URLs), leak.MaxReplicas)
	}
	if s.Copies() > 1 && len(s.Components) > 0 {
		at := replicas
		if v.has(addresses) {
			at = addresses
		}
		v.add(at, "leave one of them out", "components cannot be combined with several replicas of a program")
	}
}

// address checks the address of a program that already runs.
func (v *validator) address(path, address string, a leak.Access) {
	u, err := url.Parse(address)
	switch {
	case err != nil || !slices.Contains([]string{"http", "https", "unix"}, u.Scheme):
		v.add(path, "as in https://127.0.0.1:6060/admin or unix:///run/app.sock", "%s is not an address", quote(address))
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		v.add(path, "spec.subject.access names the files that prove who asks", "an address has no user, query or fragment here")
	case (u.Scheme == "unix") != (u.Host == ""):
		v.add(path, "as in https://127.0.0.1:6060/admin or unix:///run/app.sock", "%s has no host, or a socket has one", quote(address))
	}
	if (a.Cert == "") != (a.Key == "") && !v.isReported("spec.subject.access") {
		v.add("spec.subject.access", "give cert and key", "a certificate without its key, or a key without its certificate")
	}
}

// components checks the observed components of the cluster.
func (v *validator) components(list string) {
	components := v.s.Spec.Subject.Components
	if v.has(list) && v.s.Spec.Cluster == nil {
		v.add(list, "give spec.cluster: {providers: [kind]}", "components need a cluster")
	}
	names := make([]string, len(components))
	for i, c := range components {
		path := item(list, i)
		names[i] = c.Name
		switch {
		case !v.has(path + ".component"):
			v.add(path+".component", "one of: "+strings.Join(leak.ComponentKinds(), ", "), "is missing")
		case !slices.Contains(leak.ComponentKinds(), c.Component):
			v.add(path+".component", choice(c.Component, "components", leak.ComponentKinds()), "no component is named %s", quote(c.Component))
		case c.Component == leak.ContainerdShim && v.s.Spec.Subject.Build == "":
			v.add(path+".component", "subject.build, with placement pod, makes the pod", "a shim belongs to a pod, and the scenario starts none")
		}
		if v.has(path+".name") || v.has(path+".component") && slices.Contains(leak.ComponentKinds(), c.Component) {
			at := path + ".component"
			if v.has(path + ".name") {
				at = path + ".name"
			}
			v.name(at, c.Name)
		}
		if len(c.Probes) == 0 {
			v.add(path+".probes", "for example [goroutine, heap]; see `leakrig kinds`", "at least one probe is needed")
		}
		v.probeList(path+".probes", c.Probes)
		for k, p := range c.Probes {
			if c.Component == leak.ContainerdShim && p.Kind != "goroutine" && p.Kind != "process" {
				v.add(blockPath(path+".probes", c.Probes, k), "take goroutine and process", "a shim serves no profiles, only a dump of its goroutines")
			}
		}
	}
	duplicates(names, func(i int) {
		if names[i] != "" {
			v.add(item(list, i)+".name", "give it a unique name", "%s is taken by an earlier component", quote(names[i]))
		}
	})
}

// pins checks the versions of a variant's node commands.
func (v *validator) pins(list string, pins []leak.NodePin) {
	if len(pins) > 0 && v.s.Spec.Cluster == nil {
		v.add(list, "give spec.cluster: {providers: [kind]}", "commands need a cluster")
	}
	names := make([]string, len(pins))
	for i, p := range pins {
		path := item(list, i)
		names[i] = p.Command
		if !slices.Contains(nodeCommands(), p.Command) {
			v.add(path+".command", choice(p.Command, "commands", nodeCommands()), "no command of the node is named %s", quote(p.Command))
		}
		if !versionPattern.MatchString(p.Version) {
			v.add(path+".version", "a full version, for example v1.7.35", "%s is not a version", quote(p.Version))
		}
		for _, module := range slices.Sorted(maps.Keys(p.Modules)) {
			at := child(path+".modules", module)
			if !modulePattern.MatchString(module) {
				v.add(at, "for example github.com/containerd/ttrpc", "%s is not the path of a module", quote(module))
			}
			if !versionPattern.MatchString(p.Modules[module]) {
				v.add(at, "a full version, for example v1.0.2", "%s is not a version", quote(p.Modules[module]))
			}
		}
	}
	duplicates(names, func(i int) {
		v.add(item(list, i)+".command", "", "%s is pinned twice", quote(names[i]))
	})
}

func (v *validator) urlPath(path, p string) {
	if !strings.HasPrefix(p, "/") {
		v.add(path, "write /"+cut(p, maxQuoted), "%s does not begin with a slash", quote(p))
	}
}

func (v *validator) env(path string, env map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		switch value := env[name]; {
		case name == "":
			v.add(child(path, name), "", "the name of a variable is empty")
		case strings.ContainsAny(name, "=\x00"):
			v.add(child(path, name), "write NAME: value", "%s is not the name of a variable", quote(name))
		case strings.Contains(value, "\x00"):
			v.add(child(path, name), "", "the value holds a NUL character")
		}
	}
}

func (v *validator) variants() {
	const path = "spec.variants"
	variants := v.s.Spec.Variants
	if len(variants) == 0 {
		v.add(path, "for example - {name: current, expect: clean}", "at least one variant is needed")
	}
	names := make([]string, len(variants))
	for i, variant := range variants {
		names[i] = variant.Name
		v.variant(item(path, i), variant)
	}
	if len(variants) > 0 && !slices.ContainsFunc(variants, func(o leak.Variant) bool { return o.When != leak.WhenFull }) {
		v.add(item(path, 0)+".when", "leave when out of at least one variant", "no variant runs by default")
	}
	duplicates(names, func(i int) {
		v.add(item(path, i)+".name", "variants need different names", "%s is taken by an earlier variant", quote(names[i]))
	})
}

func (v *validator) variant(path string, variant leak.Variant) {
	v.name(path+".name", variant.Name)
	v.env(path+".env", variant.Env)
	v.pins(path+".node", variant.Node)
	if modfile := path + ".modfile"; v.has(modfile) {
		switch {
		case !modfilePattern.MatchString(variant.Modfile):
			v.add(modfile, "a file in the subject's folder, for example leaky.mod", "%s is not the plain name of a .mod file", quote(variant.Modfile))
		case !v.has("spec.subject.build") && !v.isReported("spec.subject.build"):
			v.add(modfile, "give spec.subject.build, or leave the modfile out", "only a subject that is built has a modfile")
		}
	}
	if rewrite := path + ".rewrite"; v.has(rewrite) {
		switch {
		case !rewritePattern.MatchString(variant.Rewrite):
			v.add(rewrite, "a file in the subject's folder, for example before-fix.go", "%s is not the plain name of a .go file", quote(variant.Rewrite))
		case !v.has("spec.subject.build") && !v.isReported("spec.subject.build"):
			v.add(rewrite, "give spec.subject.build, or leave the rewrite out", "only a subject that is built can be rewritten")
		}
	}
	if variant.When != "" && variant.When != leak.WhenFull {
		v.add(path+".when", "write when: full, or leave it out", "%s is not %s", quote(variant.When), leak.WhenFull)
	}
	v.expectation(path, variant)
}

func (v *validator) holders() {
	if h := v.s.Spec.Holders; h != "" && h != leak.HoldersOn && h != leak.HoldersOff {
		v.add("spec.holders", "write holders: on or holders: off", "%s is neither on nor off", quote(h))
	}
}

func (v *validator) expectation(path string, variant leak.Variant) {
	expect, fingerprint := path+".expect", path+".fingerprint"
	switch variant.Expect {
	case leak.ExpectClean:
		if v.has(fingerprint) {
			v.add(fingerprint, "leave it out, or expect leaking", "a variant that is expected clean has no fingerprint")
		}
	case leak.ExpectLeaking:
		if len(variant.Fingerprint) == 0 {
			v.add(fingerprint, "name the checks that must find the leak, for example [receive]", "is needed where leaking is expected")
		}
	case "":
		v.add(expect, "write expect: clean or expect: leaking", "is missing")
	default:
		v.add(expect, "write expect: clean or expect: leaking", "%s is neither clean nor leaking", quote(string(variant.Expect)))
	}
	for i, name := range variant.Fingerprint {
		refer(v.report, item(fingerprint, i), "spec.checks", "check", name, v.s.Spec.Checks)
	}
}

// refer checks that name is the name of a block in blocks. If the list itself has problems, it reports nothing.
func refer[T any](r *report, path, list, what, name string, blocks []leak.Block[T]) {
	if r.isFull() || r.isReported(list) {
		return
	}
	names, known := blockNames(blocks)
	if known && !slices.Contains(names, name) {
		r.add(path, choice(name, what+"s", names), "no %s is named %s", what, quote(name))
	}
}

const (
	minQuiet  = 50 * time.Millisecond
	maxQuiet  = time.Hour
	MaxRounds = 1000

	minBudget, maxBudget = time.Second, 24 * time.Hour
	maxSizes             = 100
	maxWarmup            = 100
	maxParallel          = 16
)

// soak checks rounds at fixed times.
func (v *validator) soak() {
	s := v.s.Spec.Soak
	if s == nil {
		return
	}
	const every, whole = "spec.soak.every", "spec.soak.for"
	for _, other := range []string{"spec.rounds", "spec.maxRounds"} {
		if v.has(other) {
			v.add(other, "keep one of them", "use either soak or a number of rounds")
		}
	}
	for _, path := range []string{every, whole} {
		if !v.has(path) {
			v.add(path, "as in soak: {every: 10m, for: 72h}", "is missing")
		}
	}
	if v.isReported(every) || v.isReported(whole) {
		return
	}
	if key, hint, err := SoakProblem(*s, v.s.Spec.Settle.Quiet); err != nil {
		v.add("spec.soak."+key, hint, "%v", err)
	}
}

// SoakProblem validates a soak. It returns the wrong key, a hint and an error, or a nil error.
func SoakProblem(s leak.SoakSpec, quiet leak.Duration) (key, hint string, err error) {
	switch {
	case s.Every <= 0 || s.Every.D() > leak.MaxSoakEvery:
		return "every", "for example 10m", fmt.Errorf("%v is not between 0 and %v", s.Every, leak.MaxSoakEvery)
	case s.For <= 0 || s.For.D() > leak.MaxSoak:
		return "for", "for example 72h", fmt.Errorf("%v is not between 0 and %v", s.For, leak.MaxSoak)
	case s.Every > s.For:
		return "every", "every is one round, for is all of them", fmt.Errorf("%v is more than for (%v)", s.Every, s.For)
	case s.Every <= 2*quiet:
		return "every", "raise it, or lower settle.quiet: two quiet windows are compared after each round", fmt.Errorf("%v is not more than twice settle.quiet (%v), so every round would be late", s.Every, quiet)
	case s.Rounds() > leak.MaxSoakRounds:
		return "every", "let rounds be further apart", fmt.Errorf("makes %d rounds in %v, %d are allowed", s.Rounds(), s.For, leak.MaxSoakRounds)
	}
	return "", "", nil
}

// budget checks the time budget.
func (v *validator) budget() {
	const path = "spec.for"
	if !v.has(path) {
		return
	}
	for _, other := range []string{"spec.rounds", "spec.maxRounds", "spec.soak", "spec.sizes"} {
		if v.has(other) {
			v.add(other, "leave one of them out", "cannot be combined with for")
		}
	}
	if d := v.s.Spec.For.D(); d < minBudget || d > maxBudget {
		v.add(path, "for example 60s; a soak takes longer", "%v is not between %v and %v", v.s.Spec.For, minBudget, maxBudget)
	}
}

// parallel checks that variants which are measured at once can exist at once.
func (v *validator) parallel() {
	const path = "spec.parallel"
	s := v.s.Spec
	if !v.has(path) {
		return
	}
	if s.Parallel < 1 || s.Parallel > maxParallel {
		v.add(path, "", "%d is not between 1 and %d", s.Parallel, maxParallel)
	}
	if s.Parallel <= 1 {
		return
	}
	for _, other := range []string{"spec.soak", "spec.subject.port", "spec.subject.url", "spec.subject.urls"} {
		if v.has(other) {
			v.add(path, "leave it out", "cannot be combined with %s", other)
		}
	}
	if s.OwnClusters() {
		v.add(path, "leave it out", "every variant has its own cluster, which it must not share with others")
	}
}

func (v *validator) sequence() {
	s := v.s.Spec
	v.soak()
	v.budget()
	v.parallel()
	if s.Rounds < 1 || s.Rounds > MaxRounds {
		v.add("spec.rounds", "", "%d is not between 1 and %d", s.Rounds, MaxRounds)
	}
	if v.has("spec.maxRounds") && (s.MaxRounds < s.Rounds || s.MaxRounds > MaxRounds) {
		v.add("spec.maxRounds", "leave it out to add no rounds", "%d is not between rounds (%d) and %d", s.MaxRounds, s.Rounds, MaxRounds)
	}
	for i, size := range s.Sizes {
		if size < 1 || size > maxSizes {
			v.add(item("spec.sizes", i), "as in [1, 2, 1, 3]", "%d is not between 1 and %d", size, maxSizes)
		}
	}
	if s.Control < 0 || s.Control > maxWarmup {
		v.add("spec.control", "", "%d is not between 0 and %d", s.Control, maxWarmup)
	}
	if s.Warmup.Rounds < 0 || s.Warmup.Rounds > maxWarmup {
		v.add("spec.warmup.rounds", "", "%d is not between 0 and %d", s.Warmup.Rounds, maxWarmup)
	}
	quiet, timeout := s.Settle.Quiet.D(), s.Settle.Timeout.D()
	if quiet < minQuiet || quiet > maxQuiet {
		v.add("spec.settle.quiet", "", "%v is not between %v and %v", quiet, minQuiet, maxQuiet)
	} else if timeout <= 2*quiet && !v.isReported("spec.settle.quiet") {
		v.add("spec.settle.timeout", "two quiet windows are compared, so both must fit in", "%v is not more than twice quiet (%v)", timeout, quiet)
	}
}

func (v *validator) actions() {
	const list = "spec.round"
	actions := v.s.Spec.Round
	if len(actions) == 0 {
		v.add(list, "a round without load shows no growth; see `leakrig kinds`", "at least one action is needed")
	}
	validateBlocks(v.report, list, actions)
	uniqueNames(v.report, list, "action", actions)
	validateBlocks(v.report, "spec.warmup.round", v.s.Spec.Warmup.Round)
	v.reachable(list, actions)
	v.reachable("spec.warmup.round", v.s.Spec.Warmup.Round)
	v.faults(list, actions)
	v.faults("spec.warmup.round", v.s.Spec.Warmup.Round)
	v.workers(list, actions)
	v.workers("spec.warmup.round", v.s.Spec.Warmup.Round)
	const operation = "spec.operation"
	switch {
	case v.has(operation):
		refer(v.report, operation, list, "action", v.s.Spec.Operation, actions)
	case len(v.s.Spec.Loads()) > 1:
		names, _ := blockNames(actions)
		v.add(operation, fmt.Sprintf("growth is counted per operation of one action: %s", strings.Join(names, ", ")), "is needed where a round has several actions")
	}
}

// faults checks that faults act during load of the same round.
func (v *validator) faults(list string, actions []leak.Block[leak.Action]) {
	names, ok := blockNames(actions)
	if !ok {
		return
	}
	for i, b := range actions {
		f, isFault := b.Value.(leak.Fault)
		if !isFault {
			continue
		}
		v.part(child(blockPath(list, actions, i), "of"), f)
		for _, name := range f.During() {
			at := slices.Index(names, name)
			path := child(blockPath(list, actions, i), "during")
			if at < 0 {
				v.add(path, choice(name, "actions here", names), "no action %s in the round", quote(name))
			} else if _, other := actions[at].Value.(leak.Fault); other {
				v.add(path, "name an action that is load", "%s is a fault, too", quote(name))
			}
		}
	}
}

// part checks that a fault acts on something that exists.
func (v *validator) part(path string, f leak.Fault) {
	name, _ := f.Of()
	if name == "" || v.isReported(path) {
		return
	}
	if name == leak.KubeAPIServer {
		if v.s.Spec.Cluster == nil && !v.isReported("spec.cluster") {
			v.add(path, "give spec.cluster", "the scenario has no cluster")
		}
		return
	}
	names := []string{leak.KubeAPIServer}
	for _, d := range v.s.Spec.Dependencies {
		names = append(names, d.Name)
	}
	if !slices.Contains(names, name) {
		v.add(path, choice(name, "parts", names), "no dependency is named %s", quote(name))
	}
}

// dependencies checks the programs next to the subject.
func (v *validator) dependencies() {
	const list = "spec.dependencies"
	names := make([]string, len(v.s.Spec.Dependencies))
	for i := range v.s.Spec.Dependencies {
		d, path := &v.s.Spec.Dependencies[i], item(list, i)
		names[i] = d.Name
		v.name(path+".name", d.Name)
		if d.Name == "subject" || d.Name == leak.KubeAPIServer {
			v.add(path+".name", "use another name", "%s is reserved", quote(d.Name))
		}
		if d.ReadyTimeout == 0 && !v.has(path+".readyTimeout") {
			d.ReadyTimeout = leak.Duration(defaultReady)
		}
		ways := 0
		for _, key := range []string{"build", "command", "address"} {
			if v.has(path + "." + key) {
				ways++
			}
		}
		relative := strings.HasPrefix(d.Build, "./") || strings.HasPrefix(d.Build, "../")
		switch {
		case ways != 1:
			v.add(path, "build: a folder with a main package, command: [program, argument], or address: host:port", "exactly one of build, command and address is needed")
		case d.Build != "" && !relative && !folderPattern.MatchString(d.Build):
			v.add(path+".build", "a name below "+leak.SourceDir+"/, or a path from this file that starts with ./ or ../", "%s is neither a name nor a relative path", quote(d.Build))
		case v.has(path+".command") && (len(d.Command) == 0 || d.Command[0] == ""):
			v.add(path+".command", "for example [redis-server, --port, $(port)]", "names no program")
		case d.Address == leak.KubeAPIServer && v.s.Spec.Cluster == nil && !v.isReported("spec.cluster"):
			v.add(path+".address", "give spec.cluster", "the scenario has no cluster")
		case v.has(path+".address") && d.Address != leak.KubeAPIServer:
			if _, port, err := net.SplitHostPort(d.Address); err != nil || port == "" {
				v.add(path+".address", "as in 127.0.0.1:6379, or kube-apiserver", "%s is not an address", quote(d.Address))
			}
		}
		if v.has(path+".modfile") && !modfilePattern.MatchString(d.Modfile) {
			v.add(path+".modfile", "for example go.mod", "%s is not the name of a modfile", quote(d.Modfile))
		}
		if d.Port < 0 || d.Port > 65535 {
			v.add(path+".port", "leave it out for a free one", "%d is not between 0 and 65535", d.Port)
		}
		if d.Ready != "" {
			v.urlPath(path+".ready", d.Ready)
		}
		if d.ReadyTimeout <= 0 {
			v.add(path+".readyTimeout", "for example 60s", "%v is not positive", d.ReadyTimeout)
		}
		v.env(path+".env", d.Env)
	}
	duplicates(names, func(i int) {
		if names[i] != "" {
			v.add(item(list, i)+".name", "give it a unique name", "%s is taken by an earlier dependency", quote(names[i]))
		}
	})
	if len(names) > 0 && v.s.Spec.Parallel > 1 {
		for i, d := range v.s.Spec.Dependencies {
			if d.Port != 0 {
				v.add(item(list, i)+".port", "leave it out for a free one", "variants that are measured at once cannot share a port")
			}
		}
	}
}

// reachable refuses load through an API server if the scenario has no cluster.
func (v *validator) reachable(list string, actions []leak.Block[leak.Action]) {
	if v.s.Spec.Cluster != nil || v.isReported("spec.cluster") {
		return
	}
	for i, b := range actions {
		if _, ok := b.Value.(leak.ClusterUser); ok {
			v.add(blockPath(list, actions, i), "give spec.cluster", "%s works through an API server, and the scenario has no cluster", b.Kind)
		}
	}
}

// workers checks the number of workers that share an action. Each worker needs at least one operation, and workers
// need a cluster.
func (v *validator) workers(list string, actions []leak.Block[leak.Action]) {
	for i, b := range actions {
		at := blockPath(list, actions, i)
		path := child(at, workersKey)
		if !v.has(path) || v.isReported(path) {
			continue
		}
		shared, ok := b.Value.(leak.Spreader)
		switch {
		case !ok:
			v.add(path, "leave it out", "workers cannot perform %s", b.Kind)
		case b.Workers < 1 || b.Workers > leak.MaxWorkers:
			v.add(path, "leave it out to have none", "%d is not between 1 and %d", b.Workers, leak.MaxWorkers)
		case b.Workers > shared.MostWorkers() && !v.isReported(at+".times") && !v.isReported(at+".concurrency"):
			v.add(path, "each worker has at least one operation, and one under way: raise times and concurrency", "%d workers share the operations of %d", b.Workers, shared.MostWorkers())
		}
		if p, ok := b.Value.(leak.ProgramUser); ok && strings.Contains(p.Program(), "/") && !v.isReported(at+".argv") {
			v.add(at+".argv", "give its name alone, with its folder on the PATH", "%s is a path of this machine, and workers have another file system", quote(p.Program()))
		}
		if v.s.Spec.Cluster == nil && !v.isReported("spec.cluster") && !v.isReported(at) {
			v.add(path, "give spec.cluster, or leave workers out", "workers are pods, and the scenario has no cluster")
		}
	}
}

func (v *validator) probes() {
	const list = "spec.probes"
	probes := v.s.Spec.Probes
	components := len(v.s.Spec.Subject.Components) > 0
	switch {
	case len(probes) == 0 && !components:
		v.add(list, "for example [goroutine, heap]; see `leakrig kinds`", "at least one probe is needed")
	case len(probes) > 0 && components && v.s.Spec.Subject.Build == "" && len(v.s.Spec.Subject.Command) == 0:
		v.add(list, "components have their own: subject.components[].probes", "no program")
	}
	v.probeList(list, probes)
}

// probeList checks the probes of the program or of one component.
func (v *validator) probeList(list string, probes []leak.Block[leak.Probe]) {
	validateBlocks(v.report, list, probes)
	kinds := make([]string, len(probes))
	for i, p := range probes {
		kinds[i] = p.Kind
	}
	duplicates(kinds, func(i int) {
		if kinds[i] != "" {
			v.add(blockPath(list, probes, i), "a probe is read once a snapshot", "the probe %s is listed twice", kinds[i])
		}
	})
}

func (v *validator) checks() {
	const list = "spec.checks"
	checks := v.s.Spec.Checks
	if len(checks) == 0 {
		v.add(list, "without a bound nothing can be decided; see `leakrig kinds`", "at least one check is needed")
	}
	validateBlocks(v.report, list, checks)
	for i, c := range checks {
		if r, ok := c.Value.(leak.Reader); ok {
			v.reads(blockPath(list, checks, i), r)
		}
		if r, ok := c.Value.(leak.LoadReader); ok {
			v.readsLoad(blockPath(list, checks, i), r.ReadsLoad())
		}
		v.bounds(blockPath(list, checks, i), c.Value)
	}
	uniqueNames(v.report, list, "check", checks)
}

// allow checks the known leaks.
func (v *validator) allow() {
	for i, a := range v.s.Spec.Allow {
		path := item("spec.allow", i)
		for _, f := range fieldErrors(a.Validate()) {
			if at := path + "." + f.Field; !v.isReported(at) {
				v.add(at, f.Hint, "%s", f.Problem)
			}
		}
		if u, err := url.Parse(a.Link); err != nil || u.Scheme != "https" || u.Host == "" {
			v.add(path+".link", "the issue that tracks it, as in https://github.com/kubernetes/kubernetes/issues/1", "%s is not an https URL", quote(a.Link))
		}
		stacked := []string{"goroutine", "heap", "leaked"}
		if a.Probe != "" && !slices.Contains(stacked, leak.ProbeKind(a.Probe)) {
			v.add(path+".probe", choice(a.Probe, "probes with stacks", stacked), "%s has no stacks", quote(a.Probe))
		}
	}
}

// reads checks that a probe measures what a check judges.
func (v *validator) reads(path string, r leak.Reader) {
	const list = "spec.probes"
	probe, metric := r.Reads()
	var taken []string
	for _, p := range v.s.Spec.AllProbes() {
		if p.Kind == "" {
			return
		}
		taken = append(taken, p.Name)
	}
	if v.isReported(list) || v.isDoubtful("spec.subject.components") || len(taken) == 0 {
		return // the probes are unknown because of an earlier problem
	}
	metrics := v.metricsOf(leak.ProbeKind(probe))
	switch {
	case probe == "":
		v.add(path+".probe", listing("probes here", taken), "names no probe")
	case !slices.Contains(taken, probe):
		v.add(path+".probe", choice(probe, "probes here", taken), "no probe %s in this scenario", quote(probe))
	case metric != "" && !slices.Contains(metrics, metric):
		v.add(path+".metric", choice(metric, "metrics of "+probe, metrics), "the probe %s has no metric %s", probe, quote(metric))
	}
}

// readsLoad checks that the round has the action that a check judges.
func (v *validator) readsLoad(path, action string) {
	names, ok := blockNames(v.s.Spec.Round)
	if !ok || action == "" || action == leak.AllActions || slices.Contains(names, action) {
		return
	}
	v.add(path+".action", choice(action, "actions here", names), "no action %s in the round", quote(action))
}

func (v *validator) metricsOf(probe string) []string {
	var names []string
	for _, k := range v.kinds.Probes {
		if k.Name == probe {
			for _, m := range k.Metrics {
				names = append(names, m.Name)
			}
		}
	}
	return names
}

// uniqueNames checks that names are unique in a list, because findings and fingerprints identify blocks by name.
func uniqueNames[T any](r *report, list, what string, blocks []leak.Block[T]) {
	names := make([]string, len(blocks))
	for i, b := range blocks {
		names[i] = b.Name
	}
	duplicates(names, func(i int) {
		if blocks[i].Kind == "" {
			return
		}
		path := child(blockPath(list, blocks, i), nameKey)
		r.add(path, "give it a unique name:", "an earlier %s is named %s too", what, quote(names[i]))
	})
}
