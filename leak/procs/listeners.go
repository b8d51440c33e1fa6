package procs

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ErrUnknown is returned if the listener is unknown: no /proc, or the socket of another user.
var ErrUnknown = errors.New("the listener there is unknown")

// listening is the state of a socket that listens, as /proc/net/tcp has it; unixListening are the flags of one in
// /proc/net/unix.
const listening, unixListening = "0A", "00010000"

// Listeners returns the processes that hold the sockets which accept connections to the address on this machine,
// youngest first. If a process passes its socket on, the child serves. No process and no error means that nothing
// listens.
func Listeners(to netip.AddrPort) ([]Process, error) {
	var inodes []string
	best := 0
	for _, file := range []string{"net/tcp", "net/tcp6"} {
		data, err := os.ReadFile(filepath.Join(root, "self", file))
		if errors.Is(err, os.ErrNotExist) && file == "net/tcp6" {
			continue // no IPv6 here
		}
		if err != nil {
			return nil, ErrUnknown
		}
		for fields := range rows(data) {
			if len(fields) < 10 {
				continue
			}
			at, ok := parseAddress(fields[1])
			if !ok || fields[3] != listening || at.Port() != to.Port() {
				continue
			}
			// The kernel gives a connection to the socket whose address fits best.
			fit := fits(at.Addr(), to.Addr())
			if fit == 0 || fit < best {
				continue
			}
			if fit > best {
				best, inodes = fit, nil
			}
			inodes = append(inodes, fields[9])
		}
	}
	return holders(inodes)
}

// fits is how well a socket's own address fits one that is connected to, 0 where it does not.
func fits(own, to netip.Addr) int {
	switch own, to := own.Unmap(), to.Unmap(); {
	case own == to:
		return 3
	case own.IsUnspecified() && own.Is4() == to.Is4():
		return 2
	case own.IsUnspecified() && own.Is6(): // both families, mostly
		return 1
	}
	return 0
}

// UnixListeners are the processes that hold the socket at a path, youngest first.
func UnixListeners(path string) ([]Process, error) {
	data, err := os.ReadFile(filepath.Join(root, "self", "net/unix"))
	if err != nil {
		return nil, ErrUnknown
	}
	var inodes []string
	for fields := range rows(data) { // Num RefCount Protocol Flags Type St Inode Path
		if len(fields) > 7 && fields[3] == unixListening && fields[7] == path {
			inodes = append(inodes, fields[6])
		}
	}
	return holders(inodes)
}

// rows are the fields of each row of a table below /proc/net, without its head.
func rows(table []byte) func(func([]string) bool) {
	return func(yield func([]string) bool) {
		lines := bufio.NewScanner(bytes.NewReader(table))
		lines.Scan()
		for lines.Scan() {
			if !yield(strings.Fields(lines.Text())) {
				return
			}
		}
	}
}

// parseAddress parses "0100007F:1F90", whose words are in the byte order of this machine. All platforms of leakrig
// are little-endian.
func parseAddress(text string) (netip.AddrPort, bool) {
	host, port, ok := strings.Cut(text, ":")
	raw, err1 := hex.DecodeString(host)
	number, err2 := strconv.ParseUint(port, 16, 16)
	if !ok || err1 != nil || err2 != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(raw); i += 4 {
		slices.Reverse(raw[i : i+4])
	}
	addr, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(addr, uint16(number)), ok
}

// holders returns the processes that have one of the sockets open. It returns ErrUnknown if no visible process holds
// one of them.
func holders(inodes []string) ([]Process, error) {
	if len(inodes) == 0 {
		return nil, nil
	}
	held := map[string]bool{}
	var found []Process
	for _, s := range all() {
		sockets := s.sockets(inodes)
		for _, inode := range sockets {
			held[inode] = true
		}
		if len(sockets) > 0 {
			found = append(found, s.Process)
		}
	}
	if len(held) < len(inodes) {
		return nil, ErrUnknown
	}
	slices.SortFunc(found, func(a, b Process) int {
		if a.Start != b.Start {
			return int(int64(b.Start - a.Start))
		}
		return b.PID - a.PID
	})
	return found, nil
}

// sockets are those of the inodes that the process has open.
func (p Process) sockets(inodes []string) []string {
	dir := filepath.Join(p.dir(), "fd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	wanted := make(map[string]string, len(inodes))
	for _, inode := range inodes {
		wanted["socket:["+inode+"]"] = inode
	}
	var found []string
	for _, e := range entries {
		target, err := os.Readlink(filepath.Join(dir, e.Name()))
		if err != nil {
			continue
		}
		if inode, ok := wanted[target]; ok {
			found = append(found, inode)
			delete(wanted, target)
		}
	}
	return found
}

// Listening returns the sockets on which the process listens, by their inodes.
func (p Process) Listening() []string {
	var inodes []string
	for _, table := range []struct {
		file, state string
		inode       int // its column
	}{
		{"net/tcp", listening, 9},
		{"net/tcp6", listening, 9},
		{"net/unix", unixListening, 6},
	} {
		data, _ := os.ReadFile(filepath.Join(p.dir(), table.file))
		for fields := range rows(data) {
			if len(fields) > table.inode && fields[3] == table.state {
				inodes = append(inodes, fields[table.inode])
			}
		}
	}
	return p.sockets(inodes)
}

// Holds reports whether the process still has all of these sockets open. It reads only this process, where Listeners
// reads every process and the table of all connections, which takes 50 ms on a busy machine.
func (p Process) Holds(sockets []string) bool {
	return p.Alive() && len(p.sockets(sockets)) == len(sockets)
}

// Executable is the path of the program that the process runs, as its own file system has it.
func (p Process) Executable() (string, error) {
	path, err := os.Readlink(filepath.Join(p.dir(), "exe"))
	return strings.TrimSuffix(path, " (deleted)"), err
}

// Dir is the folder of the process below /proc.
func (p Process) Dir() string { return p.dir() }
