package session

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/profiles"
	"github.com/leakrig/leakrig/rundir"
	"github.com/leakrig/leakrig/runner"
	"github.com/leakrig/leakrig/scenarios"
)

// Private has the secrets of a run, and the texts without them that are kept.
type Private struct {
	Secrets rundir.Secrets
	// Text and scenario are the redacted scenario.
	Text     []byte
	scenario *leak.Scenario
	// Parameters and Args are the redacted ones of the run.
	Parameters map[string]string
	Args       []string
}

// Hide finds the secrets of a run: in its environment and its command line, in the files that hold its tokens, and in
// the scenario. A scenario that could not be judged without them is refused here, before anything is measured.
func (f *Options) Hide(src scenarios.Source, s *leak.Scenario) (Private, error) {
	known := KnownSecrets(f.Args)
	if name := s.Spec.Subject.Access.TokenFile; name != "" {
		known.Add(TokenOf(name, filepath.Dir(src.Path)))
	}
	kept, err := scenarios.Keep(src, known)
	if err != nil {
		return Private{}, err
	}
	p := Private{Text: kept.Text, Parameters: kept.Parameters}
	p.Secrets.AddAll(kept.Secrets...)
	p.Secrets.AddAll(known...)
	p.Args = KeptArgs(f.Args, kept.Parameters, p.Secrets)
	if f.Hidden != nil {
		f.Hidden.AddAll(p.Secrets...)
	}
	src.Data, src.Set, src.Recorded = p.Text, p.Parameters, true
	if p.scenario, err = scenarios.Load(src, Kinds()); err != nil {
		return Private{}, &leak.UsageError{Err: leak.WithHint(fmt.Errorf("the scenario cannot be read without its secrets, as its run directory keeps it: %w", err),
			"if the value is not secret, rename the parameter or variable")}
	}
	if len(p.scenario.Spec.Variants) > 0 && f.Rounds > 0 {
		_, err = f.Apply(p.scenario) // as to the scenario that is run
	}
	return p, err
}

// KnownSecrets are the secrets that are known without the scenario.
func KnownSecrets(args []string) rundir.Secrets {
	var known rundir.Secrets
	known.AddInherited(os.Environ())
	known.AddAll(rundir.CredentialsOf(args)...)
	return known
}

// maxToken bounds a file with a token.
const maxToken = 1 << 20

// TokenOf returns the token in a file, "" if it cannot be read. The user of the file reports that error.
func TokenOf(name, dir string) string {
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	file, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer file.Close()
	data, _ := io.ReadAll(io.LimitReader(file, maxToken))
	return strings.TrimSpace(string(data))
}

// KeptArgs returns a command line for records. It removes the values of secret parameters also if they are too short
// for the search in other texts.
func KeptArgs(args []string, parameters map[string]string, secrets rundir.Secrets) []string {
	kept := slices.Clone(args)
	for i, arg := range kept {
		given, glued := strings.CutPrefix(arg, "--set=")
		if !glued && (i == 0 || kept[i-1] != "--set") {
			kept[i] = secrets.RedactText(arg)
			continue
		}
		name, value, ok := strings.Cut(given, "=")
		if value = secrets.RedactText(value); parameters[name] == rundir.Redacted || rundir.LooksSecret(name) {
			value = rundir.Redacted
		}
		if kept[i] = name; ok {
			kept[i] = name + "=" + value
		}
		if glued {
			kept[i] = "--set=" + kept[i]
		}
	}
	return kept
}

// Clean keeps the secrets out of what a run writes.
func (p Private) Clean(config *runner.Config) {
	config.Secrets, config.Parameters, config.Args = p.Secrets, p.Parameters, p.Args
	if len(p.Secrets) > 0 {
		config.Clean = func(name string, data []byte) ([]byte, error) { return profiles.Clean(name, data, p.Secrets) }
	}
}

// sealedRun reads the record that a run has just written, so that the judge sees the stored record.
func (p Private) sealedRun(dir rundir.Dir) (*leak.Record, rundir.Seal, error) {
	record, seal, err := dir.ReadSealed(rundir.OfFiles)
	if err != nil {
		return nil, seal, err
	}
	withWarning(record, seal)
	return record, seal, nil
}

// maxLog bounds the logs in which secrets are looked for; a longer one is cut there.
const maxLog = 256 << 20

// RedactLogs takes secrets out of what the subject and the cluster have said: of every file of a run directory but the
// record and its raw files, which were written without them.
func RedactLogs(dir rundir.Dir, secrets rundir.Secrets) error {
	return filepath.WalkDir(string(dir), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || filepath.Ext(path) == ".gz" || path == dir.Path(rundir.RecordFile) || path == dir.Path(rundir.ScenarioFile) {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		data, err := io.ReadAll(io.LimitReader(f, maxLog))
		f.Close()
		if clean := secrets.Redact(data); err == nil && !bytes.Equal(clean, data) {
			err = rundir.WriteFile(path, clean)
		}
		return err
	})
}
