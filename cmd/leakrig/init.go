package main

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/leakrig/leakrig/checks"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/scenarios"
	"github.com/leakrig/leakrig/session"
	"github.com/leakrig/leakrig/terminal"
)

// schemaFile is the JSON schema next to a scenario, for editors.
const schemaFile = "leakrig.schema.json"

//go:embed templates
var templates embed.FS

// start is a scenario to start from.
type start struct {
	Name, URL string
	// Subject is set where a program is written, too.
	Subject bool
	dir     string
}

// Schema is the file that the scenario names as its schema.
func (start) Schema() string { return schemaFile }

func initCommand() *cobra.Command {
	var s start
	c := &cobra.Command{
		Use:   "init NAME",
		Short: "Write a commented scenario, and optionally a subject",
		Long: `Write NAME.yaml, a commented scenario for a program that serves net/http/pprof, and its schema for
editors. With --subject, also write a small service with an optional leak into the folder NAME. The
scenario then runs without changes.

init does not overwrite files.`,
		Example: `  leakrig init my-service
  leakrig init my-service --url http://127.0.0.1:6060
  leakrig init try-it --subject && leakrig run ./try-it.yaml`,
		Args: cobra.ExactArgs(1),

		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) error {
			s.Name = args[0]
			if s.Subject && s.URL != "" {
				return usage(c, errors.New("--subject and --url: a program is either written or runs already"))
			}
			return s.write(c.OutOrStdout())
		},
	}
	c.Flags().BoolVar(&s.Subject, "subject", false, "also write a small service into the folder NAME")
	c.Flags().StringVar(&s.URL, "url", "", "address of a running program, instead of a command")
	c.Flags().StringVar(&s.dir, "dir", ".", "`folder` to write to")
	completeFolders(c, "dir")
	return c
}

// written is one file, its path below start.dir.
type written struct {
	path string
	data []byte
}

// write writes all files, or none if one of them exists.
func (s start) write(out io.Writer) error {
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
		if _, err := os.Lstat(filepath.Join(s.dir, f.path)); err == nil {
			return &leak.UsageError{Err: s.taken(f.path)}
		}
	}
	if _, err := os.Lstat(filepath.Join(s.dir, schemaFile)); err != nil {
		schema, err := scenarios.Schema(session.Kinds())
		if err != nil {
			return err
		}
		files = append(files, written{schemaFile, append(schema, '\n')})
	}
	for _, f := range files {
		if err := s.create(f); err != nil {
			return &leak.UsageError{Err: hinted(err, "--dir names another folder")}
		}
		fmt.Fprintln(out, filepath.Join(s.dir, f.path))
	}
	next := "./" + scenario
	if s.dir != "." {
		next = filepath.Join(s.dir, scenario)
	}
	if s.Subject {
		fmt.Fprintln(out, terminal.AsCalled("\nnext: `leakrig run "+next+"`"))
	} else {
		fmt.Fprintln(out, terminal.AsCalled("\nnext: say in "+next+" which program is meant and what load it gets, then `leakrig run "+next+"`"))
	}
	return nil
}

func (s start) render(name string) ([]byte, error) {
	t, err := template.ParseFS(templates, "templates/"+name)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, s)
	return b.Bytes(), err
}

// valid holds what is about to be written to what `leakrig validate` would say of it.
func (s start) valid(file string, text []byte) error {
	loaded, err := scenarios.Load(scenarios.Source{Name: file, Data: text}, session.Kinds())
	if err != nil {
		return err
	}
	if loaded.Spec.Subject.URL != s.URL { // text that changes what is around it
		return &leak.UsageError{Err: leak.WithHint(fmt.Errorf("--url: %q is not an address", s.URL), "for example http://127.0.0.1:6060")}
	}
	return checks.Feasible(loaded, len(loaded.Spec.Variants))
}

func (s start) create(f written) error {
	path := filepath.Join(s.dir, f.path)
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

func (s start) taken(path string) error {
	return leak.WithHint(fmt.Errorf("%s is there already", filepath.Join(s.dir, path)), "no file is ever overwritten: take another name, or another folder with --dir")
}

// hinted gives err a hint unless it has one.
func hinted(err error, hint string) error {
	if leak.Hint(err) != "" {
		return err
	}
	return leak.WithHint(err, "%s", hint)
}
