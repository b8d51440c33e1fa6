//go:build slow

package catalogue

import (
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSlowNames checks that every regular expression matches a function in the source of the module.
func TestSlowNames(t *testing.T) {
	t.Parallel()
	source := sources{t: t, dirs: map[string]string{}, names: map[string][]string{}}
	for _, e := range All() {
		for _, s := range e.Stacks {
			for _, expr := range append(s.Callers, s.Match) {
				if version := cmp.Or(s.Names, e.Names); !source.has(e.Module, version, regexp.MustCompile(expr)) {
					t.Errorf("%s: no function of %s %s matches %s", e.ID, e.Module, version, expr)
				}
			}
		}
	}
}

type sources struct {
	t *testing.T
	// dirs are the folders of modules, by "path@version".
	dirs map[string]string
	// names are the functions of a folder, by "folder import-path".
	names map[string][]string
}

// has looks in the module, in the standard library, and in the modules that this one requires.
func (s sources) has(module, version string, re *regexp.Regexp) bool {
	path, _ := regexp.MustCompile(strings.TrimPrefix(re.String(), "^")).LiteralPrefix()
	if module != Std && strings.HasPrefix(path, module) {
		return s.inModule(module, s.module(module+"@"+version), path, re)
	}
	if first, _, _ := strings.Cut(path, "/"); strings.Contains(first, ".") && strings.Contains(path, "/") {
		parts := strings.Split(path, "/")
		module = strings.Join(parts[:2], "/")
		return s.inModule(module, s.module(module), path, re)
	}
	return s.inModule("", filepath.Join(s.run("go", "env", "GOROOT"), "src"), path, re)
}

// inModule looks in the packages of a module whose import path is the beginning of a name.
func (s sources) inModule(module, dir, name string, re *regexp.Regexp) bool {
	rest := strings.TrimPrefix(strings.TrimPrefix(name, module), "/")
	for i := 0; i <= len(rest); i++ {
		if i < len(rest) && rest[i] != '.' && rest[i] != '/' && i > 0 {
			continue
		}
		pkg := strings.Trim(module+"/"+rest[:i], "/")
		for _, f := range s.functions(filepath.Join(dir, rest[:i]), pkg) {
			if re.MatchString(f) {
				return true
			}
		}
	}
	return false
}

// module returns the folder of "path@version" in the module cache, or of a module that this one requires.
func (s sources) module(m string) string {
	if dir, ok := s.dirs[m]; ok {
		return dir
	}
	args := []string{"mod", "download", "-json", m}
	if !strings.Contains(m, "@") {
		args = []string{"list", "-m", "-json", m}
	}
	var info struct{ Dir string }
	if err := json.Unmarshal([]byte(s.run("go", args...)), &info); err != nil {
		s.t.Fatalf("%s: %v", m, err)
	}
	s.dirs[m] = info.Dir
	return info.Dir
}

func (s sources) run(name string, args ...string) string {
	s.t.Helper()
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		s.t.Fatalf("%s %s: %v", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out))
}

// functions are the names of all functions in a folder, with those that closures of them could have.
func (s sources) functions(dir, pkg string) []string {
	key := dir + " " + pkg
	if names, ok := s.names[key]; ok {
		return names
	}
	var names []string
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				names = append(names, closures(pkg+"."+receiver(f)+f.Name.Name, f)...)
			}
		}
	}
	s.names[key] = names
	return names
}

// receiver is "(*T)." or "T." of a method, with "[...]" for type parameters.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	of, pointer := f.Recv.List[0].Type, false
	if star, ok := of.(*ast.StarExpr); ok {
		of, pointer = star.X, true
	}
	generic := ""
	switch x := of.(type) {
	case *ast.IndexExpr:
		of, generic = x.X, "[...]"
	case *ast.IndexListExpr:
		of, generic = x.X, "[...]"
	}
	name := fmt.Sprint(of) + generic
	if pointer {
		return "(*" + name + ")."
	}
	return name + "."
}

// closures are the names of a function and of its closures, which are numbered in the order of the source.
func closures(name string, f ast.Node) []string {
	names := []string{name}
	n := 0
	ast.Inspect(f, func(node ast.Node) bool {
		if _, ok := node.(*ast.FuncLit); ok {
			n++
			names = append(names, fmt.Sprintf("%s.func%d", name, n), fmt.Sprintf("%s.func%d.1", name, n))
		}
		return true
	})
	return names
}
