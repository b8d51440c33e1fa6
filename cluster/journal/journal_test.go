package journal

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// entries writes entries as journalctl -o json does.
func entries(messages ...any) []byte {
	var b strings.Builder
	for _, m := range messages {
		data, _ := json.Marshal(map[string]any{"MESSAGE": m, "__CURSOR": "s=1"})
		b.Write(data)
		b.WriteByte('\n')
	}
	return []byte(b.String())
}

const (
	head = `time="2026-11-20T17:42:32.123456789Z" level=info msg="=== BEGIN goroutine stack dump ===\n`
	tail = `\n=== END goroutine stack dump ===" namespace=k8s.io`
	one  = `goroutine 1 [select]:\nmain.main()\n\t/src/main.go:12 +0x45`
	two  = `goroutine 7 [IO wait]:\nnet.(*conn).Read(0xc000, {0x1, \"x\"})\n\t/net/net.go:180 +0x1`
	own  = `time="2026-11-20T17:42:32.200000000Z" level=info msg="StopPodSandbox for \"abc\""`
)

func TestShimDump(t *testing.T) {
	want := "\ngoroutine 1 [select]:\nmain.main()\n\t/src/main.go:12 +0x45\n\n" +
		"goroutine 7 [IO wait]:\nnet.(*conn).Read(0xc000, {0x1, \"x\"})\n\t/net/net.go:180 +0x1\n"
	bytesOf := func(s string) []int {
		var list []int
		for _, b := range []byte(s) {
			list = append(list, int(b))
		}
		return list
	}
	for _, c := range []struct {
		name     string
		journal  []byte
		want     string
		complete bool
	}{
		{"one entry", entries(head + one + `\n\n` + two + tail), want, true},
		{"cut by the journal", entries(head+one[:20], one[20:]+`\n\n`, two+tail), want, true},
		{"containerd's own line in between", entries(own, head+one, own, `\n\n`+two+tail, own), want, true},
		{"containerd's own line in the middle of a piece", entries(head+one+own, `\n\n`+two+tail), want, true},
		{"bytes of invalid text", entries(bytesOf(head+one), `\n\n`+two+tail), want, true},
		{"an older dump before it", entries(head+two+tail, head+one+`\n\n`+two+tail), want, true},
		{"not there to its end", entries(head + one), "", false},
		{"started again, incomplete", entries(head+two+tail, head+one), "", false},
		{"cut off in the middle of an entry", []byte(strings.TrimSuffix(string(entries(head+one+tail)), "\"}\n")), "", false},
		{"no dump", entries(own), "", false},
		{"nothing", nil, "", false},
		{"garbage", []byte("{\n]]\nnull\n"), "", false},
	} {
		got, complete := ShimDump(c.journal)
		if string(got) != c.want || complete != c.complete {
			t.Errorf("%s: %v\n%q\nwant\n%q", c.name, complete, got, c.want)
		}
	}
}

func FuzzShimDump(f *testing.F) {
	f.Add(entries(head + one + tail))
	f.Add(entries(head, own, tail))
	f.Add([]byte(`{"MESSAGE":[1,2,300]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		dump, complete := ShimDump(data)
		if !complete && dump != nil {
			t.Errorf("%d bytes of a dump that is not whole", len(dump))
		}
		if len(dump) > 4*len(data)+64 {
			t.Error(fmt.Sprint("more came out than went in: ", len(dump)))
		}
	})
}
