package runner

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// TestVariantsAtOnce measures two variants at once, in the time of one. The record of each is that of a variant
// measured alone.
func TestVariantsAtOnce(t *testing.T) {
	took := map[int]time.Duration{}
	for _, n := range []int{1, 2} {
		bubble(t, "", func(t *testing.T) {
			l := newLab(t)
			l.Scenario.Spec.Parallel = n
			// The leaky variant stops slowly, so that the other one writes the record while it has not published its last
			// files.
			l.at = func(e string) error {
				switch e {
				case "fixed load 13":
					time.Sleep(time.Second)
				case "stop leaky":
					time.Sleep(20 * time.Second)
				}
				return nil
			}
			start := time.Now()
			record, err := l.run(t, t.Context())
			if err != nil || record.Failure != nil {
				t.Fatal(err, record.Failure)
			}
			took[n] = time.Since(start)
			for i := range record.Variants {
				checkVariant(t, &record.Variants[i])
				for _, dir := range []string{"round-0", "round-3", "idle"} { // or the record counts as altered
					if name := path.Join(record.Variants[i].Name, dir, "goroutine.pb.gz"); record.Hashes[name] == "" {
						t.Errorf("%d at once: no hash of %s", n, name)
					}
				}
			}
			both := slices.Index(l.events, "start fixed /kubeconfig") < slices.Index(l.events, "stop leaky")
			if both != (n == 2) {
				t.Errorf("%d at once:\n%s", n, strings.Join(l.events, "\n"))
			}
		})
	}
	if took[1] == 0 || took[2] > took[1]*2/3 {
		t.Errorf("one after another %s, at once %s", took[1], took[2])
	}
}

// TestOneOfTwoAtOnceFails checks that the failure of one variant is in its record, and that the other is measured.
func TestOneOfTwoAtOnceFails(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		l := newLab(t)
		l.Scenario.Spec.Parallel = 2
		l.once("leaky load 9", func() error { return errors.New("refused") })
		record, err := l.run(t, t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if f := record.Variants[0].Failure; f == nil || !strings.Contains(f.Message, "refused") || len(record.Variants[0].Snapshots) != 2 {
			t.Errorf("leaky: %+v with %d snapshots", f, len(record.Variants[0].Snapshots))
		}
		checkVariant(t, &record.Variants[1])
	})
}

// TestBuildsOverlap checks that the cluster boots and the first variant is measured while the second one is built.
func TestBuildsOverlap(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		l := newLab(t)
		l.once("build fixed", func() error {
			time.Sleep(time.Hour)
			l.mu.Lock()
			defer l.mu.Unlock()
			if !slices.Contains(l.events, "stop leaky") {
				t.Errorf("leaky waited for the build of fixed:\n%s", strings.Join(l.events, "\n"))
			}
			return nil
		})
		record, err := l.run(t, t.Context())
		if err != nil || record.Failure != nil {
			t.Fatal(err, record.Failure)
		}
		for i := range record.Variants {
			checkVariant(t, &record.Variants[i])
		}
	})
}

// TestNothingBuiltStopsTheBoot checks that a boot ends when the last build has failed, and that the failures of the
// builds are what the record has.
func TestNothingBuiltStopsTheBoot(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		l := newLab(t)
		l.at = func(e string) error {
			if strings.HasPrefix(e, "build") {
				time.Sleep(time.Minute)
				return errors.New("does not compile")
			}
			return nil
		}
		l.Boot = func(ctx context.Context, _ leak.Variant) (leak.Cluster, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		record, err := l.run(t, t.Context())
		if err != nil || record.Failure != nil {
			t.Fatal(err, record.Failure)
		}
		for _, v := range record.Variants {
			if v.Failure == nil || !strings.Contains(v.Failure.Message, "does not compile") {
				t.Errorf("%s: %+v", v.Name, v.Failure)
			}
		}
	})
}
