package reports

import (
	"fmt"
	"slices"

	"github.com/leakrig/leakrig/leak"
)

// LoadLines describe the load of a variant if it matters: a check judges it, it is open, or it has faults.
func (x variant) LoadLines() []string {
	judged := slices.ContainsFunc(x.Verdict.Findings, func(f leak.Finding) bool { return f.Load })
	var lines []string
	for _, l := range x.Verdict.Load {
		if !judged && l.Open == nil && l.Fault == "" {
			continue
		}
		if l.Fault != "" {
			lines = append(lines, fmt.Sprintf("fault %s: %s, %s", l.Action, l.Fault, count(l.Attempted, "injection")))
			continue
		}
		line := fmt.Sprintf("load %s: %s, %s, p50 %s, p99 %s, max %s", l.Action, count(l.Attempted, "operation"), failedShare(l), seconds(l.P50), seconds(l.P99), seconds(l.Max))
		if l.Open != nil {
			line += "; " + openLoad(l.Open)
		}
		lines = append(lines, line)
	}
	return lines
}

// failedShare is the share of failed operations for people.
func failedShare(l leak.LoadSummary) string {
	if l.Failed == 0 {
		return "none failed"
	}
	return fmt.Sprintf("%.2g %% failed", 100*float64(l.Failed)/float64(max(l.Attempted, 1)))
}

// openLoad describes how an open load kept to its schedule.
func openLoad(o *leak.OpenLoad) string {
	text := fmt.Sprintf("arrivals at %.4g a second, at most %d unfinished", o.Rate, o.InFlight)
	if o.Waited > 0 {
		text += fmt.Sprintf(", %d waited for a place", o.Waited)
	}
	return text + ", started at most " + seconds(o.LateSeconds) + " late"
}

// loadGrowth is the latency and the failures of the first action of a variant, for the history; "" if unknown.
func loadGrowth(vv *leak.VariantVerdict) string {
	for _, l := range vv.Load {
		if l.Fault == "" {
			return fmt.Sprintf("p99 %s, %s", seconds(l.P99), failedShare(l))
		}
	}
	return ""
}
