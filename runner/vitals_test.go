package runner

import (
	"context"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// TestAttackRestart checks that a restarted process ends the measurement of its variant at any point of a round, and
// that the next variant is measured.
func TestAttackRestart(t *testing.T) {
	for name, change := range map[string]func(*leak.Vitals){
		"another process":         func(v *leak.Vitals) { v.Process = "process 2" },
		"nobody":                  func(v *leak.Vitals) { v.Process = "" },
		"fewer collections":       func(v *leak.Vitals) { v.Collections = 1 },
		"fewer objects":           func(v *leak.Vitals) { v.Mallocs = 1 },
		"fewer bytes":             func(v *leak.Vitals) { v.Bytes = 1 },
		"a collection's time":     func(v *leak.Vitals) { v.Ends = []int64{1, 2, 3, 4, 99, 6, 7, 8} },
		"all of it, in any order": func(v *leak.Vitals) { *v = leak.Vitals{Read: v.Read, Process: "process 9", Known: true} },
	} {
		for _, event := range []string{"leaky load 9", "leaky goroutine", "stop leaky"} {
			bubble(t, name+" at "+event, func(t *testing.T) {
				l := newLab(t)
				reads, restarted := int64(0), false
				l.Vitals = func(context.Context, leak.Target) (leak.Vitals, error) {
					reads++
					v := leak.Vitals{Process: "process 1", Known: true, Collections: 5, Mallocs: 1000 + reads, Bytes: 9000 + reads, Ends: []int64{1, 2, 3, 4, 5, 6, 7, 8}, CPU: -1}
					if restarted {
						change(&v)
					}
					return v, nil
				}
				l.at = func(e string) error {
					switch {
					case strings.HasPrefix(e, "start fixed"):
						restarted = false
					case e == event && len(l.events) > 8:
						restarted = true
					}
					return nil
				}
				record, err := l.run(t, t.Context())
				if err != nil {
					t.Fatal(err)
				}
				leaky, fixed := record.Variants[0], record.Variants[1]
				if fixed.Failure != nil || len(fixed.Quiet) != stretches || len(fixed.Reading) != stretches || fixed.Final().Activity == nil {
					t.Errorf("the other variant: %+v", fixed.Failure)
				}
				if event == "stop leaky" { // after all was measured
					if leaky.Failure != nil {
						t.Errorf("%+v", leaky.Failure)
					}
					return
				}
				if leaky.Failure == nil || !strings.Contains(leaky.Failure.Message, "the subject restarted: ") || leaky.Failure.Hint == "" || leaky.Idle != nil {
					t.Errorf("%+v, %d snapshots", leaky.Failure, len(leaky.Snapshots))
				}
			})
		}
	}
}
