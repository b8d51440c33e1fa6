package display

import (
	"crypto/sha256"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Printable makes what a terminal, a browser, an editor or a CI system could take as a command visible instead:
// control characters, terminal escapes and text-direction marks become \u001b, bytes that are not
// UTF-8 become �, and a workflow command loses its first character to \u003a or \u0023. Line breaks and tabs stay. The
// escape is also JSON's own, so that JSON output stays the same value.
func Printable(s string) string {
	var out strings.Builder
	p := printer{start: true}
	p.print(&out, s)
	return out.String()
}

// printer is Printable of a text that comes piece by piece.
type printer struct {
	// start is set while nothing but blanks has come on the line.
	start bool
}

func (p *printer) print(out *strings.Builder, s string) {
	for len(s) > 0 {
		if run := harmless(s); run > 0 {
			out.WriteString(s[:run])
			p.start = p.start && strings.Trim(s[:run], " ") == ""
			s = s[run:]
			continue
		}
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == ':' && p.start && strings.HasPrefix(s, "::"):
			out.WriteString(`\u003a`)
		case r == '#' && ciCommand.MatchString(s[:min(len(s), longestCommand)]):
			out.WriteString(`\u0023`)
		case r == utf8.RuneError:
			out.WriteString("\uFFFD")
		case r == '\n' || r == '\t' || unicode.IsPrint(r):
			out.WriteString(s[:n])
		default:
			for _, u := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(out, `\u%04x`, u)
			}
		}
		p.start = r == '\n' || p.start && (r == ' ' || r == '\t')
		s = s[n:]
	}
}

// harmless returns the length of the prefix of s that never needs an escape.
func harmless(s string) int {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '#' || c == ':' {
			return i
		}
	}
	return len(s)
}

// ciCommand matches commands that CI systems obey anywhere on a log line: ##[command] of GitHub and Azure, ##vso[…],
// ##teamcity[…]. GitHub obeys ::command:: only at the start of a line, after blanks.
var ciCommand = regexp.MustCompile(`^##[A-Za-z]*\[`)

// longestCommand bounds how far a command's name is looked for.
const longestCommand = 40

// OneLine makes foreign text printable, replaces each run of white space by a space, and cuts the text after most bytes.
func OneLine(s string, most int) string {
	cut := len(s) > most
	s = s[:min(len(s), most)]
	s = Printable(strings.Join(strings.Fields(s), " "))
	if cut || len(s) > most {
		s = strings.ToValidUTF8(s[:min(len(s), most)], "") + "…"
	}
	return s
}

// Quote makes foreign text printable and prefixes each line with "| ", so that neither a CI system nor a reader takes it for
// output of leakrig.
func Quote(s string) string {
	lines := strings.Split(strings.TrimRight(Printable(s), "\n"), "\n")
	return "| " + strings.Join(lines, "\n| ")
}

// maxName limits the names in profiles and dumps, in bytes. Compilers do not write longer ones.
const maxName = 4 << 10

// Name makes foreign text the name of a function, file or wait state: it escapes control characters and cuts the name after
// 4 KiB. The mark of a cut name has its length and a hash, so that different names stay different.
func Name(s string) string {
	if len(s) <= maxName && plain(s) {
		return s
	}
	whole := s
	s = strings.ReplaceAll(strings.ReplaceAll(Printable(s[:min(len(s), maxName)]), "\n", `\u000a`), "\t", `\u0009`)
	if len(whole) > maxName || len(s) > maxName {
		h := sha256.New()
		for rest := whole; rest != ""; rest = rest[min(len(rest), maxName):] {
			h.Write([]byte(rest[:min(len(rest), maxName)]))
		}
		s = strings.ToValidUTF8(s[:min(len(s), maxName)], "") + fmt.Sprintf("…[cut: %d bytes, %x]", len(whole), h.Sum(nil)[:4])
	}
	return s
}

// plain reports whether s is printable ASCII without a command. Nearly all names are.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '#' {
			return false
		}
	}
	return !strings.HasPrefix(s, "::")
}

// MaxOutput bounds each page that is rendered, and what one command writes to standard output.
const MaxOutput = 20 << 20

// ErrOutput is a page, or a command's standard output, that would be larger than MaxOutput.
var ErrOutput error = outputError{}

type outputError struct{}

func (outputError) Error() string {
	return fmt.Sprintf("the output would be larger than %d MiB", MaxOutput>>20)
}

func (outputError) Hint() string {
	return "the run directory has all that was measured; its raw profiles open in `go tool pprof`"
}

// Output is a standard output that foreign text cannot misuse: all that is written to it is made printable, and it fails
// rather than pass on more than MaxOutput.
type Output struct {
	w       io.Writer
	left    int
	printer printer
	rest    []byte // may be the beginning of a character or of a command
	err     error  // of a write: few who print look at it
}

// NewOutput returns an Output to w. Call Flush at the end.
func NewOutput(w io.Writer) *Output {
	return &Output{w: w, left: MaxOutput, printer: printer{start: true}}
}

// unfinished is an end of a text that becomes a command with what may come next.
var unfinished = regexp.MustCompile(`(?:##?[A-Za-z]*|(?:^|\n)[ \t]*:)$`)

// Write writes what is printable of data, but for an end whose meaning depends on what comes next.
func (o *Output) Write(data []byte) (int, error) {
	all := append(o.rest, data...)
	keep := len(all)
	for i := 1; i <= min(utf8.UTFMax-1, len(all)); i++ {
		if b := all[len(all)-i]; utf8.RuneStart(b) {
			if !utf8.FullRune(all[len(all)-i:]) {
				keep = len(all) - i
			}
			break
		}
	}
	end := all[max(0, keep-longestCommand):keep]
	if at := unfinished.FindIndex(end); at != nil {
		keep -= len(end) - at[0]
	}
	o.rest = append([]byte(nil), all[keep:]...)
	return len(data), o.pass(string(all[:keep]))
}

// Flush writes what was held back. It returns the first error of any write.
func (o *Output) Flush() error {
	rest := string(o.rest)
	o.rest = nil
	return o.pass(rest)
}

func (o *Output) pass(s string) error {
	if o.err != nil {
		return o.err
	}
	var out strings.Builder
	o.printer.print(&out, s)
	if out.Len() > o.left {
		o.err = ErrOutput
		return o.err
	}
	o.left -= out.Len()
	_, o.err = io.WriteString(o.w, out.String())
	return o.err
}

// WriteText writes a page or a text that is printable, whole or not at all; one that is larger than MaxOutput is ErrOutput.
func WriteText(w io.Writer, s string) error {
	if len(s) > MaxOutput {
		return ErrOutput
	}
	if s = Printable(s); len(s) > MaxOutput {
		return ErrOutput
	}
	_, err := io.WriteString(w, s)
	return err
}
