package load

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
)

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 'c-{{.Op}}'}\n"

func churn(change func(*Churn)) *Churn {
	c := churnKind.New().(*Churn)
	c.Template = configMap
	change(c)
	return c
}

func watchAction(change func(*Watch)) *Watch {
	w := watchKind.New().(*Watch)
	change(w)
	return w
}

func TestChurnValidate(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Churn)
		want   string
	}{
		{"the defaults, and a template", func(*Churn) {}, ""},
		{"everything at once", func(c *Churn) { *c = Churn{Lifetime: -1} }, "template times concurrency timeout lifetime"},
		{"a template in JSON", func(c *Churn) { c.Template = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c-{{.Op}}"}}` }, ""},
		{"a misspelt field", func(c *Churn) { c.Template = "metadata: {name: '{{.op}}'}" }, "template"},
		{"no YAML", func(c *Churn) { c.Template = "metadata: {{.Op}" }, "template"},
		{"a list", func(c *Churn) { c.Template = "- {{.Op}}" }, "template"},
		{"a name that is a number", func(c *Churn) { c.Template = "{apiVersion: v1, kind: ConfigMap, metadata: {name: {{.Op}}}}" }, "template"},
		{"no kind", func(c *Churn) { c.Template = "{apiVersion: v1, metadata: {name: 'c-{{.Op}}'}}" }, "template"},
		{"no name", func(c *Churn) { c.Template = "{apiVersion: v1, kind: ConfigMap, metadata: {generateName: c-}}" }, "template"},
		{"one name for all", func(c *Churn) { c.Template = "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}" }, "template"},
		{"a kind for each", func(c *Churn) { c.Template = "{apiVersion: v1, kind: 'K{{.Op}}', metadata: {name: 'c-{{.Op}}'}}" }, "template"},
		{"a namespace", func(c *Churn) {
			c.Template = "{apiVersion: v1, kind: ConfigMap, metadata: {name: 'c-{{.Op}}', namespace: kube-system}}"
		}, "template"},
		{"two objects", func(c *Churn) { c.Template = configMap + "---\n" + configMap }, "template"},
		{"a life as long as the deadline", func(c *Churn) { c.Lifetime = c.Timeout }, "lifetime"},
	} {
		problemFields(t, c.name, churn(c.change).Validate(), c.want)
	}
}

func TestWatchValidate(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Watch)
		want   string
	}{
		{"the defaults", func(*Watch) {}, ""},
		{"a template", func(w *Watch) { w.Template = configMap }, ""},
		{"everything at once", func(w *Watch) { *w = Watch{Template: "{{"} }, "template end times concurrency timeout"},
		{"the maximum that may be open", func(w *Watch) { w.End, w.Times = endAbandon, maxConcurrency }, ""},
		{"more", func(w *Watch) { w.End, w.Times = endAbandon, maxConcurrency+1 }, "times"},
		{"more, one after the other", func(w *Watch) { w.Times = maxConcurrency + 1 }, ""},
	} {
		problemFields(t, c.name, watchAction(c.change).Validate(), c.want)
	}
}

// An API server that accepts connections and never answers holds no action beyond its context.
func TestDeafAPIServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	target := leak.Target{Kubeconfig: writeKubeconfig(t, "http://"+l.Addr().String(), nil), Selector: "app=subject"}
	for name, action := range map[string]leak.Action{
		"churn": churn(func(*Churn) {}), "watch": watchAction(func(*Watch) {}), "exec": execAction(func(*Exec) {}),
		"command": command(func(c *Command) { c.Shell = "true" }),
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		start := time.Now()
		if _, err := action.Run(ctx, target, 1); err == nil || time.Since(start) > 10*time.Second {
			t.Errorf("%s: %v after %s", name, err, time.Since(start))
		}
		cancel()
	}
	nothingLeft(t, true)
}
