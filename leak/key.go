package leak

import "strings"

// Key is the identity of a stack across binaries, where ID is that within one: wait state, functions and
// creator under names that do not change with the compiler's version or its decisions, and no lines. Two
// builds of one program at different versions of Go or of a module have the same key for the same stack;
// closures of one function share theirs.
func (s Stack) Key() string {
	var b strings.Builder
	b.WriteString(s.State)
	for _, f := range s.Frames {
		if name := f.Stable(); name != "" {
			b.WriteByte(0)
			b.WriteString(name)
		}
	}
	if s.Creator != nil {
		b.WriteByte(1)
		b.WriteString(s.Creator.Stable())
	}
	return b.String()
}

// Stable is the function's name without what the compiler makes up: numbers of closures ("run.func1.2"),
// the function that a closure was inlined into, whose package then stands in its name ("main.run.New.func1"
// for the closure in queue.New, so a closure is named without its package), bodies of range-over-func
// loops ("run-range1"), method values ("Close-fm"), type arguments. A frame that is nothing but the
// compiler's wrapper around a go or defer statement, or the runtime's first, is "".
func (f Frame) Stable() string {
	name := f.Func
	if i, j := strings.IndexByte(name, '['), strings.LastIndexByte(name, ']'); i >= 0 && j > i {
		name = name[:i] + name[j+1:]
	}
	if name == "runtime.goexit" || name == "runtime.main" {
		return ""
	}
	pkg := f.Package()
	rest, ok := strings.CutPrefix(name, pkg+".")
	if !ok {
		return name
	}
	parts := strings.Split(rest, ".")
	closure := false
	for len(parts) > 1 && madeUp(parts[len(parts)-1]) {
		last := parts[len(parts)-1]
		if strings.HasPrefix(last, "gowrap") || strings.HasPrefix(last, "deferwrap") {
			return ""
		}
		closure, parts = true, parts[:len(parts)-1]
	}
	last := len(parts) - 1
	parts[last], _, _ = strings.Cut(parts[last], "-") // -range1, -fm
	if !closure {
		return pkg + "." + strings.Join(parts, ".")
	}
	if last > 0 && strings.HasPrefix(parts[last-1], "(") {
		last-- // a method's receiver
	}
	return strings.Join(parts[last:], ".") + ".func"
}

// madeUp tells the parts of a name that the compiler appends: func1, 2, gowrap3.
func madeUp(part string) bool {
	part, _, _ = strings.Cut(part, "-")
	digits := strings.TrimLeft(part, "abcdefghijklmnopqrstuvwxyz")
	if strings.Trim(digits, "0123456789") != "" || digits == "" {
		return false
	}
	switch part[:len(part)-len(digits)] {
	case "", "func", "gowrap", "deferwrap":
		return true
	}
	return false
}

// Below are the stable names of the frames that a stack shares with other programs: from the innermost one
// out to where package main begins, or all of them where they begin there.
func (s Stack) Below() []string {
	var names, shared []string
	for _, f := range s.Frames {
		name := f.Stable()
		if name == "" {
			continue
		}
		names = append(names, name)
		if len(shared) == len(names)-1 && f.Package() != "main" {
			shared = names
		}
	}
	if len(shared) == 0 {
		return names
	}
	return shared
}

// StandsOn reports whether the stack has these innermost frames, in a state that does not contradict.
func (s Stack) StandsOn(below []string, state string) bool {
	if state != "" && s.State != "" && s.State != state {
		return false
	}
	i := 0
	for _, f := range s.Frames {
		if i == len(below) {
			break
		}
		name := f.Stable()
		if name == "" {
			continue
		}
		if name != below[i] {
			return false
		}
		i++
	}
	return i == len(below) && i > 0
}
