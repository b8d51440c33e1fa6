package scenarios

import "strings"

// choice returns a hint for an unknown word. It suggests the nearest of words, or lists all, which what names.
func choice(word, what string, words []string) string {
	if near := Nearest(word, words); near != "" {
		return "did you mean " + near + "?"
	}
	return listing(what, words)
}

func listing(what string, words []string) string {
	if len(words) == 0 {
		return what + ": none"
	}
	return what + ": " + strings.Join(words, ", ")
}

// Nearest returns the entry of words that word most likely misspells, or "" if none is close.
func Nearest(word string, words []string) string {
	best, least := "", max(1, (len(word)+1)/3)+1
	for _, w := range words {
		if len(w) > maxQuoted || len(word) > maxQuoted {
			continue // too long for a misspelling, and the distance takes quadratic time
		}
		if d := distance(strings.ToLower(word), strings.ToLower(w)); d < least && d < len(w) {
			best, least = w, d
		}
	}
	return best
}

// distance counts the insertions, deletions, substitutions and swaps of neighbours between a and b
// (optimal string alignment).
func distance(a, b string) int {
	// Three rows of the usual table. Swaps need the row before the last.
	var above []int
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			changed := 1
			if a[i-1] == b[j-1] {
				changed = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+changed)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], above[j-2]+1)
			}
		}
		above, last = last, row
	}
	return last[len(b)]
}

// duplicates calls f with the index of every word that occurs earlier in words.
func duplicates(words []string, f func(i int)) {
	seen := map[string]bool{}
	for i, w := range words {
		if seen[w] {
			f(i)
		}
		seen[w] = true
	}
}

// OneOf lists the valid words, and the one that was probably meant.
func OneOf(word string, words []string) string {
	hint := "it is one of: " + strings.Join(words, ", ")
	if near := Nearest(word, words); near != "" {
		hint = "did you mean " + near + "? " + hint
	}
	return hint
}
