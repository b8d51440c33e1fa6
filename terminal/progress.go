// Package terminal writes to the user: progress on standard error, and coloured marks.
package terminal

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
	"github.com/leakrig/leakrig/rundir"
)

// quietInterval is the silence after which the status is written to a log, so that a CI log shows that a long build
// continues. With redrawInterval, a log has a line at least every 15 seconds.
const quietInterval = 13 * time.Second

// redrawInterval is how often the line on a terminal is redrawn with the remaining time, and how often a silence is
// checked.
const redrawInterval = time.Second

// Progress writes to standard error: lines that stay, and on a terminal one line that is replaced.
type Progress struct {
	mu sync.Mutex
	w  io.Writer
	// Secrets are in nothing that is written, nil where there are none yet.
	Secrets *rundir.Secrets
	// Silent leaves everything out.
	Silent bool
	// width returns the width of the terminal in columns, 0 if unknown; nil without a terminal.
	width func() int
	last  time.Time              // when something was last written
	line  func(width int) string // the status line, nil where there is none
	plain string                 // what a log gets of it
	since time.Time              // when it was set
	side  string                 // the status of what runs at the same time
	drawn bool                   // the line is on the screen
	stop  chan struct{}          // ends the redrawing
}

// NewProgress returns a progress on a file, which is redrawn if the file is a terminal.
func NewProgress(f *os.File) *Progress {
	p := &Progress{w: f, last: time.Now()}
	if fd := int(f.Fd()); term.IsTerminal(fd) && !wantsPlain(os.Getenv) {
		p.width = func() int {
			columns, _, err := term.GetSize(fd)
			if err != nil {
				return 0
			}
			return columns
		}
	}
	return p
}

// wantsPlain reports whether the environment asks for plain lines, even on a terminal.
func wantsPlain(getenv func(string) string) bool {
	ci := getenv("CI")
	return getenv("NO_COLOR") != "" || getenv("TERM") == "dumb" || ci != "" && ci != "false"
}

// Log writes a line that stays.
func (p *Progress) Log(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Silent {
		return
	}
	p.clear()
	p.last = time.Now()
	fmt.Fprintln(p.w, strings.ReplaceAll(p.text(format, args...), "\n", "\n  "))
	p.draw()
}

// Status replaces the status line.
func (p *Progress) Status(format string, args ...any) {
	line := p.text(format, args...)
	p.show(line, func(width int) string { return fit(width, line) })
}

// text is what is shown of a message: no secrets, and nothing that a terminal would obey.
func (p *Progress) text(format string, args ...any) string {
	text := fmt.Sprintf(format, args...)
	if p.Secrets != nil {
		text = p.Secrets.RedactText(text)
	}
	return display.Printable(text)
}

// Watch shows how a measurement stands.
func (p *Progress) Watch(s leak.Standing) {
	start := time.Now()
	p.show(standing(0, s, -1), func(width int) string { return standing(width, s, time.Since(start)) })
}

// Side returns a progress for something that runs at the same time. Its status is shown after the other one. An empty
// status ends it.
func (p *Progress) Side() leak.Progress { return side{p} }

type side struct{ *Progress }

func (s side) Status(format string, args ...any) {
	text := s.text(format, args...)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.side = text; s.line == nil {
		s.since = time.Now()
	}
	s.refresh()
}

// show replaces the status line. plain is what a CI log gets of it after a silence.
func (p *Progress) show(plain string, line func(width int) string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if plain != p.plain {
		p.plain, p.since = plain, time.Now()
	}
	p.line = line
	p.refresh()
}

// refresh shows the status, and keeps it up to date.
func (p *Progress) refresh() {
	if p.Silent {
		return
	}
	p.draw()
	if p.stop == nil {
		p.stop = make(chan struct{})
		go p.redraw(p.stop)
	}
}

// status returns the status line for a terminal of this width, "" if there is none.
func (p *Progress) status(width int) string {
	switch {
	case p.line == nil:
		return fit(width, p.side)
	case p.side == "":
		return p.line(width)
	}
	return fit(width, p.line(0)+"; "+p.side)
}

// quiet writes the status into a log after a silence, with the time that it has not changed.
func (p *Progress) quiet() {
	if time.Since(p.last) < quietInterval {
		return
	}
	parts := slices.DeleteFunc([]string{p.plain, p.side}, func(s string) bool { return s == "" })
	if len(parts) == 0 {
		return
	}
	line := strings.Join(parts, "; ")
	if d := time.Since(p.since).Round(time.Second); d >= quietInterval {
		line += fmt.Sprintf(" (for %s)", d)
	}
	p.last = time.Now()
	fmt.Fprintln(p.w, line)
}

func (p *Progress) redraw(stop chan struct{}) {
	tick := time.NewTicker(redrawInterval)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			p.mu.Lock()
			if p.stop == stop {
				p.draw()
			}
			p.mu.Unlock()
		}
	}
}

// Done takes the status line off the screen.
func (p *Progress) Done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	p.line, p.plain, p.side = nil, "", ""
	if p.stop != nil {
		close(p.stop)
		p.stop = nil
	}
}

// draw writes the line over the last one, with wrapping disabled: the terminal may have become narrower, or show a
// character wider than one column.
func (p *Progress) draw() {
	if p.width == nil {
		p.quiet()
		return
	}
	if p.line == nil && p.side == "" {
		return
	}
	fmt.Fprintf(p.w, "\r\x1b[?7l%s\x1b[K\x1b[?7h", p.status(p.width()))
	p.drawn = true
}

func (p *Progress) clear() {
	if p.drawn {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.drawn = false
	}
}

// fit cuts a line to a terminal's width and leaves the last column free, which some wrap at. A width of 0
// is none.
func fit(width int, line string) string {
	if width <= 0 {
		return line
	}
	runes := []rune(line)
	return string(runes[:min(len(runes), width-1)])
}

// standing returns a line with as much as fits: the progress of the measurement, then the remaining time, the first
// series, the rate, the other series. passed is the time since s was taken; if negative, values that change with time
// are omitted.
func standing(width int, s leak.Standing, passed time.Duration) string {
	head := display.Printable(s.Variant + ": " + s.Doing)
	rate, left, series := "", "", make([]string, len(s.Series))
	if s.Rate > 0 {
		rate = formatRate(s.Rate)
	}
	if s.Left >= 0 && passed >= 0 {
		left = formatLeft(s.Left - passed)
	}
	for i, one := range s.Series {
		if n := len(one.Values); n > 0 && passed >= 0 {
			series[i] = display.Printable(fmt.Sprintf("%s %s %s", one.Name, display.Value(one.Values[n-1], one.Unit), sparkline(one.Values)))
		}
	}
	byWeight := slices.Concat([]*string{&left}, pointers(series[:min(1, len(series))]), []*string{&rate}, pointers(series[min(1, len(series)):]))
	room := width - 1 - utf8.RuneCountInString(head)
	for _, text := range byWeight {
		need := utf8.RuneCountInString(*text) + 2
		switch {
		case *text == "":
		case width > 0 && need > room:
			*text = ""
		default:
			room -= need
		}
	}
	line := head
	for _, text := range slices.Concat([]string{rate}, series, []string{left}) {
		if text != "" {
			line += "  " + text
		}
	}
	return fit(width, line)
}

func pointers(texts []string) []*string {
	var all []*string
	for i := range texts {
		all = append(all, &texts[i])
	}
	return all
}

func formatRate(perSecond float64) string {
	if perSecond < 10 {
		return fmt.Sprintf("%.1f op/s", perSecond)
	}
	return fmt.Sprintf("%.0f op/s", perSecond)
}

// formatLeft is an estimate in words, rounded as estimates are.
func formatLeft(d time.Duration) string {
	switch {
	case d < time.Second:
		return "nearly done"
	case d < time.Minute:
		return fmt.Sprintf("about %ds left", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("about %dm%02ds left", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("about %dh%02dm left", int(d.Hours()), int(d.Minutes())%60)
}

// sparks is how many values a sparkline shows, the last ones.
const sparks = 12

// sparkline draws values between their least and their most.
func sparkline(values []float64) string {
	values = values[max(0, len(values)-sparks):]
	low, high := slices.Min(values), slices.Max(values)
	steps := []rune("▁▂▃▄▅▆▇█")
	var b strings.Builder
	for _, v := range values {
		step := 0
		if high > low {
			step = max(0, min(len(steps)-1, int((v-low)/(high-low)*float64(len(steps)-1))))
		}
		b.WriteRune(steps[step])
	}
	return b.String()
}
