// Package journal takes what programs of a node have written out of its systemd journal.
package journal

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
)

// maxJournal bounds the size of a journal.
const maxJournal = 64 << 20

// The shim's words around a dump.
const (
	dumpBegins = "=== BEGIN goroutine stack dump ==="
	dumpEnds   = "=== END goroutine stack dump ==="
)

// foreign is a line of containerd's own log. containerd copies the shim's log in pieces, so its own lines
// may stand in the middle of a dump.
var foreign = regexp.MustCompile(`time="[^"]{19,40}" level=[a-z]+ msg=.*$`)

// unescape undoes what logrus does to a text in quotes.
var unescape = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\t`, "\t", `\"`, `"`)

// ShimDump extracts the last dump from the journal (journalctl -o json), and reports whether it is complete. The
// journal splits long lines. ShimDump skips containerd's own lines between the parts.
func ShimDump(journal []byte) (dump []byte, complete bool) {
	if len(journal) > maxJournal {
		journal = journal[:maxJournal]
	}
	var text strings.Builder
	inside := false
	for line := range bytes.Lines(journal) {
		var entry struct {
			Message json.RawMessage `json:"MESSAGE"`
		}
		if json.Unmarshal(line, &entry) != nil {
			continue // cut off while it was written
		}
		message := textOf(entry.Message)
		if i := strings.Index(message, dumpBegins); i >= 0 {
			text.Reset()
			inside, complete = true, false
			message = message[i+len(dumpBegins):]
		}
		if !inside {
			continue
		}
		before, _, ended := strings.Cut(message, dumpEnds)
		if !ended {
			before = foreign.ReplaceAllString(before, "")
		}
		text.WriteString(before)
		if ended {
			inside, complete = false, true
		}
	}
	if !complete {
		return nil, false
	}
	return []byte(unescape.Replace(text.String())), true
}

// textOf reads a field of the journal's JSON: a string, or an array of bytes for invalid UTF-8.
func textOf(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var numbers []int
	if json.Unmarshal(raw, &numbers) != nil {
		return ""
	}
	b := make([]byte, len(numbers))
	for i, n := range numbers {
		b[i] = byte(n)
	}
	return string(b)
}
