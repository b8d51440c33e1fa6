package scenarios

import (
	"strings"
	"testing"
)

// observed is a scenario that observes components and pins versions of node commands.
const observed = `apiVersion: leakrig.dev/v1
kind: Scenario
metadata: {name: observed}
spec:
  cluster: {providers: [embedded]}
  subject:
    build: ./server
    aliases: [ls]
    components:
      - {component: kubelet, probes: [goroutine, heap]}
      - {component: containerd-shim, name: shim, probes: [goroutine]}
  variants:
    - name: leaky
      node: [{command: containerd, version: v1.6.36, modules: {github.com/containerd/ttrpc: v1.0.2}}]
      expect: clean
  warmup: {rounds: 2, round: [post: {path: /a}]}
  round: [post: {path: /a, times: 3}]
  checks:
    - delta: {probe: kubelet/goroutine, max: 1}
    - growth: {name: g, probe: kubelet/heap, metric: bytes, maxPerOp: 1KiB}
    - delta: {name: s, probe: shim/goroutine, max: 0}
`

func TestComponents(t *testing.T) {
	s, err := load(observed)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range s.Spec.AllProbes() {
		names = append(names, p.Component+":"+p.Name)
	}
	if got := strings.Join(names, " "); got != "kubelet:kubelet/goroutine kubelet:kubelet/heap shim:shim/goroutine" {
		t.Error(got)
	}
	if c := s.Spec.Subject.Components; c[0].Name != "kubelet" || c[1].Name != "shim" {
		t.Errorf("%+v", c)
	}
	if !s.Spec.OwnClusters() || len(s.Spec.Warmup.Round) != 1 {
		t.Errorf("%+v", s.Spec)
	}
	for _, row := range []struct{ comment, old, new, want string }{
		{
			"a misspelt component", "component: kubelet,", "component: kublet,",
			`10:21: spec.subject.components[0].component: no component is named "kublet" | did you mean kubelet?`,
		},
		{
			"no component", "{component: kubelet, ", "{",
			"10:9: spec.subject.components[0].component: is missing | one of: kubelet, containerd, containerd-shim, kube-apiserver, kube-scheduler, kube-controller-manager",
		},
		{
			"a component without probes", "component: kubelet, probes: [goroutine, heap]", "component: kubelet",
			"10:9: spec.subject.components[0].probes: at least one probe is needed | for example [goroutine, heap]; see `leakrig kinds`",
		},
		{
			"two of one name", "name: shim", "name: kubelet",
			"11:44: spec.subject.components[1].name: \"kubelet\" is taken by an earlier component | give it a unique name",
		},
		{
			"the heap of a shim", "name: shim, probes: [goroutine]", "name: shim, probes: [goroutine, heap]",
			`11:70: spec.subject.components[1].probes[1].heap: a shim serves no profiles, only a dump of its goroutines | take goroutine and process`,
		},
		{
			"a shim without a pod", "    build: ./server\n", "    command: [server]\n",
			`11:21: spec.subject.components[1].component: a shim belongs to a pod, and the scenario starts none | subject.build, with placement pod, makes the pod`,
		},
		{
			"a check of a component's probe that is not taken", "probe: kubelet/goroutine", "probe: shim/heap",
			`19:22: spec.checks[0].delta.probe: no probe "shim/heap" in this scenario | probes here: kubelet/goroutine, kubelet/heap, shim/goroutine`,
		},
		{
			"a check that names no component", "probe: kubelet/goroutine", "probe: goroutine",
			`19:22: spec.checks[0].delta.probe: no probe "goroutine" in this scenario | probes here: kubelet/goroutine, kubelet/heap, shim/goroutine`,
		},
		{
			"a metric that the component's probe has not", "metric: bytes", "metric: count",
			`20:54: spec.checks[1].growth.metric: the probe kubelet/heap has no metric "count" | metrics of kubelet/heap: bytes, objects`,
		},
		{
			"an unknown command of the node", "command: containerd,", "command: containered,",
			`14:24: spec.variants[0].node[0].command: no command of the node is named "containered" | did you mean containerd?`,
		},
		{
			"half a version", "version: v1.6.36", "version: v1.6",
			`14:45: spec.variants[0].node[0].version: "v1.6" is not a version | a full version, for example v1.7.35`,
		},
		{
			"a module that is none", "github.com/containerd/ttrpc:", "ttrpc:",
			`14:71: spec.variants[0].node[0].modules.ttrpc: "ttrpc" is not the path of a module | for example github.com/containerd/ttrpc`,
		},
		{
			"an alias that is a path", "aliases: [ls]", "aliases: [/bin/ls]",
			`8:15: spec.subject.aliases[0]: "/bin/ls" is not the name of a command | for example ls`,
		},
		{
			"a misspelt action in the warm-up", "round: [post: {path: /a}]", "round: [pots: {path: /a}]",
			`16:31: spec.warmup.round[0].pots: unknown kind of action | did you mean post?`,
		},
	} {
		if strings.Count(observed, row.old) == 0 {
			t.Errorf("%s: %q is not part of the scenario", row.comment, row.old)
		}
		_, err := load(strings.Replace(observed, row.old, row.new, 1))
		if got := brief(err); got != row.want {
			t.Errorf("%s:\ngot  %s\nwant %s", row.comment, got, row.want)
		}
	}
}
