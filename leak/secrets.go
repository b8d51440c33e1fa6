package leak

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
)

// Redacted stands where a secret stood.
const Redacted = "REDACTED"

// minSecret is the length in bytes below which a value is too common to be looked for in other texts.
const minSecret = 6

var secretName = regexp.MustCompile(`(?i)authorization|cookie|token|secret|passw(or)?d|credential|(api|access|private)[-_]?key`)

// LooksSecret tells whether a header, a variable or a parameter of this name holds what nobody else may
// read.
func LooksSecret(name string) bool { return secretName.MatchString(name) }

// Secrets are values that must not be in anything that is kept of a run.
type Secrets []string

// Add adds a value, unless it is too short to be told from other text.
func (s *Secrets) Add(value string) {
	if len(value) >= minSecret && !slices.Contains(*s, value) {
		*s = append(*s, value)
	}
}

// Redact returns text without the secrets, as they are and as JSON writes them.
func (s Secrets) Redact(text []byte) []byte {
	longest := slices.SortedFunc(slices.Values(s), func(a, b string) int { return len(b) - len(a) }) // one may be part of another
	for _, secret := range longest {
		text = bytes.ReplaceAll(text, []byte(secret), []byte(Redacted))
		if quoted, err := json.Marshal(secret); err == nil {
			text = bytes.ReplaceAll(text, quoted[1:len(quoted)-1], []byte(Redacted))
		}
	}
	return text
}
