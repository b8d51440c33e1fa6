//go:build slow

package catalogue

import (
	"errors"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/leakrig/leakrig/profiles"
)

// TestSlowBlind explains profiles of a program whose package main and whose module are no part of the catalogue. The
// entry of the leak must come first, also without the frames' wait states or the binary's versions. The same code
// must not be called a leak if it runs twice.
func TestSlowBlind(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "orders")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = "testdata/orders"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, c := range []struct {
		id     string
		times  string
		status Status
	}{
		{"http-body-not-closed", "150", StandsOut},
		{"http-idle-connections", "300", StandsOut},
		{"sql-open-per-request", "50", StandsOut},
		{"context-propagation", "200", StandsOut},
		{"go-cache-janitor", "60", StandsOut},
		{"cron-schedulers", "20", StandsOut},
		{"fsnotify-watchers", "25", StandsOut}, // the kernel limits the watchers of a user
		{"event-broadcasters", "80", StandsOut},
		{"regexp-compile", "200", StandsOut},
		{"watch-then-delete", "30", KnownLeak},
		{"lumberjack-mill", "30", KnownLeak},
		{"otel-global-meter", "200", KnownLeak},
		{"smithy-lru", "300", KnownLeak},
	} {
		t.Run(c.id, func(t *testing.T) {
			for _, form := range []string{"debug", "profile"} {
				m, ok := first(t, program, c.id, c.times, form)
				if !ok || m.ID != c.id || m.Status != c.status {
					t.Errorf("%s: %s %s is first", form, m.Status, m.ID)
				}
			}
			if m, ok := first(t, program, c.id, "2", "debug"); ok && (m.Status == KnownLeak || m.Status == StandsOut) {
				t.Errorf("healthy: %s %s, %d", m.Status, m.ID, m.N)
			}
		})
	}
}

// first is the first match of a profile of the program.
func first(t *testing.T, program string, args ...string) (Match, bool) {
	t.Helper()
	data, err := exec.Command(program, args...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		t.Fatalf("%v: %s", err, exit.Stderr)
	} else if err != nil {
		t.Fatal(err)
	}
	p, err := profiles.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	in := Input{Unit: p.Unit()}
	for _, g := range p.Groups {
		in.Stacks = append(in.Stacks, Amount{Stack: p.Stacks[g.Stack], N: p.Amount(g)})
	}
	x := Explain(in)
	if len(x.Matches) == 0 {
		return Match{Entry: &Entry{}}, false
	}
	return x.Matches[0], true
}
