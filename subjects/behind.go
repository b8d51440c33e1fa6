package subjects

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// maxCommandLine bounds what is read of a command line.
const maxCommandLine = 1 << 20

// Behind finds the process of this machine that serves the address: the one whose socket listens there, and whose
// command line is the one that pprof tells. A proxy in front of the program has another one. pid, where it is not
// 0, is that process. name is the program's.
func Behind(ctx context.Context, address, pprof string, access leak.Access, pid int) (found int, name string, err error) {
	u, err := url.Parse(address)
	if err != nil {
		return 0, "", err
	}
	if pid == 0 {
		if pid, err = listener(u); err != nil {
			return 0, "", err
		}
	}
	own, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return 0, "", fmt.Errorf("process %d: %w", pid, err)
	}
	if _, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "fd")); err != nil {
		return 0, "", fmt.Errorf("process %d: %w", pid, err)
	}
	told, err := commandLine(ctx, address, pprof, access)
	if err != nil {
		return 0, "", err
	}
	if !bytes.Equal(bytes.TrimRight(own, "\x00"), bytes.TrimRight(told, "\x00")) {
		return 0, "", fmt.Errorf("process %d is another one than the one that serves pprof", pid)
	}
	program, _, _ := bytes.Cut(own, []byte{0})
	return pid, filepath.Base(leak.Printable(string(program))), nil
}

// commandLine is what pprof tells of the program's.
func commandLine(ctx context.Context, address, pprof string, access leak.Access) ([]byte, error) {
	target, err := Remote(address, pprof, access)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.Pprof+"/cmdline", nil)
	if err != nil {
		return nil, err
	}
	transport := target.Transport()
	if idle, ok := transport.(interface{ CloseIdleConnections() }); ok {
		defer idle.CloseIdleConnections()
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("cmdline: %s", resp.Status)
	}
	return io.ReadAll(io.LimitReader(resp.Body, maxCommandLine))
}

// listener is the one process of this machine whose socket listens at u.
func listener(u *url.URL) (int, error) {
	var sockets []string
	var err error
	if u.Scheme == "unix" {
		sockets, err = unixSockets(u.Path)
	} else {
		if elsewhere(u) {
			return 0, errors.New("it is on another machine")
		}
		sockets, err = tcpSockets(u)
	}
	if err != nil {
		return 0, err
	}
	var pids []int
	owners, err := filepath.Glob("/proc/[0-9]*/fd/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, fd := range owners {
		link, err := os.Readlink(fd)
		if err != nil || !slices.Contains(sockets, link) {
			continue
		}
		pid, err := strconv.Atoi(strings.Split(fd, "/")[2])
		if err == nil && !slices.Contains(pids, pid) {
			pids = append(pids, pid)
		}
	}
	if len(pids) != 1 {
		return 0, fmt.Errorf("%d processes that can be read here listen there", len(pids))
	}
	return pids[0], nil
}

// tcpSockets are the sockets that listen at the port of u on loopback, or on all addresses, as links of /proc.
func tcpSockets(u *url.URL) ([]string, error) {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("port %s: %w", port, err)
	}
	const listening = "0A"
	var sockets []string
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != listening {
				continue
			}
			host, at, _ := strings.Cut(f[1], ":")
			if got, err := strconv.ParseUint(at, 16, 16); err != nil || got != n || !local(host) {
				continue
			}
			sockets = append(sockets, "socket:["+f[9]+"]")
		}
	}
	return sockets, nil
}

// local tells whether an address of /proc/net/tcp, in the kernel's own order of bytes, is of this machine alone or
// of all its interfaces.
func local(kernel string) bool {
	raw, err := hex.DecodeString(kernel)
	if err != nil || len(raw)%4 != 0 {
		return false
	}
	for i := 0; i < len(raw); i += 4 { // words of a little-endian machine, which all that Go's /proc code here runs on are
		slices.Reverse(raw[i : i+4])
	}
	ip := net.IP(raw)
	return ip.IsLoopback() || ip.IsUnspecified()
}

// unixSockets are the sockets at a path, as links of /proc.
func unixSockets(path string) ([]string, error) {
	text, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil, err
	}
	var sockets []string
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) >= 8 && strings.Join(f[7:], " ") == path {
			sockets = append(sockets, "socket:["+f[6]+"]")
		}
	}
	return sockets, nil
}
