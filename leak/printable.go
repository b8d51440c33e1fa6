package leak

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Printable makes what a terminal, a browser or an editor could take as a command visible instead:
// control characters, terminal escapes and text-direction marks become \u001b, bytes that are not
// UTF-8 become �. Line breaks and tabs stay. The escape is also JSON's own, so that JSON output stays the same value.
func Printable(s string) string {
	var out strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError:
			out.WriteString("\uFFFD")
		case r == '\n' || r == '\t' || unicode.IsPrint(r):
			out.WriteString(s[:n])
		default:
			for _, u := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&out, `\u%04x`, u)
			}
		}
		s = s[n:]
	}
	return out.String()
}
