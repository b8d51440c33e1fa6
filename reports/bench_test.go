package reports

import (
	"io"
	"testing"
)

// BenchmarkHTML renders the HTML report of a run with two variants, and of a run with 10,000 stacks.
func BenchmarkHTML(b *testing.B) {
	large := fixture()
	for i := range large.Record.Variants {
		manyStacks(&large.Record.Variants[i])
	}
	for name, in := range map[string]Input{"plain": fixture(), "10000stacks": large} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := draw(html)(io.Discard, in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
