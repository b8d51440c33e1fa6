package reports

import (
	"bytes"
	"fmt"
)

// comment writes one comment of at most 60 lines for a pull request. The first line lets a job find the comment of its scenario and replace
// it.
func comment(b *bytes.Buffer, v view) error {
	fmt.Fprintf(b, "<!-- leakrig %s -->\n## %s %s: %s\n\n%s\n", markdownMarker(v.Name()), markdownMark(v), escape(v.Name()), escape(v.Headline()), escape(v.Sentence()))
	if f := v.Record.Failure; f != nil {
		fmt.Fprintf(b, "\n%s\n", escape(firstLine(f.Message)))
	}
	markdownAnswer(b, v.Answer())
	const rows = 20
	shown, more := head(v.Variants, rows)
	if len(shown) > 0 {
		b.WriteString("\n| variant | expected | outcome | growth |\n| --- | --- | --- | --- |\n")
	}
	for _, x := range shown {
		growth := "–"
		if c := v.Figure(x); c != nil {
			growth = c.Growth()
			if !c.InAll() && growth != "–" {
				growth += " per operation"
			}
			growth += ", " + c.Finding.Check
		}
		fmt.Fprintf(b, "| %s | %s | %s, %s | %s |\n", escape(x.Name), escape(expected(x.Verdict.Expect)), x.Verdict.Outcome, x.Verdict.Result, escape(growth))
	}
	if more > 0 {
		fmt.Fprintf(b, "\n%s\n", and(more, "variant"))
	}
	return nil
}

// markdownMarker keeps a name from ending the comment that it stands in.
func markdownMarker(name string) string {
	return mapRunes(oneLine(name), func(r rune) bool { return isWordRune(r) || r == '-' || r == '/' || r == '.' || r == ' ' })
}
