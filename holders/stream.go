package holders

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/leakrig/leakrig/leak/display"
)

const streamBuffer = 1 << 20

// stream reads the primitives of a heap dump. After the first error, which err holds, it returns zeros.
type stream struct {
	r        io.Reader
	buf      []byte
	pos, end int
	read     int64 // bytes consumed before buf[pos]
	err      error
	names    map[string]string
	named    int
}

func newStream(r io.Reader) *stream {
	return &stream{r: r, buf: make([]byte, streamBuffer), names: map[string]string{}}
}

func (s *stream) fail(err error) {
	if s.err == nil && err != nil {
		s.err = fmt.Errorf("heap dump at byte %d: %w", s.read, err)
	}
}

// fill makes at least n unread bytes available. It returns false at the end of the dump.
func (s *stream) fill(n int) bool {
	if s.end-s.pos >= n {
		return true
	}
	if s.err != nil {
		return false
	}
	s.end = copy(s.buf, s.buf[s.pos:s.end])
	s.pos = 0
	for s.end < n {
		k, err := s.r.Read(s.buf[s.end:])
		s.end += k
		if err != nil && s.end < n {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			s.fail(err)
			return false
		}
	}
	return true
}

func (s *stream) uint() uint64 {
	if s.pos < s.end && s.buf[s.pos] < 0x80 && s.err == nil {
		s.pos++
		s.read++
		return uint64(s.buf[s.pos-1])
	}
	var v uint64
	for shift := uint(0); shift < 70; shift += 7 {
		if !s.fill(1) || s.err != nil {
			return 0
		}
		b := s.buf[s.pos]
		s.pos++
		s.read++
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v
		}
	}
	s.fail(errors.New("a number has more than 64 bits"))
	return 0
}

func (s *stream) skip(n int) {
	for range n {
		s.uint()
	}
}

// text reads a name. Equal names share memory.
func (s *stream) text() string {
	n := s.uint()
	if n > maxText {
		s.fail(&LimitError{What: "bytes in a name", Limit: maxText})
	}
	if s.err != nil || !s.fill(int(n)) {
		return ""
	}
	raw := s.buf[s.pos : s.pos+int(n)]
	name, ok := s.names[string(raw)]
	if !ok {
		name = display.Name(string(raw))
		s.names[string(raw)] = name
		s.named += len(name)
		s.fail(exceeds(s.named, maxNames, "bytes of names"))
	}
	s.pos += int(n)
	s.read += int64(n)
	return name
}

// words reads a memory range and calls each for every non-zero word with its offset in words. It keeps no contents.
// It returns the length of the range in bytes.
func (s *stream) words(limit uint64, each func(offset uint32, value uint64)) uint64 {
	length := s.uint()
	if length > limit {
		s.fail(&LimitError{What: "bytes in one memory range", Limit: limit})
	}
	offset := uint32(0)
	for left := length; left > 0 && s.err == nil; {
		if !s.fill(int(min(left, 8))) {
			return length
		}
		chunk := s.buf[s.pos:s.end]
		if uint64(len(chunk)) > left {
			chunk = chunk[:left]
		}
		if left >= 8 {
			chunk = chunk[:len(chunk)&^7]
		}
		s.pos += len(chunk)
		s.read += int64(len(chunk))
		left -= uint64(len(chunk))
		for len(chunk) >= 8 {
			if v := binary.LittleEndian.Uint64(chunk); v != 0 {
				each(offset, v)
			}
			chunk = chunk[8:]
			offset++
		}
	}
	return length
}
