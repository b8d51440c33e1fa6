package load

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/leakrig/leakrig/leak"
)

// Geometry of the latencies: three figures, from a microsecond to a day. What takes longer counts as a day,
// but for the maximum.
const (
	finestLatency   = int64(time.Microsecond)
	greatestLatency = int64(24 * time.Hour)
	latencyFigures  = 3
)

// histogram counts durations of operations. The sum of two histograms equals the histogram of all their operations.
type histogram struct {
	counts *hdrhistogram.Histogram
	max    time.Duration
}

func newHistogram() *histogram {
	return &histogram{counts: hdrhistogram.New(finestLatency, greatestLatency, latencyFigures)}
}

func (h *histogram) add(took time.Duration) {
	h.max = max(h.max, took)
	_ = h.counts.RecordValue(min(max(int64(took), 0), greatestLatency)) // within its range it never fails
}

// merge adds the counts of another histogram.
func (h *histogram) merge(other *histogram) error {
	if dropped := h.counts.Merge(other.counts); dropped > 0 {
		return fmt.Errorf("%d latencies are out of range", dropped)
	}
	h.max = max(h.max, other.max)
	return nil
}

// latency returns nearest-rank percentiles. Each has the precision of the histogram and is at most the maximum, which
// is exact.
func (h *histogram) latency() leak.Latency {
	n := float64(h.counts.TotalCount())
	if n == 0 {
		return leak.Latency{}
	}
	at := func(q float64) float64 {
		rank := math.Ceil(q * n)
		return min(time.Duration(h.counts.ValueAtPercentile(100*rank/n)), h.max).Seconds()
	}
	return leak.Latency{P50: at(0.50), P90: at(0.90), P99: at(0.99), Max: h.max.Seconds()}
}

// sentHistogram is a histogram on its way from a worker.
type sentHistogram struct {
	// Counts is HdrHistogram's own V2 encoding, compressed, in base64.
	Counts string        `json:"counts"`
	Max    time.Duration `json:"maxNanoseconds"`
}

func (h *histogram) send() (sentHistogram, error) {
	text, err := h.counts.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	return sentHistogram{string(text), h.max}, err
}

func (s sentHistogram) receive() (*histogram, error) {
	counts, err := hdrhistogram.Decode([]byte(s.Counts))
	if err != nil {
		return nil, fmt.Errorf("latencies: %w", err)
	}
	if counts.LowestTrackableValue() != finestLatency || counts.HighestTrackableValue() != greatestLatency || counts.SignificantFigures() != latencyFigures {
		return nil, errors.New("latencies: counted in other steps than here")
	}
	return &histogram{counts, s.Max}, nil
}
