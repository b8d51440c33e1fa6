package leak

import (
	"slices"
	"testing"
)

func TestIDs(t *testing.T) {
	for _, c := range []struct {
		ids  IDs
		text string
	}{
		{nil, ""},
		{IDs{7}, "7"},
		{IDs{7, 8}, "7-8"},
		{IDs{1, 18, 34, 35, 36, 60}, "1 18 34-36 60"},
	} {
		text, err := c.ids.MarshalText()
		if err != nil || string(text) != c.text {
			t.Errorf("%v is written as %q, %v", c.ids, text, err)
		}
		var again IDs
		if err := again.UnmarshalText(text); err != nil || !slices.Equal(again, c.ids) {
			t.Errorf("%q is read as %v, %v", text, again, err)
		}
	}
	for _, bad := range []string{"x", "-1", "3-", "5-2", "1-9999999999", "9 3", "1 1-2 0", "1.5", "99999999999999999999"} {
		ids := IDs{1}
		if err := ids.UnmarshalText([]byte(bad)); err == nil || !slices.Equal(ids, IDs{1}) {
			t.Errorf("%q is read as %v", bad, ids)
		}
	}
	if got := (IDs{1, 2, 5, 9}).Without(IDs{2, 3, 9}); !slices.Equal(got, IDs{1, 5}) {
		t.Errorf("without: %v", got)
	}
}

func FuzzIDs(f *testing.F) {
	f.Add("1 18 34-36 60")
	f.Add("1-1048577")
	f.Fuzz(func(t *testing.T, text string) {
		var ids, again IDs
		if ids.UnmarshalText([]byte(text)) != nil {
			return
		}
		written, err := ids.MarshalText()
		if err2 := again.UnmarshalText(written); err != nil || err2 != nil || !slices.Equal(ids, again) {
			t.Errorf("%q: %v, %v", text, err, err2)
		}
	})
}
