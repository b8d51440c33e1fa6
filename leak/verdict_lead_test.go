package leak

import "testing"

// TestLeadNamesNativeMemory checks that native memory, of which resident memory is the sum with the Go heap, is named
// instead of it, but not instead of an allocation site with most of the growth.
func TestLeadNamesNativeMemory(t *testing.T) {
	finding := func(series string, size float64) Finding {
		return Finding{Check: series, Series: series, Unit: "bytes", Outcome: Leaking, BoundPerOperation: true, PerOperation: size}
	}
	resident, native := finding("process.rss", 4200), finding("process.native", 4100)
	native.Outside = "heap.alloc"
	v := VariantVerdict{Findings: []Finding{resident, native}}
	if got := v.Lead(); got == nil || got.Series != "process.native" {
		t.Errorf("lead %+v", got)
	}
	native.PerOperation = 400
	v = VariantVerdict{Findings: []Finding{resident, native}}
	if got := v.Lead(); got == nil || got.Series != "process.rss" {
		t.Errorf("a tenth of the growth leads: %+v", got)
	}
}
