package reports

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/catalogue"
	"github.com/leakrig/leakrig/leak"
)

func TestExplain(t *testing.T) {
	t.Parallel()
	at := func(state, file string, functions ...string) leak.Stack {
		s := leak.Stack{State: state}
		for i, f := range functions {
			s.Frames = append(s.Frames, leak.Frame{Func: f, File: file, Line: 10 * (i + 1)})
		}
		return s
	}
	receive := "k8s.io/apimachinery/pkg/watch.(*StreamWatcher).receive"
	stacks := []catalogue.Amount{
		{Stack: at("chan send", "k8s.io/apimachinery@v0.18.8/pkg/watch/streamwatcher.go", receive), N: 412, OldestMinutes: 73},
		{Stack: at("select", "/src/client.go", "github.com/nats-io/nats.go.(*Conn).flusher"), N: 30},
		{Stack: at("chan receive", "gopkg.in/natefinch/lumberjack.v2@v2.2.1/lumberjack.go", "gopkg.in/natefinch/lumberjack.v2.(*Logger).millRun"), N: 3},
		{Stack: at("select", "/src/sql.go", "database/sql.(*DB).connectionOpener"), N: 1},
		{Stack: at("chan receive", "/home/me/shop/main.go", "main.work", "main.main"), N: 8, OldestMinutes: 1},
		{Stack: at("IO wait", "/x.go", "example.com/evil.\x1b[31mname\nleakrig: error"), N: 2},
		{Stack: at("sleep", "/home/me/shop/main.go", "main.tick"), N: 1},
	}
	growth := []catalogue.Amount{{Stack: at("", "/src/fs.go", "sync.(*Map).LoadOrStore", "github.com/valyala/fasthttp.getFileLock", "main.serve"), N: 200 << 10}}
	var b bytes.Buffer
	err := Explain(&b, []*catalogue.Explanation{
		catalogue.Explain(catalogue.Input{Title: "production.txt", Unit: "goroutines", Stacks: stacks}),
		catalogue.Explain(catalogue.Input{Title: "leaky", Unit: "bytes", Stacks: growth, Grew: true, Leaking: true}),
		catalogue.Explain(catalogue.Input{Title: "other.txt", Unit: "goroutines", Stacks: []catalogue.Amount{
			{Stack: at("select", "github.com/Shopify/sarama@v1.24.0/async_producer.go", "github.com/Shopify/sarama.(*brokerProducer).run"), N: 70},
		}}),
	}, 2)
	if err != nil {
		t.Fatal(err)
	}
	path := "testdata/explain.text"
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), want) {
		t.Errorf("differs from %s; look at it with go test -update && git diff", path)
	}
	if strings.Contains(b.String(), "\x1b") || strings.Contains(b.String(), "\nleakrig") {
		t.Error("foreign text starts a line or has an escape")
	}
}
