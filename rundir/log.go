package rundir

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/leakrig/leakrig/leak/display"
)

// Bytes kept of the beginning of a log, and the minimum kept of its end.
const (
	logHead = 32 << 20
	logTail = 16 << 20
)

// Log is the file that a subject's output goes to. It keeps the first 32 MiB and at least the last 16, with a mark
// between them, and never more than 64 MiB: a subject may write for as long as it runs.
type Log struct {
	f       *os.File
	size    int64
	mark    int64 // where the tail begins, after its mark; 0 while all is kept
	dropped int64
}

// OpenLog opens a log to append output, and creates it if necessary.
func OpenLog(path string) (*Log, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		f.Close()
		return nil, err
	}
	return &Log{f: f, size: size}, nil
}

// Write appends.
func (l *Log) Write(p []byte) (int, error) {
	written := 0
	for len(p) > 0 {
		if room := logHead + 2*logTail - l.size; room <= 0 {
			if err := l.drop(); err != nil {
				return written, err
			}
			continue
		} else if int64(len(p)) > room {
			n, err := l.write(p[:room])
			written += n
			if err != nil {
				return written, err
			}
			p = p[room:]
			continue
		}
		n, err := l.write(p)
		return written + n, err
	}
	return written, nil
}

func (l *Log) write(p []byte) (int, error) {
	n, err := l.f.WriteAt(p, l.size)
	l.size += int64(n)
	return n, err
}

// drop removes the middle: everything between the first logHead and the last logTail bytes. The tail starts with a whole line.
func (l *Log) drop() error {
	tail := make([]byte, logTail)
	n, err := l.f.ReadAt(tail, l.size-logTail)
	if err != nil && err != io.EOF {
		return err
	}
	tail = tail[:n]
	if i := bytes.IndexByte(tail[:min(len(tail), 64<<10)], '\n'); i >= 0 {
		tail = tail[i+1:]
	}
	from := max(l.mark, logHead)
	l.dropped += l.size - int64(len(tail)) - from
	mark := fmt.Appendf(nil, "\n[leakrig: %d bytes of the log removed]\n", l.dropped)
	if err := l.f.Truncate(logHead); err != nil {
		return err
	}
	l.size = logHead
	if _, err := l.write(mark); err != nil {
		return err
	}
	l.mark = l.size
	_, err = l.write(tail)
	return err
}

// Close closes the file.
func (l *Log) Close() error { return l.f.Close() }

// LogTail returns the last lines of a subject's log, quoted, for the error that reports its death; "" if the log is
// empty.
func LogTail(log string) string {
	const lines, bytes = 4, 2048
	f, err := os.Open(log)
	if err != nil {
		return ""
	}
	defer f.Close()
	if size, err := f.Seek(0, io.SeekEnd); err == nil {
		_, _ = f.Seek(max(0, size-bytes), io.SeekStart)
	}
	data, _ := io.ReadAll(io.LimitReader(f, bytes))
	all := strings.Split(strings.TrimSpace(string(data)), "\n")
	last := strings.Join(all[max(0, len(all)-lines):], "\n")
	if last == "" {
		return ""
	}
	return "\nits last words:\n" + display.Quote(last)
}
