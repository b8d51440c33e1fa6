package reports

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestReplicas checks that the report describes the worst replica and has a line for each replica.
func TestReplicas(t *testing.T) {
	in := herd()
	lines := []string{
		"replica 1: clean, 47 operations, receive 0 per operation",
		"replica 2: leaking, 47 operations, receive +1.00 per operation (shown)",
		"replica 3: clean, 46 operations, receive 0 per operation",
	}
	for format, want := range map[string][]string{
		"text":     append([]string{"✓ leaky: leaking, as expected. replica 2, the worst of 3: ", "leaky/replica-2/round-7/goroutine.pb.gz"}, lines...),
		"markdown": append([]string{"leaky/replica-2/round-0/goroutine.pb.gz"}, "- replica 1: clean, 47 operations, receive 0 per operation", "- replica 2: leaking"),
		"html":     {"shown here", "operations on the one shown of 3 replicas", "replica 3: round 2: second dump: EOF", "leaky/replica-2/round-7"},
		"json":     {`"replica": 2`, `"replicas": [`},
		"junit":    {"replica 2"},
	} {
		got := render(t, format, in)
		checkForm(t, format, got)
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s: %q is not in it", format, w)
			}
		}
		if strings.Contains(got, "replica-1/round") || strings.Contains(got, "replica-3/round") {
			t.Errorf("%s shows files of another replica", format)
		}
	}
	if !reflect.DeepEqual(in, herd()) {
		t.Error("a renderer changed its input")
	}
	// A report does not mention a single replica.
	for _, format := range []string{"text", "html", "markdown", "json"} {
		if got := render(t, format, fixture()); strings.Contains(got, ">Replica<") || strings.Contains(got, "replica 1") || strings.Contains(got, `"replica"`) {
			t.Errorf("%s speaks of replicas", format)
		}
	}
}

// TestManyReplicas checks that replicas with the same outcome share a line.
func TestManyReplicas(t *testing.T) {
	in := herd()
	worst := &in.Verdict.Variants[0]
	shown, calm := worst.Replicas[1], worst.Replicas[0]
	shown.Replica, worst.Replica, worst.Replicas = 7, 7, nil
	for i := range 30 {
		one := calm
		if i == 6 {
			one = shown
		}
		if i == 3 {
			one.Findings = nil // one replica without findings must not affect the others
		}
		one.Replica = i + 1
		worst.Replicas = append(worst.Replicas, one)
	}
	got := variant{Verdict: *worst}.ReplicaLines()
	want := []string{
		"replica 7: leaking, 47 operations, receive +1.00 per operation (shown)",
		"1 of 30 replicas leaking: receive +1.00 per operation",
		"29 of 30 replicas clean: receive 0 per operation",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
