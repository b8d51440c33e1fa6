package fleet

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/leakrig/leakrig/rundir"
)

// answers is a Pyroscope server with one answer for each method.
type answers map[string][]byte

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{Status: "200 OK", StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(a[path.Base(r.URL.Path)])), Request: r}, nil
}

// archiveOf is a day of that server in 8 buckets.
func archiveOf(a answers, from time.Time) *pyroscope {
	return &pyroscope{
		url: "http://pyroscope:4040", query: "{}", transport: func() http.RoundTripper { return a },
		groupBy: []string{"service_name", "namespace", "pod"}, from: from, every: 3 * time.Hour, buckets: 8,
	}
}

const storedTypes = `{"profileTypes":[{"ID":"goroutines:goroutine:count:goroutine:count","sampleType":"goroutine"},{"ID":"memory:inuse_space:bytes:space:bytes","sampleType":"inuse_space"}]}`

// pointsOf are the series of one target with a total in each of n buckets.
func pointsOf(labels string, from time.Time, totals ...float64) string {
	var points []string
	for i, total := range totals {
		points = append(points, fmt.Sprintf(`{"value":%g,"timestamp":"%d"}`, total, from.Add(time.Duration(i+1)*3*time.Hour).UnixMilli()))
	}
	return `{"labels":[` + labels + `],"points":[` + strings.Join(points, ",") + `]}`
}

// stacksOf is a profile with a number of goroutines on each stack of one function.
func stacksOf(t testing.TB, counts map[string]int64) []byte {
	t.Helper()
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "goroutine", Unit: "count"}}}
	for name, n := range counts {
		f := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name, Filename: "main.go"}
		l := &profile.Location{ID: f.ID, Line: []profile.Line{{Function: f, Line: 7}}}
		p.Function, p.Location = append(p.Function, f), append(p.Location, l)
		p.Sample = append(p.Sample, &profile.Sample{Location: []*profile.Location{l}, Value: []int64{n}})
	}
	var b bytes.Buffer
	if err := p.WriteUncompressed(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestPyroscopeMean checks that the counts of a bucket are those of one profile: Pyroscope adds up 720 profiles, each
// with the goroutine that wrote it.
func TestPyroscopeMean(t *testing.T) {
	from := time.Now().Add(-24 * time.Hour).Truncate(time.Millisecond)
	a := archiveOf(answers{
		"ProfileTypes":       []byte(storedTypes),
		"SelectSeries":       []byte(`{"series":[` + pointsOf(`{"name":"pod","value":"a"}`, from, 8) + `]}`),
		"SelectMergeProfile": stacksOf(t, map[string]int64{"main.worker": 7 * 720, "runtime/pprof.writeGoroutine": 720}),
	}, from)
	targets, err := a.list(t.Context())
	if err != nil || len(targets) != 1 {
		t.Fatalf("%d targets, %v", len(targets), err)
	}
	poll, err := a.read(t.Context(), targets[0], 0, 0)
	if err != nil || poll.Total != 7 || len(poll.Groups) != 1 || poll.Groups[0].Count != 7 {
		t.Errorf("%+v %v", poll, err)
	}
}

// TestPyroscopeLabels checks that targets are kept apart that differ in which labels they have, and that each is asked
// for without the others.
func TestPyroscopeLabels(t *testing.T) {
	from := time.Now().Add(-24 * time.Hour).Truncate(time.Millisecond)
	a := archiveOf(answers{
		"ProfileTypes": []byte(storedTypes),
		"SelectSeries": []byte(`{"series":[` + pointsOf(`{"name":"service_name","value":"a"},{"name":"pod","value":"b"}`, from, 1, 2) + `,` +
			pointsOf(`{"name":"service_name","value":"a"},{"name":"namespace","value":"b"}`, from, 3) + `]}`),
	}, from)
	targets, err := a.list(t.Context())
	if err != nil || len(targets) != 2 {
		t.Fatalf("%d targets, %v", len(targets), err)
	}
	if targets[0].name != "a/b" || targets[1].name == targets[0].name || targets[0].totals[0][0] != 1 || targets[1].totals[0][0] != 3 {
		t.Errorf("%+v %+v", targets[0], targets[1])
	}
	if key := targets[1].key; key != `service_name="a",namespace="b",pod=""` {
		t.Errorf("%s", key)
	}
	// A point belongs to the bucket before its time, and one at the start to none.
	for ms, want := range map[int64]int{0: -1, 1: 0, a.every.Milliseconds(): 0, a.every.Milliseconds() + 1: 1, -1: -1} {
		if got := a.bucket(from.UnixMilli() + ms); got != want {
			t.Errorf("bucket of %d ms: %d, want %d", ms, got, want)
		}
	}
}

// TestPyroscopeAnswers checks that an answer that cannot be right is an error.
func TestPyroscopeAnswers(t *testing.T) {
	from := time.Now().Add(-24 * time.Hour).Truncate(time.Millisecond)
	many := make([]string, maxTargets+1)
	for i := range many {
		many[i] = fmt.Sprintf(`{"labels":[{"name":"pod","value":"%d"}]}`, i)
	}
	for name, tt := range map[string]struct{ series, want string }{
		"no JSON":        {"busy", "SelectSeries"},
		"negative":       {`{"series":[{"points":[{"value":-1,"timestamp":"1"}]}]}`, "a point of -1"},
		"too large":      {`{"series":[{"points":[{"value":1e300,"timestamp":"1"}]}]}`, "a point of 1e+300"},
		"no time":        {`{"series":[{"points":[{"value":1,"timestamp":"soon"}]}]}`, `at "soon"`},
		"too many":       {`{"series":[` + strings.Join(many, ",") + `]}`, "more than 20000 targets"},
		"nothing stored": {`{}`, "no goroutine or heap profile is stored"},
	} {
		_, err := weekly(archiveOf(answers{"ProfileTypes": []byte(storedTypes), "SelectSeries": []byte(tt.series)}, from), from).Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzPyroscope checks that any answers of a server are an error, or a record that is judged and that can be read
// again.
func FuzzPyroscope(f *testing.F) {
	from := time.UnixMilli(1e12)
	series := `{"series":[` + pointsOf(`{"name":"service_name","value":"a"},{"name":"pod","value":"b"}`, from, 1, 2, 3, 5, 6, 7, 8, 9) + `,` +
		pointsOf(`{"name":"pod","value":"c"}`, from, 50, 60, 70, 80, 10, 20, 30) + `]}`
	f.Add([]byte(storedTypes), []byte(series), stacksOf(f, map[string]int64{"main.worker": 3, "main.forgotten": 200}))
	f.Add([]byte(storedTypes), []byte(series), []byte{})
	f.Add([]byte(`{"profileTypes":[{"ID":"","sampleType":"goroutines"}]}`), []byte(`{"series":[{"labels":[{}],"points":[{"value":1e15,"timestamp":1}]}]}`), []byte{0x1f, 0x8b})
	dir := rundir.Dir(f.TempDir())
	f.Fuzz(func(t *testing.T, types, series, merged []byte) {
		s := weekly(archiveOf(answers{"ProfileTypes": types, "SelectSeries": series, "SelectMergeProfile": merged}, from), from)
		s.Buckets = 8
		r, err := s.Run(context.Background())
		if err != nil {
			return
		}
		for _, one := range r.Targets {
			if slices.ContainsFunc(one.Total, negative) || one.Heap != nil && slices.ContainsFunc(one.Heap.Total, negative) {
				t.Errorf("%s: a negative count", one.Name)
			}
		}
		if err := r.Write(dir); err != nil {
			t.Fatal(err)
		}
		again, err := Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := Text(io.Discard, Judge(again, Bounds{MinJudged: 0.99})); err != nil {
			t.Error(err)
		}
	})
}

func negative(n int32) bool { return n < 0 }
