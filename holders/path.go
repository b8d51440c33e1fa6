package holders

import (
	"cmp"
	"debug/dwarf"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

const (
	maxPath  = 1 << 16 // edges of a path; a longer linked list ends the path
	maxSteps = 8       // of a printed path
	maxType  = 80      // bytes of a printed type
)

// Container kinds, as in Holding.Container.
const (
	containerMap     = "map"
	containerSyncMap = "sync.Map"
	containerPool    = "sync.Pool"
	containerSlice   = "slice"
	containerList    = "list"
	containerChan    = "channel buffer"
	containerLinked  = "linked structure"
)

// path describes how a root reaches an object: "main.registry (map[string]*main.Order) → *main.Order.items → []byte". It
// also returns the first container on the path, and the root.
func (t *typing) path(node uint32) (text, container string, from uint32) {
	g := t.g
	var edges []uint32
	for v := node; v != g.super && t.pathEdge(v) != none && len(edges) < maxPath; v = g.source(edges[len(edges)-1]) {
		from = v
		edges = append(edges, t.pathEdge(v))
	}
	slices.Reverse(edges)
	var steps []string
	name := func(s string) {
		if s != "" && container == "" {
			container = s
		}
	}
	var last slot
	for i, e := range edges {
		from := g.source(e)
		if from == g.super {
			continue
		}
		s, known := t.slotOf(e)
		if r := g.root(from); r != nil {
			if g.root(g.targets[e]) == nil || r.kind == rootGlobal {
				steps = append(steps, t.rootStep(r, e, s, known))
			}
		} else if text := t.step(from, s, known, last, i > 0); text != "" {
			steps = append(steps, text)
		}
		if known {
			name(containerOf(s, t))
		}
		last = s
	}
	if text := t.step(node, slot{}, false, last, len(edges) > 0); text != "" {
		steps = append(steps, text)
	}
	steps, repeated := collapse(steps)
	if repeated {
		name(containerLinked)
	}
	if len(steps) > maxSteps {
		steps = slices.Concat(steps[:maxSteps-3], []string{"…"}, steps[len(steps)-2:])
	}
	return strings.Join(steps, " → "), container, from
}

// rootStep describes a root and the variable in it that an edge leaves from.
func (t *typing) rootStep(r *root, edge uint32, s slot, known bool) string {
	typ := ""
	if known {
		typ = " (" + typeName(s.typ.name) + ")"
	}
	switch r.kind {
	case rootGlobal:
		if path, ok := syncMap(s); ok {
			return shortName(r.name) + path
		}
		return shortName(r.name) + s.path + typ
	case rootStatic:
		if !known {
			return "static data"
		}
		return t.step(t.g.source(edge), s, true, slot{}, false)
	case rootFrame:
		v, _, ok := t.localSlot(r, t.g.rootEdges[edge-t.g.firstRootEdge].offset)
		if !ok {
			return "a local of " + shortName(r.name)
		}
		return v.name + s.path + typ + " in " + shortName(cmp.Or(v.scope, r.name))
	case rootGoroutines:
		return "deferred call"
	case rootTimer:
		return "timer of " + shortName(r.name)
	case rootFinalizer:
		if of := t.runtimeType(r.typ); of != "" && known {
			return "finalizer of " + of + s.path
		}
		return "finalizer"
	}
	return r.name
}

// syncMap returns the path to a sync.Map if the field is the root of its tree.
func syncMap(s slot) (path string, ok bool) {
	if s.typ == nil || !strings.HasPrefix(s.typ.name, "sync/atomic.Pointer[internal/sync.indirect[") {
		return "", false
	}
	path, ok = strings.CutSuffix(s.path, ".m.root")
	return path + " (sync.Map)", ok
}

// step describes an object on a path and the field that the path leaves from. It is empty for internals of maps and
// channels, whose variables show their type.
func (t *typing) step(node uint32, s slot, known bool, before slot, reached bool) string {
	of, ok := t.shapeOf(node)
	if r := t.g.root(node); r != nil && r.kind != rootStatic {
		return ""
	}
	if !ok {
		if reached && before.typ != nil && (before.typ.kind == reflect.String || before.typ.kind == reflect.Slice) {
			return typeName(before.typ.name)
		}
		return fmt.Sprintf("[%d B, type unknown]", t.g.words(node)*wordSize)
	}
	if of.closure != 0 {
		return "func " + shortName(t.g.bin.funcName(of.closure)) + s.path
	}
	typ := t.d.typ(of.typ)
	if hidden(typ, t.d) {
		for _, prefix := range []string{".slots[].elem", ".slots[].key", "[].slots[].elem", "[].slots[].key", ".key", ".value"} {
			if rest, ok := strings.CutPrefix(s.path, prefix); ok && rest != "" {
				return "value" + rest
			}
		}
		return ""
	}
	path := s.path
	if at, ok := syncMap(s); ok {
		path = at
	} else if known && (s.typ.kind == reflect.Map || s.typ.kind == reflect.Chan) {
		path += " (" + typeName(s.typ.name) + ")"
	}
	switch {
	case of.array:
		path, _ = strings.CutPrefix(path, "[]")
		return typeName("[]"+typ.name) + path
	case typ.kind == reflect.Struct || known:
		return "*" + typeName(typ.name) + path
	}
	return "*" + typeName(typ.name)
}

// hidden reports whether a type is an internal of a map, channel or sync.Map.
func hidden(t *typ, d *debugInfo) bool {
	name := t.name
	if t.kind == reflect.Pointer {
		name = d.typ(t.elem).name
	}
	for _, prefix := range []string{"map<", "table<", "groupReference<", "hchan<", "internal/sync.", "*table<"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return strings.Contains(name, "map.group[")
}

// containerOf returns the kind of container that a field is or belongs to, or "".
func containerOf(s slot, t *typing) string {
	switch {
	case s.typ == nil:
		return ""
	case strings.Contains(s.typ.name, "internal/sync.indirect[") || strings.Contains(s.typ.name, "internal/sync.node["):
		return containerSyncMap
	case s.typ.kind == reflect.Map:
		return containerMap
	case s.typ.kind == reflect.Chan:
		return containerChan
	case s.typ.kind == reflect.Pointer && s.typ.name == "*container/list.Element":
		return containerList
	case s.typ.kind == reflect.Slice && t.d.pointers(s.typ.elem):
		return containerSlice
	}
	return ""
}

// pointers reports whether values of a type may hold pointers.
func (d *debugInfo) pointers(of dwarf.Offset) bool {
	t := d.typ(of)
	switch t.kind {
	case reflect.Struct:
		return slices.ContainsFunc(t.fields, func(f field) bool { return d.pointers(f.typ) })
	case reflect.Array:
		return t.count > 0 && d.pointers(t.elem)
	}
	return t.kind >= reflect.Chan && t.kind != reflect.Struct
}

// collapse replaces runs of repeated steps, as in linked lists, with one of each.
func collapse(steps []string) (out []string, repeated bool) {
	for i := 0; i < len(steps); {
		n := 0
		for period := 1; period <= 3 && n == 0; period++ {
			end := i + period
			for end+period <= len(steps) && slices.Equal(steps[i:i+period], steps[end:end+period]) {
				end += period
			}
			if end > i+period {
				run := slices.Clone(steps[i : i+period])
				run[period-1] += " (repeated)"
				out = append(out, run...)
				n = end - i
			}
		}
		if n == 0 {
			out = append(out, steps[i])
			n = 1
		} else {
			repeated = true
		}
		i += n
	}
	return out, repeated
}

var importPath = regexp.MustCompile(`(?:[\w.~%-]+/)+`)

// shortName removes the folders of import paths from names of functions, variables and types.
func shortName(name string) string { return importPath.ReplaceAllString(name, "") }

var spelled = strings.NewReplacer("interface {}", "any", "[]uint8", "[]byte")

func typeName(name string) string {
	name = spelled.Replace(shortName(name))
	if len(name) > maxType {
		name = strings.ToValidUTF8(name[:maxType], "") + "…"
	}
	return name
}
