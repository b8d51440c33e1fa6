// Package scaffold writes scenarios to start from: a commented one, or one with the stacks of a profile.
package scaffold

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/template"

	"github.com/leakrig/leakrig/checks"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/scenarios"
	"github.com/leakrig/leakrig/session"
	"github.com/leakrig/leakrig/terminal"
)

// SchemaFile is the JSON schema next to a scenario, for editors.
const SchemaFile = "leakrig.schema.json"

//go:embed templates
var templates embed.FS

// Start is a scenario to start from.
type Start struct {
	Name, URL string
	// Subject is set where a program is written, too.
	Subject bool
	// Dir is the folder to write to.
	Dir string
}

// Schema is the file that the scenario names as its schema.
func (Start) Schema() string { return SchemaFile }

// written is one file, its path below Start.Dir.
type written struct {
	path string
	data []byte
}

// Write writes all files, or none if one of them exists.
func (s Start) Write(out io.Writer) error {
	if err := scenarios.CheckName(s.Name); err != nil {
		return &leak.UsageError{Err: err}
	}
	text, err := s.render("scenario.yaml")
	if err != nil {
		return err
	}
	scenario := s.Name + ".yaml"
	if err := s.valid(scenario, text); err != nil {
		return err
	}
	files := []written{{scenario, text}}
	if s.Subject {
		program, err1 := s.render("main.go.txt")
		module, err2 := s.render("go.mod.txt")
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		files = append(files, written{filepath.Join(s.Name, "main.go"), program}, written{filepath.Join(s.Name, "go.mod"), module})
	}
	for _, f := range files {
		if _, err := os.Lstat(filepath.Join(s.Dir, f.path)); err == nil {
			return &leak.UsageError{Err: s.taken(f.path)}
		}
	}
	if _, err := os.Lstat(filepath.Join(s.Dir, SchemaFile)); err != nil {
		schema, err := scenarios.Schema(session.Kinds())
		if err != nil {
			return err
		}
		files = append(files, written{SchemaFile, append(schema, '\n')})
	}
	for _, f := range files {
		if err := s.create(f); err != nil {
			return &leak.UsageError{Err: hinted(err, "--dir names another folder")}
		}
		fmt.Fprintln(out, filepath.Join(s.Dir, f.path))
	}
	next := "./" + scenario
	if s.Dir != "." {
		next = filepath.Join(s.Dir, scenario)
	}
	if s.Subject {
		fmt.Fprintln(out, terminal.AsCalled("\nnext: `leakrig run "+next+"`"))
	} else {
		fmt.Fprintln(out, terminal.AsCalled("\nnext: set the program and its load in "+next+", then `leakrig run "+next+"`"))
	}
	return nil
}

func (s Start) render(name string) ([]byte, error) {
	t, err := template.ParseFS(templates, "templates/"+name)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, s)
	return b.Bytes(), err
}

// valid holds what is about to be written to what `leakrig validate` would say of it.
func (s Start) valid(file string, text []byte) error {
	loaded, err := scenarios.Load(scenarios.Source{Name: file, Data: text}, session.Kinds())
	if err != nil {
		return err
	}
	if loaded.Spec.Subject.URL != s.URL { // text that changes what is around it
		return &leak.UsageError{Err: leak.WithHint(fmt.Errorf("--url: %q is not an address", s.URL), "for example http://127.0.0.1:6060")}
	}
	return checks.Feasible(loaded, len(loaded.Spec.Variants))
}

func (s Start) create(f written) error {
	path := filepath.Join(s.Dir, f.path)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) { // by somebody else, since it was looked for
		return s.taken(f.path)
	}
	if err != nil {
		return err
	}
	_, err = file.Write(f.data)
	return errors.Join(err, file.Close())
}

func (s Start) taken(path string) error {
	return leak.WithHint(fmt.Errorf("%s is there already", filepath.Join(s.Dir, path)), "no file is ever overwritten: take another name, or another folder with --dir")
}

// hinted gives err a hint unless it has one.
func hinted(err error, hint string) error {
	if leak.Hint(err) != "" {
		return err
	}
	return leak.WithHint(err, "%s", hint)
}
