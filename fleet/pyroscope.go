package fleet

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
	"github.com/leakrig/leakrig/leak/httpclient"
	"github.com/leakrig/leakrig/profiles"
	"github.com/leakrig/leakrig/rundir"
)

// pyroscope reads the profiles that Grafana Pyroscope stores, through its public API (querier.v1.QuerierService over
// HTTP). It links none of its code.
type pyroscope struct {
	url, query, tenant string
	transport          func() http.RoundTripper
	groupBy            []string
	from               time.Time
	every              time.Duration
	buckets            int
	types              [2]string // by kind
}

// maxAnswer bounds an answer of Pyroscope's.
const maxAnswer = 64 << 20

// call sends one request and returns the answer.
func (p *pyroscope) call(ctx context.Context, method, contentType string, body []byte) ([]byte, error) {
	url := p.url + "/querier.v1.QuerierService/" + method
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", contentType)
	if p.tenant != "" {
		req.Header.Set("X-Scope-OrgID", p.tenant)
	}
	client := httpclient.New(p.transport())
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := rundir.ReadBounded(resp.Body, maxAnswer)
	if err != nil {
		return nil, fmt.Errorf("POST %s: %w", url, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, leak.WithHint(fmt.Errorf("POST %s: status %s: %s", url, resp.Status, display.OneLine(string(data), maxReason)),
			"--pyroscope is the base URL of the server; --tenant is needed if it has several tenants")
	}
	return data, nil
}

// longestQuery is the time that one request may cover: Pyroscope's default limit is a day.
const longestQuery = 24 * time.Hour

// parts divides the time into parts of whole buckets that one request may cover.
func (p *pyroscope) parts() (parts [][2]time.Time) {
	each := max(1, int(longestQuery/p.every))
	for b := 0; b < p.buckets; b += each {
		parts = append(parts, [2]time.Time{p.from.Add(time.Duration(b) * p.every), p.from.Add(time.Duration(min(b+each, p.buckets)) * p.every)})
	}
	return parts
}

// ask sends a request on a part of the time as JSON and decodes the answer.
func (p *pyroscope) ask(ctx context.Context, method string, part [2]time.Time, request map[string]any, answer any) error {
	request["start"], request["end"] = part[0].UnixMilli(), part[1].UnixMilli()
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	data, err := p.call(ctx, method, "application/json", body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}

// sampleTypes are Pyroscope's names of goroutines and of the heap in use, with their place in types.
var sampleTypes = map[string]int{"goroutine": 0, "goroutines": 0, "inuse_space": 1}

// findTypes finds the profile types of goroutines and of the heap in use.
func (p *pyroscope) findTypes(ctx context.Context) error {
	var answer struct {
		ProfileTypes []struct{ ID, SampleType string } `json:"profileTypes"`
	}
	for _, part := range p.parts() {
		if err := p.ask(ctx, "ProfileTypes", part, map[string]any{}, &answer); err != nil {
			return err
		}
		for _, t := range answer.ProfileTypes {
			if k, ok := sampleTypes[t.SampleType]; ok {
				p.types[k] = t.ID
			}
		}
	}
	return nil
}

// seriesAnswer is Pyroscope's answer with the totals of the targets.
type seriesAnswer struct {
	Series []struct {
		Labels []struct{ Name, Value string }
		Points []struct {
			Value     float64
			Timestamp json.RawMessage
		}
	}
}

// list asks for the totals of all targets, a day of one kind at a time.
func (p *pyroscope) list(ctx context.Context) ([]*stored, error) {
	if err := p.findTypes(ctx); err != nil {
		return nil, err
	}
	found := &foundTargets{byKey: map[string]*stored{}, names: map[string]bool{}}
	for k, id := range p.types {
		if id == "" {
			continue
		}
		for _, part := range p.parts() {
			var answer seriesAnswer
			err := p.ask(ctx, "SelectSeries", part, map[string]any{
				"profileTypeID": id, "labelSelector": p.query, "groupBy": p.groupBy, "step": p.every.Seconds(), "aggregation": "TIME_SERIES_AGGREGATION_TYPE_AVERAGE",
			}, &answer)
			if err == nil {
				err = p.take(&answer, k, found)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return found.list, nil
}

// foundTargets are the targets of all answers, in their order.
type foundTargets struct {
	list  []*stored
	byKey map[string]*stored
	names map[string]bool
}

// take adds the totals of one kind to the targets.
func (p *pyroscope) take(answer *seriesAnswer, k int, found *foundTargets) error {
	for _, s := range answer.Series {
		values := map[string]string{}
		var names, matchers []string
		for _, l := range s.Labels {
			values[l.Name] = l.Value
		}
		for _, label := range p.groupBy {
			if value := values[label]; value != "" {
				names = append(names, value)
			}
			matchers = append(matchers, label+"="+strconv.Quote(values[label])) // "" for a label that other targets have
		}
		key := strings.Join(matchers, ",")
		t := found.byKey[key]
		if t == nil {
			if len(found.list) == maxTargets {
				return leak.WithHint(fmt.Errorf("SelectSeries: more than %d targets", maxTargets), "select fewer targets with --query, or group them by fewer labels with --group-by")
			}
			name := display.OneLine(strings.Join(names, "/"), maxReason)
			if found.names[name] {
				name = display.OneLine(key, maxReason)
			}
			t = &stored{name: name, key: key, totals: make([][]float64, len(kinds))}
			found.names[name] = true
			found.byKey[key] = t
			found.list = append(found.list, t)
		}
		of := t.totals[k]
		if of == nil {
			of = slices.Repeat([]float64{math.NaN()}, p.buckets)
		}
		for _, point := range s.Points {
			ms, err := strconv.ParseInt(strings.Trim(string(point.Timestamp), `"`), 10, 64)
			if err != nil || !(point.Value >= 0 && point.Value <= maxTotal) {
				return fmt.Errorf("SelectSeries: a point of %g at %s", point.Value, display.OneLine(string(point.Timestamp), maxReason))
			}
			if b := p.bucket(ms); b >= 0 && b < p.buckets {
				of[b] = point.Value / kinds[k].scale
			}
		}
		t.totals[k] = of
	}
	return nil
}

// maxTotal is more than any process has of goroutines, or of bytes.
const maxTotal = 1e15

// bucket returns the bucket of a point. Pyroscope names a bucket by its end.
func (p *pyroscope) bucket(ms int64) int {
	since := ms - p.from.UnixMilli() - 1
	if since < 0 {
		return -1
	}
	return int(since / p.every.Milliseconds())
}

// read asks for the sum of the profiles in a bucket. The mean of their totals, which is known, tells how many they are.
func (p *pyroscope) read(ctx context.Context, t *stored, k, bucket int) (leak.Poll, error) {
	selector := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(p.query), "{"), "}")
	if key := t.key.(string); key != "" {
		selector = strings.TrimPrefix(selector+","+key, ",")
	}
	from := p.from.Add(time.Duration(bucket) * p.every).UnixMilli()
	var body []byte
	for field, text := range []string{p.types[k], "{" + selector + "}"} {
		body = append(body, byte(field+1)<<3|2)
		body = binary.AppendUvarint(body, uint64(len(text)))
		body = append(body, text...)
	}
	for field, ms := range []int64{from + 1, from + p.every.Milliseconds()} {
		body = append(body, byte(field+3)<<3)
		body = binary.AppendUvarint(body, uint64(ms))
	}
	data, err := p.call(ctx, "SelectMergeProfile", "application/proto", body)
	if err != nil && ctx.Err() == nil { // a busy server cancels its own requests
		data, err = p.call(ctx, "SelectMergeProfile", "application/proto", body)
	}
	if err != nil {
		return leak.Poll{}, err
	}
	profile, sum, err := profiles.ParseStored(data, k == 1)
	if err != nil {
		return leak.Poll{}, fmt.Errorf("%s: %w", t.name, err)
	}
	number := 1.0
	if mean := t.totals[k][bucket] * kinds[k].scale; mean > 0 {
		number = math.Round(sum / mean)
	}
	return averaged(profile, number), nil
}
