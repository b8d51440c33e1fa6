package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/profiles"
	"github.com/leakrig/leakrig/runner"
	"github.com/leakrig/leakrig/scenarios"
)

// private is what of a run must not be kept, and what is kept in its place.
type private struct {
	secrets leak.Secrets
	// text and scenario are the redacted scenario.
	text     []byte
	scenario *leak.Scenario
	// parameters and args are the redacted ones of the run.
	parameters map[string]string
	args       []string
}

// hide finds the secrets of a run: in its environment and its command line, in the files that hold its tokens, and in
// the scenario. A scenario that could not be judged without them is refused here, before anything is measured.
func (f *runFlags) hide(src scenarios.Source, s *leak.Scenario) (private, error) {
	known := knownSecrets(f.args)
	if name := s.Spec.Subject.Access.TokenFile; name != "" {
		known.Add(tokenOf(name, filepath.Dir(src.Path)))
	}
	kept, err := scenarios.Keep(src, known)
	if err != nil {
		return private{}, err
	}
	p := private{text: kept.Text, parameters: kept.Parameters}
	p.secrets.AddAll(kept.Secrets...)
	p.secrets.AddAll(known...)
	p.args = keptArgs(f.args, kept.Parameters, p.secrets)
	if f.hidden != nil {
		f.hidden.AddAll(p.secrets...)
	}
	src.Data, src.Set, src.Recorded = p.text, p.parameters, true
	if p.scenario, err = scenarios.Load(src, kinds()); err != nil {
		return private{}, &leak.UsageError{Err: leak.WithHint(fmt.Errorf("the scenario cannot be read without its secrets, as its run directory keeps it: %w", err),
			"if the value is not secret, rename the parameter or variable")}
	}
	if len(p.scenario.Spec.Variants) > 0 && f.rounds > 0 {
		_, err = f.apply(p.scenario) // as to the scenario that is run
	}
	return p, err
}

// known are the secrets that are known without the scenario.
func knownSecrets(args []string) leak.Secrets {
	var known leak.Secrets
	known.AddInherited(os.Environ())
	known.AddAll(leak.CredentialsOf(args)...)
	return known
}

// maxToken bounds a file with a token.
const maxToken = 1 << 20

// tokenOf is the token in a file, "" where it cannot be read: who uses the file says so.
func tokenOf(name, dir string) string {
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

// keptArgs is a command line as records keep it. The values of secret parameters go even where they are too short to be
// looked for elsewhere.
func keptArgs(args []string, parameters map[string]string, secrets leak.Secrets) []string {
	kept := slices.Clone(args)
	for i, arg := range kept {
		given, glued := strings.CutPrefix(arg, "--set=")
		if !glued && (i == 0 || kept[i-1] != "--set") {
			kept[i] = secrets.RedactText(arg)
			continue
		}
		name, value, ok := strings.Cut(given, "=")
		if value = secrets.RedactText(value); parameters[name] == leak.Redacted || leak.LooksSecret(name) {
			value = leak.Redacted
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

// clean keeps the secrets out of what a run writes.
func (p private) clean(config *runner.Config) {
	config.Secrets, config.Parameters, config.Args = p.secrets, p.parameters, p.args
	if len(p.secrets) > 0 {
		config.Clean = func(name string, data []byte) ([]byte, error) { return profiles.Clean(name, data, p.secrets) }
	}
}

// sealedRun reads the record that a run has just written, so that the judge sees the stored record.
func (p private) sealedRun(dir leak.RunDir) (*leak.Record, leak.Seal, error) {
	record, seal, err := dir.ReadSealed(leak.OfFiles)
	if err != nil {
		return nil, seal, err
	}
	withWarning(record, seal)
	return record, seal, nil
}

// cleanError is an error whose text has no secrets.
type cleanError struct {
	error
	text string
}

func (e cleanError) Error() string { return e.text }
func (e cleanError) Unwrap() error { return e.error }

// cleaned returns an error without the secrets, and with its hint.
func cleaned(err error, secrets leak.Secrets) error {
	if err == nil || len(secrets) == 0 {
		return err
	}
	text, hint := secrets.RedactText(err.Error()), secrets.RedactText(leak.Hint(err))
	if text == err.Error() && hint == leak.Hint(err) {
		return err
	}
	var clean error = cleanError{err, text}
	if hint != "" {
		clean = leak.WithHint(clean, "%s", hint)
	}
	var bad *leak.UsageError
	if errors.As(err, &bad) {
		return &leak.UsageError{Err: clean}
	}
	return clean
}
