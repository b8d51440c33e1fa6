package fleet

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

// maxList bounds a list of targets.
const maxList = 16 << 20

// List is a file with one URL of a target per line, for a fleet without Kubernetes. It is read before every sweep, so
// targets appear and disappear with its lines. Empty lines and lines that begin with # are ignored.
type List struct {
	// File is the file, "-" for standard input, which is read once.
	File  string
	Stdin io.Reader
	// Reach makes a target of an address. It is asked once for each.
	Reach func(address string) (Target, error)

	stdin   []byte
	reached map[string]Target
}

// List reads the file.
func (l *List) List(context.Context) ([]Target, error) {
	data, err := l.read()
	if err != nil {
		return nil, leak.WithHint(fmt.Errorf("--targets: %w", err), "it is a file with a URL a line, or - for standard input")
	}
	if l.reached == nil {
		l.reached = map[string]Target{}
	}
	var all []Target
	var errs []error
	seen := map[string]int{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		address := strings.TrimSpace(lines.Text())
		if address == "" || strings.HasPrefix(address, "#") {
			continue
		}
		if first := seen[address]; first > 0 {
			errs = append(errs, l.bad(n, fmt.Errorf("it stands in line %d, too", first)))
			continue
		}
		seen[address] = n
		t, ok := l.reached[address]
		if !ok {
			if t, err = l.reach(address); err != nil {
				errs = append(errs, l.bad(n, err))
				continue
			}
			l.reached[address] = t
		}
		all = append(all, t)
	}
	errs = append(errs, lines.Err())
	for address := range l.reached {
		if seen[address] == 0 {
			delete(l.reached, address)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, leak.WithHint(err, "a line is a URL, as in http://10.0.0.7:6060")
	}
	return all, nil
}

func (l *List) bad(line int, err error) error { return fmt.Errorf("%s:%d: %w", l.File, line, err) }

func (l *List) read() ([]byte, error) {
	if l.File != "-" {
		f, err := os.Open(l.File)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return rundir.ReadBounded(f, maxList)
	}
	if l.stdin == nil {
		var err error
		if l.stdin, err = rundir.ReadBounded(l.Stdin, maxList); err != nil {
			return nil, err
		}
	}
	return l.stdin, nil
}

// reach refuses an invalid address.
func (l *List) reach(address string) (Target, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return Target{}, errors.New("not a URL") // what is wrong with it may hold a password
	case u.Scheme == "unix" && u.Path != "":
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return Target{}, fmt.Errorf("%s is not an address of http, https or unix", u.Redacted())
	}
	t, err := l.Reach(address)
	t.ID, t.Name, t.Address = rundir.ShownURL(u), rundir.ShownURL(u), true
	return t, err
}
