package leak

import "testing"

func TestFrameNames(t *testing.T) {
	for _, c := range []struct{ fn, file, short, pkg string }{
		// a function of the program
		{"main.main", "main.go", "main.main", "main"},
		// of the standard library, one element
		{"time.Sleep", "runtime/time.go", "time.Sleep", "time"},
		// a method of a pointer, with a path
		{
			"k8s.io/apimachinery/pkg/watch.(*StreamWatcher).receive", "k8s.io/apimachinery@v0.18.8/pkg/watch/streamwatcher.go",
			"watch.(*StreamWatcher).receive", "k8s.io/apimachinery/pkg/watch",
		},
		// a closure in a closure
		{"net/http.(*Server).Serve.func1.2", "net/http/server.go", "http.(*Server).Serve.func1.2", "net/http"},
		// generic arguments, elided by the runtime
		{"a.org/b/c.Map[...].Do", "", "c.Map[...].Do", "a.org/b/c"},
		// type arguments in full, with slashes and dots
		{"a.org/b/c.Map[a.org/x/y.T,int].Do", "", "c.Map[a.org/x/y.T,int].Do", "a.org/b/c"},
		// a major version in the path
		{"github.com/minio/minio-go/v7.New", "", "v7.New", "github.com/minio/minio-go/v7"},
		// dots in the last element of the path, in the module cache, vendored and trimmed
		{"gopkg.in/yaml.v3.(*parser).parse", "/home/me/go/pkg/mod/gopkg.in/yaml.v3@v3.0.1/decode.go", "yaml.v3.(*parser).parse", "gopkg.in/yaml.v3"},
		{"github.com/nats-io/nats.go.(*Conn).Flush", "/src/vendor/github.com/nats-io/nats.go/nats.go", "nats.go.(*Conn).Flush", "github.com/nats-io/nats.go"},
		{"github.com/nats-io/nats.go.Connect", "github.com/nats-io/nats.go@v1.40.0/nats.go", "nats.go.Connect", "github.com/nats-io/nats.go"},
		// without its file it can only be guessed
		{"gopkg.in/yaml.v3.(*parser).parse", "", "yaml.v3.(*parser).parse", "gopkg.in/yaml"},
		// a folder that is not called as the package is
		{"example.com/tool/cmd.Run", "/home/me/checkout/run.go", "cmd.Run", "example.com/tool/cmd"},
		// C
		{"pthread_cond_wait", "", "pthread_cond_wait", "pthread_cond_wait"},
		{"", "", "", ""},
	} {
		f := Frame{Func: c.fn, File: c.file}
		if f.Short() != c.short || f.Package() != c.pkg {
			t.Errorf("%s in %q: short %q, package %q; want %q, %q", c.fn, c.file, f.Short(), f.Package(), c.short, c.pkg)
		}
	}
}

// The ID is written in records: were it to change, old records could not be compared with new ones.
func TestStackID(t *testing.T) {
	receive := func() Stack {
		return Stack{
			State:   "chan send",
			Frames:  []Frame{{Func: "watch.receive", File: "w.go", Line: 76}, {Func: "main.run", Line: 5}},
			Creator: &Frame{Func: "watch.New", Line: 40},
		}
	}
	base := receive()
	if got := base.ID(); got != "69a053c50728683b" {
		t.Errorf("the ID is now %s", got)
	}
	for _, c := range []struct {
		name   string
		change func(*Stack)
		same   bool
	}{
		{"another state", func(s *Stack) { s.State = "chan receive" }, false},
		{"no state", func(s *Stack) { s.State = "" }, false},
		{"another innermost function", func(s *Stack) { s.Frames[0].Func = "watch.send" }, false},
		{"another caller", func(s *Stack) { s.Frames[1].Func = "main.walk" }, false},
		{"one caller less", func(s *Stack) { s.Frames = s.Frames[:1] }, false},
		{"another line of the innermost frame", func(s *Stack) { s.Frames[0].Line = 77 }, false},
		{"another creator", func(s *Stack) { s.Creator.Func = "watch.Make" }, false},
		{"no creator", func(s *Stack) { s.Creator = nil }, false},
		{"a creator that is a caller", func(s *Stack) { s.Frames, s.Creator = append(s.Frames, *s.Creator), nil }, false},
		{"another call site", func(s *Stack) { s.Frames[1].Line = 6 }, true},
		{"another line of the creator", func(s *Stack) { s.Creator.Line = 41 }, true},
		{"built on another machine", func(s *Stack) { s.Frames[0].File = "/home/me/w.go" }, true},
	} {
		s := receive()
		c.change(&s)
		if (s.ID() == base.ID()) != c.same {
			t.Errorf("%s: same ID is %v", c.name, !c.same)
		}
	}
}

func TestStackString(t *testing.T) {
	for _, c := range []struct {
		s    Stack
		want string
	}{
		{Stack{State: "chan send", Frames: []Frame{{Func: "k8s.io/x/watch.receive"}}}, "chan send at watch.receive"},
		{Stack{Frames: []Frame{{Func: "main.grow"}}}, "main.grow"}, // the heap has no states
		{Stack{State: "syscall"}, "syscall at an unknown place"},   // no frames
		{Stack{}, "an unknown place"},
	} {
		if got := c.s.String(); got != c.want {
			t.Errorf("%+v is %q, want %q", c.s, got, c.want)
		}
	}
	if got := (Frame{Func: "f", File: "a.go", Line: 3}).Position(); got != "a.go:3" {
		t.Errorf("position %q", got)
	}
	if got := (Frame{Func: "f"}).Position(); got != "" {
		t.Errorf("position without a file %q", got)
	}
}
