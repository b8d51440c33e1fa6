package profiles

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// TestResidentIsFresh checks that a report from before the request, of the previous round, is ignored.
func TestResidentIsFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		target := leak.Target{Resident: func(context.Context) (float64, time.Time, error) {
			// It looks every ten seconds, last three seconds before it is first asked.
			looks := time.Since(start).Truncate(10 * time.Second)
			return 1000 + looks.Seconds(), start.Add(looks - 3*time.Second), nil
		}}
		r, err := (&Process{}).Sample(t.Context(), target)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Sample.Values["rss"]; got != 1010 || !r.Sample.Read.After(start) {
			t.Errorf("%v read at %s, asked at %s", got, r.Sample.Read, start)
		}
	})
}

func TestResidentFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for want, resident := range map[string]func(context.Context) (float64, time.Time, error){
			"no route":                            func(context.Context) (float64, time.Time, error) { return 0, time.Time{}, errors.New("no route") },
			"no report of resident memory in 45s": func(context.Context) (float64, time.Time, error) { return 1, time.Time{}, nil },
		} {
			if _, err := (&Process{}).Sample(t.Context(), leak.Target{Resident: resident}); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		}
	})
}
