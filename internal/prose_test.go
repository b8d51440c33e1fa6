package internal

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// odd matches constructions that plain technical English avoids.
var odd = regexp.MustCompile(`(?i)` + strings.Join([]string{
	`\btells?\b`, `\btold\b`, `\b(is|are|was|were|be) said\b`, `\bsays of\b`, `\bwhat is neither\b`, `\bbeside\b`, `\bfor ever\b`, `\bby itself\b`,
	`\bnone of (which|them|it)\b`, `\bso (many|often|long|much) (a|as|at)\b`, `\bas many\b`, `\bof (one's|its|their|your) own\b`,
	`\b(is|are) to be\b`, `\b(can|could|cannot|to) be had\b`, `\bwherever\b`, `\bwhoever\b`, `\bwhatever\b`, `\bsomebody\b`, `\bnobody\b`,
	`\b(is|are|was) no\b`, `\bto and fro\b`, `\bmend(ed)?\b`, `\bas (it|they) (came|comes|is|was|are|were)\b`, `\banew\b`, `\bheld (against|to)\b`,
	`\bevery so\b`, `\bgone? on with\b`, `\bcomes? by\b`, `\bleft out\b`, `\bat hand\b`,
}, "|"))

// mostOdd is the maximum number of odd constructions per 1,000 words of a kind of text.
const mostOdd = 1.5

// prose counts words and collects odd constructions in one kind of text.
type prose struct {
	words int
	found []string
}

func (p *prose) add(where, text string) {
	text = regexp.MustCompile("`[^`]*`").ReplaceAllString(text, "X")
	p.words += len(strings.Fields(text))
	for _, hit := range odd.FindAllString(text, -1) {
		p.found = append(p.found, where+": "+hit)
	}
}

// TestPlainEnglish keeps comments, messages and docs readable. Each kind of text may have at most mostOdd odd
// constructions per 1,000 words.
func TestPlainEnglish(t *testing.T) {
	kinds := map[string]*prose{"comments": {}, "messages": {}, "docs": {}}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "runs" || d.Name() == ".git" || d.Name() == "examples"):
			return fs.SkipDir
		case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "prose_test.go"):
			return goProse(path, kinds["comments"], kinds["messages"])
		case strings.HasSuffix(path, ".md"):
			return markdownProse(path, kinds["docs"])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for kind, p := range kinds {
		if p.words < 1000 || float64(len(p.found)) > mostOdd*float64(p.words)/1000 {
			t.Errorf("%s: %d odd constructions in %d words:\n%s", kind, len(p.found), p.words, strings.Join(p.found, "\n"))
		}
	}
}

// goProse adds the comments of a Go file, and its strings of three words or more.
func goProse(path string, comments, messages *prose) error {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
	if err != nil {
		return nil // a test has this invalid file on purpose
	}
	for _, group := range file.Comments {
		comments.add(files.Position(group.Pos()).String(), group.Text())
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil && len(strings.Fields(text)) >= 3 && !strings.Contains(text, "\n") {
				messages.add(files.Position(lit.Pos()).String(), text)
			}
		}
		return true
	})
	return nil
}

// markdownProse adds the paragraphs of a page, without its code blocks.
func markdownProse(path string, docs *prose) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for i, block := range strings.Split(string(data), "```") {
		if i%2 == 0 {
			docs.add(path, block)
		}
	}
	return nil
}

// TestVocabulary checks that the help, the schema and the docs use one word for each thing.
func TestVocabulary(t *testing.T) {
	synonyms := regexp.MustCompile(`(?i)\b(the rig|system under test|program under test|test case of leakrig|iterations?|measuring point|load generator)\b`)
	terms := []string{
		"scenario", "variant", "subject", "round", "operation", "action", "probe", "sample", "snapshot", "baseline", "settle", "growth", "check",
		"finding", "outcome", "inconclusive", "clean", "leaking", "verdict", "record", "fingerprint", "provider", "placement",
	}
	all := strings.Builder{}
	for _, pattern := range []string{"../README.md", "../docs/*.md", "../docs/*.json", "../cmd/leakrig/*.go", "../session/*.go", "../bisect/*.go", "../fleet/*.go", "../compare/*.go", "../scaffold/*.go", "../leak/*.go"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if hit := synonyms.Find(data); hit != nil {
				t.Errorf("%s: use the term of the field instead of %q", path, hit)
			}
			if strings.HasSuffix(path, ".md") {
				all.Write(data)
			}
		}
	}
	for _, term := range terms {
		if !regexp.MustCompile(`(?i)\b` + term).MatchString(all.String()) {
			t.Errorf("no page mentions %q", term)
		}
	}
}
