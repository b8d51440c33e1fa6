package fleet

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"

	"github.com/leakrig/leakrig/leak/httpclient"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/leakrig/leakrig/leak"
)

// maxMetrics bounds one page of metrics, maxLine one line of it.
const (
	maxMetrics = 16 << 20
	maxLine    = 64 << 10
)

// readCounter reads how many operations a target has served: the sum of a counter over all its labels, or of
// how many values a histogram or summary has seen.
func readCounter(ctx context.Context, t Target, name string) (float64, error) {
	if t.Metrics == "" {
		return 0, errors.New("it has no metrics")
	}
	client := httpclient.New(t.Subject.Transport())
	defer client.CloseIdleConnections()
	resp, err := httpclient.Get(ctx, client, t.Metrics, http.Header{"Accept": {"text/plain;version=0.0.4"}})
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, leak.WithHint(fmt.Errorf("GET %s: status %s", t.Metrics, resp.Status), "--metrics names port and path")
	}
	page := &io.LimitedReader{R: resp.Body, N: maxMetrics + 1}
	total, err := sumOf(page, name)
	if page.N == 0 { // what was cut off may have counted before, and a counter that goes back is a restart
		err = fmt.Errorf("larger than %d MiB", maxMetrics>>20)
	}
	if err != nil {
		return 0, fmt.Errorf("GET %s: %w", t.Metrics, err)
	}
	return total, nil
}

// sumOf adds up one family. Only its lines are parsed: a page may hold many thousands of others.
func sumOf(page io.Reader, name string) (float64, error) {
	var lines bytes.Buffer
	scan := bufio.NewScanner(page)
	scan.Buffer(nil, maxLine)
	for scan.Scan() {
		line := scan.Text()
		if strings.HasPrefix(line, name) || strings.HasPrefix(line, "# TYPE "+name+" ") {
			lines.WriteString(line)
			lines.WriteByte('\n')
		}
	}
	if err := scan.Err(); err != nil {
		return 0, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(&lines)
	if err != nil {
		return 0, err
	}
	family := families[name]
	if family == nil || len(family.Metric) == 0 {
		return 0, fmt.Errorf("no metric %s", name)
	}
	if family.GetType() == dto.MetricType_GAUGE {
		return 0, fmt.Errorf("%s is a gauge, and no counter", name)
	}
	total := 0.0
	for _, m := range family.Metric {
		total += m.GetCounter().GetValue() + m.GetUntyped().GetValue() + float64(m.GetHistogram().GetSampleCount()) + float64(m.GetSummary().GetSampleCount())
	}
	if math.IsNaN(total) || math.IsInf(total, 0) || total < 0 {
		return 0, fmt.Errorf("%s is %v", name, total)
	}
	return total, nil
}
