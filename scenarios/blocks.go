package scenarios

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/leakrig/leakrig/leak"
)

// nameKey is the key of a block's name. Findings and fingerprints refer to blocks by name.
const nameKey = "name"

// workersKey is the key of the number of workers that share an action's operations.
const workersKey = "workers"

// workersDoc documents workersKey.
const workersDoc = "number of worker pods in the cluster that share the operations (default: none, leakrig performs them)"

// decodeBlocks decodes a list of actions, probes or checks. An entry of unknown kind keeps its position, with a
// nil Value.
func decodeBlocks[T any](d *decoder, path string, n *yaml.Node, what string, kinds []leak.Kind[T], out *[]leak.Block[T]) {
	if n.Kind != yaml.SequenceNode {
		d.add(path, fmt.Sprintf("write one entry a line, each with a dash: - %s", exampleKind(kinds)), "expected a list of %ss, found %s", what, describe(n))
		return
	}
	*out = make([]leak.Block[T], len(n.Content))
	for i, c := range n.Content {
		p := item(path, i)
		d.locate(p, c, c)
		if e, ok := d.blockEntry(p, c, what, listing(what+"s", kindNames(kinds))); ok {
			decodeBlock(d, e, what, kinds, &(*out)[i])
		}
	}
}

// blockEntry returns the single key of a block with its configuration. The configuration is nil if the block is only
// the name of its kind.
func (d *decoder) blockEntry(path string, n *yaml.Node, what, hint string) (entry, bool) {
	target := resolve(n)
	switch {
	case target.Kind == yaml.ScalarNode && target.ShortTag() == "!!str":
		e := entry{name: target.Value, path: child(path, target.Value), key: n}
		d.locate(e.path, n, n)
		return e, true
	case target.Kind != yaml.MappingNode:
		d.add(path, hint, "expected a kind of %s, found %s", what, describe(target))
		return entry{}, false
	}
	entries := d.entries(path, target)
	switch {
	case len(entries) == 1:
		return entries[0], true
	case len(entries) > 1:
		var names []string
		for _, e := range entries {
			names = append(names, cut(e.name, maxQuoted))
		}
		d.add(path, fmt.Sprintf("indent what belongs to %s further than %[1]s itself, or start a new entry with a dash", names[0]),
			"expected one kind of %s, found the keys %s", what, strings.Join(names, ", "))
	case len(target.Content) == 0:
		d.add(path, hint, "expected a kind of %s, found an empty mapping", what)
	}
	return entry{}, false
}

func decodeBlock[T any](d *decoder, e entry, what string, kinds []leak.Kind[T], out *leak.Block[T]) {
	i := slices.IndexFunc(kinds, func(k leak.Kind[T]) bool { return k.Name == e.name })
	if i < 0 {
		d.addAt(at(e.key), e.path, choice(e.name, what+"s", kindNames(kinds)), "unknown kind of %s", what)
		return
	}
	config := kinds[i].New()
	v, ok := structOf(config)
	if !ok {
		d.addAt(at(e.key), e.path, "this is a mistake in leakrig, not in the file", "the kind's configuration is a %T", config)
		return
	}
	*out = leak.Block[T]{Kind: e.name, Value: config}
	if e.value != nil {
		reserved := []field{{name: nameKey, value: reflect.ValueOf(&out.Name).Elem()}}
		if what == "action" {
			_, ok := any(config).(leak.Spreader)
			reserved = append(reserved, field{name: workersKey, value: reflect.ValueOf(&out.Workers).Elem(), unlisted: !ok})
		}
		d.config(e, v, reserved, &out.Name)
	}
	if out.Name == "" {
		out.Name = defaultName(e.name, config)
	}
}

// config decodes the settings of a block into v. It also decodes reserved keys, which every block has, unless the
// kind has a field of that name.
func (d *decoder) config(e entry, v reflect.Value, reserved []field, name *string) {
	fields := fieldsOf(v)
	own := fieldNames(fields)
	for _, r := range reserved {
		if !slices.Contains(own, r.name) {
			fields = append(fields, r)
		}
	}
	n := resolve(e.value)
	if isNull(n) {
		d.add(e.path, fmt.Sprintf("without settings it is just - %s", e.name), "has no settings")
		return
	}
	d.mapping(e.path, n, v.Type(), fields)
	if p := child(e.path, nameKey); !slices.Contains(own, nameKey) && d.has(p) && *name == "" {
		d.add(p, "leave it out for the default name", "is empty")
	}
}

// defaultName returns the kind of a block. For a check it adds what the check reads: "growth heap", "growth
// process.threads".
func defaultName(kind string, config any) string {
	r, ok := config.(leak.Reader)
	if !ok {
		return kind
	}
	probe, metric := r.Reads()
	if probe == "" {
		return kind
	}
	if metric != "" {
		probe += "." + metric
	}
	return kind + " " + probe
}

func blockPath[T any](list string, blocks []leak.Block[T], i int) string {
	return child(item(list, i), blocks[i].Kind)
}

// blockNames returns the names that a file may refer to. ok is false if some names are unknown, because their blocks
// could not be decoded.
func blockNames[T any](blocks []leak.Block[T]) (names []string, ok bool) {
	ok = true
	for _, b := range blocks {
		if b.Kind == "" {
			ok = false
			continue
		}
		names = append(names, b.Name)
	}
	return names, ok
}

func kindNames[T any](kinds []leak.Kind[T]) []string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.Name
	}
	return names
}

func exampleKind[T any](kinds []leak.Kind[T]) string {
	if len(kinds) == 0 {
		return "kind"
	}
	return kinds[0].Name
}

// validateBlocks runs the validators of a list of blocks.
func validateBlocks[T any](r *report, list string, blocks []leak.Block[T]) {
	for i, b := range blocks {
		v, ok := any(b.Value).(leak.Validator)
		if !ok {
			continue
		}
		path := blockPath(list, blocks, i)
		for _, f := range fieldErrors(v.Validate()) {
			p := path
			if f.Field != "" {
				p += "." + f.Field
			}
			r.add(p, f.Hint, "%s", f.Problem)
		}
	}
}

// fieldErrors splits the joined errors of a Validate method. An error without a field applies to the whole block.
func fieldErrors(err error) []*leak.FieldError {
	if err == nil {
		return nil
	}
	if f, ok := err.(*leak.FieldError); ok {
		return []*leak.FieldError{f}
	}
	var inner []*leak.FieldError
	switch e := err.(type) {
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			inner = append(inner, fieldErrors(part)...)
		}
		return inner
	case interface{ Unwrap() error }:
		inner = fieldErrors(errors.Unwrap(err))
	}
	if slices.ContainsFunc(inner, func(f *leak.FieldError) bool { return f.Field != "" }) {
		return inner
	}
	return []*leak.FieldError{{Problem: err.Error(), Hint: leak.Hint(err)}}
}
