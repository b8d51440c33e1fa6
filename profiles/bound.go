package profiles

import (
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	// maxDecoded bounds what google/pprof makes of a profile. A few KiB that decompress to 64 MiB of empty
	// samples would otherwise become several GiB.
	maxDecoded = 512 << 20
	// maxStacks bounds the different stacks of one profile or dump; a real program has some thousands.
	maxStacks = 200_000
)

// What one message of a profile and one byte within it become at most: structs with slices and maps, and
// an 8-byte number with the pointer that it is resolved to.
const (
	perMessage = 160
	perByte    = 16
)

var errTruncated = errors.New("truncated")

// decodable refuses a profile that would take too much memory to decode. It walks the outermost fields and
// no further: 1 sample type, 2 sample, 3 mapping, 4 location, 5 function, 6 string.
func decodable(data []byte) error {
	size := 0
	for len(data) > 0 {
		tag, n := binary.Uvarint(data)
		if n <= 0 {
			return errTruncated
		}
		data = data[n:]
		length := uint64(0)
		switch tag & 7 {
		case 0:
			_, n := binary.Uvarint(data)
			if n <= 0 {
				return errTruncated
			}
			length = uint64(n)
		case 1:
			length = 8
		case 5:
			length = 4
		case 2:
			l, n := binary.Uvarint(data)
			if n <= 0 {
				return errTruncated
			}
			data = data[n:]
			length = l
		default:
			return fmt.Errorf("wire type %d", tag&7)
		}
		if length > uint64(len(data)) {
			return errTruncated
		}
		size += perMessage
		if field := tag >> 3; field == 2 || field == 4 {
			size += perByte * int(length)
		}
		if size > maxDecoded {
			return fmt.Errorf("it would take more than %d MiB to decode", maxDecoded>>20)
		}
		data = data[length:]
	}
	return nil
}

func tooManyStacks(g *groups) error {
	if len(g.order) > maxStacks {
		return fmt.Errorf("more than %d different stacks", maxStacks)
	}
	return nil
}
