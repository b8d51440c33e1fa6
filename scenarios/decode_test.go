package scenarios

import (
	"fmt"
	"strings"
	"testing"
)

// TestShapeProblems checks that every type of a configuration refuses wrong values. Each setting is on line 9, from
// column 9.
func TestShapeProblems(t *testing.T) {
	for _, row := range []struct{ comment, setting, want string }{
		{"text for a boolean", "flag: yes", `9:15: flag: expected a boolean, found the text "yes" | for example flag: true`},
		{"a number for a boolean", "flag: 1", "9:15: flag: expected a boolean, found the number 1 | for example flag: true"},
		{"text for a number", "share: half", `9:16: share: expected a number, found the text "half" | for example share: 0.5`},
		{"no number at all", "share: .nan", "9:16: share: expected a number, found the number .nan | for example share: 0.5"},
		{"infinity", "share: -.inf", "9:16: share: expected a number, found the number -.inf | for example share: 0.5"},
		{"a number too large for a float, which YAML reads as text", "share: 1e999", `9:16: share: expected a number, found the text "1e999" | for example share: 0.5`},
		{"an integer too large for its type", "small: 128", "9:16: small: 128 is out of range for this integer"},
		{"a negative number for an unsigned one", "steps: [{times: -1}]", "9:25: steps[0].times: expected an integer, found the number -1 | for example times: 10"},
		{"an unsigned number too large", "steps: [{times: 256}]", "9:25: steps[0].times: 256 is out of range for this integer"},
		{"underscores", "small: 1_0", "9:16: small: expected an integer, found the number 1_0 | for example small: 10"},
		{"an octal number in YAML 1.1, which 010 is not here", "small: 0o10", "9:16: small: expected an integer, found the number 0o10 | for example small: 10"},
		{"text for a pointer to a number", "maybe: one", `9:16: maybe: expected an integer, found the text "one" | for example maybe: 10`},
		{"null for a pointer", "maybe: ~", "9:16: maybe: has no value | leave it out, or give it a value"},
		{"a mapping for a list", "words: {a: b}", "9:16: words: expected a list of text, found a mapping | for example words: [word]"},
		{"an unknown key in a list", "steps: [{do: a}, {du: b}]", "9:27: steps[1].du: unknown key | did you mean do?"},
		{"text for a mapping in a list", "steps: [jump]", `9:17: steps[0]: expected a mapping, found the text "jump" | for example - {do: …}`},
		{"a mapping for a list of mappings", "steps: {do: a}", "9:16: steps: expected a list of mapping, found a mapping | for example steps: [{do: …}]"},
		{"text in a map of integers", "counts: {a: b}", `9:21: counts.a: expected an integer, found the text "b" | for example a: 10`},
		{"a list for a pointer to a mapping", "first: [a]", "9:16: first: expected a mapping, found a list | for example first: {do: …}"},
		{"an unknown key behind a pointer", "first: {dp: a}", "9:17: first.dp: unknown key | did you mean do?"},
		{"a bad quantity in a list", "bounds: [1, x]", `9:21: bounds[1]: "x" is not a number such as 10, 0.01 or 2KiB`},
		{"a key of an inline struct", "timeot: 1s", "9:9: timeot: unknown key | did you mean timeout?"},
		{"a field without a yaml tag", "Secret: x", "9:9: Secret: unknown key | keys: timeout, flag, share, small, maybe, words, steps, counts, first, bounds, odd, name"},
		{"a type that no file can say", "odd: 1", "9:14: odd: expected a chan int, found the number 1 | for example odd: …"},
		{"an item on a separate line", "words:\n          - a\n          - 2", `11:13: words[1]: expected text, found the number 2 | for example - "2"`},
	} {
		_, err := load(withShapes(row.setting))
		if got := strings.ReplaceAll(brief(err), "spec.round[0].shapes.", ""); got != row.want {
			t.Errorf("%s:\ngot  %s\nwant %s", row.comment, got, row.want)
		}
	}
}

// TestReportIsBounded checks a hostile file, which can have any number of problems, and text of any length in each.
func TestReportIsBounded(t *testing.T) {
	var text strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&text, "k%d%s: 1\n", i, strings.Repeat("é", 100))
	}
	_, err := load(text.String())
	if got := strings.Count(brief(err), "\n") + 1; got != maxProblems {
		t.Errorf("%d problems, want %d", got, maxProblems)
	}
	for line := range strings.Lines(err.Error()) {
		if len(line) > 2*maxMessage {
			t.Fatalf("a line of %d bytes", len(line))
		}
	}
}

func TestNearest(t *testing.T) {
	words := []string{"goroutine", "heap", "process", "maxPerOp", "a"}
	for _, row := range []struct{ comment, word, want string }{
		{"a letter missing", "gorutine", "goroutine"},
		{"a letter too many", "heaps", "heap"},
		{"neighbours swapped", "haep", "heap"},
		{"another case", "MAXPEROP", "maxPerOp"},
		{"half of a short word is wrong", "help", "heap"},
		{"most of it is wrong", "host", ""},
		{"another word", "threads", ""},
		{"nothing of the word is left", "b", ""},
		{"nothing", "", ""},
		{"too long to be a slip", strings.Repeat("heap", 1000), ""},
	} {
		if got := Nearest(row.word, words); got != row.want {
			t.Errorf("%s: Nearest(%.20q) = %q, want %q", row.comment, row.word, got, row.want)
		}
	}
}
