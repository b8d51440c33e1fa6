package node

import "testing"

func TestStartTime(t *testing.T) {
	for stat, want := range map[string]string{
		"42 (a) b) c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20": "4711",
		"42 (x) S 1": "", "": "",
	} {
		if got := StartTime([]byte(stat)); got != want {
			t.Errorf("%q: %q", stat, got)
		}
	}
}
