package reports

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// exampleSize is the maximum size in bytes of an example, and so of the page of a usual run: people mail it.
const exampleSize = 400 << 10

// outside matches markup that makes a page send a request. Links do not match, because they wait for a click.
var outside = regexp.MustCompile(`(?i)<(?:link|img|iframe|object|embed|base|form|video|audio|source)\b|\s(?:src|srcset|data|action|poster|xlink:href)\s*=|url\((?:"|')?(?:https?:|//)|@import`)

// TestExamples checks that the examples are small, complete, and need no network. It logs examples of an older form
// and does not check them: `make example` writes them from a new run.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../docs/examples/*.html")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			page := string(data)
			if !strings.Contains(page, generator) {
				t.Fatalf("written by an older leakrig: make example RUN=RUN_DIR NAME=%s", strings.TrimSuffix(filepath.Base(file), ".html"))
			}
			checkExample(t, page, exampleSize)
		})
	}
}

func checkExample(t *testing.T, page string, size int) {
	t.Helper()
	if len(page) > size {
		t.Errorf("%d KiB, %d are allowed", len(page)>>10, size>>10)
	}
	own := regexp.MustCompile(`(?s)<script>.*?</script>|<pre.*?</pre>|<code.*?</code>|<title>.*?</title>|<text.*?</text>`).ReplaceAllString(page, "")
	if at := outside.FindStringIndex(own); at != nil {
		t.Errorf("it asks for something: %.80q", own[at[0]:])
	}
	if !strings.Contains(page, "default-src &#39;none&#39;") {
		t.Error("its policy lets it ask for something")
	}
	for _, section := range []string{"scenario", "variants", "series", "stacks", "flames", "gates", "load", "warnings", "versions", "reproduce"} {
		if !strings.Contains(page, `<section id="`+section+`"`) {
			t.Errorf("section %s is missing", section)
		}
	}
	for _, part := range []string{`class="chart"`, `class="flame"`, `class="stack`, `class="gates"`} {
		if !strings.Contains(page, part) {
			t.Errorf("%s is missing", part)
		}
	}
}

// TestPageStaysSmall checks that a page with all frames of 10,000 deep stacks per variant and profile is at most 2 MiB, and that it is
// at most exampleSize without them.
func TestPageStaysSmall(t *testing.T) {
	in := fixture()
	in.Record.Plan.Variants, in.Record.Variants = in.Record.Plan.Variants[:2], in.Record.Variants[:2]
	in.Verdict.Variants, in.Scenario.Spec.Variants = in.Verdict.Variants[:2], in.Scenario.Spec.Variants[:2]
	for i := range in.Record.Variants {
		manyStacks(&in.Record.Variants[i])
	}
	page := render(t, "html", in)
	checkExample(t, page, 2<<20)
	checkExample(t, flameDataOf.ReplaceAllString(page, ""), exampleSize)
	// Check that the test detects what an attacker would add.
	for _, evil := range []string{`<img alt="x">`, `<a href="#x" src="y">`, `<i style="background: url(https://example.com/x)">`} {
		if outside.FindString(evil) == "" {
			t.Errorf("%s is let through", evil)
		}
	}
}
