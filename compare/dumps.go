package compare

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/leakrig/leakrig/holders"
	"github.com/leakrig/leakrig/leak"
)

// diffDumps compares two heap dumps of one process by allocation stack and holder.
func (f *DiffOptions) diffDumps(out io.Writer, base, now string, bound leak.Quantity) (int, error) {
	if f.HTML != "" {
		return 0, &leak.UsageError{Err: errors.New("--html does not support heap dumps")}
	}
	var bin *holders.Binary
	if f.Binary != "" {
		file, err := os.Open(f.Binary)
		if err != nil {
			return 0, err
		}
		defer file.Close()
		if bin, err = holders.OpenBinary(file); err != nil {
			return 0, fmt.Errorf("%s: %w", f.Binary, err)
		}
	}
	before, err1 := readDump(base, bin)
	after, err2 := readDump(now, bin)
	if err := errors.Join(err1, err2); err != nil {
		return 0, err
	}
	growth := holders.Compare(before, after)
	var err error
	if f.Format == "json" {
		enc := json.NewEncoder(out)
		enc.SetIndent("", " ")
		err = enc.Encode(growth)
	} else {
		holders.WriteGrowth(out, before, after, growth, f.Operations, f.Top)
	}
	if bound >= 0 && len(growth) > 0 && growth[0].Bytes > float64(bound) {
		return leak.ExitNotMet, err
	}
	return leak.ExitMet, err
}

func readDump(path string, bin *holders.Binary) (*holders.Summary, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	s, err := holders.Read(file, bin, holders.Options{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// isHeapDump reports whether a file starts as heap dumps do. A file that cannot be read is none.
func isHeapDump(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	return holders.IsDump(file)
}
