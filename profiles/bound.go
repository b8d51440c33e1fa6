package profiles

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"github.com/leakrig/leakrig/leak"
)

// Subjects are not trusted: a few KiB can decompress to 64 MiB and decode to many GiB. These limits apply to the memory that
// decoding will allocate, before it is allocated.
const (
	// maxDecoded bounds what decoding a profile, or reading a text dump, may allocate.
	maxDecoded = 192 << 20
	// maxStacks bounds the different stacks of one profile or dump; a real program has some thousands.
	maxStacks = 50_000
	// maxFrames bounds the frames of one stack. The runtime writes at most 128 calls of a goroutine into a profile, some
	// of them inlined, and 100 into a dump.
	maxFrames = 4096
	// maxGrouped bounds the memory of the stacks of one profile or dump, without their names.
	maxGrouped = 48 << 20
	// maxFile bounds a raw file that is kept of a reading. A profile of 20,000 different stacks has 2 MiB.
	maxFile = 16 << 20
	// maxWork bounds the bytes of names that are hashed to compare the stacks of one profile.
	maxWork = 512 << 20
)

var errTruncated = errors.New("truncated")

func tooLarge(most int) error {
	return fmt.Errorf("it would take more than %d MiB to decode", most>>20)
}

// Bytes that google/pprof and the grouping allocate for one message of a profile: its struct, its place in a growing slice
// and its entries in maps by ID. Repeated fields within a message count separately. TestAttackEstimate compares these
// constants with real allocations.
const (
	perSampleType = 96
	perSample     = 200
	perMapping    = 264
	perLocation   = 232
	perFunction   = 320
	perString     = 96
	perOther      = 96
	perNumber     = 56 // of a sample: an 8-byte number, with the pointer that it is resolved to
	perPacked     = 18 // the same where many are packed
	perComment    = 140
	perLine       = 224
	perLabel      = 560
	perLabelled   = 400 // a sample with labels has three maps
)

// field is one field of a protocol buffers message.
type field struct {
	number uint64
	// packed is set where data holds a string, a message or packed numbers.
	packed bool
	data   []byte
}

// nextField cuts the first field off.
func nextField(data []byte) (f field, rest []byte, err error) {
	tag, n := binary.Uvarint(data)
	if n <= 0 {
		return f, nil, errTruncated
	}
	data, f.number = data[n:], tag>>3
	length := uint64(0)
	switch tag & 7 {
	case 0:
		_, n := binary.Uvarint(data)
		if n <= 0 {
			return f, nil, errTruncated
		}
		length = uint64(n)
	case 1:
		length = 8
	case 5:
		length = 4
	case 2:
		l, n := binary.Uvarint(data)
		if n <= 0 {
			return f, nil, errTruncated
		}
		data, length, f.packed = data[n:], l, true
	default:
		return f, nil, fmt.Errorf("wire type %d", tag&7)
	}
	if length > uint64(len(data)) {
		return f, nil, errTruncated
	}
	f.data = data[:length]
	return f, data[length:], nil
}

// numbers is how many numbers are packed in a field.
func (f field) numbers() int {
	n := 0
	for _, b := range f.data {
		if b < 0x80 {
			n++
		}
	}
	return n
}

// estimate returns an upper bound of the bytes that decoding a profile allocates. It returns an error if that is more
// than most. It allocates nothing itself.
func estimate(data []byte, most int) (int, error) {
	size := 0
	for len(data) > 0 {
		f, rest, err := nextField(data)
		if err != nil {
			return 0, err
		}
		data = rest
		switch f.number {
		case 1:
			size += perSampleType
		case 2:
			size += perSample
			err = eachField(f, func(in field) {
				if in.number == 3 {
					size += perLabel
				} else {
					size += perNumber
					if in.packed {
						size += perPacked * in.numbers()
					}
				}
			}, func(labels int) {
				if labels > 0 {
					size += perLabelled
				}
			})
		case 3:
			size += perMapping
		case 4:
			size += perLocation
			err = eachField(f, func(in field) {
				if in.number == 4 {
					size += perLine
				}
			}, nil)
		case 5:
			size += perFunction
		case 6:
			size += perString + len(f.data)
		case 13:
			size += perComment
			if f.packed {
				size += perComment * f.numbers()
			}
		default:
			size += perOther
		}
		if err != nil {
			return 0, err
		}
		if size > most {
			return 0, tooLarge(most)
		}
	}
	return size, nil
}

// eachField calls look for every field of a message, then labels with the number of labels of a sample.
func eachField(message field, look func(field), labels func(int)) error {
	data, n := message.data, 0
	for len(data) > 0 {
		f, rest, err := nextField(data)
		if err != nil {
			return err
		}
		if f.number == 3 {
			n++
		}
		look(f)
		data = rest
	}
	if labels != nil {
		labels(n)
	}
	return nil
}

// Bytes that grouping allocates for a group with its map entries, for a frame, and for a name in addition to its text.
const (
	perGroup = 480
	perFrame = int(unsafe.Sizeof(leak.Frame{}))
	perName  = 128
)

// names caches the normalised form of each string of a profile. Many functions may share one long string.
type names map[stringKey]string

// stringKey identifies a string by its address. This is cheap for long strings.
type stringKey struct {
	at *byte
	n  int
}

func (n names) name(s string, make func(string) string) string {
	key := stringKey{unsafe.StringData(s), len(s)}
	name, ok := n[key]
	if !ok {
		name = make(s)
		n[key] = name
	}
	return name
}
