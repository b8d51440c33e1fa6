package profiles

import (
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/leakrig/leakrig/leak"
)

// This very process is known again, by the collection that it remembers.
func TestIdentityOfThisProcess(t *testing.T) {
	s := serve(t, itself())
	mark, err := Identity{}.Mark(t.Context(), s.Target)
	if err != nil || mark.Collections < 1 || time.Since(time.Unix(0, mark.Ended)) > time.Hour || time.Since(mark.Read) > time.Minute {
		t.Fatalf("%+v, %v", mark, err)
	}
	for range 3 {
		runtime.GC()
	}
	how, err := Identity{}.Same(t.Context(), s.Target, mark)
	if err != nil || !strings.Contains(how, fmt.Sprintf("number %d", mark.Collections)) {
		t.Fatalf("%q, %v", how, err)
	}
	another := mark
	another.Ended++
	if _, err := (Identity{}).Same(t.Context(), s.Target, another); !isAnother(err) {
		t.Errorf("a nanosecond later: %v", err)
	}
}

func isAnother(err error) bool {
	var another *leak.AnotherProcessError
	return errors.As(err, &another)
}

// told serves the collections of a process, and how long one of its goroutines has waited.
func told(t *testing.T, count int, waits string) *subject {
	ends := make([]string, remembered)
	for i := range ends {
		ends[i] = "0"
	}
	for n := max(1, count-remembered+1); n <= count; n++ {
		ends[(n-1)%remembered] = fmt.Sprint(1000 + n)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/heap", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "heap profile: 0: 0\n# PauseEnd = [%s]\n# NumGC = %d\n", strings.Join(ends, " "), count)
	})
	mux.HandleFunc("/debug/pprof/goroutine", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "goroutine 1 [running]:\nmain.main()\n\ngoroutine 7 [select%s]:\nmain.wait()\n", waits)
	})
	return serve(t, mux)
}

func TestIdentity(t *testing.T) {
	for _, tt := range []struct {
		name  string
		count int
		waits string
		mark  leak.ProcessMark
		same  string
		other string
	}{
		{"the last collection", 40, "", leak.ProcessMark{Collections: 40, Ended: 1040}, "collection number 40", ""},
		{"one that is just remembered", 300, "", leak.ProcessMark{Collections: 45, Ended: 1045}, "collection number 45", ""},
		{"at another time", 40, "", leak.ProcessMark{Collections: 40, Ended: 1041}, "", "was at another time"},
		{"fewer than before", 40, ", 600 minutes", leak.ProcessMark{Collections: 41, Ended: 1041}, "", "it has had 40 garbage collections, the one before had had 41"},
		{"forgotten, and a goroutine that waited for less", 300, ", 9 minutes", leak.ProcessMark{Collections: 44, Ended: 1044}, "", "no goroutine has waited longer than 10m0s"},
		{"forgotten, and a goroutine that waited since before", 300, ", 11 minutes", leak.ProcessMark{Collections: 44, Ended: 1044}, "has waited for 11m0s", ""},
		{"nothing noted", 40, "", leak.ProcessMark{}, "", "nothing was noted"},
	} {
		s := told(t, tt.count, tt.waits)
		tt.mark.Read = time.Now().Add(-10 * time.Minute)
		how, err := Identity{}.Same(t.Context(), s.Target, tt.mark)
		if !strings.Contains(how, tt.same) || isAnother(err) != (tt.other != "") || err != nil && !strings.Contains(err.Error(), tt.other) || (how == "") != (tt.same == "") {
			t.Errorf("%s: %q, %v", tt.name, how, err)
		}
	}
	// Who does not answer is not another process: the next start may ask again.
	gone := told(t, 1, "")
	gone.Pprof = "http://127.0.0.1:1"
	if _, err := (Identity{}).Same(t.Context(), gone.Target, leak.ProcessMark{Collections: 1}); err == nil || isAnother(err) {
		t.Errorf("unreachable: %v", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/heap", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "# NumGC = 1") })
	if _, err := (Identity{}).Mark(t.Context(), serve(t, mux).Target); err == nil {
		t.Error("a profile without the ends of collections was taken for one")
	}
}

// Two profiles that were taken at another time, with their samples in another order, tell the same; one goroutine
// more, or one elsewhere, does not.
func TestSameness(t *testing.T) {
	at := func(address uint64) *profile.Location {
		return &profile.Location{ID: address, Address: address, Line: []profile.Line{{Function: &profile.Function{ID: address, Name: fmt.Sprint("f", address)}, Line: 7}}}
	}
	of := func(when int64, samples ...*profile.Sample) string {
		return sameness(&profile.Profile{TimeNanos: when, Sample: samples})
	}
	one := &profile.Sample{Value: []int64{1}, Location: []*profile.Location{at(1), at(2)}}
	two := &profile.Sample{Value: []int64{2}, Location: []*profile.Location{at(3)}}
	three := &profile.Sample{Value: []int64{3}, Location: []*profile.Location{at(3)}}
	other := &profile.Sample{Value: []int64{2}, Location: []*profile.Location{at(4)}}
	first := of(1, one, two)
	if of(2, two, one) != first {
		t.Error("time or order make a difference")
	}
	if of(1, one, three) == first || of(1, one, other) == first || of(1, one) == first {
		t.Error("what differs tells the same")
	}
}
