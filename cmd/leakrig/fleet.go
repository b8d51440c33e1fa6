package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leakrig/leakrig/fleet"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
)

func (a *app) fleetCommand() *cobra.Command {
	f := fleet.Options{Process: a.process()}
	c := &cobra.Command{
		Use:   "fleet --selector LABELS|--targets FILE|--pyroscope URL|--profiles FOLDER",
		Short: "Observe many running processes under their existing load",
		Long: `Read the goroutines and the sampled heap of many processes at a fixed interval, and report the stacks
that grow, the number of processes in which they grow, and the worst processes. leakrig starts nothing
and sends no load. The exit code is 1 if a process leaks.

--selector reads pods through the API server. --targets reads a list of URLs. --pyroscope and --profiles
read profiles of the past, from a Pyroscope server or a folder with one subfolder per process.`,
		Example: `  leakrig fleet --selector app=orders --all-namespaces --every 1m --for 30m
  leakrig fleet --targets hosts.txt --counter http_requests_total
  leakrig fleet --pyroscope http://pyroscope:4040 --query '{namespace="shop"}' --from 7d`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			f.Given = c.Flags().Changed
			a.code, err = f.Survey(c.Context(), c.InOrStdin(), c.OutOrStdout())
			return err
		},
	}
	o := c.Flags()
	o.StringVar(&f.Selector, "selector", "", "labels of the pods to read through the API server")
	o.StringVarP(&f.Namespace, "namespace", "n", "", "namespace of the pods (default: that of the context)")
	o.BoolVarP(&f.AllNamespaces, "all-namespaces", "A", false, "read pods in all namespaces")
	o.IntVar(&f.Port, "port", 6060, "port of pprof in the pods")
	wordFlag(c, &f.Via, "via", fleet.ViaProxy, []string{fleet.ViaProxy, fleet.ViaForward}, "connection to the pods")
	o.StringVar(&f.Targets, "targets", "", "`file` with one URL per line, read again before each sweep (-: standard input, read once)")
	o.StringVar(&f.Pyroscope, "pyroscope", "", "`URL` of a Pyroscope server with stored profiles")
	o.StringVar(&f.Query, "query", "{}", "label selector of the series in Pyroscope")
	o.StringSliceVar(&f.GroupBy, "group-by", []string{"service_name", "namespace", "pod", "instance", "version"}, "labels in Pyroscope that identify a target")
	o.StringVar(&f.Tenant, "tenant", "", "tenant in Pyroscope (X-Scope-OrgID)")
	o.StringVar(&f.Profiles, "profiles", "", "`folder` of stored pprof files, with one subfolder per target")
	f.From = 7 * 24 * time.Hour
	o.Var((*days)(&f.From), "from", "age of the first stored profile, such as 7d or 36h")
	o.DurationVar(&f.Every, "every", time.Minute, "interval between sweeps (of stored profiles: 1/56 of --from)")
	o.DurationVar(&f.For, "for", 30*time.Minute, "time from the first sweep to the last")
	o.IntVar(&f.Concurrency, "concurrency", 32, "maximum number of targets read at once")
	o.DurationVar(&f.Timeout, "timeout", 10*time.Second, "timeout of a target")
	o.BoolVar(&f.Heap, "heap", true, "read the sampled heap, too")
	o.StringVar(&f.Counter, "counter", "", "`metric` that counts operations, for growth per operation instead of per hour")
	o.StringVar(&f.CounterLabel, "counter-label", "", "pprof `label` of goroutines whose largest number counts operations")
	o.StringVar(&f.Metrics, "metrics", "/metrics", "port and path of the metrics, `[:PORT]/PATH`")
	addBoundFlags(c, &f.Bounds)
	o.StringVar(&f.Cluster.KubeconfigFile, "kubeconfig", "", "kubeconfig `file` of the cluster (default: as kubectl)")
	o.StringVar(&f.Cluster.Context, "context", "", "context of the cluster (default: the current one)")
	o.StringVar(&f.RunsDir, "runs-dir", "runs", "folder for run directories")
	addEndpointFlags(c, &f.Endpoint)
	wordFlag(c, &f.Format, "format", "text", fleet.Formats, "output format")
	return c
}

func addBoundFlags(c *cobra.Command, b *fleet.Bounds) {
	o := c.Flags()
	o.Float64Var(&b.MinJudged, "min-judged", 0.99, "minimum share of judged targets for a clean fleet")
	o.Float64Var(&b.PerHour, "max-per-hour", 10, "maximum growth of goroutines per hour, for one stack of one target of a fleet")
	o.Float64Var(&b.PerOperation, "max-per-op", 0, "maximum growth per operation, for targets with --counter or --counter-label")
	b.HeapPerHour = 1 << 20
	quantityFlag(c, &b.HeapPerHour, "max-heap-per-hour", "maximum growth of the heap per hour, for one allocation site of one target of a fleet")
	quantityFlag(c, &b.HeapPerOperation, "max-heap-per-op", "maximum growth of the heap per operation, for targets with --counter or --counter-label")
}

// quantityFlag adds a flag for a number with a unit, such as 2MiB.
func quantityFlag(c *cobra.Command, to *float64, name, doc string) {
	c.Flags().Var((*quantity)(to), name, doc)
}

// days is a duration that is read with days, too.
type days time.Duration

func (d *days) String() string { return time.Duration(*d).String() }
func (d *days) Type() string   { return "duration" }

// Set reads "7d" or what time.ParseDuration reads.
func (d *days) Set(text string) error {
	if number, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n > 3650 {
			return fmt.Errorf("%q is not a number of days", text)
		}
		*d = days(time.Duration(n) * 24 * time.Hour)
		return nil
	}
	v, err := time.ParseDuration(text)
	if err == nil && v <= 0 {
		err = fmt.Errorf("%s is not in the past", text)
	}
	*d = days(v)
	return err
}

// quantity is a number that is read with its unit.
type quantity float64

func (q *quantity) String() string { return display.Value(float64(*q), "bytes") }
func (q *quantity) Type() string   { return "size" }

// Set reads "2MiB" and the like.
func (q *quantity) Set(text string) error {
	var v leak.Quantity
	err := v.UnmarshalText([]byte(text))
	*q = quantity(v)
	return err
}

// changedBounds puts the bounds of the command line over others.
func changedBounds(c *cobra.Command, given fleet.Bounds) func(*fleet.Bounds) {
	return func(b *fleet.Bounds) {
		for flag, bound := range map[string]struct{ from, to *float64 }{
			"min-judged":   {&given.MinJudged, &b.MinJudged},
			"max-per-hour": {&given.PerHour, &b.PerHour},
			"max-per-op":   {&given.PerOperation, &b.PerOperation},

			"max-heap-per-hour": {&given.HeapPerHour, &b.HeapPerHour},
			"max-heap-per-op":   {&given.HeapPerOperation, &b.HeapPerOperation},
		} {
			if c.Flags().Changed(flag) {
				*bound.to = *bound.from
			}
		}
	}
}
