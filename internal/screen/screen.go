// Package screen is a small terminal for tests.
package screen

import (
	"fmt"
	"strings"
)

// Screen is a terminal: the visible text, not the bytes sent to it.
type Screen struct {
	// Width is in columns.
	Width  int
	rows   [][]rune
	column int
	noWrap bool
	escape string // the sequence under way
	// Odd are control characters and sequences that leakrig should not write.
	Odd []string
}

// New returns an empty screen that is so many columns wide.
func New(width int) *Screen { return &Screen{Width: width, rows: [][]rune{nil}} }

// Write shows text, and obeys the sequences that leakrig uses.
func (s *Screen) Write(b []byte) (int, error) {
	for _, r := range string(b) {
		s.put(r)
	}
	return len(b), nil
}

func (s *Screen) put(r rune) {
	row := len(s.rows) - 1
	switch {
	case s.escape != "":
		s.escape += string(r)
		if r >= '@' && r != '[' {
			s.control(s.escape)
			s.escape = ""
		}
	case r == '\x1b':
		s.escape = string(r)
	case r == '\r':
		s.column = 0
	case r == '\n':
		s.rows, s.column = append(s.rows, nil), 0
	case r < ' ':
		s.Odd = append(s.Odd, fmt.Sprintf("%q", r))
	default:
		if s.column >= s.Width {
			if s.noWrap {
				s.column = s.Width - 1
			} else {
				s.rows, s.column = append(s.rows, nil), 0
				row++
			}
		}
		for len(s.rows[row]) <= s.column {
			s.rows[row] = append(s.rows[row], ' ')
		}
		s.rows[row][s.column] = r
		s.column++
	}
}

func (s *Screen) control(sequence string) {
	row := len(s.rows) - 1
	switch sequence {
	case "\x1b[K":
		s.rows[row] = s.rows[row][:min(len(s.rows[row]), s.column)]
	case "\x1b[?7l", "\x1b[?7h":
		s.noWrap = sequence == "\x1b[?7l"
	default:
		s.Odd = append(s.Odd, fmt.Sprintf("%q", sequence))
	}
}

func (s *Screen) String() string {
	lines := make([]string, len(s.rows))
	for i, r := range s.rows {
		lines[i] = strings.TrimRight(string(r), " ")
	}
	return strings.Join(lines, "\n")
}
