package holders

import (
	"debug/dwarf"
	"debug/elf"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Binary is the executable of a dumped process: symbols and, if present, DWARF. A nil Binary has neither.
type Binary struct {
	objects, funcs []symbol // sorted by address
	entries        map[uint64]bool
	low, high      uint64 // loaded addresses of code, types and static data
	types, etypes  uint64
	data, bss      [2]uint64
	dataAddr       uint64
	dwarf          *dwarf.Data
	debug          *debugInfo
}

type symbol struct {
	name       string
	start, end uint64
}

// OpenBinary reads the symbols of an ELF executable, which may be closed afterwards. Without symbols (go build
// -ldflags=-s), globals have no names, and without DWARF (-ldflags=-w), types are unknown.
func OpenBinary(r io.ReaderAt) (*Binary, error) {
	file, err := elf.NewFile(r)
	if err != nil {
		return nil, fmt.Errorf("read binary: %w", err)
	}
	b := &Binary{entries: map[uint64]bool{}, low: math.MaxUint64}
	for _, s := range file.Sections {
		if s.Flags&elf.SHF_ALLOC != 0 && s.Flags&elf.SHF_TLS == 0 && s.Addr != 0 {
			b.low, b.high = min(b.low, s.Addr), max(b.high, s.Addr+s.Size)
		}
	}
	symbols, err := file.Symbols()
	if err != nil {
		return b, nil // a stripped binary
	}
	for _, s := range symbols {
		b.addSymbol(s)
	}
	byAddress := func(x, y symbol) int {
		switch {
		case x.start < y.start:
			return -1
		case x.start > y.start:
			return 1
		}
		return 0
	}
	slices.SortStableFunc(b.objects, byAddress)
	slices.SortStableFunc(b.funcs, byAddress)
	if d, err := file.DWARF(); err == nil {
		b.dwarf = d
		b.debug = newDebugInfo(b, file)
	}
	return b, nil
}

func (b *Binary) addSymbol(s elf.Symbol) {
	switch s.Name {
	case "runtime.types":
		b.types = s.Value
	case "runtime.etypes":
		b.etypes = s.Value
	case "runtime.data":
		b.data[0], b.dataAddr = s.Value, s.Value
	case "runtime.edata":
		b.data[1] = s.Value
	case "runtime.bss":
		b.bss[0] = s.Value
	case "runtime.ebss":
		b.bss[1] = s.Value
	}
	if s.Size == 0 || strings.HasPrefix(s.Name, "type:") {
		return
	}
	sym := symbol{name: unescape(s.Name), start: s.Value, end: s.Value + s.Size}
	switch elf.ST_TYPE(s.Info) {
	case elf.STT_FUNC:
		b.funcs = append(b.funcs, sym)
		b.entries[s.Value] = true
	case elf.STT_OBJECT:
		b.objects = append(b.objects, sym)
	}
}

var escapes = strings.NewReplacer("%2e", ".", "%22", `"`, "%25", "%")

// unescape returns a symbol as Go code spells it: the linker escapes dots in the last element of an import path.
func unescape(name string) string { return escapes.Replace(name) }

func symbolAt(symbols []symbol, addr uint64) (symbol, bool) {
	i, ok := slices.BinarySearchFunc(symbols, addr, func(s symbol, addr uint64) int {
		switch {
		case s.start < addr:
			return -1
		case s.start > addr:
			return 1
		}
		return 0
	})
	if !ok {
		i--
	}
	if i < 0 || addr >= symbols[i].end {
		return symbol{}, false
	}
	return symbols[i], true
}

// funcName returns the name of the function that contains a linked address, or "".
func (b *Binary) funcName(pc uint64) string {
	if b == nil {
		return ""
	}
	s, _ := symbolAt(b.funcs, pc)
	return s.name
}

func (b *Binary) isFunc(pc uint64) bool { return b != nil && b.entries[pc] }

func (b *Binary) isType(addr uint64) bool { return addr >= b.types && addr < b.etypes }

// isStatic reports whether a linked address is in the data or bss segment.
func (b *Binary) isStatic(addr uint64) bool {
	return addr >= b.data[0] && addr < b.data[1] || addr >= b.bss[0] && addr < b.bss[1]
}
