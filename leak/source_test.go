package leak

import "testing"

func TestOrigin(t *testing.T) {
	info := SubjectInfo{GoVersion: "go1.26.8", Modules: []Module{
		{Path: "k8s.io/api", Version: "v0.18.8"},
		{Path: "example.com/a", Version: "v1.0.0", Replace: "example.com/fork v1.2.3"},
		{Path: "example.com/b", Version: "v1.0.0", Replace: "./b"},
	}}
	for _, c := range []struct{ about, file, want string }{
		{"a module", "k8s.io/api@v0.18.8/core/v1/types.go", "k8s.io/api v0.18.8 core/v1/types.go"},
		{"a replaced module", "example.com/a@v1.0.0/a.go", "example.com/fork v1.2.3 a.go"},
		{"another version than the replaced one", "example.com/a@v1.0.1/a.go", "example.com/a v1.0.1 a.go"},
		{"a local folder", "example.com/b@v1.0.0/b.go", ""},
		{"the standard library", "net/http/server.go", "std go1.26.8 net/http/server.go"},
		{"the program itself", "example.com/cmd/main.go", ""},
		{"without -trimpath", "/home/me/go/pkg/mod/k8s.io/api@v0.18.8/core/v1/types.go", ""},
		{"assembly without a folder", "asm.s", ""},
		{"upwards", "../../etc@v1/passwd", ""},
		{"upwards within", "a.b/../../../etc@v1/passwd", ""},
		{"no file", "k8s.io/api@v0.18.8", ""},
		{"nothing", "", ""},
	} {
		module, version, file, ok := info.Origin(Frame{File: c.file})
		got := module + " " + version + " " + file
		if !ok {
			got = ""
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.about, got, c.want)
		}
	}
	if _, _, _, ok := (SubjectInfo{}).Origin(Frame{File: "net/http/server.go"}); ok {
		t.Error("the standard library of an unknown Go")
	}
}

func TestOwn(t *testing.T) {
	info := SubjectInfo{GoVersion: "go1.26.8", Main: "example.com/app", Modules: []Module{{Path: "example.com/app/lib", Version: "v0.0.0", Replace: "../lib"}}}
	for file, want := range map[string]string{
		"example.com/app/main.go": "main.go", "example.com/app/sub/a.go": "sub/a.go",
		"example.com/app/../app/main.go": "main.go", "example.com/app/../../etc/passwd.go": "",
		"example.com/application/main.go": "", "example.com/app/lib/a.go": "", "example.com/app@v1.0.0/main.go": "", "/example.com/app/main.go": "",
		"net/http/server.go": "", "": "",
	} {
		f := Frame{File: file, Line: 7}
		got, ok := info.Own(f)
		if got != want || ok != (want != "") {
			t.Errorf("%s: %q, %t", file, got, ok)
		}
		if position := info.Position(f); want != "" && (position != want+":7" || info.SourceKey(f) != "./"+want+":7") || want == "" && position != f.Position() {
			t.Errorf("%s: %s, %s", file, position, info.SourceKey(f))
		}
	}
	if _, ok := (SubjectInfo{}).Own(Frame{File: "/main.go"}); ok {
		t.Error("a file of no module")
	}
}
