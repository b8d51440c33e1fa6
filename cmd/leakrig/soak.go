package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leakrig/leakrig/cluster/upstream"
	"github.com/leakrig/leakrig/leak"
)

// soakLock is the file of a run directory that a soak holds while it runs, so that no other resumes it.
const soakLock = ".soaking"

// resumeDoc describes --resume of run and soak.
const resumeDoc = "resume the newest interrupted soak of this scenario if its process is still the same; start one otherwise"

// Defaults of a soak.
const (
	soakEvery = 10 * time.Minute
	soakFor   = 24 * time.Hour
)

// A soak has either a command or a scenario for its load; these flags need the one and the other.
var (
	loadFlags     = []string{"times", "warmup", "concurrency", "operations", "timeout", "quiet", "pid", "pprof", "ca", "cert", "key", "token-file", "insecure"}
	scenarioFlags = []string{"cluster", "variant", "set", "with", "source", "kubeconfig", "context", "yes"}
)

func (a *app) soakCommand() *cobra.Command {
	o := observation{runFlags: runFlags{args: a.args, hidden: &a.hidden, times: 1}, Name: "soak"}
	c := &cobra.Command{
		Use:   "soak URL... [flags] -- COMMAND [ARG...] | soak NAME|FILE",
		Short: "Run rounds at a fixed interval for hours or days",
		Long: `Run rounds at a fixed interval, on a running process under the load of a command, or on a scenario.
The run directory stays small. A soak ends early if it finds a leak; the exit code is then 1.

With --resume, the same command starts a soak and resumes it after an interruption.`,
		Example: `  leakrig soak http://10.0.0.7:6060 --every 10m --for 72h --resume -- ./load.sh
  leakrig soak ./my-service.yaml --every 1m --for 8h`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if c.ArgsLenAtDash() < 0 && len(args) == 1 {
				if err := refuseFlags(c, loadFlags, "the scenario has its own"); err != nil {
					return err
				}
				o.soak = &leak.SoakSpec{Every: leak.Duration(o.Every), For: leak.Duration(o.For)}
				o.soakPreset = !c.Flags().Changed("every") && !c.Flags().Changed("for")
				a.code, err = o.runFlags.run(c, args[0])
				return err
			}
			if err := refuseFlags(c, scenarioFlags, "it belongs to a scenario"); err != nil {
				return err
			}
			if err := o.split(c, args); err != nil {
				return err
			}
			a.code, err = o.run(c)
			return err
		},
	}
	f := c.Flags()
	f.DurationVar(&o.Every, "every", soakEvery, "interval between the starts of rounds")
	f.DurationVar(&o.For, "for", soakFor, "time after which no round starts")
	f.BoolVar(&o.resume, "resume", false, resumeDoc)
	f.IntVar(&o.Times, "times", 10, "invocations of the command per round")
	o.addFlags(c)
	o.addScenarioFlags(c)
	return c
}

// refuseFlags returns an error if the command line has one of these flags.
func refuseFlags(c *cobra.Command, names []string, reason string) error {
	for _, name := range names {
		if c.Flags().Changed(name) {
			return usage(c, leak.WithHint(fmt.Errorf("--%s: %s", name, reason), "leave it out"))
		}
	}
	return nil
}

// recorded measures a run in a new folder, or with --resume in that of the interrupted soak. release unlocks the
// folder.
func (f *runFlags) recorded(s *leak.Scenario, text []byte, progress leak.Progress, measure func(leak.RunDir) (*leak.Record, error)) (dir leak.RunDir, record *leak.Record, release func(), err error) {
	if f.resume {
		dir, release, err = f.reopen(s, text, progress)
		if err != nil {
			return dir, nil, release, err
		}
	}
	if f.earlier != nil {
		f.made = append(f.made, dir)
		record, err = measure(dir)
		var another *leak.AnotherProcessError
		if !errors.As(err, &another) {
			return dir, record, release, err
		}
		release()
		progress.Log("starts over: %s; the earlier measurements stay in %s", another.Reason, dir)
		f.earlier = nil
	}
	if dir, release, err = f.newPlace(s, text); err != nil {
		return dir, nil, release, err
	}
	f.made = append(f.made, dir)
	record, err = measure(dir)
	return dir, record, release, err
}

// newPlace makes a run directory with the scenario in it; that of a soak is locked.
func (f *runFlags) newPlace(s *leak.Scenario, text []byte) (dir leak.RunDir, release func(), err error) {
	release = func() {}
	if dir, err = newRunDir(f.runsDir, s.Metadata.Name); err != nil {
		return dir, release, err
	}
	if err := dir.WriteFile(leak.ScenarioFile, text); err != nil || s.Spec.Soak == nil {
		return dir, release, err
	}
	unlock, free := upstream.TryLock(dir.Path(soakLock))
	if !free {
		return dir, release, leak.WithHint(fmt.Errorf("run directory: %s cannot be locked", dir), "--runs-dir names another folder")
	}
	return dir, unlock, nil
}

// reopen finds the soak to resume and locks it: the newest run of the same scenario, if it was interrupted. f.earlier
// is its record, nil to start a new one.
func (f *runFlags) reopen(s *leak.Scenario, text []byte, progress leak.Progress) (dir leak.RunDir, release func(), err error) {
	f.earlier, release = nil, func() {}
	if s.Spec.Soak == nil {
		return dir, release, &leak.UsageError{Err: leak.WithHint(errors.New("--resume: the scenario is not a soak"), "`leakrig soak` runs any scenario as a soak")}
	}
	dir = f.newest(s, text)
	if dir == "" {
		return dir, release, nil
	}
	unlock, free := upstream.TryLock(dir.Path(soakLock))
	if !free {
		return dir, release, leak.WithHint(fmt.Errorf("resume: %s is being measured by another leakrig", dir), "wait for it or end it; without --resume, a separate soak starts")
	}
	record, seal, err := dir.ReadSealed(leak.OfFiles)
	switch {
	case err != nil:
		unlock()
		return dir, release, leak.WithHint(fmt.Errorf("resume: %s: %w", dir, err), "without --resume a new one is started")
	case record.SoakOver():
		unlock()
		return dir, release, nil
	case len(seal.Altered) > 0:
		unlock()
		progress.Log("starts anew: %s: %s", dir, seal)
		return dir, release, nil
	case !record.SoakWhole():
		unlock()
		progress.Log("starts over: the record in %s is damaged: not all of its %d rounds can be read", dir, roundsOf(record))
		return dir, release, nil
	case len(s.Spec.Subject.Addresses()) == 0:
		unlock()
		progress.Log("starts over: only a process observed by URL can be identified again; the %d earlier rounds stay in %s", roundsOf(record), dir)
		return dir, release, nil
	}
	f.earlier = record
	return dir, unlock, nil
}

// roundsOf is how many rounds of all variants were measured.
func roundsOf(r *leak.Record) int {
	n := 0
	for _, v := range r.Variants {
		if v.Soak != nil {
			n += v.Soak.Rounds
		}
	}
	return n
}

// chosen are the names of the variants that are run, in order.
func (f *runFlags) chosen(s *leak.Scenario) []string {
	var names []string
	for _, v := range s.Spec.Variants {
		if len(f.variants) == 0 || slices.Contains(f.variants, v.Name) {
			names = append(names, v.Name)
		}
	}
	return names
}

// newest is the newest run directory of the same scenario with the same parameters and variants, "" where there
// is none.
func (f *runFlags) newest(s *leak.Scenario, text []byte) leak.RunDir {
	entries, err := os.ReadDir(filepath.Join(f.runsDir, s.Metadata.Name))
	if err != nil {
		return ""
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && runDirName.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int { return -byTime(a, b) })
	for _, name := range names {
		dir := leak.RunDir(filepath.Join(f.runsDir, s.Metadata.Name, name))
		old, err := os.ReadFile(dir.Path(leak.ScenarioFile))
		if err != nil || !bytes.Equal(old, text) {
			continue
		}
		record, err := dir.ReadRecord()
		if errors.Is(err, fs.ErrNotExist) {
			continue // it never began
		}
		sameSoak := err == nil && record.Plan.Soak != nil && *record.Plan.Soak == *s.Spec.Soak
		if err != nil || sameSoak && sameParameters(record.Parameters, s.Spec.Parameters) && slices.Equal(record.Plan.Variants, f.chosen(s)) {
			return dir
		}
	}
	return ""
}

var numbered = regexp.MustCompile(`^(.*Z)(?:-(\d+))?$`)

// byTime orders the names of run directories: those of one second are numbered.
func byTime(a, b string) int {
	x, y := numbered.FindStringSubmatch(a), numbered.FindStringSubmatch(b)
	if x == nil || y == nil {
		return strings.Compare(a, b)
	}
	i, _ := strconv.Atoi(x[2])
	k, _ := strconv.Atoi(y[2])
	return cmp.Or(strings.Compare(x[1], y[1]), cmp.Compare(i, k))
}

// sameParameters compares what a record has kept: secrets are not among it.
func sameParameters(old, now map[string]string) bool {
	if len(old) != len(now) {
		return false
	}
	for name, value := range now {
		if kept, ok := old[name]; !ok || kept != value && kept != leak.Redacted && !leak.LooksSecret(name) {
			return false
		}
	}
	return true
}
