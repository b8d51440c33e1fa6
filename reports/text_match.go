package reports

import (
	"fmt"
	"io"
	"strings"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
)

// MatchText prints a comparison of a production profile with a run, of its stacks at most top of each sort.
func MatchText(out io.Writer, m *leak.Match, top int) {
	value := func(n int64) string { return display.Value(float64(n), m.Unit) }
	share := func(n int64) string {
		return fmt.Sprintf("%5.1f %%", 100*float64(n)/float64(max(m.Total, 1)))
	}
	fmt.Fprintf(out, "%s of %s %s in production stand on stacks that grew in %s (%.0f %%)\n", value(m.Explained), value(m.Total), m.Unit, m.Variant, 100*m.Share())
	for _, v := range m.Variants {
		switch {
		case len(m.Variants) == 1 || v.Variant == m.Variant:
		case v.Problem != "":
			fmt.Fprintf(out, "  %s was not compared: %s\n", v.Variant, display.Printable(v.Problem))
		default:
			fmt.Fprintf(out, "  %s explains %s (%s)\n", v.Variant, value(v.Explained), strings.TrimSpace(share(v.Explained)))
		}
	}
	fmt.Fprintf(out, "\ngrew in the run\n")
	for i, s := range m.Stacks {
		if i == top {
			fmt.Fprintf(out, "  and %d more (--top)\n", len(m.Stacks)-i)
			break
		}
		fmt.Fprintf(out, "  %s  %s in production  %s/op in the run  %s\n           %s\n", share(s.Production), value(s.Production),
			display.Rate(s.PerOperation, m.Unit), display.Printable(s.Stack.String()), display.Printable(s.Stack.Top().Position()))
	}
	fmt.Fprintf(out, "\nleft unexplained\n")
	for i, s := range m.Unexplained {
		if i == top {
			fmt.Fprintf(out, "  and %d more (--top)\n", len(m.Unexplained)-i)
			break
		}
		fmt.Fprintf(out, "  %s  %s  %s\n           %s\n", share(s.To), value(s.To), display.Printable(s.Stack.String()), display.Printable(s.Stack.Top().Position()))
	}
}
