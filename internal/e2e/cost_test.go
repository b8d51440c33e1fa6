//go:build e2e

package e2e

import (
	"bytes"
	"cmp"
	"fmt"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"
)

// cost is the cost of one piece of work.
type cost struct {
	wall, cpu time.Duration
	// rss is the peak resident memory in bytes, and output the standard output. Both are set only for commands.
	rss    int64
	output string
}

func wall(c cost) time.Duration { return c.wall }
func cpu(c cost) time.Duration  { return c.cpu }
func rss(c cost) int64          { return c.rss }

func (c cost) String() string {
	return fmt.Sprintf("%.2fs wall, %.2fs CPU", c.wall.Seconds(), c.cpu.Seconds())
}

// medianOf returns the median of one figure over several measurements.
func medianOf[N cmp.Ordered](all []cost, figure func(cost) N) N {
	figures := make([]N, len(all))
	for i, c := range all {
		figures[i] = figure(c)
	}
	slices.Sort(figures)
	return figures[len(figures)/2]
}

// measureCommand runs a program to its end. The test fails if the program does.
func measureCommand(t *testing.T, name string, args ...string) cost {
	t.Helper()
	cmd := exec.Command(name, args...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	start := time.Now()
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s%s", name, err, out.Bytes(), said.Bytes())
	}
	return cost{
		wall: time.Since(start), cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(),
		rss: cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10, output: out.String(),
	}
}

// processorTime returns the processor time of this process and of all its children that have ended.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var sum int64
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var r syscall.Rusage
		if err := syscall.Getrusage(who, &r); err != nil {
			t.Fatal(err)
		}
		sum += r.Utime.Nano() + r.Stime.Nano()
	}
	return time.Duration(sum)
}
