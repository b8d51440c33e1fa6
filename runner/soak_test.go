package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

// soakLab is a lab whose one variant soaks: a round every ten minutes for three days.
func soakLab(t *testing.T) *lab {
	l := newLab(t)
	l.Variants = l.Variants[:1]
	l.Scenario.Spec.Rounds = 0
	l.Scenario.Spec.Soak = &leak.SoakSpec{Every: leak.Duration(10 * time.Minute), For: leak.Duration(72 * time.Hour)}
	l.Identity = &fakeIdentity{}
	return l
}

// fakeIdentity says that the process is the same, unless other is set.
type fakeIdentity struct{ other error }

func (f *fakeIdentity) Mark(ctx context.Context, _ leak.Target) (leak.ProcessMark, error) {
	return leak.ProcessMark{Collections: 7, Ended: 1007}, ctx.Err()
}

func (f *fakeIdentity) Same(_ context.Context, _ leak.Target, before leak.ProcessMark) (string, error) {
	if before.Ended != 1007 {
		return "", errors.New("it is asked about another")
	}
	return "the same", f.other
}

// onDisk counts the raw files of the rounds.
func onDisk(t *testing.T, dir rundir.Dir) (n int) {
	t.Helper()
	err := filepath.WalkDir(string(dir), func(path string, d fs.DirEntry, err error) error {
		if strings.HasPrefix(d.Name(), rundir.Unfinished) {
			t.Errorf("%s is left", path)
		}
		if err == nil && !d.IsDir() && strings.Contains(path, "/round-") {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func checkSoak(t *testing.T, r *leak.Record, rounds int) *leak.VariantRecord {
	t.Helper()
	v := r.Variant("leaky")
	if r.Failure != nil || v.Failure != nil || v.Soak == nil || v.Idle == nil || v.Soak.Rounds != rounds || v.Final().Round != rounds {
		t.Fatalf("failure %v %v, %+v, idle %v", r.Failure, v.Failure, v.Soak, v.Idle != nil)
	}
	next, attempted := 0, 0
	for _, s := range v.Snapshots {
		if s.First() != next {
			t.Fatalf("round %d begins with %d, want %d", s.Round, s.First(), next)
		}
		next = s.Round + 1
		for _, load := range s.Load {
			attempted += load.Attempted
		}
	}
	if attempted != 4*rounds || v.Final().Operations != attempted || len(v.Snapshots) > maxKept {
		t.Errorf("%d operations in all, %d at the end, of %d rounds; %d snapshots", attempted, v.Final().Operations, rounds, len(v.Snapshots))
	}
	return v
}

func TestSoak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := soakLab(t)
		start := time.Now()
		record, err := l.run(t, t.Context())
		if err != nil {
			t.Fatal(err)
		}
		v := checkSoak(t, record, 432)
		if took := time.Since(start); took < 71*time.Hour+50*time.Minute || took > 72*time.Hour {
			t.Errorf("it took %v", took)
		}
		if p := record.Plan; p.Rounds != 432 || p.Soak == nil || !slices.Equal(p.Looks, []int{10, 20, 40, 80, 160, 320, 432}) {
			t.Errorf("plan %+v", p)
		}
		if s := v.Soak; s.Stride != 4 || s.Late != 0 || s.Missed != 0 || v.Stopped != "" || !record.SoakOver() {
			t.Errorf("%+v, stopped %q", s, v.Stopped)
		}
		// The fake probe always reads the same content, so the disk has it once.
		if n := onDisk(t, l.Dir); n != 1 {
			t.Errorf("%d raw files of rounds", n)
		}
		for f := range filesOf(v) {
			if _, err := os.Stat(l.Dir.Path(f)); err != nil {
				t.Error(err)
			}
		}
	})
}

// Rounds that take too long are late, and what they missed is not made up for.
func TestSoakIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := soakLab(t)
		l.Scenario.Spec.Soak.For = leak.Duration(2 * time.Hour) // slots 0 to 11
		n := 0
		l.at = func(e string) error {
			if strings.HasPrefix(e, "leaky load") {
				switch n++; n {
				case 1 + 3:
					time.Sleep(25 * time.Minute) // the round of slot 2; slots 3 and 4 pass, 4 is made up for
				case 1 + 6:
					time.Sleep(11 * time.Minute)
				}
			}
			return nil
		}
		record, err := l.run(t, t.Context())
		if err != nil {
			t.Fatal(err)
		}
		v := checkSoak(t, record, 11)
		if s := v.Soak; s.Late != 2 || s.Missed != 1 || s.Slots != 12 || !strings.Contains(v.Stopped, "11 of 12 rounds were measured, 2 of them late") {
			t.Errorf("%+v, stopped %q", s, v.Stopped)
		}
	})
}

// killed runs until the n-th event and leaves on disk what a killed leakrig there would, or one that is
// interrupted.
func killed(t *testing.T, l *lab, n int, interrupted bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var text []byte
	var mu sync.Mutex // the cluster is watched beside the rounds
	events := 0
	l.at = func(string) error {
		mu.Lock()
		defer mu.Unlock()
		events++
		if events == n {
			text, _ = os.ReadFile(l.Dir.Path(rundir.RecordFile))
			cancel()
		}
		return nil
	}
	if _, err := l.run(t, ctx); err != nil {
		t.Fatal(err)
	}
	l.at = func(string) error { return nil }
	if text == nil {
		t.Fatalf("%d events only", events)
	}
	if interrupted {
		return
	}
	if err := os.WriteFile(l.Dir.Path(rundir.RecordFile), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestSoakIsResumed checks that the next start resumes the soak after a kill at any point, and loses only the round
// in progress.
func TestSoakIsResumed(t *testing.T) {
	for seed := range uint64(5) {
		bubble(t, fmt.Sprint("seed ", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 3))
			l := soakLab(t)
			l.Scenario.Spec.Soak.For = leak.Duration(20 * time.Hour) // 120 rounds
			resumed, least := 0, 0
			for i := range 6 {
				killed(t, l, 1+rng.IntN(90), i%2 == 1)
				// A raw file half written, and one of the round in flight.
				_ = l.Dir.WriteFile("leaky/round-9999/goroutine.pb.gz", []byte("in flight"))
				_ = os.WriteFile(l.Dir.Path("leaky", rundir.Unfinished+"123"), nil, 0o600)
				earlier, err := l.Dir.ReadRecord()
				if err != nil {
					t.Fatal(err)
				}
				if earlier.SoakOver() {
					t.Fatal("it is over")
				}
				if v := earlier.Variant("leaky"); v != nil && v.Soak != nil {
					resumed = v.Soak.Resumptions + 1 // unless it is killed before it has asked for the process
					if v.Soak.Rounds < least {
						t.Fatalf("round %d, after it had come to %d", v.Soak.Rounds, least)
					}
					least = v.Soak.Rounds
				}
				l.Resume = earlier
				l.events = nil
			}
			down := 3 * time.Hour // does not count
			time.Sleep(down)
			l.Version = "v2"
			record, err := l.run(t, t.Context())
			if err != nil {
				t.Fatal(err)
			}
			v := checkSoak(t, record, 120)
			if v.Soak.Resumptions != resumed || resumed > 0 && (len(v.Warnings) != 1 || !strings.Contains(v.Warnings[0], fmt.Sprintf("resumed %d times", resumed))) {
				t.Errorf("%d resumptions, want %d; warnings %q", v.Soak.Resumptions, resumed, v.Warnings)
			}
			if resumed > 0 {
				if last := v.Soak.Resumed[len(v.Soak.Resumed)-1]; last.Leakrig != "v2" || record.Leakrig != "v2" || last.Same != "the same" || last.Seconds < down.Seconds() {
					t.Errorf("%+v", last)
				}
				onDisk(t, l.Dir)
				if _, err := os.Stat(l.Dir.Path("leaky/round-9999")); err == nil {
					t.Error("the round in flight is still there")
				}
				if at := slices.IndexFunc(l.events, func(e string) bool { return strings.HasPrefix(e, "leaky load ") }); !strings.HasPrefix(l.events[at], fmt.Sprintf("leaky load %d000001", resumed)) {
					t.Errorf("operations are numbered from %q", l.events[at])
				}
			}
		})
	}
}

// In another process nothing goes on, and the record stays what it was.
func TestSoakOfAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := soakLab(t)
		killed(t, l, 300, false)
		before, _ := os.ReadFile(l.Dir.Path(rundir.RecordFile))
		for name, identity := range map[string]Identity{
			"another": &fakeIdentity{other: &leak.AnotherProcessError{Reason: "it is another"}},
			"unknown": nil,
		} {
			l.Identity = identity
			l.Resume, _ = l.Dir.ReadRecord()
			var another *leak.AnotherProcessError
			if _, err := Run(t.Context(), l.Config); !errors.As(err, &another) {
				t.Errorf("%s: %v", name, err)
			}
			if after, _ := os.ReadFile(l.Dir.Path(rundir.RecordFile)); string(after) != string(before) {
				t.Errorf("%s: the record was changed", name)
			}
		}
		// One that does not answer may do so at the next start.
		l.Identity = &fakeIdentity{other: errors.New("connection refused")}
		l.Resume, _ = l.Dir.ReadRecord()
		record, err := l.run(t, t.Context())
		if err != nil || record.Variants[0].Failure == nil || record.SoakOver() || record.Variants[0].Soak.Rounds == 0 {
			t.Fatalf("%v: %+v", err, record)
		}
		l.Identity = &fakeIdentity{}
		l.Resume, _ = l.Dir.ReadRecord()
		if record, err = l.run(t, t.Context()); err != nil {
			t.Fatal(err)
		}
		if v := checkSoak(t, record, 432); !slices.ContainsFunc(v.Warnings, func(w string) bool { return strings.Contains(w, "connection refused") }) {
			t.Errorf("warnings %q", v.Warnings)
		}
	})
}

// What looks like a leak under load and drains while idling does not end a soak; what stays does.
func TestSoakEndsEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := soakLab(t)
		var asked []string
		l.Enough = func(_ leak.Variant, r leak.VariantRecord) string {
			round := r.Final().Round
			if round == 10 || round == 20 {
				asked = append(asked, fmt.Sprint(round, r.Idle != nil))
			}
			if round == 20 || round == 10 && r.Idle == nil {
				return "it leaks"
			}
			return ""
		}
		record, err := l.run(t, t.Context())
		if err != nil {
			t.Fatal(err)
		}
		v := checkSoak(t, record, 20)
		if v.Stopped != "it leaks" || v.Idle.Round != 20 || !slices.Equal(asked, []string{"10 false", "10 true", "20 false", "20 true"}) {
			t.Errorf("stopped %q, idle after %d, asked %v", v.Stopped, v.Idle.Round, asked)
		}
	})
}

// A leakrig that ended between a round and the look at it looks when it is resumed: the next look may be days away.
func TestSoakLooksWhenResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := soakLab(t)
		ctx, cancel := context.WithCancel(t.Context())
		l.Enough = func(_ leak.Variant, r leak.VariantRecord) string {
			switch {
			case r.Final().Round != 20:
				return ""
			case ctx.Err() == nil:
				cancel()
				return ""
			}
			return "it leaks"
		}
		if _, err := l.run(t, ctx); err != nil {
			t.Fatal(err)
		}
		var err error
		if l.Resume, err = l.Dir.ReadRecord(); err != nil {
			t.Fatal(err)
		}
		record, err := l.run(t, t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if v := checkSoak(t, record, 20); v.Stopped != "it leaks" {
			t.Errorf("stopped %q", v.Stopped)
		}
	})
}

// A soak that is interrupted while some of its replicas are measured after idling is not over.
func TestSoakInterruptedWhileIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _, a := newHerd(t)
		l.Scenario.Spec.Rounds = 0
		l.Scenario.Spec.Soak = &leak.SoakSpec{Every: leak.Duration(10 * time.Minute), For: leak.Duration(2 * time.Hour)}
		l.Identity = &fakeIdentity{}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var samples atomic.Int32
		a.sampling = func(ctx context.Context, url string) error {
			const before = 3 * (1 + 12) // the idling, of three replicas
			switch n := samples.Add(1); {
			case n <= before:
				return nil
			case strings.HasSuffix(url, "leaky1"):
				time.AfterFunc(time.Second, cancel)
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}
		if _, err := l.run(t, ctx); err != nil {
			t.Fatal(err)
		}
		record, err := l.Dir.ReadRecord()
		if err != nil || !record.Interrupted || record.Variant("leaky").Soak.Rounds != 12 || record.SoakOver() {
			t.Errorf("%v, interrupted %v, %+v, over %v", err, record.Interrupted, record.Variant("leaky").Soak, record.SoakOver())
		}
	})
}

// Replicas soak together, and are resumed together: a round that only some of them were read in is none.
func TestSoakOfReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h, _ := newHerd(t)
		l.Scenario.Spec.Rounds = 0
		l.Scenario.Spec.Soak = &leak.SoakSpec{Every: leak.Duration(10 * time.Minute), For: leak.Duration(24 * time.Hour)}
		l.Identity = &fakeIdentity{}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		time.AfterFunc(5*time.Hour, cancel)
		if _, err := l.run(t, ctx); err != nil {
			t.Fatal(err)
		}
		earlier, err := l.Dir.ReadRecord()
		if err != nil {
			t.Fatal(err)
		}
		v := earlier.Variant("leaky")
		rounds := v.Soak.Rounds
		if rounds < 25 || rounds > 31 || len(v.Soak.Processes) != 3 {
			t.Fatalf("%+v", v.Soak)
		}
		torn := *v.Replicas[1].Final()
		torn.Round++
		v.Replicas[1].Snapshots = append(v.Replicas[1].Snapshots, torn)
		l.Resume = earlier
		h.fakeSubject = &fakeSubject{lab: l, name: "leaky", done: make(chan struct{})}
		for i := range h.all {
			h.all[i] = &fakeSubject{lab: l, name: fmt.Sprintf("leaky%d", i+1), done: make(chan struct{})}
		}
		record, err := l.run(t, t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, one := range record.Variant("leaky").Each() {
			next, attempted := 0, 0
			for _, s := range one.Snapshots {
				if s.First() != next {
					t.Fatalf("replica %d: round %d begins with %d, want %d", i+1, s.Round, s.First(), next)
				}
				next = s.Round + 1
				for _, load := range s.Load {
					attempted += load.Attempted
				}
			}
			if one.Failure != nil || one.Final().Round != 144 || one.Final().Operations != attempted || len(one.Snapshots) > maxKept || one.Idle == nil {
				t.Errorf("replica %d: %v, %d snapshots up to round %d, %d operations, %d in its tallies", i+1, one.Failure, len(one.Snapshots), one.Final().Round, one.Final().Operations, attempted)
			}
		}
		if s := record.Variant("leaky").Soak; s.Resumptions != 1 || s.Rounds != 144 {
			t.Errorf("%+v", s)
		}
	})
}
