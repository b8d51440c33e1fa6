package subjects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/httpclient"
	"github.com/leakrig/leakrig/leak/procs"
)

// maxCommandLine bounds how much of a command line is read, in bytes.
const maxCommandLine = 1 << 20

// Behind finds the process of this machine that serves an address: one that listens there and has the command line that
// pprof reports. A proxy in front of the program has another command line. A pid other than 0 names the process.
func Behind(ctx context.Context, address, pprof string, access leak.Access, pid int) (procs.Process, error) {
	candidates, err := candidatesAt(address, pid)
	if err != nil {
		return procs.Process{}, err
	}
	reported, err := commandLine(ctx, address, pprof, access)
	if err != nil {
		return procs.Process{}, err
	}
	for _, p := range candidates {
		own, err := os.ReadFile(filepath.Join(p.Dir(), "cmdline"))
		if err != nil || !bytes.Equal(bytes.TrimRight(own, "\x00"), bytes.TrimRight(reported, "\x00")) {
			continue
		}
		if _, err := os.ReadDir(filepath.Join(p.Dir(), "fd")); err != nil {
			return procs.Process{}, fmt.Errorf("%s: %w", p, err)
		}
		return p, nil
	}
	return procs.Process{}, fmt.Errorf("%s is another one than the one that serves pprof", candidates[0])
}

// candidatesAt returns the process with a pid, or at least one that listens at an address.
func candidatesAt(address string, pid int) ([]procs.Process, error) {
	if pid != 0 {
		p, err := procs.Find(pid)
		if err != nil {
			return nil, fmt.Errorf("process %d: %w", pid, err)
		}
		return []procs.Process{p}, nil
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	if elsewhere(u) {
		return nil, errors.New("it is on another machine")
	}
	listening, err := listenersAt(u)()
	if err == nil && len(listening) == 0 {
		err = errors.New("no process listens there")
	}
	return listening, err
}

// commandLine returns the command line of the program that pprof reports.
func commandLine(ctx context.Context, address, pprof string, access leak.Access) ([]byte, error) {
	target, err := Remote(address, pprof, access)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	client := httpclient.New(target.Transport())
	defer client.CloseIdleConnections()
	resp, err := httpclient.Get(ctx, client, target.Pprof+"/cmdline", nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("cmdline: %s", resp.Status)
	}
	return io.ReadAll(io.LimitReader(resp.Body, maxCommandLine))
}
