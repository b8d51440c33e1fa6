package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	kind "sigs.k8s.io/kind/pkg/cluster"
	kindcmd "sigs.k8s.io/kind/pkg/cmd"
	kindexec "sigs.k8s.io/kind/pkg/exec"

	"github.com/leakrig/leakrig/cluster/engine"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/group"
)

// kind's library has no context and continues to create a cluster after its caller has given up. So it runs in a
// child process of the same binary, in a separate process group that can be killed.

// childVariable marks the child.
const childVariable = "LEAKRIG_KIND_CHILD"

type childRequest struct {
	// Operation is create or logs.
	Operation  string
	Engine     engine.Engine
	Name       string
	Image      string
	Kubeconfig string
	Config     *v1alpha4.Cluster
	Wait       time.Duration
	Logs       string
}

// Child performs what a parent asked for and ends the process, where this process is such a child. Main
// calls it first.
func Child() {
	becomeGuarded()
	if os.Getenv(childVariable) == "" {
		return
	}
	var r childRequest
	if err := json.NewDecoder(os.Stdin).Decode(&r); err != nil {
		fmt.Fprintln(os.Stderr, "kind child:", err)
		os.Exit(2)
	}
	if err := r.perform(); err != nil {
		fmt.Fprintln(os.Stderr, errorPrefix+strings.ReplaceAll(err.Error()+commandOutput(err), "\n", " "))
		os.Exit(1)
	}
	os.Exit(0)
}

// commandOutput returns the output of the failed command, which kind's errors omit.
func commandOutput(err error) string {
	failed := kindexec.RunErrorForError(err)
	if failed == nil {
		return ""
	}
	var why string
	for line := range strings.Lines(string(failed.Output)) {
		line = strings.TrimSpace(line)
		if line != "" && (strings.Contains(strings.ToLower(line), "error") || !strings.Contains(strings.ToLower(why), "error")) {
			why = line
		}
	}
	if why == "" {
		return ""
	}
	return ": " + strings.ToValidUTF8(why[:min(len(why), maxSaid)], "")
}

// maxSaid bounds what a command is quoted with, in bytes.
const maxSaid = 1000

const errorPrefix = "ERROR "

func (r childRequest) perform() error {
	p := kindProvider(r.Engine, kind.ProviderWithLogger(kindcmd.NewLogger()))
	if r.Operation == "logs" {
		return p.CollectLogs(r.Name, r.Logs)
	}
	return p.Create(r.Name,
		kind.CreateWithNodeImage(r.Image),
		kind.CreateWithV1Alpha4Config(r.Config),
		kind.CreateWithWaitForReady(r.Wait),
		kind.CreateWithKubeconfigPath(r.Kubeconfig),
		kind.CreateWithRetain(true), // the parent collects logs, then deletes
		kind.CreateWithDisplayUsage(false),
		kind.CreateWithDisplaySalutation(false))
}

// runChild runs a request in a child, which ends with ctx. What kind says becomes progress.
func runChild(ctx context.Context, r childRequest, progress leak.Progress) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	request, err := json.Marshal(r)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), childVariable+"=1")
	cmd.Stdin = strings.NewReader(string(request))
	cmd.SysProcAttr = group.Own()
	cmd.Cancel = func() error { group.Kill(cmd.Process.Pid); return nil }
	cmd.WaitDelay = 5 * time.Second
	out, in := io.Pipe()
	cmd.Stdout, cmd.Stderr = in, in
	said := make(chan []string, 1)
	go func() { said <- listen(out, progress) }()
	// The kernel kills the child with the thread that started it (see childGroup).
	runtime.LockOSThread()
	err = cmd.Run()
	runtime.UnlockOSThread()
	if err != nil && cmd.Process != nil {
		group.Kill(cmd.Process.Pid) // commands that make other nodes
	}
	in.Close()
	lines := <-said
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, strings.Join(lines[max(0, len(lines)-3):], "\n"))
	}
	return nil
}

// listen passes lines on as progress and returns them, or the error among them alone.
func listen(r io.Reader, progress leak.Progress) []string {
	var all []string
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		text := strings.TrimSpace(lines.Text())
		if message, ok := strings.CutPrefix(text, errorPrefix); ok {
			all = []string{message}
			break
		}
		if text != "" {
			all = append(all, text)
			if progress != nil {
				progress.Status("kind: %s", text)
			}
		}
	}
	_, _ = io.Copy(io.Discard, r) // what is too long for a line must not block the child
	return all
}
