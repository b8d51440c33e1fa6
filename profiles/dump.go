package profiles

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
)

// groups collects goroutines or allocations by stack.
type groups struct {
	count  map[string]*leak.Group
	order  []string
	stacks map[string]leak.Stack
	total  int64
	// size is the memory of the groups in bytes, without their names.
	size int
}

func newGroups() *groups {
	return &groups{count: map[string]*leak.Group{}, stacks: map[string]leak.Stack{}}
}

// add adds to the group of a stack and returns it.
func (g *groups) add(s leak.Stack, count, bytes int64) *leak.Group {
	id := s.ID()
	if g.count[id] == nil {
		g.count[id] = &leak.Group{Stack: id}
		g.stacks[id] = s
		g.order = append(g.order, id)
		g.size += perGroup + perFrame*len(s.Frames)
	}
	g.count[id].Count += count
	g.count[id].Bytes += bytes
	g.total += count
	return g.count[id]
}

// bounded refuses more stacks, or more frames of them, than there is room for.
func (g *groups) bounded() error {
	if len(g.order) > maxStacks {
		return fmt.Errorf("more than %d different stacks", maxStacks)
	}
	if g.size > maxGrouped {
		return fmt.Errorf("%d different stacks that take more than %d MiB", len(g.order), maxGrouped>>20)
	}
	return nil
}

// dropEmpty removes groups without goroutines and bytes.
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

// parseDump groups the goroutines of a text dump (runtime.Stack, debug=2). It omits the goroutine that wrote the dump,
// which comes first, and the goroutine with which net/http watches the connection of that request. It returns an error
// if the data has no goroutine.
func parseDump(data []byte) (*groups, error) {
	g, numbers := newGroups(), map[*leak.Group][]uint64{}
	text := &texts{made: map[string]string{}}
	seen, server := false, ""
	goroutines := 0
	for block := range bytes.SplitSeq(data, []byte("\n\n")) {
		lines := lineReader{bytes.Trim(block, "\n")}
		line, _ := lines.next()
		head, ok := parseHeader(line)
		if !ok {
			continue
		}
		seen = true
		goroutines++
		stack, creator, err := text.parseFrames(&lines)
		if err != nil {
			return nil, err
		}
		stack.State = text.name(head.state, display.Name)
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
		}
		if err := g.bounded(); err != nil {
			return nil, err
		}
		if text.size+goroutines*perGoroutine > maxDecoded {
			return nil, tooLarge(maxDecoded)
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

// perGoroutine is the memory that the number of one goroutine needs: as a number, and in a list of ranges.
const perGoroutine = 48

// lineReader reads lines without copying them.
type lineReader struct{ rest []byte }

func (l *lineReader) next() (line []byte, ok bool) {
	if len(l.rest) == 0 {
		return nil, false
	}
	line, l.rest, _ = bytes.Cut(l.rest, []byte("\n"))
	return line, true
}

// texts are the names in a dump, each once.
type texts struct {
	made map[string]string
	size int
}

// name is the name that make makes of a text.
func (t *texts) name(text []byte, make func(string) string) string {
	if known, ok := t.made[string(text)]; ok {
		return known
	}
	key := string(text)
	name := make(key)
	if len(key) > 2*len(name) { // of a name that was cut nothing else is kept
		t.size += perName + len(name)
		return name
	}
	t.made[key] = name
	t.size += perName + len(key) + len(name)
	return name
}

// header is the first line of a goroutine in a dump.
type header struct {
	id    uint64
	state []byte
	// minutes is the duration of the wait. The runtime prints only whole minutes.
	minutes int
}

// parseHeader reads "goroutine 34 [chan send (scan), 2 minutes, locked to thread labels:{"k": "v"}]:". The state
// excludes marks of the garbage collector, because the leak profile would split groups. Newer runtimes may print more
// between the bracket and the colon.
func parseHeader(line []byte) (h header, ok bool) {
	rest, ok := bytes.CutPrefix(line, []byte("goroutine "))
	if !ok {
		return h, false
	}
	id, rest, ok := bytes.Cut(rest, []byte(" "))
	var err error
	if h.id, err = strconv.ParseUint(string(clip(id, 32)), 10, 63); err != nil || !ok {
		return h, false
	}
	_, rest, ok = bytes.Cut(rest, []byte("["))
	if !ok {
		return h, false
	}
	state, _, ok := bytes.Cut(rest, []byte("]"))
	if !ok || !bytes.HasSuffix(line, []byte(":")) {
		return h, false
	}
	state, _, _ = bytes.Cut(state, []byte(" labels:{"))
	for part := range bytes.SplitSeq(state, []byte(", ")) {
		if n, ok := bytes.CutSuffix(part, []byte(" minutes")); ok {
			if m, err := strconv.ParseUint(string(clip(n, 32)), 10, 31); err == nil {
				h.minutes = int(m)
			}
		}
	}
	for _, mark := range []string{",", " (leaked)", " (scan)"} {
		state, _, _ = bytes.Cut(state, []byte(mark))
	}
	h.state = bytes.TrimSpace(state)
	return h, true
}

// parseFrames reads pairs of lines, "pkg.Func(args)" and "\tfile.go:12 +0x34", up to the creator. Its own callers
// follow (GODEBUG=tracebackancestors). It skips unknown lines ("...additional frames elided..."). by is the number of
// the creating goroutine, "" if missing.
func (t *texts) parseFrames(lines *lineReader) (s leak.Stack, by string, err error) {
	for {
		line, ok := lines.next()
		if !ok {
			return s, by, nil
		}
		name, isCreator := bytes.CutPrefix(line, []byte("created by "))
		if isCreator {
			var number []byte
			name, number, _ = bytes.Cut(name, []byte(" in goroutine "))
			by = string(clip(number, 32))
		} else if name = withoutArguments(line); len(name) == 0 {
			continue
		}
		frame := leak.Frame{Func: t.name(name, normalName)}
		if bytes.HasPrefix(lines.rest, []byte("\t")) {
			position, _ := lines.next()
			file, number := parsePosition(position)
			frame.File, frame.Line = t.name(file, display.Name), number
		}
		if isCreator {
			s.Creator = &frame
			return s, by, nil
		}
		if s.Frames = append(s.Frames, frame); len(s.Frames) > maxFrames {
			return s, by, fmt.Errorf("a stack of more than %d calls", maxFrames)
		}
	}
}

// withoutArguments removes the last parenthesised group: "main.(*T).M(0x1, {0x2, ...})" becomes "main.(*T).M". It
// returns "" for a line without a call.
func withoutArguments(line []byte) []byte {
	if !bytes.HasSuffix(line, []byte(")")) {
		return nil
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
	return nil
}

func parsePosition(line []byte) (file []byte, number int) {
	line = bytes.TrimPrefix(line, []byte("\t"))
	if i := bytes.LastIndex(line, []byte(" +0x")); i >= 0 {
		line = line[:i]
	}
	i := bytes.LastIndexByte(line, ':')
	if i < 0 {
		return line, 0
	}
	number, err := strconv.Atoi(string(clip(line[i+1:], 32)))
	if err != nil {
		return line, 0
	}
	return line[:i], number
}

// longestName is how long a name can be and still be one, with all its type arguments.
const longestName = 1 << 20

// normalName returns a function name in one form for profiles and dumps. It undoes the linker's escape of dots in the
// last element of an import path ("gopkg.in/inf%2ev0.(*Dec)"), removes the path of a vendor folder, and shortens the
// type arguments of a profile ("Map[go.shape.string]") to those of a dump ("Map[...]").
func normalName(name string) string {
	if len(name) > longestName {
		return display.Name(name)
	}
	head, _, _ := strings.Cut(name, "[")
	if i := strings.LastIndex(head, "/vendor/"); i >= 0 {
		name = name[i+len("/vendor/"):]
	}
	name = strings.ReplaceAll(name, "%2e", ".")
	if i, j := strings.IndexByte(name, '['), strings.LastIndexByte(name, ']'); i >= 0 && i < j {
		name = name[:i] + "[...]" + name[j+1:]
	}
	return display.Name(name)
}

// servesProfile reports whether the goroutine serves leakrig's request for a profile. Only this goroutine is omitted,
// and it runs in runtime/pprof. Goroutines inside pprof.Do, and goroutines that hang while they write a profile, belong
// to the subject.
func servesProfile(s leak.Stack) bool { return strings.HasPrefix(s.Top().Func, "runtime/pprof.") }

// watchesConnection reports whether net/http started the goroutine to notice a client that disconnects. It does so for
// each running handler, and also for leakrig's own request.
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
