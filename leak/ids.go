package leak

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// IDs are the numbers of goroutines, as ranges that ascend and do not touch each other. A goroutine keeps its
// number as long as it lives, and none is given twice. They are written as "18 34-60", and take no more memory
// than that: a record comes from anywhere, and its lists are never written out number by number.
type IDs []IDRange

// IDRange is the numbers from First to Last, both included.
type IDRange struct{ First, Last uint64 }

// maxIDs limits how many numbers a list may expand to: "1-999999999999" is not a valid list of goroutines.
const maxIDs = 1 << 20

// IDsOf returns the list of these numbers, which may be in any order.
func IDsOf(numbers ...uint64) IDs {
	var ids IDs
	for _, n := range slices.Sorted(slices.Values(numbers)) {
		ids = ids.with(IDRange{n, n})
	}
	return ids
}

// with appends a range that begins no earlier than the last one.
func (ids IDs) with(r IDRange) IDs {
	if n := len(ids); n > 0 && r.First <= ids[n-1].Last+1 {
		ids[n-1].Last = max(ids[n-1].Last, r.Last)
		return ids
	}
	return append(ids, r)
}

// Len is how many numbers there are.
func (ids IDs) Len() int {
	n := 0
	for _, r := range ids {
		n += int(r.Last-r.First) + 1
	}
	return n
}

// MarshalText writes runs of numbers as ranges.
func (ids IDs) MarshalText() ([]byte, error) {
	var b []byte
	for i, r := range ids {
		if i > 0 {
			b = append(b, ' ')
		}
		b = strconv.AppendUint(b, r.First, 10)
		if r.Last > r.First {
			b = append(b, '-')
			b = strconv.AppendUint(b, r.Last, 10)
		}
	}
	return b, nil
}

// UnmarshalText reads what MarshalText writes.
func (ids *IDs) UnmarshalText(b []byte) error {
	var list IDs
	total := uint64(0)
	for part := range strings.FieldsSeq(string(b)) {
		from, to, ranged := strings.Cut(part, "-")
		first, err := strconv.ParseUint(from, 10, 63)
		last := first
		if err == nil && ranged {
			last, err = strconv.ParseUint(to, 10, 63)
		}
		if err != nil || last < first || last-first >= maxIDs || total+last-first >= maxIDs {
			return fmt.Errorf("%.60q is not a list of goroutines", part)
		}
		if n := len(list); n > 0 && first <= list[n-1].Last {
			return fmt.Errorf("goroutines are not in order: %.40q", b)
		}
		total += last - first + 1
		list = list.with(IDRange{first, last})
	}
	*ids = list
	return nil
}

// Without are those that are not in others.
func (ids IDs) Without(others IDs) IDs {
	var rest IDs
	k := 0
	for _, r := range ids {
		for k < len(others) && others[k].Last < r.First {
			k++
		}
		gone := false
		for i := k; i < len(others) && others[i].First <= r.Last; i++ {
			if o := others[i]; r.First < o.First {
				rest = append(rest, IDRange{r.First, o.First - 1})
			}
			if others[i].Last >= r.Last {
				gone = true
				break
			}
			r.First = others[i].Last + 1
		}
		if !gone {
			rest = append(rest, r)
		}
	}
	return rest
}
