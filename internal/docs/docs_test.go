package docs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const page = "# A page\n" +
	"<!-- file: sub/a.txt -->\n```\none\ntwo\nthree\n```\n" +
	"<!-- change: sub/a.txt -->\n\n```diff\n one\n-two\n+2\n```\n" +
	"```\n$ cat sub/a.txt\none\n2\nthree\n$ printf '%s\\n' \\\n    head 'it took 15 ms' '  +1.00  per operation' tail\nhead\n...\n+1.00 per operation\ntail\n```\n" +
	"<!-- exit: 3 -->\n```\n$ echo more; exit 3\n```\n" +
	"<!-- needs: moon -->\n```\n$ false\n```\n" +
	"```yaml\nno: session\n```\n"

func TestRun(t *testing.T) {
	for _, row := range []struct{ comment, old, new, want string }{
		{"unchanged", "", "", ""},
		{"another number", "it took 15 ms", "it took 17.5 s", ""},
		{"the rest of a line", "head\n...\n+1.00 per operation", "head\n...\n+1.00 per...", ""},
		{"a line that ends where its rest would begin", "operation\ntail\n", "operation\ntail ...\n", ""},
		{"another beginning of a line", "head\n...\n+1.00 per operation", "head\n...\n+1.00 for...", "which is not there"},
		{"a number that is shown", "head\n...\n", "head\nit took 900 ms\n", ""},
		{"an exit code that it has not", "exit: 3", "exit: 2", "page.md:29: echo more; exit 3: exit code 3, want 2\nmore\n"},
		{"an exit code that it should not have", "<!-- exit: 3 -->", "", "exit code 3, want 0"},
		{"a rate that differs", "...\n+1.00", "...\n+1.01", `the page shows "+1.01 per operation", which is not there`},
		{"a size is not a rate", "'  +1.00  per operation' tail\nhead\n...\n+1.00 per operation", "'+1.25 MiB' tail\nhead\n...\n+980 B", ""},
		{"a line that is not there", "three\n$", "four\n$", `page.md:16: cat sub/a.txt: the page shows "four", which is not there`},
		{"a line too few", "three\n$", "$", `the page ends before "three"`},
		{"a change of what is not there", "-two", "-zwei", "these lines are 0 times in sub/a.txt"},
		{"its requirement is available", "needs: moon", "needs: sun", "page.md:33: false: exit code 1, want 0"},
		{"a comment of another block", "<!-- exit: 3 -->\n", "<!-- exit: 3 -->\nText.\n", "exit code 3, want 0"},
	} {
		if row.old != "" && !strings.Contains(page, row.old) {
			t.Errorf("%s: the page has no %q", row.comment, row.old)
		}
		p, err := Parse("page.md", strings.Replace(page, row.old, row.new, 1))
		if err != nil {
			t.Fatal(err)
		}
		r := Runner{Dir: t.TempDir(), Env: os.Environ(), Has: func(need string) bool { return need == "sun" }}
		ran, err := r.Run(t.Context(), p)
		switch {
		case row.want == "" && (err != nil || ran != 3):
			t.Errorf("%s: %d commands, %v", row.comment, ran, err)
		case row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)):
			t.Errorf("%s: got %v, want %s", row.comment, err, row.want)
		}
	}
}

func TestParseProblems(t *testing.T) {
	for text, want := range map[string]string{
		"```\n$ true\n":                       "the block has no end",
		"<!-- exit: one -->\n```\n```\n":      `invalid syntax`,
		"text\n<!-- in: heaven -->\n```\n```": "p.md:2: in: heaven: only a checkout can be meant",
	} {
		if _, err := Parse("p.md", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestService checks that a service runs until the end of the page, on a free port.
func TestService(t *testing.T) {
	const text = "<!-- file: s/main.go -->\n```go\npackage main\n\nimport \"net/http\"\n\nfunc main() { panic(http.ListenAndServe(\"127.0.0.1:8080\", http.NotFoundHandler())) }\n```\n" +
		"```\n$ go build -o serve s/main.go\n$ ./serve &\n$ grep -c 127.0.0.1:8080 s/main.go\n1\n```\n"
	p, err := Parse("page.md", text)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if ran, err := (Runner{Dir: dir, Env: os.Environ()}).Run(t.Context(), p); err != nil || ran != 3 {
		t.Errorf("%d commands, %v", ran, err)
	}
	written, err := os.ReadFile(filepath.Join(dir, "s", "main.go"))
	if err != nil || strings.Contains(string(written), ":8080") {
		t.Errorf("%v\n%s", err, written)
	}
}

// TestTimesMayDiffer checks that times on a page may differ, in any unit.
func TestTimesMayDiffer(t *testing.T) {
	for _, took := range []string{"900 ms", "2s", "1m16s", "1h2m3s", "12.5 s"} {
		if err := compare("built in "+took+", leaky", []string{"built in 17s, leaky"}); err != nil {
			t.Errorf("%s: %v", took, err)
		}
	}
}
