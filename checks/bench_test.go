package checks

import (
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// A verdict on two replicas of a variant that leaks.
func BenchmarkJudge(b *testing.B) {
	s, r := herd(leak.ExpectLeaking, leakyValues, leakyValues)
	b.ReportAllocs()
	for b.Loop() {
		if v := Judge(s, r); v.Variants[0].Outcome != leak.Leaking {
			b.Fatal(v.Sentence)
		}
	}
}
