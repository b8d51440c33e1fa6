// Command wrapped runs the tests of a Go module with leaktest.Check as the first statement of each. It takes a module,
// such as github.com/go-chi/chi/v5@v5.5.0, and arguments of go test:
//
//	go run ./internal/wrapped github.com/go-chi/chi/v5@v5.5.0 ./...
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./internal/wrapped MODULE@VERSION [ARGUMENT OF go test]...")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "wrapped:", err)
		os.Exit(1)
	}
}

func run(module string, args []string) error {
	leakrig, err := os.Getwd()
	if err != nil {
		return err
	}
	out, err := exec.Command("go", "mod", "download", "-json", module).Output()
	if err != nil {
		return fmt.Errorf("download %s: %w: %s", module, err, out)
	}
	var source struct{ Dir string }
	if err := json.Unmarshal(out, &source); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "wrapped")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	tests := 0
	err = filepath.WalkDir(source.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(source.Dir, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return os.MkdirAll(filepath.Join(dir, name), 0o755)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if strings.HasSuffix(name, "_test.go") {
			n := 0
			if text, n, err = wrap(text); err != nil {
				return err
			}
			tests += n
		}
		return os.WriteFile(filepath.Join(dir, name), text, 0o644)
	})
	if err != nil {
		return err
	}
	fmt.Printf("leaktest.Check is in %d tests of %s\n", tests, module)
	for _, command := range [][]string{
		{"mod", "edit", "-require=github.com/leakrig/leakrig@v0.0.0", "-replace=github.com/leakrig/leakrig=" + leakrig},
		{"mod", "tidy"},
		append([]string{"test"}, args...),
	} {
		c := exec.Command("go", command...)
		c.Dir, c.Stdout, c.Stderr = dir, os.Stdout, os.Stderr
		if err := c.Run(); err != nil {
			return fmt.Errorf("go %s: %w", strings.Join(command, " "), err)
		}
	}
	return nil
}

// wrap adds the check to the tests of a file, and returns their number.
func wrap(text []byte) ([]byte, int, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", text, parser.SkipObjectResolution)
	if err != nil {
		return nil, 0, err
	}
	at := map[int]string{}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil || f.Body == nil || !strings.HasPrefix(f.Name.Name, "Test") || len(f.Type.Params.List) != 1 {
			continue
		}
		names := f.Type.Params.List[0].Names
		if kind, ok := f.Type.Params.List[0].Type.(*ast.StarExpr); !ok || len(names) != 1 || names[0].Name == "_" || !isT(kind.X) {
			continue
		}
		at[files.Position(f.Body.Lbrace).Offset+1] = "checkleaks.Check(" + names[0].Name + ");"
	}
	if len(at) == 0 {
		return text, 0, nil
	}
	n := len(at)
	at[files.Position(file.Name.End()).Offset] = `; import checkleaks "github.com/leakrig/leakrig/leaktest"`
	var b bytes.Buffer
	offsets := make([]int, 0, len(at))
	for offset := range at {
		offsets = append(offsets, offset)
	}
	slices.Sort(offsets)
	last := 0
	for _, offset := range offsets {
		b.Write(text[last:offset])
		b.WriteString(at[offset])
		last = offset
	}
	b.Write(text[last:])
	return b.Bytes(), n, nil
}

func isT(e ast.Expr) bool {
	s, ok := e.(*ast.SelectorExpr)
	return ok && s.Sel.Name == "T"
}
