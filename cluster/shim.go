package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// shim is the containerd-shim-runc-v2 of a pod. It serves no pprof; on SIGUSR1 it writes its stacks into
// its log, which containerd copies into its own, which the journal keeps.
type shim struct {
	engine engine
	node   string
	pid    int
	mu     sync.Mutex // one dump at a time
}

// shimTimeout bounds the way of one dump into the journal, maxJournal what is read of it.
const (
	shimTimeout = 15 * time.Second
	maxJournal  = 64 << 20
)

func (c *kindCluster) shim(ctx context.Context, node string, p *pod) (*shim, error) {
	out, err := c.engine.run(ctx, "exec", node, "sh", "-c",
		`id=$(crictl pods --quiet --label "$1" --label "$2") && [ -n "$id" ] && pgrep -o -f "containerd-shim-runc-v2 .*-id $id"`, "sh",
		"io.kubernetes.pod.name="+p.name, "io.kubernetes.pod.namespace="+p.namespace)
	if err != nil {
		return nil, fmt.Errorf("find the pod's shim: %w", err)
	}
	pid, err := strconv.Atoi(out)
	if err != nil {
		return nil, fmt.Errorf("find the pod's shim: pgrep says %q", out)
	}
	return &shim{engine: c.engine, node: node, pid: pid}, nil
}

// dump has the shim write its stacks and waits for them.
func (s *shim) dump(ctx context.Context) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, shimTimeout, fmt.Errorf("the shim's dump was not in the journal after %s", shimTimeout))
	defer cancel()
	out, err := s.engine.run(ctx, "exec", s.node, "sh", "-c",
		`journalctl --unit=containerd --lines=0 --show-cursor && kill -USR1 "$1"`, "sh", strconv.Itoa(s.pid))
	if err != nil {
		return nil, fmt.Errorf("ask the shim for its stacks: %w", err)
	}
	_, cursor, ok := strings.Cut(out, "-- cursor: ")
	if !ok {
		return nil, errors.New("ask the shim for its stacks: the journal of containerd is empty")
	}
	for {
		journal, err := s.engine.output(ctx, "exec", s.node, "journalctl", "--unit=containerd", "--after-cursor="+cursor,
			"--output=json", "--all", "--output-fields=MESSAGE,_LINE_BREAK")
		if err == nil {
			if dump, complete := shimDump(journal); complete {
				return dump, nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, leak.WithHint(errors.Join(context.Cause(ctx), err), "is the shim still there, and does containerd still write its log? --keep leaves the cluster for a look")
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// The shim's words around a dump.
const (
	dumpBegins = "=== BEGIN goroutine stack dump ==="
	dumpEnds   = "=== END goroutine stack dump ==="
)

// foreign is a line of containerd's own log. containerd copies the shim's log in pieces, so its own lines
// may stand in the middle of a dump.
var foreign = regexp.MustCompile(`time="[^"]{19,40}" level=[a-z]+ msg=.*$`)

// unescape undoes what logrus does to a text in quotes.
var unescape = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\t`, "\t", `\"`, `"`)

// shimDump takes the last dump out of the journal (journalctl -o json), and tells whether it is there to
// its end. The journal cuts long lines; containerd's own lines between the pieces are left out.
func shimDump(journal []byte) (dump []byte, complete bool) {
	if len(journal) > maxJournal {
		journal = journal[:maxJournal]
	}
	var text strings.Builder
	inside := false
	for line := range bytes.Lines(journal) {
		var entry struct {
			Message json.RawMessage `json:"MESSAGE"`
		}
		if json.Unmarshal(line, &entry) != nil {
			continue // cut off while it was written
		}
		message := journalText(entry.Message)
		if i := strings.Index(message, dumpBegins); i >= 0 {
			text.Reset()
			inside, complete = true, false
			message = message[i+len(dumpBegins):]
		}
		if !inside {
			continue
		}
		before, _, ended := strings.Cut(message, dumpEnds)
		if !ended {
			before = foreign.ReplaceAllString(before, "")
		}
		text.WriteString(before)
		if ended {
			inside, complete = false, true
		}
	}
	if !complete {
		return nil, false
	}
	return []byte(unescape.Replace(text.String())), true
}

// journalText reads a field of the journal's JSON: a string, or an array of bytes where it is no UTF-8.
func journalText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var numbers []int
	if json.Unmarshal(raw, &numbers) != nil {
		return ""
	}
	b := make([]byte, len(numbers))
	for i, n := range numbers {
		b[i] = byte(n)
	}
	return string(b)
}
