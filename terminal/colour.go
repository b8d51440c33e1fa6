package terminal

import (
	"bytes"
	"io"
	"os"

	"golang.org/x/term"
)

// colours of the marks at the start of verdict lines.
var colours = map[string]string{"✓": "\x1b[32m", "✗": "\x1b[31m", "!": "\x1b[31m", "?": "\x1b[33m"}

const plain = "\x1b[0m"

// Coloured returns a writer that colours marks at the start of lines if f is a terminal, else f.
func Coloured(f *os.File) io.Writer {
	if !term.IsTerminal(int(f.Fd())) || wantsPlain(os.Getenv) {
		return f
	}
	return &colouring{w: f}
}

// colouring colours marks. It expects whole lines in each Write.
type colouring struct{ w io.Writer }

func (c *colouring) Write(p []byte) (int, error) {
	lines := bytes.SplitAfter(p, []byte("\n"))
	for i, line := range lines {
		for mark, colour := range colours {
			if rest, ok := bytes.CutPrefix(line, []byte(mark+" ")); ok {
				lines[i] = append([]byte(colour+mark+plain+" "), rest...)
			}
		}
	}
	if _, err := c.w.Write(bytes.Join(lines, nil)); err != nil {
		return 0, err
	}
	return len(p), nil
}
