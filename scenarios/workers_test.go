package scenarios

import (
	"strings"
	"testing"
)

const crewed = `apiVersion: leakrig.dev/v1
kind: Scenario
metadata: {name: crewed}
spec:
  cluster: {providers: [kind]}
  subject: {build: ./server}
  variants:
    - {name: current, expect: clean}
  warmup: {round: [shared: {workers: 1}]}
  round: [shared: {workers: 3, times: 6}]
  probes: [goroutine]
  checks:
    - delta: {probe: goroutine, max: 0}
`

func TestWorkers(t *testing.T) {
	s, err := load(crewed)
	if err != nil || s.Spec.Round[0].Workers != 3 || s.Spec.Warmup.Round[0].Workers != 1 {
		t.Fatalf("%v, %+v", err, s)
	}
	parameter := strings.NewReplacer("workers: 3", "workers: $(many)", "  subject", "  parameters: {many: '4'}\n  subject")
	if s, err = load(parameter.Replace(crewed)); err != nil || s.Spec.Round[0].Workers != 4 {
		t.Fatalf("%v, %+v", err, s)
	}
	if s, err = load(strings.Replace(crewed, "workers: 3, ", "", 1)); err != nil || s.Spec.Round[0].Workers != 0 {
		t.Fatalf("%v, %+v", err, s)
	}
	const round = "shared: {workers: 3, times: 6}"
	for _, row := range []struct{ comment, old, new, want string }{
		{"none", round, "shared: {workers: 0}", "10:29: spec.round[0].shared.workers: 0 is not between 1 and 64 | leave it out to have none"},
		{"too many", round, "shared: {workers: 65, times: 100}", "10:29: spec.round[0].shared.workers: 65 is not between 1 and 64 | leave it out to have none"},
		{"not a number", round, "shared: {workers: all}", `10:29: spec.round[0].shared.workers: expected an integer, found the text "all" | for example workers: 10`},
		{
			"more than there is to do", round, "shared: {workers: 3, times: 2}",
			"10:29: spec.round[0].shared.workers: 3 workers share the operations of 2 | each worker has at least one operation, and one under way: raise times and concurrency",
		},
		{
			"in the warm-up, too", "workers: 1", "workers: 5",
			"9:38: spec.warmup.round[0].shared.workers: 5 workers share the operations of 4 | each worker has at least one operation, and one under way: raise times and concurrency",
		},
		{
			"of an action that is not shared", round, "post: {path: /, workers: 2}",
			"10:36: spec.round[0].post.workers: workers cannot perform post | leave it out",
		},
		{
			"of an action that is not shared, with a key that is not known", round, "post: {path: /, worker: 2}",
			"10:27: spec.round[0].post.worker: unknown key | keys: path, times, concurrency, headers, name",
		},
		{"a misspelt key", round, "shared: {worker: 2}", "10:20: spec.round[0].shared.worker: unknown key | did you mean workers?"},
	} {
		_, err := load(strings.Replace(crewed, row.old, row.new, 1))
		if got := brief(err); got != row.want {
			t.Errorf("%s:\n got  %s\n want %s", row.comment, got, row.want)
		}
	}
	_, err = load(strings.Replace(crewed, "  cluster: {providers: [kind]}\n", "", 1))
	if got := brief(err); !strings.Contains(got, "spec.round[0].shared.workers: workers are pods, and the scenario has no cluster | give spec.cluster, or leave workers out") {
		t.Error(got)
	}
}
