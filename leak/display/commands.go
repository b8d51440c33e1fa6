package display

import (
	"fmt"
	"io"
	"strings"
)

// Command is an annotation of GitHub Actions. Its texts may be foreign.
type Command struct {
	// Level is error, warning or notice.
	Level string
	// File and Line are where it shows, "" and 0 for nowhere.
	File           string
	Line           int
	Title, Message string
}

var (
	commandText     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	commandProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// String returns the command on one line. Foreign text can neither end it nor start another.
func (c Command) String() string {
	var properties []string
	if c.File != "" {
		properties = append(properties, "file="+commandProperty.Replace(OneLine(c.File, maxName)), fmt.Sprintf("line=%d", max(c.Line, 1)))
	}
	if c.Title != "" {
		properties = append(properties, "title="+commandProperty.Replace(OneLine(c.Title, maxName)))
	}
	return fmt.Sprintf("::%s %s::%s", c.Level, strings.Join(properties, ","), commandText.Replace(Printable(strings.TrimSpace(c.Message))))
}

// WriteCommands writes commands that the CI system must obey. An Output passes them on as they are.
func WriteCommands(w io.Writer, commands []Command) error {
	var b strings.Builder
	for _, c := range commands {
		b.WriteString(c.String() + "\n")
	}
	if b.Len() > MaxOutput {
		return ErrOutput
	}
	if o, ok := w.(*Output); ok {
		if err := o.Flush(); err != nil {
			return err
		}
		if o.left -= b.Len(); o.left < 0 {
			o.err = ErrOutput
			return o.err
		}
		o.printer.start = true
		w = o.w
	}
	_, err := io.WriteString(w, b.String())
	return err
}
