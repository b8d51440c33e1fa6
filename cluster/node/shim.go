package node

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leakrig/leakrig/cluster/journal"
	"github.com/leakrig/leakrig/leak"
)

// Shim is the containerd-shim-runc-v2 of a pod. It serves no pprof; on SIGUSR1 it writes its stacks into
// its log, which containerd copies into its own, which the journal keeps.
type Shim struct {
	node Node
	PID  int
	mu   sync.Mutex // one dump at a time
}

// shimTimeout bounds the way of one dump into the journal.
const shimTimeout = 15 * time.Second

// Shim finds the shim of a pod.
func (n Node) Shim(ctx context.Context, namespace, pod string) (*Shim, error) {
	out, err := n.Engine.Run(ctx, "exec", n.Name, "sh", "-c",
		`id=$(crictl pods --quiet --label "$1" --label "$2") && [ -n "$id" ] && pgrep -o -f "containerd-shim-runc-v2 .*-id $id"`, "sh",
		"io.kubernetes.pod.name="+pod, "io.kubernetes.pod.namespace="+namespace)
	if err != nil {
		return nil, fmt.Errorf("find the pod's shim: %w", err)
	}
	pid, err := strconv.Atoi(out)
	if err != nil {
		return nil, fmt.Errorf("find the pod's shim: pgrep says %q", out)
	}
	return &Shim{node: n, PID: pid}, nil
}

// Dump has the shim write its stacks and waits for them.
func (s *Shim) Dump(ctx context.Context) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, shimTimeout, fmt.Errorf("the shim's dump was not in the journal after %s", shimTimeout))
	defer cancel()
	out, err := s.node.Engine.Run(ctx, "exec", s.node.Name, "sh", "-c",
		`journalctl --unit=containerd --lines=0 --show-cursor && kill -USR1 "$1"`, "sh", strconv.Itoa(s.PID))
	if err != nil {
		return nil, fmt.Errorf("ask the shim for its stacks: %w", err)
	}
	_, cursor, ok := strings.Cut(out, "-- cursor: ")
	if !ok {
		return nil, errors.New("ask the shim for its stacks: the journal of containerd is empty")
	}
	for {
		log, err := s.node.Engine.Output(ctx, "exec", s.node.Name, "journalctl", "--unit=containerd", "--after-cursor="+cursor,
			"--output=json", "--all", "--output-fields=MESSAGE,_LINE_BREAK")
		if err == nil {
			if dump, complete := journal.ShimDump(log); complete {
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
