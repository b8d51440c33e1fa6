// Command sized writes the run directory that TestScale measures. Its program leaks a goroutine per operation, on one
// of the given number of stacks, in each of the given number of subjects.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/leakrig/leakrig/leak"
)

func main() {
	stacks := flag.Int("stacks", 100, "different stacks of each subject")
	rounds := flag.Int("rounds", 10, "measured rounds")
	subjects := flag.Int("subjects", 1, "replicas")
	flag.Parse()
	dir := leak.RunDir(flag.Arg(0))
	text := []byte(scenario(*rounds, *subjects))
	err := dir.WriteFile(leak.ScenarioFile, text)
	if err == nil {
		r := record(*stacks, *rounds, *subjects)
		r.Hashes = map[string]string{leak.ScenarioFile: leak.HashOf(text)}
		err = dir.WriteRecord(r)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func scenario(rounds, subjects int) string {
	var urls []string
	for i := range subjects {
		urls = append(urls, fmt.Sprintf("http://127.0.0.1:%d", 6060+i))
	}
	return fmt.Sprintf(`apiVersion: leakrig.dev/v1
kind: Scenario
metadata: {name: sized}
spec:
  subject: {urls: [%s]}
  variants: [{name: leaky, expect: leaking, fingerprint: [planted]}]
  rounds: %d
  round: [post: {path: /, times: %d}]
  probes: [goroutine]
  checks: [stack: {name: planted, match: 'main\.f0$', state: chan send, maxPerOp: 0.01}]
`, strings.Join(urls, ", "), rounds, 20*subjects)
}

func record(stacks, rounds, subjects int) *leak.Record {
	r := &leak.Record{
		Schema: leak.RecordSchema, Scenario: "sized", Started: time.Unix(0, 0), Finished: time.Unix(100, 0),
		Plan:     leak.Plan{Variants: []string{"leaky"}, Rounds: rounds},
		Metrics:  map[string]leak.Metric{"goroutine.count": {Name: "count", Unit: "goroutines"}},
		Variants: []leak.VariantRecord{variant(stacks, rounds)},
	}
	if subjects > 1 {
		r.Plan.Replicas, r.Variants[0].Replica = subjects, 1
		for i := range subjects - 1 {
			other := variant(stacks, rounds)
			other.Replica = i + 2
			r.Variants[0].Replicas = append(r.Variants[0].Replicas, other)
		}
	}
	return r
}

func variant(stacks, rounds int) leak.VariantRecord {
	v := leak.VariantRecord{Name: "leaky", Stacks: map[string]leak.Stack{}}
	ids := make([]string, stacks)
	for i := range ids {
		s := leak.Stack{State: "chan send", Creator: &leak.Frame{Func: "main.start"}}
		for depth := range 20 {
			s.Frames = append(s.Frames, leak.Frame{Func: fmt.Sprintf("example.org/server/handlers.(*Handler).serve%d", (i+depth)%500), File: "example.org/server/handlers/handler.go", Line: 10 * depth})
		}
		s.Frames[0].Func = fmt.Sprintf("main.f%d", i)
		ids[i] = s.ID()
		v.Stacks[ids[i]] = s
	}
	for round := range rounds + 1 {
		v.Snapshots = append(v.Snapshots, snapshot(ids, round))
	}
	idle := snapshot(ids, rounds)
	idle.Load, v.Idle = nil, &idle
	return v
}

func snapshot(ids []string, round int) leak.Snapshot {
	s := leak.Snapshot{Round: round, Time: time.Unix(int64(round), 0), Operations: 20 * round, Settle: leak.SettleResult{Settled: true, Reason: "no group shrank"}}
	if round > 0 {
		s.Load = []leak.Tally{{Action: "post", Attempted: 20, Succeeded: 20, Seconds: 1}}
	}
	groups := make([]leak.Group, len(ids))
	for i, id := range ids {
		groups[i] = leak.Group{Stack: id, Count: 10}
	}
	groups[0].Count += int64(20 * round)
	total := float64(10*len(ids) + 20*round)
	s.Samples = []leak.Sample{{Probe: "goroutine", Values: map[string]float64{"count": total}, Groups: map[string][]leak.Group{"dump": groups}}}
	return s
}
