package leak

import "testing"

// One function under the names that versions and decisions of the compiler give it.
func TestStableNames(t *testing.T) {
	const trimmed = "k8s.io/apimachinery@v0.18.8/pkg/watch/w.go"
	for _, c := range []struct{ fn, file, want string }{
		{"k8s.io/apimachinery/pkg/watch.(*StreamWatcher).receive", trimmed, "k8s.io/apimachinery/pkg/watch.(*StreamWatcher).receive"},
		// closures, whose numbers change when code adds one before them
		{"main.run.func1", "", "run.func"},
		{"main.run.func3.2", "", "run.func"},
		{"main.run.func1.2.3", "", "run.func"},
		{"main.(*T).run.func1", "", "(*T).run.func"},
		{"main.glob..func1", "", ".func"},
		{"main.init.0.func1", "", "init.func"},
		// of a function that was inlined, in the same package and in another one
		{"main.newQueue.func1", "/src/app/main.go", "newQueue.func"},
		{"main.main.newQueue.func1", "/src/app/main.go", "newQueue.func"},
		{"k8s.io/apimachinery/pkg/watch.New.func1", trimmed, "New.func"},
		{"main.main.New.func1", trimmed, "New.func"},
		{"main.main.(*T).New.func1", trimmed, "(*T).New.func"},
		// a closure in a closure into which another was inlined
		{"main.main.func1.newQueue.func2", "", "newQueue.func"},
		// loops over functions, and method values
		{"main.main-range1", "", "main.main"},
		{"main.main-range2.func1", "", "main.func"},
		{"main.(*T).Close-fm", "", "main.(*T).Close"},
		// wrappers of go and defer statements, and the runtime's first frames, are nothing
		{"main.main.gowrap1", "", ""},
		{"main.main.func1.deferwrap2", "", ""},
		{"runtime.goexit", "", ""},
		{"runtime.main", "", ""},
		// type arguments, elided or not
		{"a.org/c.Map[...].Do", "", "a.org/c.Map.Do"},
		{"a.org/c.Map[go.shape.string].Do.func1", "", "Do.func"},
		// names that only look made up
		{"main.func1", "", "main.func1"},
		{"main.functional", "", "main.functional"},
		{"main.run.function2", "", "main.run.function2"},
		{"main.(*T).v2", "", "main.(*T).v2"},
		{"gopkg.in/yaml.v3.(*parser).parse.func1", "gopkg.in/yaml.v3@v3.0.1/decode.go", "(*parser).parse.func"},
		{"pthread_cond_wait", "", "pthread_cond_wait"},
		{"", "", ""},
	} {
		if got := (Frame{Func: c.fn, File: c.file}).Stable(); got != c.want {
			t.Errorf("%s in %q: %q, want %q", c.fn, c.file, got, c.want)
		}
	}
}

func TestStackKey(t *testing.T) {
	one := Stack{State: "select", Frames: []Frame{{Func: "a.F.func1", Line: 3}, {Func: "a.G[...]"}, {Func: "a.G.gowrap1"}}, Creator: &Frame{Func: "a.H-range1"}}
	other := Stack{State: "select", Frames: []Frame{{Func: "a.F.func2.1", Line: 9}, {Func: "a.G[int]"}}, Creator: &Frame{Func: "a.H"}}
	if one.Key() != other.Key() {
		t.Errorf("%q and %q", one.Key(), other.Key())
	}
	for name, change := range map[string]func(*Stack){
		"another state":   func(s *Stack) { s.State = "chan send" },
		"another frame":   func(s *Stack) { s.Frames = append([]Frame{{Func: "a.E"}}, s.Frames...) },
		"no creator":      func(s *Stack) { s.Creator = nil },
		"another creator": func(s *Stack) { s.Creator = &Frame{Func: "a.I"} },
		// what creates is not what is called
		"a frame for the creator": func(s *Stack) { s.Frames, s.Creator = append(s.Frames, *s.Creator), nil },
	} {
		changed := other
		if change(&changed); changed.Key() == one.Key() {
			t.Errorf("%s: the key stays", name)
		}
	}
}
