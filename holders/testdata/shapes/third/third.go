// Package third stands for a package that the program does not own.
package third

var cache = map[int][]byte{}

// Keep never forgets.
func Keep(k int, v []byte) { cache[k] = v }

// CounterVec is a vector of counters, as metrics clients have them.
type CounterVec struct {
	children map[uint64][]*counter
}

type counter struct {
	labels []string
	value  float64
}

// NewCounterVec returns an empty vector.
func NewCounterVec() *CounterVec { return &CounterVec{children: map[uint64][]*counter{}} }

// Inc adds 1 to the counter with a label value.
func (v *CounterVec) Inc(hash uint64, label string) {
	v.children[hash] = append(v.children[hash], &counter{labels: []string{label}, value: 1})
}
