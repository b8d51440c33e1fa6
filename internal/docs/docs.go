// Package docs runs the documentation. Every block of a Markdown page with lines that begin with "$ " is a session.
// It runs in a shell, in one folder per page. The lines after a command are its expected output.
//
// Comments directly before a block set options that readers need not see:
//
//	<!-- needs: kind -->        run the block only if a kind cluster is available
//	<!-- exit: 1 -->            exit code of its last command; all others must be 0
//	<!-- in: checkout -->       run it in the checkout, not in the folder of the page
//	<!-- file: main.go -->      the block is a file, which is written
//	<!-- change: main.go -->    the block is a diff of a file, which is applied
//
// A line "..." matches any lines. At the end of a line, "..." matches the rest of it. Blanks and numbers may differ
// between runs; growth per operation (+1.00) may not. A command that ends with & runs until the end of the page.
// Fixed ports on loopback are replaced by free ones, so that pages can run concurrently.
package docs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Page is a Markdown file.
type Page struct {
	Path   string
	Blocks []Block
}

// Block is a fenced block with the options from the comments before it.
type Block struct {
	Page         string
	Line         int // line of the first line inside the block
	Need         string
	Exit         int
	InCheckout   bool
	File, Change string
	Lines        []string
}

// Command is one command of a session with its expected output.
type Command struct {
	Line int
	Text string
	Want []string
}

func (b Block) errorf(line int, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %w", b.Page, line, fmt.Errorf(format, args...))
}

// Find returns the hand-written pages of a checkout.
func Find(root string) ([]Page, error) {
	var pages []Page
	var files []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/decisions/*.md"} {
		more, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		files = append(files, more...)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return nil, err
		}
		p, err := Parse(name, string(text))
		if err != nil {
			return nil, err
		}
		pages = append(pages, p)
	}
	return pages, nil
}

var (
	comment = regexp.MustCompile(`^<!-- (needs|exit|in|file|change): (.*) -->$`)
	fence   = regexp.MustCompile("^```")
)

// Parse parses a page. It ignores indented fences, which are inside lists.
func Parse(name, text string) (Page, error) {
	p := Page{Path: name}
	next, open := Block{Page: name}, false
	for i, line := range strings.Split(text, "\n") {
		switch m := comment.FindStringSubmatch(line); {
		case fence.MatchString(line) && open:
			p.Blocks = append(p.Blocks, next)
			next, open = Block{Page: name}, false
		case fence.MatchString(line):
			next.Line, open = i+2, true
		case open:
			next.Lines = append(next.Lines, line)
		case m != nil:
			if err := next.say(m[1], m[2]); err != nil {
				return p, next.errorf(i+1, "%w", err)
			}
		case strings.TrimSpace(line) != "":
			next = Block{Page: name} // comments apply only to the block directly after them
		}
	}
	if open {
		return p, next.errorf(next.Line, "the block has no end")
	}
	return p, nil
}

func (b *Block) say(key, value string) (err error) {
	switch key {
	case "needs":
		b.Need = value
	case "exit":
		b.Exit, err = strconv.Atoi(value)
	case "in":
		b.InCheckout = true
		if value != "checkout" {
			err = fmt.Errorf("in: %s: only a checkout can be meant", value)
		}
	case "file":
		b.File = value
	case "change":
		b.Change = value
	}
	return err
}

// Commands returns the commands of a session, or nil for other blocks.
func (b Block) Commands() []Command {
	var all []Command
	if b.File != "" || b.Change != "" {
		return nil
	}
	for i, line := range b.Lines {
		command, isCommand := strings.CutPrefix(line, "$ ")
		last := len(all) - 1
		switch {
		case isCommand:
			all = append(all, Command{Line: b.Line + i, Text: command})
		case last < 0:
		case strings.HasSuffix(all[last].Text, "\\") && len(all[last].Want) == 0:
			all[last].Text += "\n" + line
		default:
			all[last].Want = append(all[last].Want, line)
		}
	}
	return all
}

// Needs returns the requirements of the page's blocks, without duplicates.
func (p Page) Needs() []string {
	var all []string
	for _, b := range p.Blocks {
		if b.Need != "" && !slices.Contains(all, b.Need) {
			all = append(all, b.Need)
		}
	}
	return all
}

// Runner runs pages.
type Runner struct {
	// Dir is an empty folder for the page. Checkout is the root of the checkout.
	Dir, Checkout string
	// Env is the environment of every command.
	Env []string
	// Has reports whether a requirement of a block is available. Blocks with missing requirements are skipped.
	Has func(need string) bool
}

// Run runs a page and returns the number of commands that ran.
func (r Runner) Run(ctx context.Context, p Page) (ran int, err error) {
	s := &session{Runner: r, ports: map[string]string{}}
	defer s.end()
	for _, b := range p.Blocks {
		if b.Need != "" && !r.Has(b.Need) {
			continue
		}
		n, err := s.block(ctx, b)
		ran += n
		if err != nil {
			return ran, err
		}
	}
	return ran, nil
}

type session struct {
	Runner
	ports      map[string]string // free ports by fixed port
	background []*exec.Cmd
}

func (s *session) end() {
	for _, cmd := range s.background {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

func (s *session) block(ctx context.Context, b Block) (int, error) {
	switch {
	case b.File != "":
		return 0, s.write(b)
	case b.Change != "":
		return 0, s.change(b)
	}
	commands := b.Commands()
	for i, c := range commands {
		exit := 0
		if i == len(commands)-1 {
			exit = b.Exit
		}
		if err := s.command(ctx, b, c, exit); err != nil {
			return i, err
		}
	}
	return len(commands), nil
}

func (s *session) write(b Block) error {
	path := filepath.Join(s.Dir, filepath.FromSlash(b.File))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(s.freePorts(strings.Join(b.Lines, "\n")+"\n")), 0o600)
}

// change applies the diff in b to its file. Lines with - or a blank are the old text, and lines with + or a blank the
// new text.
func (s *session) change(b Block) error {
	path := filepath.Join(s.Dir, filepath.FromSlash(b.Change))
	text, err := os.ReadFile(path)
	if err != nil {
		return b.errorf(b.Line, "%w", err)
	}
	var before, after strings.Builder
	for i, line := range b.Lines {
		if line == "" {
			line = " "
		}
		switch line[0] {
		case ' ':
			before.WriteString(line[1:] + "\n")
			after.WriteString(line[1:] + "\n")
		case '-':
			before.WriteString(line[1:] + "\n")
		case '+':
			after.WriteString(line[1:] + "\n")
		default:
			return b.errorf(b.Line+i, "a line of a diff begins with -, + or a blank")
		}
	}
	is := s.fixedPorts(string(text))
	if n := strings.Count(is, before.String()); n != 1 {
		return b.errorf(b.Line, "these lines are %d times in %s, and not once:\n%s", n, b.Change, before.String())
	}
	changed := strings.Replace(is, before.String(), after.String(), 1)
	return os.WriteFile(path, []byte(s.freePorts(changed)), 0o600)
}

func (s *session) command(ctx context.Context, b Block, c Command, exit int) error {
	text, inBackground := strings.CutSuffix(c.Text, "&")
	if inBackground {
		text = "exec " + text
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", s.freePorts(text))
	cmd.Dir, cmd.Env, cmd.WaitDelay = s.Dir, s.Env, 5*time.Second
	if b.InCheckout {
		cmd.Dir = s.Checkout
	}
	var out buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if inBackground {
		if err := cmd.Start(); err != nil {
			return b.errorf(c.Line, "%w", err)
		}
		s.background = append(s.background, cmd)
		return s.serves(b, c, &out)
	}
	err := cmd.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		return b.errorf(c.Line, "%s: %w", c.Text, err)
	}
	if code := cmd.ProcessState.ExitCode(); code != exit {
		return b.errorf(c.Line, "%s: exit code %d, want %d\n%s", c.Text, code, exit, out.String())
	}
	if err := compare(out.String(), c.Want); err != nil {
		return b.errorf(c.Line, "%s: %w\nit printed:\n%s", c.Text, err, out.String())
	}
	return nil
}

// serves waits until one of the page's ports accepts connections.
func (s *session) serves(b Block, c Command, out fmt.Stringer) error {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		for _, port := range s.ports {
			if conn, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
				return conn.Close()
			}
		}
	}
	return b.errorf(c.Line, "%s: none of the page's ports answers\n%s", c.Text, out)
}

var loopback = regexp.MustCompile(`127\.0\.0\.1:(\d+)`)

// freePorts replaces fixed ports on loopback with free ones. A fixed port has the same free port on the whole page.
func (s *session) freePorts(text string) string {
	return loopback.ReplaceAllStringFunc(text, func(address string) string {
		_, fixed, _ := strings.Cut(address, ":")
		if s.ports[fixed] == "" {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return address
			}
			s.ports[fixed] = strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
			l.Close()
		}
		return "127.0.0.1:" + s.ports[fixed]
	})
}

// fixedPorts undoes freePorts.
func (s *session) fixedPorts(text string) string {
	for fixed, free := range s.ports {
		text = strings.ReplaceAll(text, "127.0.0.1:"+free, "127.0.0.1:"+fixed)
	}
	return text
}

// compare returns an error if output does not match the lines that a page shows.
func compare(output string, want []string) error {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	for i := range lines {
		lines[i] = loose(lines[i])
	}
	any := false // the output may have other lines here
	at := 0
	for _, w := range want {
		if w == "..." {
			any = true
			continue
		}
		if strings.TrimSpace(w) == "" && any {
			continue
		}
		shown, open := strings.CutSuffix(loose(w), "...")
		shown = strings.TrimRight(shown, " ")
		is := func(line string) bool { return line == shown || open && strings.HasPrefix(line, shown) }
		for any && at < len(lines) && !is(lines[at]) {
			at++
		}
		if at >= len(lines) || !is(lines[at]) {
			return fmt.Errorf("the page shows %q, which is not there", w)
		}
		any = false
		at++
	}
	if !any && at < len(lines) && len(want) > 0 && lines[at] != "" {
		return fmt.Errorf("the page ends before %q", lines[at])
	}
	return nil
}

var (
	blanks = regexp.MustCompile(`\s+`)
	rate   = regexp.MustCompile(`[+−]\d+\.\d\d\b`)
	size   = regexp.MustCompile(`[+−-]?\d+(\.\d+)? ?(B|KiB|MiB|GiB)\b`)
	number = regexp.MustCompile(`[+−-]?((\d+(\.\d+)?(h|ms|µs|ns|m|s))+\b|\d+(\.\d+)?( ?(ns|µs|ms|s)\b)?)`)
	// held replaces the digits of a rate, so that number does not match them.
	held = strings.NewReplacer("0", "⓪", "1", "①", "2", "②", "3", "③", "4", "④", "5", "⑤", "6", "⑥", "7", "⑦", "8", "⑧", "9", "⑨")
)

// loose replaces the parts of a line that may differ between runs.
func loose(line string) string {
	line = size.ReplaceAllString(line, "#")
	line = rate.ReplaceAllStringFunc(line, held.Replace)
	line = number.ReplaceAllString(line, "#")
	return strings.TrimSpace(blanks.ReplaceAllString(line, " "))
}

// buffer is a bytes.Buffer that can be read while a command writes to it.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

var _ io.Writer = (*buffer)(nil)

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
