package profiles

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/leakrig/leakrig/leak"
)

// groups collects goroutines or allocations by stack.
type groups struct {
	count  map[string]*leak.Group
	order  []string
	stacks map[string]leak.Stack
	total  int64
}

func newGroups() *groups {
	return &groups{count: map[string]*leak.Group{}, stacks: map[string]leak.Stack{}}
}

// add counts what stands on a stack, and returns its group.
func (g *groups) add(s leak.Stack, count, bytes int64) *leak.Group {
	id := s.ID()
	if g.count[id] == nil {
		g.count[id] = &leak.Group{Stack: id}
		g.stacks[id] = s
		g.order = append(g.order, id)
	}
	g.count[id].Count += count
	g.count[id].Bytes += bytes
	g.total += count
	return g.count[id]
}

// dropEmpty forgets the groups that nothing stands on.
func (g *groups) dropEmpty() {
	g.order = slices.DeleteFunc(g.order, func(id string) bool {
		empty := g.count[id].Count == 0 && g.count[id].Bytes == 0
		if empty {
			delete(g.count, id)
			delete(g.stacks, id)
		}
		return empty
	})
}

// list returns the groups in the order in which they were first seen.
func (g *groups) list() []leak.Group {
	list := make([]leak.Group, 0, len(g.order))
	for _, id := range g.order {
		list = append(list, *g.count[id])
	}
	return list
}

// parseDump groups the goroutines of a text dump (runtime.Stack, debug=2), leaving out the one that wrote
// it, which comes first, and the one that net/http starts beside it to watch its connection. Bytes that
// hold no goroutine at all are an error.
func parseDump(data []byte) (*groups, error) {
	g, numbers := newGroups(), map[*leak.Group][]uint64{}
	seen, server := false, ""
	for block := range bytes.SplitSeq(data, []byte("\n\n")) {
		lines := strings.Split(strings.Trim(string(block), "\n"), "\n")
		head, ok := parseHeader(lines[0])
		if !ok {
			continue
		}
		seen = true
		stack, creator := parseFrames(lines[1:])
		stack.State = head.state
		_, stack.Frames = unpark(stack.Frames)
		switch {
		case servesProfile(stack):
			server = strconv.FormatUint(head.id, 10)
		case watchesConnection(stack) && server != "" && (creator == server || creator == ""):
			server = "-" // one only, where a runtime before Go 1.21 does not tell whose it is
		default:
			group := g.add(stack, 1, 0)
			numbers[group] = append(numbers[group], head.id)
			group.OldestMinutes = max(group.OldestMinutes, head.minutes)
			if err := tooManyStacks(g); err != nil {
				return nil, err
			}
		}
	}
	for group, list := range numbers {
		group.IDs = leak.IDsOf(list...)
	}
	if !seen {
		return nil, fmt.Errorf("not a goroutine dump: it starts with %q", clip(data, 40))
	}
	return g, nil
}

// header is the first line of a goroutine in a dump.
type header struct {
	id    uint64
	state string
	// minutes is how long it has waited; the runtime tells only whole minutes.
	minutes int
}

// parseHeader reads "goroutine 34 [chan send (scan), 2 minutes, locked to thread labels:{"k": "v"}]:".
// What the garbage collector makes of the goroutine is no part of its state, or a group would fall in two
// when the leak profile is taken. Newer runtimes may write more between the bracket and the colon.
func parseHeader(line string) (h header, ok bool) {
	rest, ok := strings.CutPrefix(line, "goroutine ")
	if !ok {
		return h, false
	}
	id, rest, ok := strings.Cut(rest, " ")
	var err error
	if h.id, err = strconv.ParseUint(id, 10, 63); err != nil || !ok {
		return h, false
	}
	_, rest, ok = strings.Cut(rest, "[")
	if !ok {
		return h, false
	}
	h.state, _, ok = strings.Cut(rest, "]")
	if !ok || !strings.HasSuffix(line, ":") {
		return h, false
	}
	h.state, _, _ = strings.Cut(h.state, " labels:{")
	for part := range strings.SplitSeq(h.state, ", ") {
		if n, ok := strings.CutSuffix(part, " minutes"); ok {
			if m, err := strconv.ParseUint(n, 10, 31); err == nil {
				h.minutes = int(m)
			}
		}
	}
	for _, mark := range []string{",", " (leaked)", " (scan)"} {
		h.state, _, _ = strings.Cut(h.state, mark)
	}
	h.state = strings.TrimSpace(h.state)
	return h, true
}

// parseFrames reads pairs of lines, "pkg.Func(args)" and "\tfile.go:12 +0x34", up to the creator: what
// follows there are its own callers (GODEBUG=tracebackancestors). What it does not know ("...additional
// frames elided...") it leaves out. by is the number of the creating goroutine, "" where it is not told.
func parseFrames(lines []string) (s leak.Stack, by string) {
	for i := 0; i < len(lines); i++ {
		name, isCreator := strings.CutPrefix(lines[i], "created by ")
		if isCreator {
			name, by, _ = strings.Cut(name, " in goroutine ")
		} else if name = withoutArguments(name); name == "" {
			continue
		}
		frame := leak.Frame{Func: normalName(name)}
		if i+1 < len(lines) && strings.HasPrefix(lines[i+1], "\t") {
			frame.File, frame.Line = parsePosition(lines[i+1])
			i++
		}
		if isCreator {
			s.Creator = &frame
			break
		}
		s.Frames = append(s.Frames, frame)
	}
	return s, by
}

// withoutArguments cuts the last parenthesised group: "main.(*T).M(0x1, {0x2, ...})" is
// "main.(*T).M". It returns "" for a line that is no call.
func withoutArguments(line string) string {
	if !strings.HasSuffix(line, ")") {
		return ""
	}
	depth := 0
	for i := len(line) - 1; i >= 0; i-- {
		switch line[i] {
		case ')':
			depth++
		case '(':
			if depth--; depth == 0 {
				return line[:i]
			}
		}
	}
	return ""
}

func parsePosition(line string) (file string, number int) {
	line = strings.TrimPrefix(line, "\t")
	if i := strings.LastIndex(line, " +0x"); i >= 0 {
		line = line[:i]
	}
	i := strings.LastIndexByte(line, ':')
	if i < 0 {
		return line, 0
	}
	number, err := strconv.Atoi(line[i+1:])
	if err != nil {
		return line, 0
	}
	return line[:i], number
}

// normalName undoes the linker's escape of dots in the last element of an import path
// ("gopkg.in/inf%2ev0.(*Dec)"), leaves out in whose vendor folder a package lies, and elides type
// arguments as a dump does, where a profile writes them out ("Map[go.shape.string]").
func normalName(name string) string {
	head, _, _ := strings.Cut(name, "[")
	if i := strings.LastIndex(head, "/vendor/"); i >= 0 {
		name = name[i+len("/vendor/"):]
	}
	name = strings.ReplaceAll(name, "%2e", ".")
	if i, j := strings.IndexByte(name, '['), strings.LastIndexByte(name, ']'); i >= 0 && i < j {
		name = name[:i] + "[...]" + name[j+1:]
	}
	return name
}

// servesProfile tells the goroutine that serves the rig's own request: the only one left out. It is the
// one at work in runtime/pprof; one that runs inside pprof.Do, or hangs while it writes a profile, is the
// subject's.
func servesProfile(s leak.Stack) bool { return strings.HasPrefix(s.Top().Func, "runtime/pprof.") }

// watchesConnection tells the goroutine that net/http starts for as long as a handler runs, to notice a
// client that hangs up. There is one for the rig's own request, too.
func watchesConnection(s leak.Stack) bool {
	for _, f := range s.Frames {
		if strings.HasPrefix(f.Func, "net/http.(*connReader).backgroundRead") || strings.HasPrefix(f.Func, "net/http.(*connReader).startBackgroundRead") {
			return true
		}
	}
	return s.Creator != nil && s.Creator.Func == "net/http.(*connReader).startBackgroundRead"
}

func clip(data []byte, n int) []byte {
	if len(data) > n {
		return data[:n]
	}
	return data
}
