package procs

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
)

func needsProc(t *testing.T) Process {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: processes are known on Linux alone")
	}
	self, err := Find(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	return self
}

func TestListeners(t *testing.T) {
	self := needsProc(t)
	for _, at := range []string{"127.0.0.1:0", "0.0.0.0:0", "[::]:0", "[::1]:0"} {
		l, err := net.Listen("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).AddrPort().Port()
		for _, to := range []string{"127.0.0.1", "::1"} {
			_, err := net.Dial("tcp", netip.AddrPortFrom(netip.MustParseAddr(to), port).String())
			found, err2 := Listeners(netip.AddrPortFrom(netip.MustParseAddr(to), port))
			if err2 != nil || (err == nil) != slices.Contains(found, self) {
				t.Errorf("%s, asked for %s: %v %v, and a connection %v", at, to, found, err2, err)
			}
		}
		l.Close()
		if found, err := Listeners(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port)); err != nil || len(found) > 0 {
			t.Errorf("%s, closed: %v %v", at, found, err)
		}
	}
}

// A process holds the sockets that it listens on until it closes one of them, whichever kind that is.
func TestHolds(t *testing.T) {
	self := needsProc(t)
	for network, at := range map[string]string{"tcp4": "127.0.0.1:0", "tcp6": "[::1]:0", "unix": filepath.Join(t.TempDir(), "s")} {
		before := self.Listening()
		l, err := net.Listen(network, at)
		if err != nil {
			t.Log(err) // no IPv6 here
			continue
		}
		sockets := self.Listening()
		if len(sockets) != len(before)+1 || !self.Holds(sockets) {
			t.Errorf("%s: listens on %v, before on %v; held: %v", network, sockets, before, self.Holds(sockets))
		}
		l.Close()
		if self.Holds(sockets) || !self.Holds(before) {
			t.Errorf("%s, closed: still held", network)
		}
	}
	if other := (Process{PID: self.PID, Start: self.Start + 1}); other.Holds(nil) {
		t.Error("a process that has ended holds something")
	}
}

// The socket whose address fits best is the one that gets connections.
func TestListenersPreferTheAddress(t *testing.T) {
	needsProc(t)
	own := netip.MustParseAddr("127.0.0.1")
	order := []string{"::", "0.0.0.0", "127.0.0.1"}
	for i := 1; i < len(order); i++ {
		if a, b := fits(netip.MustParseAddr(order[i-1]), own), fits(netip.MustParseAddr(order[i]), own); a >= b || a == 0 {
			t.Errorf("%s fits %d, %s %d", order[i-1], a, order[i], b)
		}
	}
	if fits(netip.MustParseAddr("10.0.0.1"), own) != 0 || fits(netip.MustParseAddr("::1"), own) != 0 {
		t.Error("another address fits")
	}
}

func TestUnixListeners(t *testing.T) {
	self := needsProc(t)
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if found, err := UnixListeners(path); err != nil || !slices.Equal(found, []Process{self}) {
		t.Errorf("%v %v", found, err)
	}
}

func TestAttackTreeOfOrphans(t *testing.T) {
	needsProc(t)
	const mark = "LEAKRIG_TEST_MARK=one"
	c := exec.Command("sh", "-c", "(setsid sleep 600 &); (sleep 601 &); sleep 602")
	c.Env = append(os.Environ(), mark)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = c.Wait() }()
	root, err := Find(c.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	var tree []Process
	for len(tree) < 4 { // the shell and its three
		tree = Tree(root, mark)
	}
	if tree[0] != root {
		t.Errorf("%v does not begin with %v", tree, root)
	}
	if err := KillTree(root, mark); err != nil {
		t.Error(err)
	}
	for _, p := range tree {
		if p.Alive() {
			t.Errorf("%v is there", p)
		}
	}
	if p := (Process{PID: os.Getpid(), Start: 1}); p.Alive() || p.Kill() != nil {
		t.Error("a number that another process has now is taken for it")
	}
}
