package holders

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
)

//go:embed heapdump/*.go
var endpointSource embed.FS

// Where Overlay changes the standard library.
const (
	pprofFile       = "net/http/pprof/pprof.go"
	endpointPackage = "net/http/pprof/leakrigheapdump"
)

// Overlay writes a file for go build -overlay to a folder below cache, and returns its path. With it, net/http/pprof
// answers a request for a profile that has heapdump.Parameter with a heap dump. So each program that serves pprof serves
// heap dumps, whichever mux, routes and authorization it has. The files of goroot and of the program do not change, and
// lines in stacks stay the same.
func Overlay(goroot, cache string) (file string, err error) {
	src := filepath.Join(goroot, "src")
	original, err := os.ReadFile(filepath.Join(src, pprofFile))
	if err != nil {
		return "", err
	}
	changed, err := serveHeapDump(original)
	if err != nil {
		return "", fmt.Errorf("%s: %w", pprofFile, err)
	}
	files := map[string][]byte{pprofFile: changed}
	err = fs.WalkDir(endpointSource, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files[endpointPackage+"/"+d.Name()], err = endpointSource.ReadFile(name)
		return err
	})
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "%s\n", goroot)
	hash.Write(changed)
	dir := filepath.Join(cache, "heapdump-"+hex.EncodeToString(hash.Sum(nil)[:6]))
	replace := map[string]string{}
	for name, text := range files {
		to := filepath.Join(dir, filepath.Base(filepath.Dir(name)), filepath.Base(name))
		replace[filepath.Join(src, name)] = to
		if err := writeOnce(to, text); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file = filepath.Join(dir, "overlay.json")
	return file, writeOnce(file, text)
}

// EndpointHash identifies what Overlay adds to a program.
func EndpointHash() string {
	hash := sha256.New()
	for _, name := range []string{"heapdump", "memfd_linux", "memfd_other"} {
		text, err := endpointSource.ReadFile("heapdump/" + name + ".go")
		if err != nil {
			panic(err) // it is embedded
		}
		hash.Write(text)
	}
	return hex.EncodeToString(hash.Sum(nil)[:6])
}

// serveHeapDump returns net/http/pprof with heap dumps. The method that is changed here serves every profile.
func serveHeapDump(source []byte) ([]byte, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, pprofFile, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Recv == nil || f.Name.Name != "ServeHTTP" || len(f.Type.Params.List) != 2 {
			continue
		}
		w, r := f.Type.Params.List[0].Names[0].Name, f.Type.Params.List[1].Names[0].Name
		call := fmt.Sprintf(" if %s.FormValue(heapdump.Parameter) != %q { heapdump.Handler().ServeHTTP(%s, %s); return };", r, "", w, r)
		imported := fmt.Sprintf("; import heapdump %q", endpointPackage)
		body, clause := fset.Position(f.Body.Lbrace).Offset+1, fset.Position(file.Name.End()).Offset
		return bytes.Join([][]byte{source[:clause], []byte(imported), source[clause:body], []byte(call), source[body:]}, nil), nil
	}
	return nil, errors.New("no method ServeHTTP")
}

// writeOnce writes a file unless it has this content. Builds in other processes may read it.
func writeOnce(path string, content []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, content) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	_, err = tmp.Write(content)
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		os.Remove(tmp.Name())
	}
	return err
}
