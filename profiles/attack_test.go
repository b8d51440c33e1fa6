package profiles

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// message is a field of a protocol buffers message that holds bytes.
func message(number int, data []byte) []byte {
	b := binary.AppendUvarint(nil, uint64(number)<<3|2)
	return append(binary.AppendUvarint(b, uint64(len(data))), data...)
}

// number is a field that holds a number.
func number(field int, n uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(nil, uint64(field)<<3), n)
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// zipped is data as a subject would serve it.
func zipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// header is the beginning of a goroutine profile: its strings and what it counts.
func header0() []byte {
	return join(message(6, nil), message(6, []byte("goroutine")), message(6, []byte("count")), message(6, []byte("k")),
		message(1, join(number(1, 1), number(2, 2))))
}

// numbered makes n messages of a field, with IDs from 1.
func numbered(field, n int, rest []byte) []byte {
	var b bytes.Buffer
	for i := range n {
		b.Write(message(field, join(number(1, uint64(i)+1), rest)))
	}
	return b.Bytes()
}

// shapes are one for each field of a profile that may be repeated, in the form that costs most for its bytes. All of
// them decode.
func shapes(n int) map[string][]byte {
	one := join(header0(), numbered(5, 1, nil), numbered(4, 1, message(4, number(1, 1))))
	sample := func(parts ...[]byte) []byte {
		return message(2, join(append([][]byte{message(2, []byte{1})}, parts...)...))
	}
	labels := bytes.Repeat(message(3, nil), n)
	text := bytes.Repeat(message(3, join(number(1, 3), number(2, 3))), n)
	numbers := bytes.Repeat(message(3, join(number(1, 3), number(3, 3))), n)
	units := bytes.Repeat(message(3, join(number(1, 3), number(3, 3), number(4, 3))), n)
	distinct := func(value int) []byte {
		b := new(bytes.Buffer)
		for i := range n {
			b.Write(message(6, fmt.Appendf(nil, "%d", i)))
		}
		in := new(bytes.Buffer)
		for i := range n {
			in.Write(message(3, join(number(1, uint64(4+i)), number(value, 3))))
		}
		return join(b.Bytes(), sample(in.Bytes()))
	}
	return map[string][]byte{
		"sample types":          join(header0(), bytes.Repeat(message(1, nil), n)),
		"samples":               join(one, bytes.Repeat(sample(), n)),
		"samples of a location": join(one, bytes.Repeat(sample(number(1, 1)), n)),
		"mappings":              join(one, numbered(3, n, nil)),
		"locations":             join(header0(), numbered(4, n, nil)),
		"functions":             join(header0(), numbered(5, n, nil)),
		"strings":               join(header0(), bytes.Repeat(message(6, nil), n)),
		"short strings":         join(header0(), bytes.Repeat(message(6, []byte("x")), n)),
		"comments":              join(header0(), bytes.Repeat(number(13, 0), n)),
		"packed comments":       join(header0(), message(13, make([]byte, n))),
		"period types":          join(header0(), bytes.Repeat(message(11, nil), n)),
		"unknown fields":        join(header0(), bytes.Repeat(message(99, nil), n)),
		"lines":                 join(header0(), numbered(5, 1, nil), numbered(4, 1, bytes.Repeat(message(4, number(1, 1)), n))),
		"locations of a line":   join(header0(), numbered(5, 1, nil), numbered(4, n, message(4, number(1, 1)))),
		"frames":                join(one, sample(bytes.Repeat(number(1, 1), n))),
		"packed frames":         join(one, sample(message(1, bytes.Repeat([]byte{1}, n)))),
		"empty labels":          join(one, sample(labels)),
		"labels":                join(one, sample(text)),
		"numbers as labels":     join(one, sample(numbers)),
		"labels with units":     join(one, sample(units)),
		"labels of all keys":    join(one, distinct(2)),
		"numbers of all keys":   join(one, distinct(3)),
		"units of all keys":     join(one, distinct(4)),
		"a label each":          join(one, bytes.Repeat(sample(message(3, join(number(1, 3), number(2, 3)))), n)),
		"an empty label each":   join(one, bytes.Repeat(sample(message(3, nil)), n)),
		"a number each":         join(one, bytes.Repeat(sample(message(3, join(number(1, 3), number(3, 3), number(4, 3)))), n)),
	}
}

// TestAttackEstimate checks that the estimate before decoding is an upper bound of the allocations for every
// repeatable field, and low enough to accept real profiles.
func TestAttackEstimate(t *testing.T) {
	const n = 100_000
	for name, data := range shapes(n) {
		t.Run(name, func(t *testing.T) {
			size, err := estimate(data, 1<<40)
			if err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			p, err := profile.ParseUncompressed(data)
			if err == nil {
				err = p.CheckValid()
			}
			runtime.ReadMemStats(&after)
			if err != nil && !strings.Contains(err.Error(), "mismatch: sample has") {
				t.Fatal(err)
			}
			used := int(after.TotalAlloc - before.TotalAlloc)
			t.Logf("%d bytes: estimated %d KiB (%.0f each), allocated %d KiB (%.0f each)", len(data), size>>10, float64(size)/n, used>>10, float64(used)/n)
			if used > size+64<<10 {
				t.Errorf("%d KiB were allocated, and %d estimated", used>>10, size>>10)
			}
			runtime.KeepAlive(p)
		})
	}
}
