package scaffold

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
	"github.com/leakrig/leakrig/profiles"
)

// skeletonStacks is how many fingerprints a skeleton has at most: a leak has a few stacks, not many.
const skeletonStacks = 3

// Skeleton writes a scenario whose fingerprints are the largest stacks of a profile, whoever owns their code. Each
// names the innermost function outside the standard library, if there is one.
func Skeleton(out io.Writer, path string) error {
	p, err := profiles.Open(path)
	if err != nil {
		return err
	}
	m, err := profiles.Match(&leak.Diff{Source: p.Source}, p) // nothing grew: all is left over, largest first
	if err != nil {
		return err
	}
	var names []string
	var checks strings.Builder
	known := map[[2]string]bool{}
	for _, s := range m.Unexplained {
		frame := s.Stack.Origin()
		key := [2]string{frame.Func, s.Stack.State}
		if frame.Func == "" || known[key] || len(names) == skeletonStacks || len(names) > 0 && 10*s.To < m.Total {
			continue // all fingerprints must show: only stacks that stand out are good for that
		}
		known[key] = true
		name := fmt.Sprintf("stack-%d", len(names)+1)
		names = append(names, name)
		fmt.Fprintf(&checks, "    # %s of %s %s in the profile\n    - stack:\n        name: %s\n        match: %s\n",
			display.Value(float64(s.To), m.Unit), display.Value(float64(m.Total), m.Unit), m.Unit, name, quoteYAML(regexp.QuoteMeta(frame.Func)))
		if s.Stack.State != "" {
			fmt.Fprintf(&checks, "        state: %s\n", quoteYAML(s.Stack.State))
		}
		if m.Unit == "bytes" {
			fmt.Fprint(&checks, "        probe: heap\n        maxPerOp: 1KiB\n")
		} else {
			fmt.Fprint(&checks, "        maxPerOp: 0.01\n")
		}
	}
	if len(names) == 0 {
		return errors.New("the profile has no stack with a named function")
	}
	_, err = fmt.Fprintf(out, `apiVersion: leakrig.dev/v1
kind: Scenario
metadata:
  name: reproduction
  description: Made from a production profile; subject, load and what is expected are yours to fill in.
spec:
  subject:
    command: [./my-service] # or build: ./folder, or url: http://127.0.0.1:6060
  variants:
    - {name: current, expect: leaking, fingerprint: [%s]}
  round:
    - post: {path: /, times: 20, concurrency: 4} # what production was doing
  probes: [goroutine, heap, process]
  checks:
%s`, strings.Join(names, ", "), checks.String())
	return err
}

// quoteYAML quotes any text for YAML.
func quoteYAML(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return strconv.QuoteToASCII(s)
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}
