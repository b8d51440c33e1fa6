package main

import (
	"reflect"
	"slices"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leakrig/leakrig/session"
)

// TestRunArgv checks that the arguments which options render are those that they came from, with every flag of
// `leakrig run` that is about one scenario.
func TestRunArgv(t *testing.T) {
	parse := func(args []string) *session.Options {
		t.Helper()
		f := &session.Options{}
		c := &cobra.Command{Use: "run"}
		addRunFlags(c, f)
		if err := c.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		return f
	}
	if got := parse(nil).Argv("x"); !slices.Equal(got, []string{"run", "x"}) {
		t.Errorf("defaults are rendered: %q", got)
	}
	words := map[string]string{
		"cluster": "kind", "placement": "pod", "exit-code": session.ExitBisect, "format": "json",
		"bool": "true", "int": "3", "duration": "1m30s", "string": "a b", "stringSlice": "m@v1.2.3", "stringArray": "name=a,b",
	}
	var all []string
	c := &cobra.Command{Use: "run"}
	addRunFlags(c, &session.Options{})
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if slices.Contains([]string{"all", "skip", "prune", "budget", "help"}, f.Name) {
			return
		}
		value, ok := words[f.Name]
		if !ok {
			value, ok = words[f.Value.Type()]
		}
		if !ok {
			t.Errorf("--%s: a flag of type %s", f.Name, f.Value.Type())
		}
		one := []string{"--" + f.Name + "=" + value}
		if got := parse(parse(one).Argv("x")[2:]); !reflect.DeepEqual(got, parse(one)) {
			t.Errorf("%s renders as %q", one, parse(one).Argv("x"))
		}
		if len(parse(one).Argv("x")) == 2 {
			t.Errorf("%s is not rendered", one)
		}
		all = append(all, one...)
	})
	want := parse(append(all, "--variant=second", "--with=n@v1.0.0", "--set=other=1"))
	if got := parse(want.Argv("x")[2:]); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
