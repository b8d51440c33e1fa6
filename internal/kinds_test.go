package internal

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// kindPackages declare kinds.
var kindPackages = []string{"load", "profiles", "checks", "cluster"}

// knownSwitches are the places that still compare the name or the concrete type of a kind, by file. The list may only
// become shorter: an optional interface of the kind replaces a comparison.
var knownSwitches = map[string]int{
	"checks/budget.go":         2,
	"checks/census.go":         6,
	"checks/enough.go":         2,
	"checks/explained.go":      1,
	"checks/hung.go":           2,
	"checks/judge.go":          10,
	"leak/verdict.go":          2,
	"leaktest/run.go":          1,
	"reports/html.go":          2,
	"reports/html_diff.go":     2,
	"reports/view.go":          1,
	"reports/view_commands.go": 2,
	"reports/view_flame.go":    1,
	"reports/view_holders.go":  2,
	"scenarios/secrets.go":     1,
	"scenarios/validate.go":    2,
	"session/provider.go":      2,
	"session/run.go":           1,
}

// maxLeakNames limits the exported types, functions and variables of package leak. Constants count with their type.
// The target is 70.
const maxLeakNames = 141

// sources parses the files of all packages that are part of leakrig's own program.
func sources(t *testing.T) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, "../")
		if d.IsDir() && (d.Name() == "testdata" || name != ".." && strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"internal", "docs", "subjects/museum", "subjects/calibration"}, name)) {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		files[name] = file
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// kindsOf returns the names of all kinds and the types of their values, which its New function creates.
func kindsOf(files map[string]*ast.File) (names, types map[string]bool) {
	names, types = map[string]bool{}, map[string]bool{}
	for name, file := range files {
		in := filepath.Dir(name)
		if !slices.Contains(kindPackages, in) {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			fields := map[string]ast.Expr{}
			for _, e := range lit.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok {
					if key, ok := kv.Key.(*ast.Ident); ok {
						fields[key.Name] = kv.Value
					}
				}
			}
			text, ok := fields["Name"].(*ast.BasicLit)
			create, isFunc := fields["New"].(*ast.FuncLit)
			if !ok || !isFunc {
				return true
			}
			if s, err := strconv.Unquote(text.Value); err == nil {
				names[s] = true
			}
			ast.Inspect(create, func(n ast.Node) bool {
				if made, ok := n.(*ast.CompositeLit); ok {
					if id, ok := made.Type.(*ast.Ident); ok {
						types[in+"."+id.Name] = true
					}
				}
				return true
			})
			return true
		})
	}
	return names, types
}

// TestKindsAreClosed checks that no package compares the name or the concrete type of a kind. A kind declares its
// traits through optional interfaces.
func TestKindsAreClosed(t *testing.T) {
	files := sources(t)
	names, types := kindsOf(files)
	if len(names) < 15 || len(types) < 15 {
		t.Fatalf("%d names and %d types of kinds", len(names), len(types))
	}
	found, where := map[string]int{}, map[string][]string{}
	for name, file := range files {
		in := filepath.Dir(name)
		isName := func(e ast.Expr) bool {
			lit, ok := e.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return false
			}
			s, err := strconv.Unquote(lit.Value)
			return err == nil && names[s]
		}
		isType := func(e ast.Expr) bool {
			if star, ok := e.(*ast.StarExpr); ok {
				e = star.X
			}
			switch e := e.(type) {
			case *ast.Ident:
				return types[in+"."+e.Name]
			case *ast.SelectorExpr:
				x, ok := e.X.(*ast.Ident)
				return ok && types[x.Name+"."+e.Sel.Name]
			}
			return false
		}
		hit := func(what string) {
			found[name]++
			where[name] = append(where[name], what)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				if (n.Op == token.EQL || n.Op == token.NEQ) && (isName(n.X) || isName(n.Y)) {
					hit(fmt.Sprint(n.Op, " with a name"))
				}
			case *ast.CaseClause:
				for _, e := range n.List {
					if isName(e) || isType(e) {
						hit("case")
					}
				}
			case *ast.TypeAssertExpr:
				if n.Type != nil && isType(n.Type) {
					hit("type assertion")
				}
			}
			return true
		})
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if found[name] > knownSwitches[name] {
			t.Errorf("%s compares kinds in %d places, %d are known: %s", name, found[name], knownSwitches[name], strings.Join(where[name], "; "))
		}
	}
	for name, n := range knownSwitches {
		if found[name] < n {
			t.Errorf("%s compares kinds in %d places now: lower its number from %d", name, found[name], n)
		}
	}
}

// TestVocabularyStaysSmall counts the exported names of package leak.
func TestVocabularyStaysSmall(t *testing.T) {
	n := 0
	for name, file := range sources(t) {
		if filepath.Dir(name) != "leak" {
			continue
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.IsExported() {
					n++
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						if s.Name.IsExported() {
							n++
						}
					case *ast.ValueSpec:
						if d.Tok == token.VAR && s.Names[0].IsExported() {
							n++
						}
					}
				}
			}
		}
	}
	if n > maxLeakNames {
		t.Errorf("package leak exports %d types, functions and variables, more than %d: declare what only one layer needs in that layer", n, maxLeakNames)
	}
	t.Logf("%d exported names", n)
}
