package leak

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
)

// numbers writes a list out.
func numbers(ids IDs) []uint64 {
	var list []uint64
	for _, r := range ids {
		for id := r.First; id <= r.Last; id++ {
			list = append(list, id)
		}
	}
	return list
}

func TestIDs(t *testing.T) {
	for _, c := range []struct {
		ids  []uint64
		text string
	}{
		{nil, ""},
		{[]uint64{7}, "7"},
		{[]uint64{8, 7, 7}, "7-8"}, // in any order, and once
		{[]uint64{1, 60, 18, 34, 35, 36}, "1 18 34-36 60"},
	} {
		ids := IDsOf(c.ids...)
		text, err := ids.MarshalText()
		if err != nil || string(text) != c.text {
			t.Errorf("%v is written as %q, %v", c.ids, text, err)
		}
		var again IDs
		if err := again.UnmarshalText(text); err != nil || !slices.Equal(again, ids) || again.Len() != len(numbers(again)) {
			t.Errorf("%q is read as %v, %v", text, again, err)
		}
	}
	var touching IDs
	if err := touching.UnmarshalText([]byte("1 2-3 4 6")); err != nil || !slices.Equal(touching, IDs{{1, 4}, {6, 6}}) {
		t.Errorf("%v, %v", touching, err)
	}
	for _, bad := range []string{"x", "-1", "3-", "5-2", "1-9999999999", "9 3", "1 1", "1-5 3-9", "1 1-2 0", "1.5", "99999999999999999999", "1-600000 700000-1300000"} {
		ids := IDs{{1, 1}}
		if err := ids.UnmarshalText([]byte(bad)); err == nil || !slices.Equal(ids, IDs{{1, 1}}) {
			t.Errorf("%q is read as %v", bad, ids)
		}
	}
}

// Subtraction by ranges is subtraction number by number.
func TestIDsWithout(t *testing.T) {
	if got := IDsOf(1, 2, 5, 9).Without(IDsOf(2, 3, 9)); !slices.Equal(got, IDsOf(1, 5)) {
		t.Errorf("without: %v", got)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 3000 {
		some := func() (list []uint64) {
			for range rng.IntN(12) {
				list = append(list, uint64(1+rng.IntN(20)))
			}
			return list
		}
		a, b := some(), some()
		var want []uint64
		for _, n := range a {
			if !slices.Contains(b, n) {
				want = append(want, n)
			}
		}
		if got := IDsOf(a...).Without(IDsOf(b...)); !slices.Equal(got, IDsOf(want...)) {
			t.Fatalf("%v without %v is %v", a, b, got)
		}
	}
}

// TestIDsStaySmall checks that a list of a few bytes does not expand to megabytes, for any number of lists: records
// are untrusted.
func TestIDsStaySmall(t *testing.T) {
	const lists = 2000
	data := []byte(`[` + string(bytes.Repeat([]byte(`{"stack":"a","count":1,"ids":"1-1048576"},`), lists-1)) + `{"stack":"a","count":1,"ids":"1-1048576"}]`)
	var groups []Group
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := json.Unmarshal(data, &groups); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 50*uint64(len(data)) {
		t.Errorf("%d KiB took %d KiB", len(data)>>10, took>>10)
	}
	if len(groups) != lists || groups[lists-1].IDs.Len() != 1<<20 {
		t.Errorf("%d groups of %d", len(groups), groups[0].IDs.Len())
	}
}

func FuzzIDs(f *testing.F) {
	f.Add("1 18 34-36 60", "18-34")
	f.Add("1-1048577", "")
	f.Add("1-1048576", "5 7-9 1048576")
	f.Fuzz(func(t *testing.T, text, others string) {
		var ids, again, less IDs
		if ids.UnmarshalText([]byte(text)) != nil || less.UnmarshalText([]byte(others)) != nil {
			return
		}
		written, err := ids.MarshalText()
		if err2 := again.UnmarshalText(written); err != nil || err2 != nil || !slices.Equal(ids, again) {
			t.Errorf("%q: %v, %v", text, err, err2)
		}
		if n := ids.Len(); n < 0 || n > maxIDs {
			t.Errorf("%q: %d numbers", text, n)
		}
		rest := ids.Without(less)
		both := ids.Without(rest)
		if rest.Len()+both.Len() != ids.Len() || less.Without(both).Len()+both.Len() != less.Len() {
			t.Errorf("%q without %q: %v, and both have %v", text, others, rest, both)
		}
	})
}
