package load

import (
	"fmt"
	"regexp"
	"strings"
)

// expected is how a program should end. It is part of an action's configuration.
type expected struct {
	Exit   int    `yaml:"exit,omitempty" doc:"expected exit code (default 0); operations with another one fail"`
	Output string `yaml:"output,omitempty" doc:"regular expression that the first 64 KiB of standard output must match; other operations fail and count as silent"`
}

func (e expected) validate(bad *problems) {
	if e.Exit < 0 || e.Exit > 255 {
		bad.add("exit", "as in 0", "%d is not an exit code", e.Exit)
	}
	if _, err := regexp.Compile(e.Output); err != nil {
		bad.add("output", "a regular expression as Go's package regexp reads it", "%v", err)
	}
}

// judge returns a function that returns an error if a program did not end as expected.
func (e expected) judge() (func(exit int, stdout, stderr *captured) error, error) {
	output, err := regexp.Compile(e.Output)
	if err != nil {
		return nil, err
	}
	return func(exit int, stdout, stderr *captured) error {
		switch {
		case exit != e.Exit:
			return &failure{fmt.Errorf("exit code %d, want %d", exit, e.Exit), stderr.lastLine()}
		case !output.Match(stdout.start):
			return &failure{errSilent, stdout.lastLine()}
		}
		return nil
	}, nil
}

// captured keeps the beginning and the end of the bytes written to it.
type captured struct{ start, end []byte }

const (
	maxStart = 64 << 10
	maxEnd   = 1 << 10
	// maxLine bounds a line of a program's output in an error.
	maxLine = 200
)

func (c *captured) Write(p []byte) (int, error) {
	if room := maxStart - len(c.start); room > 0 {
		c.start = append(c.start, p[:min(room, len(p))]...)
	}
	c.end = append(c.end, p[max(0, len(p)-maxEnd):]...)
	c.end = c.end[max(0, len(c.end)-maxEnd):]
	return len(p), nil
}

// lastLine is the last line that is not blank, printable.
func (c *captured) lastLine() string {
	lines := strings.Split(strings.TrimSpace(strings.ToValidUTF8(string(c.end), "?")), "\n")
	line := []rune(strings.TrimSpace(lines[len(lines)-1]))
	for i, r := range line {
		if r < ' ' || r == 0x7f {
			line[i] = ' '
		}
	}
	return string(line[:min(len(line), maxLine)])
}
