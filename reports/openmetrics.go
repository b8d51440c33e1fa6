package reports

import (
	"bytes"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/leakrig/leakrig/leak"
)

// fileURI makes a relative reference of a path.
func fileURI(path string) string { return (&url.URL{Path: path}).String() }

var labelEscaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// metrics writes OpenMetrics text for the textfile collector of the node exporter.
func metrics(b *bytes.Buffer, v view) error {
	family := func(name, help string) {
		fmt.Fprintf(b, "# HELP leakrig_%s %s\n# TYPE leakrig_%s gauge\n", name, help, name)
	}
	sample := func(name string, value float64, labels ...string) {
		fmt.Fprintf(b, "leakrig_%s{scenario=\"%s\"", name, labelEscaper.Replace(v.Name()))
		for i := 0; i < len(labels); i += 2 {
			fmt.Fprintf(b, ",%s=\"%s\"", labels[i], labelEscaper.Replace(oneLine(labels[i+1])))
		}
		fmt.Fprintf(b, "} %s\n", strconv.FormatFloat(value, 'g', -1, 64))
	}
	is := func(holds bool) float64 {
		if holds {
			return 1
		}
		return 0
	}
	family("exit_code", "Exit code of the run: 0 as expected, 1 not as expected, 3 could not measure, 4 inconclusive.")
	sample("exit_code", float64(v.ExitCode()))
	if !v.Record.Started.IsZero() {
		family("started_seconds", "Start of the run in seconds since 1970.")
		sample("started_seconds", float64(v.Record.Started.Unix()))
		family("duration_seconds", "Duration of the run.")
		sample("duration_seconds", v.Elapsed().Seconds())
	}
	family("as_expected", "1 if the variant came out as expected.")
	for _, x := range v.Variants {
		sample("as_expected", is(x.Verdict.Result == leak.Met), "variant", x.Name)
	}
	family("leaking", "1 if the variant leaks, 0 if it is clean. Undecided variants have no sample.")
	for _, x := range v.Variants {
		if x.Verdict.Outcome != leak.Inconclusive {
			sample("leaking", is(x.Verdict.Outcome == leak.Leaking), "variant", x.Name)
		}
	}
	family("growth_per_operation", "Growth per operation by check, in the unit of the label.")
	each := func(name string, number func(f leak.Finding) (float64, bool)) {
		for _, x := range v.Variants {
			for _, f := range x.Verdict.Findings {
				if n, ok := number(f); ok && finite(n) {
					sample(name, n, "variant", x.Name, "check", f.Check, "unit", f.Unit)
				}
			}
		}
	}
	each("growth_per_operation", func(f leak.Finding) (float64, bool) {
		return f.PerOperation, !f.InAll() && len(rounds(f.Points)) > 1
	})
	family("growth", "Growth from the baseline to the last round by check, in the unit of the label.")
	each("growth", func(f leak.Finding) (float64, bool) {
		first, last := f.Ends()
		return last - first, len(rounds(f.Points)) > 1
	})
	b.WriteString("# EOF\n")
	return nil
}
