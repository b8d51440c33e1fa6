package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// quietInterval is the silence after which a status line is written although no terminal shows it, so
// that a CI log tells that a long build goes on.
const quietInterval = 20 * time.Second

// progress writes to standard error: lines that stay, and on a terminal one line that is replaced.
type progress struct {
	mu       sync.Mutex
	w        io.Writer
	fd       int
	terminal bool
	last     time.Time // when something was last written
	live     bool      // a status line is on the screen
}

func newProgress(f *os.File) *progress {
	fd := int(f.Fd())
	return &progress{w: f, fd: fd, terminal: term.IsTerminal(fd), last: time.Now()}
}

func (p *progress) Log(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	p.last = time.Now()
	fmt.Fprintln(p.w, printable(fmt.Sprintf(format, args...)))
}

func (p *progress) Status(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	line := printable(fmt.Sprintf(format, args...))
	if !p.terminal {
		if time.Since(p.last) >= quietInterval {
			p.last = time.Now()
			fmt.Fprintln(p.w, line)
		}
		return
	}
	if width, _, err := term.GetSize(p.fd); err == nil && width > 1 {
		runes := []rune(line)
		line = string(runes[:min(len(runes), width-1)])
	}
	p.clear()
	fmt.Fprint(p.w, line)
	p.live = true
}

// Done takes the status line off the screen.
func (p *progress) Done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

func (p *progress) clear() {
	if p.live {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.live = false
	}
}
