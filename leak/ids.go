package leak

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// IDs are the numbers of goroutines, ascending. A goroutine keeps its number as long as it lives, and none
// is given twice. They are written as "18 34-60".
type IDs []uint64

// maxIDs bounds what a few bytes such as "1-999999999999" may come to.
const maxIDs = 1 << 20

// MarshalText writes runs of numbers as ranges.
func (ids IDs) MarshalText() ([]byte, error) {
	var b []byte
	for i := 0; i < len(ids); {
		last := i
		for last+1 < len(ids) && ids[last+1] == ids[last]+1 {
			last++
		}
		if i > 0 {
			b = append(b, ' ')
		}
		b = strconv.AppendUint(b, ids[i], 10)
		if last > i {
			b = append(b, '-')
			b = strconv.AppendUint(b, ids[last], 10)
		}
		i = last + 1
	}
	return b, nil
}

// UnmarshalText reads what MarshalText writes.
func (ids *IDs) UnmarshalText(b []byte) error {
	var list IDs
	for _, part := range strings.Fields(string(b)) {
		from, to, ranged := strings.Cut(part, "-")
		first, err := strconv.ParseUint(from, 10, 63)
		last := first
		if err == nil && ranged {
			last, err = strconv.ParseUint(to, 10, 63)
		}
		if err != nil || last < first || last-first >= maxIDs || len(list) > maxIDs {
			return fmt.Errorf("%q is not a list of goroutines", part)
		}
		for id := first; id <= last; id++ {
			list = append(list, id)
		}
	}
	if !slices.IsSorted(list) {
		return fmt.Errorf("goroutines are not in order: %.40q", b)
	}
	*ids = list
	return nil
}

// Without are those that are not in others.
func (ids IDs) Without(others IDs) IDs {
	var rest IDs
	for _, id := range ids {
		if _, found := slices.BinarySearch(others, id); !found {
			rest = append(rest, id)
		}
	}
	return rest
}
