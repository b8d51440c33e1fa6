package display_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
	"github.com/leakrig/leakrig/rundir"
)

// commands are what CI systems, terminals and editors obey, and what must not be left of each.
var commands = []struct{ text, never string }{
	{"::stop-commands::x", "::stop"},
	{"a\n \t ::error::x", "::error"},
	{"\r::error::x", "\r"},
	{"\u00a0::error::x", "\u00a0"},
	{"\v::error::x", "\v"},
	{"\u2028::error::x", "\u2028"},
	{"text ##[add-mask]x", "##["},
	{"###[group]x", "##["},
	{"##vso[task.setvariable]x", "##vso["},
	{"##teamcity[buildStop]", "##teamcity["},
	{"\x1b]8;;http://evil\x07", "\x1b"},
	{"\u009b2J", "\u009b"},
	{"\u202egnp.exe", "\u202e"},
	{"section_end:1:x\r\x1b[0K", "\x1b"},
	{"a\xff\xfe", "\xff"},
}

// TestAttackCommands checks that foreign text is never a command to a CI system or a terminal, whether it is written
// in one piece or byte by byte.
func TestAttackCommands(t *testing.T) {
	for _, c := range commands {
		var whole, bytewise bytes.Buffer
		for w, size := range map[*bytes.Buffer]int{&whole: len(c.text), &bytewise: 1} {
			out := display.NewOutput(w)
			for i := 0; i < len(c.text); i += size {
				if _, err := out.Write([]byte(c.text[i : i+size])); err != nil {
					t.Fatal(err)
				}
			}
			if err := out.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		for how, got := range map[string]string{
			"Printable": display.Printable(c.text), "written whole": whole.String(), "written byte by byte": bytewise.String(),
			"OneLine": display.OneLine(c.text, 1000), "Quote": display.Quote(c.text), "Name": display.Name(c.text),
		} {
			left := false
			for line := range strings.Lines(got) {
				if strings.HasPrefix(c.never, "::") { // a command only where it begins the line
					line = line[:min(len(line), strings.Index(line, strings.TrimSpace(line))+len(c.never))]
					line = strings.TrimSpace(line)
				}
				left = left || strings.Contains(line, c.never)
			}
			if left {
				t.Errorf("%s of %q: %q", how, c.text, got)
			}
			if again := display.Printable(got); again != got {
				t.Errorf("%s of %q: %q becomes %q", how, c.text, got, again)
			}
		}
		if strings.ContainsAny(display.OneLine(c.text, 1000)+display.Name(c.text), "\n\t") {
			t.Errorf("%q: more than one line", c.text)
		}
		// JSON stays the same value.
		data, err := json.Marshal(strings.ToValidUTF8(c.text, "\uFFFD"))
		if err != nil {
			t.Fatal(err)
		}
		var back string
		if err := json.Unmarshal([]byte(display.Printable(string(data))), &back); err != nil || back != strings.ToValidUTF8(c.text, "\uFFFD") {
			t.Errorf("%q is %q in JSON, %v", c.text, back, err)
		}
	}
	// Text without commands stays unchanged.
	for _, text := range []string{"std::vector", "a::b\n", "## title\n[x](y)", "#[derive]", "a: b", "k8s.io/x.(*T[go.shape.int]).F", "über\t→\n"} {
		if got := display.Printable(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// A name is at most a little longer than 4 KiB, is one line, and stays another one than those that begin as it does.
func TestAttackNames(t *testing.T) {
	long := strings.Repeat("x", 60<<20)
	a, b := display.Name(long), display.Name(long[1:]+"y")
	if len(a) > 5<<10 || a == b || !strings.Contains(a, "…[cut: 62914560 bytes, ") {
		t.Errorf("%d bytes: %.40q, and %.40q", len(a), a[len(a)-60:], b[len(b)-60:])
	}
	if c := display.Name(strings.Repeat("\x1b", 4096)); len(c) > 5<<10 || strings.Contains(c, "\x1b") {
		t.Errorf("%d bytes", len(c))
	}
	if c := display.Name(strings.Repeat("é", 4096)); len(c) > 5<<10 || strings.Contains(c, "\uFFFD") && !strings.HasSuffix(c, "]") {
		t.Errorf("%d bytes", len(c))
	}
	if got := display.Name("a\nb\tc"); got != `a\u000ab\u0009c` {
		t.Errorf("%q", got)
	}
	if name := "k8s.io/x.(*T[...]).F·1"; display.Name(name) != name {
		t.Errorf("%q", display.Name(name))
	}
}

// Standard output has an end.
func TestAttackOutput(t *testing.T) {
	var sink countingWriter
	out := display.NewOutput(&sink)
	var err error
	for range 100 {
		if _, err = out.Write(bytes.Repeat([]byte("x"), 1<<20)); err != nil {
			break
		}
	}
	if !errors.Is(err, display.ErrOutput) || leak.Hint(err) == "" || sink > display.MaxOutput {
		t.Errorf("%d bytes, then %v", sink, err)
	}
	if err := display.WriteText(io.Discard, strings.Repeat("\x1b", display.MaxOutput/4)); !errors.Is(err, display.ErrOutput) {
		t.Errorf("a page that grows when it is made printable: %v", err)
	}
}

type countingWriter int

func (c *countingWriter) Write(p []byte) (int, error) {
	*c += countingWriter(len(p))
	return len(p), nil
}

// TestAttackDiff checks that a diff lists the largest changes and the number of the others, for any number of stacks.
func TestAttackDiff(t *testing.T) {
	d, m := &leak.Diff{}, &leak.Match{}
	name := strings.Repeat("<&>\"", 1000)
	for i := range 20_000 {
		s := leak.StackGrowth{To: int64(20_000 - 2*i), Stack: leak.Stack{Frames: []leak.Frame{{Func: name, File: name}}}}
		d.Stacks = append(d.Stacks, s)
		m.Stacks, m.Unexplained = append(m.Stacks, leak.MatchedStack{StackGrowth: s}), append(m.Unexplained, s)
	}
	d.Fit()
	m.Fit()
	for _, v := range []any{d, m} {
		data, err := json.MarshalIndent(v, "", " ")
		if err != nil || len(data) > display.MaxOutput {
			t.Errorf("%d bytes, %v", len(data), err)
		}
	}
	if len(d.Stacks)+d.Omitted != 20_000 || d.Stacks[0].To != 20_000 || d.Stacks[len(d.Stacks)-1].To != -19_998 || d.Omitted == 0 {
		t.Errorf("%d stacks, %d omitted", len(d.Stacks), d.Omitted)
	}
	if len(m.Stacks)+len(m.Unexplained)+m.Omitted != 40_000 || len(m.Stacks) == 0 || len(m.Unexplained) == 0 {
		t.Errorf("%d and %d stacks, %d omitted", len(m.Stacks), len(m.Unexplained), m.Omitted)
	}
}

// A log that is opened again goes on where it was, within the same bound.
func TestAttackLogReopened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	for range 4 {
		l, err := rundir.OpenLog(path)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := l.Write(bytes.Repeat([]byte("a line\n"), 5<<20)); err != nil || n != 35<<20 {
			t.Fatalf("%d bytes, %v", n, err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Size() > 64<<20 {
			t.Fatalf("%d bytes, %v", info.Size(), err)
		}
	}
}
