package leak

import "strings"

// Printable keeps control characters of foreign origin from the terminal; line breaks and tabs stay.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (r < ' ' || r >= 0x7f && r < 0xa0) {
			return '?'
		}
		return r
	}, s)
}
