package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/leakrig/leakrig/checks"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
	"github.com/leakrig/leakrig/profiles"
	"github.com/leakrig/leakrig/stats"
)

// archive has the stored profiles of many targets. Their time is divided into buckets of the same length.
type archive interface {
	// list returns the targets with their totals.
	list(ctx context.Context) ([]*stored, error)
	// read returns what one target had on its stacks in a bucket, on average, in the scale of the kind.
	read(ctx context.Context, t *stored, k, bucket int) (leak.Poll, error)
}

// stored is a target of an archive.
type stored struct {
	name string
	// totals has, for each of kinds, the mean of each bucket, NaN if it has no profile. Goroutines are counted, and the
	// heap is in KiB.
	totals [][]float64
	// key is what the archive finds the target by.
	key any
}

// Stored is a survey of stored profiles.
type Stored struct {
	archive archive
	// From and Every are the start of the first bucket, and the length of each. Buckets is their number.
	From    time.Time
	Every   time.Duration
	Buckets int
	// Concurrency is how many profiles are read at once.
	Concurrency int
	Progress    leak.Progress
}

// Rules that find restarts in stored totals, since profiles do not name their process.
const (
	// lostAtRestart is the share of its growth that a target loses at once.
	lostAtRestart = 0.6
	// steepFall is how many times the median change over two buckets it loses, within two buckets.
	steepFall = 5
	// longGap is the number of missing buckets after which a target is another one.
	longGap = 2
)

// Run reads the archive into a record. Each life of a target, from one restart to the next, is a target of the record.
//
// The first and the last profile of a life show which stacks it can leak on. Other stacks are recorded with their first
// count. If there is one, all profiles of the life are read.
func (c *Stored) Run(ctx context.Context) (*Record, error) {
	r := &Record{
		Schema: RecordSchema, Started: c.From, Finished: time.Now(), Every: leak.Duration(c.Every), For: leak.Duration(time.Duration(c.Buckets-1) * c.Every),
	}
	began := time.Now()
	targets, err := c.archive.list(ctx)
	if err != nil {
		return nil, err
	}
	if len(targets) == 0 {
		return nil, leak.WithHint(errors.New("no goroutine or heap profile is stored for this query and time"), "--query selects targets by their labels, --from the time")
	}
	for i := range c.Buckets {
		r.Sweeps = append(r.Sweeps, Sweep{Seconds: float64(i) * c.Every.Seconds(), Listed: len(targets), Read: len(targets)})
	}
	var lives []*life
	for _, t := range targets {
		for n, buckets := range t.lives() {
			if len(r.Targets) >= maxTargets {
				r.Beyond++
				continue
			}
			id := t.name
			if n > 0 {
				id = fmt.Sprintf("%s restarted %d", t.name, n)
			}
			series := r.add(id, t.name, buckets[0])
			lives = append(lives, &life{stored: t, buckets: thinned(buckets), series: series})
			series.Gone = buckets[len(buckets)-1] < c.Buckets-1-longGap
		}
	}
	stacks := newInterned(&r.Stacks)
	var mu sync.Mutex // guards stacks and r
	work := make(chan *life)
	var wg sync.WaitGroup
	for range max(1, c.Concurrency) {
		wg.Go(func() {
			for l := range work {
				if err := c.fill(ctx, l, stacks, &mu); err != nil {
					l.series.Failures++
					l.series.LastError = display.OneLine(err.Error(), maxReason)
				}
			}
		})
	}
	for i, l := range lives {
		if ctx.Err() != nil {
			break
		}
		work <- l
		if i%100 == 99 {
			c.Progress.Status("%d of %d lives of %d targets read", i+1, len(lives), len(targets))
		}
	}
	close(work)
	wg.Wait()
	for _, l := range lives {
		l.series.close(len(l.series.Seconds) >= fewest)
		l.series.closed = true
	}
	r.Interrupted = ctx.Err() != nil
	r.Sweeps[len(r.Sweeps)-1].Took = time.Since(began).Seconds()
	c.Progress.Log("%d lives of %d targets read in %s", len(lives), len(targets), round(time.Since(began)))
	return r, nil
}

// life is one life of a target: the buckets of one process.
type life struct {
	*stored
	buckets []int
	series  *Series
}

// thinned keeps at most maxPoints buckets, at even distances.
func thinned(buckets []int) []int {
	for len(buckets) > maxPoints {
		var half []int
		for i := 0; i < len(buckets); i += 2 {
			half = append(half, buckets[i])
		}
		buckets = half
	}
	return buckets
}

// has reports whether every kind that the target has is in a bucket.
func (t *stored) has(bucket int) bool {
	any := false
	for _, of := range t.totals {
		if of == nil {
			continue
		}
		if math.IsNaN(of[bucket]) {
			return false
		}
		any = true
	}
	return any
}

// lives divides the buckets of a target where it restarted: at a long gap, and where a total loses most of its growth
// at once. The bucket of a restart has profiles of both lives and belongs to none.
func (t *stored) lives() [][]int {
	var present []int
	buckets := 0
	for _, of := range t.totals {
		buckets = max(buckets, len(of))
	}
	for b := range buckets {
		if t.has(b) {
			present = append(present, b)
		}
	}
	if len(present) == 0 {
		return nil
	}
	usual := make([]float64, len(t.totals))
	for k, of := range t.totals {
		if of == nil {
			continue
		}
		var steps []float64
		for i := 2; i < len(present); i++ {
			steps = append(steps, math.Abs(of[present[i]]-of[present[i-2]]))
		}
		usual[k] = stats.Median(steps)
	}
	var lives [][]int
	now := []int{present[0]}
	for i := 1; i < len(present); i++ {
		b := present[i]
		restarted, mixed := b-present[i-1] > longGap, false
		for k, of := range t.totals {
			if of == nil || restarted {
				continue
			}
			next := of[b]
			if i+1 < len(present) {
				next = min(next, of[present[i+1]])
			}
			last := of[now[len(now)-1]]
			growth, fall := last-of[now[0]], last-next
			enough := max(lostAtRestart*growth, steepFall*usual[k], (2*checks.MoreThanElsewhere+1)*kinds[k].grain/kinds[k].scale)
			if growth > 0 && fall >= enough && last-of[b] >= fall/4 {
				restarted, mixed = true, next < of[b]-fall/4
			}
		}
		if restarted {
			lives = append(lives, now)
			now = nil
		}
		if !mixed {
			now = append(now, b)
		} else if i+1 < len(present) {
			i++
			now = append(now, present[i])
		}
	}
	if len(now) > 0 {
		lives = append(lives, now)
	}
	return lives
}

// fill reads the profiles of a life into its series.
func (c *Stored) fill(ctx context.Context, l *life, stacks *interned, mu *sync.Mutex) error {
	n := len(l.buckets)
	known := make([]map[int][]count, len(kinds)) // by kind and position
	read := func(k, i int) error {
		if _, ok := known[k][i]; ok {
			return nil
		}
		poll, err := c.archive.read(ctx, l.stored, k, l.buckets[i])
		if err != nil {
			return err
		}
		mu.Lock()
		known[k][i] = stacks.counts(poll)
		mu.Unlock()
		return nil
	}
	for k := range kinds {
		known[k] = map[int][]count{}
		if l.totals[k] == nil || n < fewest {
			continue
		}
		if err := cmp.Or(read(k, 0), read(k, n-1)); err != nil {
			return err
		}
		if !grew(known[k][0], known[k][n-1], kinds[k]) {
			continue
		}
		for i := range n {
			if err := read(k, i); err != nil {
				return err
			}
		}
	}
	for i, b := range l.buckets {
		var points [2]*reading
		for k := range kinds {
			if l.totals[k] == nil {
				continue
			}
			counts, ok := known[k][i]
			if !ok || len(known[k]) < n {
				counts = known[k][0]
			}
			points[k] = &reading{int64(l.totals[k][b]), counts}
		}
		if points[0] == nil {
			points[0] = &reading{}
		}
		l.series.addBoth(float64(b)*c.Every.Seconds(), math.NaN(), *points[0], points[1])
	}
	return nil
}

// grew reports whether some stack gained more than chance explains, so that it can leak.
func grew(first, last []count, k *kind) bool {
	before := map[int]int32{}
	for _, c := range first {
		before[c.stack] = c.n
	}
	return slices.ContainsFunc(last, func(c count) bool {
		return float64(c.n-before[c.stack])*k.scale > 2*k.grain
	})
}

// averaged returns the counts of a profile that is the sum of several, divided by their number.
func averaged(p *profiles.Profile, number float64) leak.Poll {
	scale := max(number, 1)
	if p.Source == profiles.SourceHeap {
		scale *= 1 << 10
	}
	poll := leak.Poll{Source: p.Source, Stacks: p.Stacks}
	for _, g := range p.Groups {
		n := int64(math.Round(float64(p.Amount(g)) / scale))
		poll.Total += n
		if n > 0 {
			poll.Groups = append(poll.Groups, leak.Group{Stack: g.Stack, Count: n})
		}
	}
	slices.SortStableFunc(poll.Groups, func(a, b leak.Group) int { return cmp.Compare(b.Count, a.Count) })
	return poll
}
