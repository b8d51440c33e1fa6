package load

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// A short template becomes no long text and takes no long time; each is refused by name, before anything is sent.
func TestAttackTemplate(t *testing.T) {
	aliases := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 'x-{{.Op}}'}\ndata:\n  a: &a " + strings.Repeat("x", 1<<20) + "\n"
	for i := range 300 {
		aliases += fmt.Sprintf("  a%d: *a\n", i)
	}
	inFlow := "{apiVersion: v1, kind: ConfigMap, metadata: {name: 'x-{{.Op}}'}, data: {a: &a " + strings.Repeat("x", 1<<20) + strings.Repeat(",b: [*a,*a]", 150) + "}}"
	post := func(body string, at int) *Post {
		p := postKind.New().(*Post)
		p.Path, p.Body, p.Times, p.Concurrency = "/x", body, at, at
		return p
	}
	churn := func(template string) *Churn {
		c := churnKind.New().(*Churn)
		c.Template = template
		return c
	}
	exec := execKind.New().(*Exec)
	exec.Command, exec.Selector, exec.Stdin, exec.Times, exec.Concurrency = []string{"cat"}, "a=b", strings.Repeat("x", 1<<20), 300, 300
	for name, c := range map[string]struct {
		action leak.Validator
		want   string
	}{
		"an object with 300 aliases of 1 MB":           {churn(aliases), "300 aliases, written out"},
		"the same in flow style":                       {churn(inFlow), "300 aliases, written out"},
		"an object of 4 MB":                            {churn("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 'x-{{.Op}}'}\ndata: {a: " + strings.Repeat("x", 4<<20) + "}"), "more than 3 MiB"},
		"300 numbers of 1 MB":                          {post(`{{printf "`+strings.Repeat("%1000000d", 300)+`"`+strings.Repeat(" .Op", 300)+`}}`, 1), "at most three digits"},
		"a width that is an argument":                  {post(`{{printf "%*d" 1000000 .Op}}`, 1), "at most three digits"},
		"a precision":                                  {post(`{{printf "%.1000000d" .Op}}`, 1), "at most three digits"},
		"an argument named again and again":            {post(`{{printf "%[1]d%[1]d" .Op}}`, 1), "at most three digits"},
		"a format made by another":                     {post(`{{printf (printf "%%%d000000d" 1) .Op}}`, 1), "a format as it stands"},
		"a text that doubles":                          {post(`{{$a := "x"}}`+strings.Repeat(`{{$a = printf "%s%s" $a $a}}`, 40)+`{{$a}}`, 1), "numbers"},
		"a format by pipe":                             {post(`{{"%1000000d" | printf}}`, 1), ""},
		"300 numbers of 1 KB, 300 times":               {post(strings.Repeat(`{{printf "`+strings.Repeat("%999d", 300)+`"`+strings.Repeat(" .Op", 300)+`}}`, 300), 1), "a format 1000 bytes"},
		"300 times a template of 1 MB":                 {post(`{{define "a"}}`+strings.Repeat("x", 1<<20)+`{{end}}`+strings.Repeat(`{{template "a"}}`, 300), 1), "templates within"},
		"a template of itself":                         {post(`{{define "a"}}{{template "a"}}{{template "a"}}{{end}}{{template "a"}}`, 1), "templates within"},
		"a block":                                      {post(`{{block "a" .}}x{{end}}`, 1), "templates within"},
		"a loop without an end":                        {post(`{{range 1000000000}}{{end}}`, 1), "not known here"},
		"a loop in a condition":                        {post(`{{if .Op}}{{else}}{{range 1000000000}}x{{end}}{{end}}`, 1), "not known here"},
		"escapes of escapes":                           {post(`{{js (js (js "\\\\"))}}`, 1), `function "js"`},
		"300 bodies of 1 MB at once":                   {post(strings.Repeat("x", 1<<20), 300), "300 at once of 1048576 bytes each"},
		"300 inputs of 1 MB at once":                   {exec, "300 at once of 1048576 bytes each"},
		"the maximum number of numbers in a text":      {post(strings.Repeat("{{.Op}}", 3<<20), 1), "more than 10000 numbers"},
		"(real) a number, formatted":                   {post(`{"n": {{printf "%05d" .Op}}, "x": "{{if eq .Op 1}}a{{else}}b{{end}}"}`, 10), ""},
		"(real) a body of 1 MB, 50 at once":            {post(strings.Repeat("x", 1<<20)+"{{.Op}}", 50), ""},
		"(real) an object with an alias and asterisks": {churn("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 'x-{{.Op}}'}\ndata: {a: &a x, b: *a, c: '* * *', d: '*.example'}"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			err := c.action.Validate()
			took := time.Since(start)
			runtime.ReadMemStats(&after)
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%.300v, want %q", err, c.want)
			}
			if strings.HasPrefix(name, "(real)") && err != nil {
				t.Error(err)
			}
			if err != nil && len(err.Error()) > 2000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 600 || took > 10*time.Second {
				t.Errorf("%d MiB were allocated in %s", used, took)
			}
		})
	}
	file := postKind.New().(*Post)
	file.Path, file.BodyFile, file.Times, file.Concurrency = "/x", "body", 300, 300
	if err := file.Prepare(fstest.MapFS{"body": {Data: []byte(strings.Repeat("x", 1<<20))}}); err == nil || leak.Hint(err) == "" {
		t.Errorf("300 bodies of a file at once: %v", err)
	}
}
