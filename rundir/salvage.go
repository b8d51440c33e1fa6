package rundir

import (
	"encoding/json"
	"errors"
	"slices"
)

// salvaged returns the text of a damaged record up to its last complete snapshot, repaired to valid JSON. broken is
// the error of the decoder. ok is false if no snapshot is complete.
func salvaged(text []byte, broken error) (whole []byte, ok bool) {
	var syntax *json.SyntaxError
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(broken, &syntax) && syntax.Offset <= int64(len(text)):
		text = text[:syntax.Offset]
	case errors.As(broken, &wrong) && wrong.Offset <= int64(len(text)):
		text = text[:wrong.Offset]
	}
	type nesting struct {
		closer byte
		key    string
	}
	var open []nesting
	key, isKey, cut := "", false, 0
	var closers []byte
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			end := stringEnd(text, i)
			if end < 0 {
				return finish(text, cut, closers)
			}
			if isKey {
				key = string(text[i+1 : end])
			}
			i = end
		case ':':
			isKey = false
		case ',':
			isKey = len(open) > 0 && open[len(open)-1].closer == '}'
		case '{':
			open, isKey = append(open, nesting{'}', key}), true
		case '[':
			open, isKey = append(open, nesting{']', key}), false
		case '}', ']':
			if len(open) == 0 || open[len(open)-1].closer != c {
				return finish(text, cut, closers)
			}
			open = open[:len(open)-1]
			if len(open) > 0 && open[len(open)-1] == (nesting{']', "snapshots"}) {
				cut, closers = i+1, closers[:0]
				for _, n := range slices.Backward(open) {
					closers = append(closers, n.closer)
				}
			}
		}
	}
	return finish(text, cut, closers)
}

// stringEnd is the index of the quote that ends the string which begins at i, -1 where none does.
func stringEnd(text []byte, i int) int {
	for i++; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

func finish(text []byte, cut int, closers []byte) ([]byte, bool) {
	return slices.Concat(text[:cut], closers), cut > 0
}
