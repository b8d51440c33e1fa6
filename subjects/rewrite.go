package subjects

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

// A rewrite restores the behaviour of a version that is no longer available: at build time, one function of a module
// that the subject links gets the body of the function of the same name in a file of the subject's folder. The module
// cache does not change, and the subject contains no upstream text. The file names the package:
//
//	//go:build ignore
//
//	//leakrig:rewrite example.com/upstream/pkg/simulator
//	package simulator
//
//	// Close leaves the broadcaster running, as it did before v0.1.3.
//	func (s *Simulator) Close() { s.cancel() }
//
// The body can only use imports of the rewritten file.
type rewrite struct {
	pkg  string
	fset *token.FileSet
	src  []byte
	fn   *ast.FuncDecl
}

var rewriteDirective = regexp.MustCompile(`(?m)^//leakrig:rewrite (\S+)$`)

// readRewrite reads a rewrite file, which holds one function.
func readRewrite(file string) (*rewrite, error) {
	src, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := &rewrite{fset: token.NewFileSet(), src: src}
	name := filepath.Base(file)
	directive := rewriteDirective.FindSubmatch(src)
	if directive == nil {
		return nil, fmt.Errorf("%s: no line //leakrig:rewrite PACKAGE", name)
	}
	r.pkg = string(directive[1])
	parsed, err := parser.ParseFile(r.fset, name, src, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	if len(parsed.Decls) != 1 {
		return nil, fmt.Errorf("%s: holds %d declarations, not one function", name, len(parsed.Decls))
	}
	fn, ok := parsed.Decls[0].(*ast.FuncDecl)
	if !ok || fn.Body == nil {
		return nil, fmt.Errorf("%s: holds no function", name)
	}
	if fn.Doc.Text() == "" {
		return nil, fmt.Errorf("%s: the function has no comment that says what is re-enacted", name)
	}
	r.fn = fn
	return r, nil
}

// name is "(*Simulator).Close".
func (r *rewrite) name() string {
	if t := receiver(r.fn); t != "" {
		return "(" + t + ")." + r.fn.Name.Name
	}
	return r.fn.Name.Name
}

func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) != 1 {
		return ""
	}
	switch t := fn.Recv.List[0].Type.(type) {
	case *ast.Ident:
		return t.Name
	case *ast.StarExpr:
		if id, ok := t.X.(*ast.Ident); ok {
			return "*" + id.Name
		}
	}
	return "?" // of a kind that no rewrite has
}

func body(fset *token.FileSet, src []byte, fn *ast.FuncDecl) []byte {
	return src[fset.Position(fn.Body.Lbrace).Offset : fset.Position(fn.Body.Rbrace).Offset+1]
}

// in finds the function in a package's folder, and returns the file and its rewritten text. It does not
// move the lines below.
func (r *rewrite) in(dir string) (file string, text []byte, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return "", nil, err
	}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		src, err := os.ReadFile(f)
		if err != nil {
			return "", nil, err
		}
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, f, src, parser.ParseComments)
		if err != nil {
			return "", nil, err
		}
		for _, d := range parsed.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil || fn.Name.Name != r.fn.Name.Name || receiver(fn) != receiver(r.fn) {
				continue
			}
			if file != "" {
				return "", nil, fmt.Errorf("%s has %s twice, in %s and %s", r.pkg, r.name(), filepath.Base(file), filepath.Base(f))
			}
			file, text = f, r.replace(fset, src, parsed, fn)
		}
	}
	if file == "" {
		return "", nil, fmt.Errorf("%s has no %s", r.pkg, r.name())
	}
	return file, text, nil
}

// edit replaces the bytes from from to to.
type edit struct {
	from, to int
	text     []byte
}

// replace puts the new body in place of fn's. Imports that are no longer used become blank imports, for their side
// effects.
func (r *rewrite) replace(fset *token.FileSet, src []byte, file *ast.File, fn *ast.FuncDecl) []byte {
	old, now := body(fset, src, fn), body(r.fset, r.src, r.fn)
	if missing := bytes.Count(old, []byte("\n")) - bytes.Count(now, []byte("\n")); missing > 0 {
		now = append(bytes.Clone(now[:len(now)-1]), bytes.Repeat([]byte("\n"), missing)...)
		now = append(now, '}')
	}
	from := fset.Position(fn.Body.Lbrace).Offset
	edits := []edit{{from, from + len(old), now}}
	used := qualifiers(r.fn.Body)
	for _, d := range file.Decls {
		if d != fn {
			used = append(used, qualifiers(d)...)
		}
	}
	for _, name := range qualifiers(fn.Body) {
		if i := importOf(file, name); i != nil && !slices.Contains(used, name) {
			start := fset.Position(i.Pos()).Offset
			edits = append(edits, edit{start, fset.Position(i.Path.Pos()).Offset, []byte("_ ")})
			used = append(used, name)
		}
	}
	slices.SortFunc(edits, func(a, b edit) int { return cmp.Compare(b.from, a.from) })
	for _, e := range edits {
		src = slices.Concat(src[:e.from], e.text, src[e.to:])
	}
	return src
}

// qualifiers are the names before a dot, which may be those of imports.
func qualifiers(n ast.Node) []string {
	var names []string
	ast.Inspect(n, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := s.X.(*ast.Ident); ok {
				names = append(names, id.Name)
			}
		}
		return true
	})
	return names
}

var majorVersion = regexp.MustCompile(`/v\d+$`)

// importOf returns the import with that name in the file, judged by its path.
func importOf(file *ast.File, name string) *ast.ImportSpec {
	for _, i := range file.Imports {
		path := majorVersion.ReplaceAllString(strings.Trim(i.Path.Value, "`\""), "")
		if i.Name != nil && i.Name.Name == name || i.Name == nil && path[strings.LastIndexByte(path, '/')+1:] == name {
			return i
		}
	}
	return nil
}

// apply makes a copy of the module with the new body below dir, once, and a modfile that builds with it. The go
// command itself could put one file in place of another (-overlay), but no longer within the module cache.
func (r *rewrite) apply(ctx context.Context, dir string, recipe Recipe) (modfile string, done *leak.Rewrite, err error) {
	out, err := recipe.list(ctx, "-f", `{{.Dir}}{{"\n"}}{{with .Module}}{{.Dir}}{{"\n"}}{{.Path}} {{.Version}}{{end}}`, r.pkg)
	if err != nil {
		return "", nil, err
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 3 {
		return "", nil, fmt.Errorf("%s is in no module", r.pkg)
	}
	pkg, module, version := lines[0], lines[1], lines[2]
	file, text, err := r.in(pkg)
	if err != nil {
		return "", nil, err
	}
	inModule, err := filepath.Rel(module, file)
	if err != nil {
		return "", nil, err
	}
	mod, sum, err := recipe.modfiles()
	if err != nil {
		return "", nil, err
	}
	hash := sha256.New()
	for _, part := range [][]byte{[]byte(version), mod, sum, text} {
		fmt.Fprintf(hash, "%d\n%s", len(part), part)
	}
	dir = filepath.Join(dir, "rewritten-"+hex.EncodeToString(hash.Sum(nil)[:8]))
	modfile = filepath.Join(dir, "build.mod")
	done = &leak.Rewrite{
		Module: version, Package: r.pkg, Func: r.name(), Doc: strings.TrimSpace(r.fn.Doc.Text()), Body: string(body(r.fset, r.src, r.fn)),
	}
	if _, err := os.Stat(dir); err == nil {
		return modfile, done, nil
	}
	// It gets its name once it is whole, so that another leakrig never builds with half of it.
	making, err := os.MkdirTemp(filepath.Dir(dir), ".rewriting-*")
	if err != nil {
		return "", nil, err
	}
	defer os.RemoveAll(making)
	err = errors.Join(
		os.CopyFS(filepath.Join(making, "module"), os.DirFS(module)),
		rundir.WriteFile(filepath.Join(making, "module", inModule), text),
		rundir.WriteFile(filepath.Join(making, "build.mod"), mod),
		rundir.WriteFile(filepath.Join(making, "build.sum"), sum))
	if err != nil {
		return "", nil, err
	}
	replace := strings.Replace(version, " ", "@", 1) + "=" + filepath.Join(dir, "module")
	if _, err := recipe.golang(ctx, "mod", "edit", "-replace="+replace, filepath.Join(making, "build.mod")); err != nil {
		return "", nil, err
	}
	if err := os.Rename(making, dir); err != nil && !errors.Is(err, os.ErrExist) {
		return "", nil, err
	}
	return modfile, done, nil
}
