package subjects

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/procs"
)

// markVariable is in the environment of every process of a subject. It identifies the leakrig process that started it,
// and the subject. Children inherit it, also those that leave the process group, the session and their parent.
const markVariable = "LEAKRIG_SUBJECT"

// newMark is the variable with its value, "PID-START-RANDOM" of leakrig.
func newMark() string {
	rig, _ := procs.Find(os.Getpid())
	random := make([]byte, 8)
	_, _ = rand.Read(random) // never fails
	return fmt.Sprintf("%s=%d-%d-%s", markVariable, os.Getpid(), rig.Start, hex.EncodeToString(random))
}

// SweepProcesses ends processes that subjects of ended leakrig processes left running, and describes them.
func SweepProcesses() []string {
	var ended []string
	for _, p := range procs.Marked(markVariable) {
		fields := strings.Split(p.Env(markVariable), "-")
		if len(fields) != 3 {
			continue
		}
		pid, err1 := strconv.Atoi(fields[0])
		start, err2 := strconv.ParseUint(fields[1], 10, 64)
		if err1 != nil || err2 != nil || (procs.Process{PID: pid, Start: start}).Alive() || !sameMachine(p) {
			continue
		}
		if what := p.String(); p.Kill() == nil {
			ended = append(ended, what+" of a subject")
		}
	}
	return ended
}

// sameMachine reports whether the process uses the same PID namespace: in a container, leakrig has another PID than
// outside.
func sameMachine(p procs.Process) bool {
	theirs, err1 := os.Readlink(filepath.Join(p.Dir(), "ns/pid"))
	ours, err2 := os.Readlink("/proc/self/ns/pid")
	return err1 == nil && err2 == nil && theirs == ours
}

// findListener finds the process of the subject that listens at its address. If another process listens there, it
// returns an error: leakrig would measure that one.
func (r *running) findListener() error {
	if r.root == (procs.Process{}) {
		return nil // no /proc here
	}
	holders, err := procs.Listeners(r.address)
	tree := procs.Tree(r.root, r.mark)
	i := slices.IndexFunc(holders, func(p procs.Process) bool { return slices.Contains(tree, p) })
	foreign := slices.IndexFunc(holders, func(p procs.Process) bool { return !slices.Contains(tree, p) })
	const hint = "end what listens there, or leave subject.port out for a free one; a program that something else starts (docker, systemd) is observed by subject.url"
	switch {
	case err != nil:
		return leak.WithHint(fmt.Errorf("subject %s: listener on %s: %w", r.process.Variant, r.address, err),
			"is it another user's process? run leakrig as a user who may see it, or name the program by subject.url")
	case i < 0 && len(holders) == 0:
		return leak.WithHint(fmt.Errorf("subject %s: something answers on %s, and no process here listens there", r.process.Variant, r.address), hint)
	case i < 0 || foreign >= 0:
		return leak.WithHint(fmt.Errorf("subject %s: %s listens on %s, which the subject did not start: it would be measured in its place", r.process.Variant, holders[max(foreign, 0)], r.address), hint)
	}
	r.listener = holders[i]
	r.serving = watch(r.listener, func() ([]procs.Process, error) { return procs.Listeners(r.address) })
	return nil
}

// watch returns a function that names the process that listens. It looks for the process only if the previous one has
// closed its sockets.
func watch(before procs.Process, listeners func() ([]procs.Process, error)) func(context.Context) (string, error) {
	sockets := before.Listening()
	return func(context.Context) (string, error) {
		if len(sockets) > 0 && before.Holds(sockets) {
			return nameOf(before), nil
		}
		return nameListener(listeners())(before)
	}
}

// nameListener names the process that listens. It prefers the previous one.
func nameListener(holders []procs.Process, err error) func(before procs.Process) (string, error) {
	return func(before procs.Process) (string, error) {
		switch {
		case slices.Contains(holders, before):
			return nameOf(before), nil
		case err != nil && before.Alive():
			return nameOf(before), nil // who may not be seen for a moment is not another one
		case len(holders) == 0:
			return "", nil
		}
		return nameOf(holders[0]), nil
	}
}

func nameOf(p procs.Process) string {
	return fmt.Sprintf("process %d, started at tick %d", p.PID, p.Start)
}

// procOf returns the folder of a process below /proc, nil if the process is unknown.
func procOf(p procs.Process) fs.FS {
	if p == (procs.Process{}) {
		return nil
	}
	return os.DirFS(p.Dir())
}

// follow makes a process what probes read and rounds identify.
func (r *remote) follow(address string, p procs.Process) {
	r.target.Proc = procOf(p)
	u, err := url.Parse(address)
	if err != nil {
		return
	}
	r.target.Process = watch(p, listenersAt(u))
}

// listenersAt asks who listens at a URL of this machine.
func listenersAt(u *url.URL) func() ([]procs.Process, error) {
	if u.Scheme == "unix" {
		return func() ([]procs.Process, error) { return procs.UnixListeners(u.Path) }
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if u.Port() == "" {
		port, err = map[string]uint64{"http": 80, "https": 443}[u.Scheme], nil
	}
	addr, err2 := netip.ParseAddr(u.Hostname())
	if err := errors.Join(err, err2); err != nil && u.Hostname() != "localhost" {
		return func() ([]procs.Process, error) { return nil, err }
	}
	if u.Hostname() != "localhost" {
		return func() ([]procs.Process, error) { return procs.Listeners(netip.AddrPortFrom(addr, uint16(port))) }
	}
	return func() ([]procs.Process, error) {
		for _, loopback := range []netip.Addr{netip.IPv6Loopback(), netip.AddrFrom4([4]byte{127, 0, 0, 1})} {
			conn, err := net.Dial("tcp", netip.AddrPortFrom(loopback, uint16(port)).String())
			if err != nil {
				continue
			}
			conn.Close()
			return procs.Listeners(netip.AddrPortFrom(loopback, uint16(port)))
		}
		return nil, nil
	}
}
