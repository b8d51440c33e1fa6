package fleet

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/profiles"
	"github.com/leakrig/leakrig/rundir"
)

// service is one of a fleet whose profiles were stored for a week.
type service struct {
	name string
	// goroutines and kib leak per hour.
	goroutines, kib float64
	// starts are the hours at which it started, deploys the starts that gave it another pod name.
	starts  []float64
	deploys map[int]bool
	rng     *rand.Rand
}

const week = 7 * 24.

// services are n services, of which five leak: three goroutines, two memory. Every third one was deployed on day 3,
// every fifth one restarted on day 5.
func services(n int) (all []*service, leaky map[string]bool) {
	leaky = map[string]bool{}
	for i := range n {
		s := &service{name: fmt.Sprintf("service-%d", i), starts: []float64{0}, deploys: map[int]bool{}, rng: rand.New(rand.NewPCG(uint64(i), 3))}
		if i%3 == 0 {
			s.deploys[len(s.starts)] = true
			s.starts = append(s.starts, 72+s.rng.Float64())
		}
		if i%5 == 0 {
			s.starts = append(s.starts, 110+s.rng.Float64())
		}
		switch i {
		case 3, n / 3, n - 2:
			s.goroutines = 2
		case 5, n / 2:
			s.kib = 2048
		}
		if s.goroutines+s.kib > 0 {
			leaky[s.name] = true
		}
		all = append(all, s)
	}
	return all, leaky
}

// at returns the name of the pod and its hours since the start.
func (s *service) at(hour float64) (pod string, age float64) {
	pods := 0
	for i, start := range s.starts {
		if start > hour {
			break
		}
		if s.deploys[i] {
			pods++
		}
		age = hour - start
	}
	return fmt.Sprintf("pod-%d", pods), age
}

// profileOf returns what the service had at that age. Requests follow the hour of the day.
func (s *service) profileOf(heap bool, hour, age float64, at time.Time) *profile.Profile {
	p := &profile.Profile{TimeNanos: at.UnixNano(), SampleType: []*profile.ValueType{{Type: "goroutine", Unit: "count"}}}
	if heap {
		p.Period, p.SampleType = 512<<10, []*profile.ValueType{{Type: "inuse_space", Unit: "bytes"}}
	}
	add := func(name string, n float64) {
		if n <= 0 {
			return
		}
		f := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name, Filename: "main.go"}
		l := &profile.Location{ID: f.ID, Line: []profile.Line{{Function: f, Line: 7}}}
		p.Function, p.Location = append(p.Function, f), append(p.Location, l)
		p.Sample = append(p.Sample, &profile.Sample{Location: []*profile.Location{l}, Value: []int64{int64(n)}})
	}
	traffic := 6 + 4*math.Sin(hour/24*2*math.Pi)
	for k := range 20 {
		if heap {
			add(fmt.Sprintf("main.site%d", k), float64(1+k%9)*(1<<20))
			continue
		}
		add(fmt.Sprintf("main.worker%d", k), float64(1+k%5))
	}
	if heap {
		add("main.requestBuffers", float64(poisson(s.rng, 2*traffic))*(512<<10))
		add("main.remembered", float64(poisson(s.rng, s.kib*age/512))*(512<<10))
	} else {
		add("main.serve", float64(poisson(s.rng, traffic)))
		add("main.forgotten", math.Floor(s.goroutines*age))
	}
	return p
}

// weekly is a survey of a week in 56 buckets.
func weekly(a archive, from time.Time) *Stored {
	return &Stored{archive: a, From: from, Every: 3 * time.Hour, Buckets: 56, Concurrency: 8, Progress: silent{}}
}

// checkWeek judges a record of services and compares the leaking ones with those that leak.
func checkWeek(t *testing.T, r *Record, name func(target string) string, leaky map[string]bool) *Verdict {
	t.Helper()
	v := Judge(r, Bounds{MinJudged: 0.99})
	found := map[string]bool{}
	for _, sv := range v.Stacks {
		for _, g := range sv.Targets {
			if g.Outcome != leak.Leaking {
				continue
			}
			found[name(g.Target)] = true
			if at := sv.name(); !strings.Contains(at, "main.forgotten") && !strings.Contains(at, "main.remembered") {
				t.Errorf("%s: %s", g.Target, at)
			}
		}
	}
	if len(found) != len(leaky) {
		t.Errorf("found %v, want %v: %s", found, leaky, v.Sentence)
	}
	for one := range leaky {
		if !found[one] {
			t.Errorf("%s was not found", one)
		}
	}
	return v
}

// writeWeek writes the profiles of a week as files, eight a day.
func writeWeek(t *testing.T, dir string, all []*service, from time.Time) {
	t.Helper()
	for _, s := range all {
		for hour := 1.5; hour < week; hour += 3 {
			pod, age := s.at(hour)
			folder := filepath.Join(dir, s.name, pod)
			if err := os.MkdirAll(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			at := from.Add(time.Duration(hour * float64(time.Hour)))
			for kind, heap := range map[string]bool{"goroutine": false, "heap": true} {
				var b bytes.Buffer
				if err := s.profileOf(heap, hour, age, at).Write(&b); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("%s-%d.pb.gz", kind, at.Unix())), b.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// TestStoredFolder judges a week of files of 12 services, with deploys and restarts.
func TestStoredFolder(t *testing.T) {
	from := time.Now().Add(-week * time.Hour)
	all, leaky := services(12)
	dir := t.TempDir()
	writeWeek(t, dir, all, from)
	r, err := weekly(&folder{path: dir, from: from, every: 3 * time.Hour, buckets: 56}, from).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	v := checkWeek(t, r, func(target string) string { service, _, _ := strings.Cut(target, "/"); return service }, leaky)
	// Deploys and restarts of a leaking program are lives of their own: service-3 has two pods, service-5 a restart.
	lives := map[string]int{}
	for _, s := range r.Targets {
		lives[s.Name]++
	}
	if lives["service-3/pod-0"] != 1 || lives["service-3/pod-1"] != 1 || lives["service-5/pod-0"] != 2 || lives["service-1/pod-0"] != 1 {
		t.Errorf("%v", lives)
	}
	for _, sv := range v.Stacks {
		for _, g := range sv.Targets {
			if planted := 2.; sv.Unit == "goroutines" && g.Outcome == leak.Leaking && math.Abs(g.PerHour-planted) > 0.1 {
				t.Errorf("%s: %+.2f per hour, planted %.0f", g.Target, g.PerHour, planted)
			}
		}
	}
	checkGrowth(t, v)
	if _, err := weekly(&folder{path: dir + "x", from: from, every: time.Hour, buckets: 56}, from).Run(t.Context()); err == nil || leak.Hint(err) == "" {
		t.Errorf("no folder: %v", err)
	}
}

// checkGrowth reads the profiles of what leaks, and the commands that take them.
func checkGrowth(t *testing.T, v *Verdict) {
	t.Helper()
	dir := rundir.Dir(t.TempDir())
	if err := writeGrowth(dir, v); err != nil {
		t.Fatal(err)
	}
	for unit, want := range map[string]string{"goroutines": "main.forgotten", "bytes": "main.remembered"} {
		p, err := profiles.Open(dir.Path(rundir.GrowthFile(unit)))
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Groups) != 1 || p.Stacks[p.Groups[0].Stack].Frames[0].Func != want || p.Amount(p.Groups[0]) < 100 {
			t.Errorf("%s: %v", unit, p.Stacks)
		}
	}
	var text bytes.Buffer
	v.RunDir = string(dir)
	if err := Text(&text, v); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"leakrig explain " + v.RunDir, "leakrig match --skeleton " + dir.Path(rundir.GrowthFile("goroutines"))} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in:\n%s", want, text.String())
		}
	}
}

// pyroscopeOf answers as Pyroscope's querier does, from what the services stored: one profile in each bucket.
func pyroscopeOf(t *testing.T, all []*service, from time.Time) *httptest.Server {
	t.Helper()
	types := []string{"goroutines:goroutine:count:goroutine:count", "memory:inuse_space:bytes:space:bytes"}
	// kept returns the profile of a pod in a bucket, nil if the pod did not run then.
	kept := func(s *service, pod string, k, bucket int) *profile.Profile {
		hour := 3*float64(bucket) + 1.5
		name, age := s.at(hour)
		if name != pod {
			return nil
		}
		same := *s
		same.rng = rand.New(rand.NewPCG(uint64(bucket), uint64(k)))
		return same.profileOf(k == 1, hour, age, from)
	}
	byName := map[string]*service{}
	for _, s := range all {
		byName[s.name] = s
	}
	mux := http.NewServeMux()
	const base = "/querier.v1.QuerierService/"
	mux.HandleFunc("POST "+base+"ProfileTypes", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"profileTypes":[{"ID":%q,"sampleType":"goroutine"},{"ID":%q,"sampleType":"inuse_space"}]}`, types[0], types[1])
	})
	mux.HandleFunc("POST "+base+"SelectSeries", func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			ProfileTypeID, LabelSelector, Aggregation string
			Step                                      float64
			Start, End                                int64
			GroupBy                                   []string
		}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || q.Step != 10800 || !slices.Contains(q.GroupBy, "pod") || q.End-q.Start > 24*time.Hour.Milliseconds() || q.Aggregation != "TIME_SERIES_AGGREGATION_TYPE_AVERAGE" {
			http.Error(w, fmt.Sprint(err, q), http.StatusBadRequest)
			return
		}
		fmt.Fprint(w, `{"series":[`)
		comma := ""
		for _, s := range all {
			for _, pod := range []string{"pod-0", "pod-1"} {
				var points []string
				for b := range 56 {
					if end := from.Add(time.Duration(b+1) * 3 * time.Hour).UnixMilli(); end <= q.Start || end > q.End {
						continue
					}
					if p := kept(s, pod, slices.Index(types, q.ProfileTypeID), b); p != nil {
						total := int64(0)
						for _, sample := range p.Sample {
							total += sample.Value[0]
						}
						points = append(points, fmt.Sprintf(`{"value":%d,"timestamp":"%d"}`, total, from.Add(time.Duration(b+1)*3*time.Hour).UnixMilli()))
					}
				}
				if len(points) > 0 {
					fmt.Fprintf(w, `%s{"labels":[{"name":"service_name","value":%q},{"name":"pod","value":%q}],"points":[%s]}`, comma, s.name, pod, strings.Join(points, ","))
					comma = ","
				}
			}
		}
		fmt.Fprint(w, "]}")
	})
	mux.HandleFunc("POST "+base+"SelectMergeProfile", func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		_, _ = body.ReadFrom(r.Body)
		var texts []string
		var times []uint64
		for data := body.Bytes(); len(data) > 1; {
			wire := data[0] & 7
			n, size := binary.Uvarint(data[1:])
			data = data[1+size:]
			if wire == 2 {
				texts, data = append(texts, string(data[:n])), data[n:]
				continue
			}
			times = append(times, n)
		}
		var service, pod string
		if len(texts) == 2 {
			_, _ = fmt.Sscanf(strings.NewReplacer(`"`, " ", ",", " ").Replace(texts[1]), "{service_name= %s namespace=   pod= %s }", &service, &pod)
		}
		if byName[service] == nil || len(times) != 2 || r.Header.Get("Content-Type") != "application/proto" {
			http.Error(w, fmt.Sprintf("%q %v", texts, times), http.StatusBadRequest)
			return
		}
		p := kept(byName[service], pod, slices.Index(types, texts[0]), int((int64(times[0])-from.UnixMilli())/(3*time.Hour).Milliseconds()))
		if p != nil {
			_ = p.WriteUncompressed(w)
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

// TestStoredPyroscope judges a week of 30 services through Pyroscope's API, with answers of the documented form.
func TestStoredPyroscope(t *testing.T) { testPyroscope(t, 30) }

// TestStoredThousand does so with a thousand services within five minutes and 1 GiB. LEAKRIG_FLEET=long runs it.
func TestStoredThousand(t *testing.T) {
	if os.Getenv("LEAKRIG_FLEET") != "long" {
		t.Skip("LEAKRIG_FLEET=long runs it")
	}
	began := time.Now()
	testPyroscope(t, 1000)
	took, peak := time.Since(began), peakMemory(t)
	t.Logf("a week of 1,000 services: %s, peak memory %d MiB", took.Round(time.Second), peak>>20)
	if took > 5*time.Minute || peak > 1<<30 {
		t.Error("more than five minutes or 1 GiB")
	}
}

func testPyroscope(t *testing.T, n int) {
	from := time.Now().Add(-week * time.Hour).Truncate(time.Millisecond)
	all, leaky := services(n)
	judgeWeek(t, pyroscopeOf(t, all, from).URL, all, leaky, from)
}

// judgeWeek reads a week of services from a Pyroscope server and compares the leaking ones with those that leak.
func judgeWeek(t *testing.T, url string, all []*service, leaky map[string]bool, from time.Time) {
	t.Helper()
	a := &pyroscope{
		url: url, query: "{}", transport: func() http.RoundTripper { return &http.Transport{} },
		groupBy: []string{"service_name", "namespace", "pod"}, from: from, every: 3 * time.Hour, buckets: 56,
	}
	r, err := weekly(a, from).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range r.Targets {
		if s.Failures > 0 {
			t.Fatalf("%s: %s", s.Name, s.LastError)
		}
	}
	v := checkWeek(t, r, func(target string) string { service, _, _ := strings.Cut(target, "/"); return service }, leaky)
	n := len(all)
	if most := n + (n+2)/3 + (n+4)/5; len(r.Targets) > most+most/50 {
		t.Errorf("%d lives of %d services, with %d deploys and restarts", len(r.Targets), n, most-n)
	}
	t.Logf("%+v: %s", v.Targets, v.Sentence)
}
