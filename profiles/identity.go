package profiles

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"github.com/leakrig/leakrig/leak"
)

// remembered is how many ends of collections the runtime keeps (runtime.MemStats.PauseEnd).
const remembered = 256

// Identity recognises a Go process by data from net/http/pprof: the text form of the heap profile has the ends of the
// last 256 garbage collections, to the nanosecond, and a text dump has the minutes that each goroutine has waited.
// Similarity (the same program, the same number of goroutines, a larger number of collections) proves nothing.
type Identity struct{}

// Mark returns the end of the last garbage collection. It forces one if there was none.
func (Identity) Mark(ctx context.Context, t leak.Target) (leak.ProcessMark, error) {
	for _, path := range []string{"/heap?debug=1", "/heap?gc=1&debug=1"} {
		now := time.Now().UTC()
		c, err := readCollections(ctx, t, path)
		if err != nil {
			return leak.ProcessMark{}, err
		}
		if c.count > 0 {
			return leak.ProcessMark{Read: now, Collections: c.count, Ended: c.end(c.count)}, nil
		}
	}
	return leak.ProcessMark{}, errors.New("no garbage collection was recorded")
}

// Same explains why the process at t is the process of the mark.
func (Identity) Same(ctx context.Context, t leak.Target, before leak.ProcessMark) (string, error) {
	c, err := readCollections(ctx, t, "/heap?debug=1")
	if err != nil {
		return "", err
	}
	switch {
	case before.Collections < 1:
		return "", &leak.AnotherProcessError{Reason: "nothing was noted by which its process could be known again"}
	case c.count < before.Collections:
		return "", &leak.AnotherProcessError{Reason: fmt.Sprintf("it is another process: it has had %d garbage collections, the one before had had %d", c.count, before.Collections)}
	case c.count-before.Collections < remembered && c.end(before.Collections) != before.Ended:
		return "", &leak.AnotherProcessError{Reason: fmt.Sprintf("it is another process: its garbage collection number %d was at another time", before.Collections)}
	case c.count-before.Collections < remembered:
		return fmt.Sprintf("the same process, which remembers its garbage collection number %d", before.Collections), nil
	}
	raw, err := fetch(ctx, t, "/goroutine?debug=2")
	if err != nil && !errors.Is(err, errNotServed) {
		return "", err
	}
	away := time.Since(before.Read)
	waited := time.Duration(longestWait(raw)) * time.Minute
	if waited > away {
		return fmt.Sprintf("the same process: one of its goroutines has waited for %s", waited), nil
	}
	return "", &leak.AnotherProcessError{Reason: fmt.Sprintf("it may be another process: it has had %d garbage collections since and remembers the last %d, and no goroutine has waited longer than %s",
		c.count-before.Collections, remembered, away.Round(time.Second))}
}

// longestWait is the most minutes that a goroutine of a text dump has waited, rounded down.
func longestWait(dump []byte) int {
	longest := 0
	lines := bufio.NewScanner(bytes.NewReader(dump))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if h, ok := parseHeader(lines.Bytes()); ok {
			longest = max(longest, h.minutes)
		}
	}
	return longest
}

// collections has the number of garbage collections and the ring of the ends of the last ones.
type collections struct {
	count int64
	ends  []int64
}

// end is when the n-th ended, counted from 1.
func (c collections) end(n int64) int64 { return c.ends[(n-1)%remembered] }

// readCollections reads the "# NumGC = 12" and "# PauseEnd = [1 2 …]" of a heap profile's text form.
func readCollections(ctx context.Context, t leak.Target, path string) (collections, error) {
	text, err := fetch(ctx, t, path)
	if err != nil {
		return collections{}, err
	}
	var c collections
	found := false
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, value, _ := strings.Cut(strings.TrimPrefix(lines.Text(), "# "), " = ")
		switch name {
		case "NumGC":
			c.count, err = strconv.ParseInt(value, 10, 64)
			found = err == nil
		case "PauseEnd":
			for _, word := range strings.Fields(strings.Trim(value, "[]")) {
				end, err := strconv.ParseInt(word, 10, 64)
				if err != nil {
					return c, fmt.Errorf("%s%s: PauseEnd: %w", t.Pprof, path, err)
				}
				c.ends = append(c.ends, end)
			}
		}
	}
	if err := errors.Join(err, lines.Err()); err != nil {
		return c, fmt.Errorf("%s%s: %w", t.Pprof, path, err)
	}
	if !found || c.count < 0 || len(c.ends) != remembered {
		return c, fmt.Errorf("%s%s: it does not list garbage collections as net/http/pprof does", t.Pprof, path)
	}
	return c, nil
}

// sameness is equal for profiles that differ in nothing but their time and the order of their samples.
func sameness(p *profile.Profile) string {
	lines := make([]string, 0, len(p.Sample)+len(p.Mapping))
	h := sha256.New()
	add := func() {
		lines = append(lines, string(h.Sum(nil)))
		h.Reset()
	}
	for _, s := range p.Sample {
		fmt.Fprint(h, s.Value, s.Label, s.NumLabel)
		for _, l := range s.Location {
			fmt.Fprintf(h, " %#x", l.Address)
			for _, at := range l.Line {
				if at.Function != nil {
					fmt.Fprintf(h, " %s:%d", at.Function.Name, at.Line)
				}
			}
		}
		add()
	}
	for _, m := range p.Mapping {
		fmt.Fprintf(h, "%#x %s %s", m.Start, m.File, m.BuildID)
		add()
	}
	slices.Sort(lines)
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(lines, ""))))
}
