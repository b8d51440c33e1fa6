// Package catalogue holds known leaks of Go modules and common leak patterns as data, and finds them in stacks. A
// known leak has versions: the ones that leak and the ones with the fix. A pattern is code that keeps goroutines or
// memory alive in any version if it is used in a certain way.
//
// It reads stacks that package profiles has parsed. It does not read profiles.
package catalogue

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"strings"
	"sync"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
	"gopkg.in/yaml.v3"

	"github.com/leakrig/leakrig/leak"
)

//go:embed leaks/*.yaml patterns/*.yaml
var files embed.FS

// Entry is one known leak or one pattern.
type Entry struct {
	// ID is the name of the entry's file.
	ID    string `yaml:"id" json:"id"`
	Title string `yaml:"title" json:"title"`
	// Class is what leaks: Goroutine, Heap or Descriptor.
	Class Class `yaml:"class" json:"class"`
	// Module is the module that has the code, Std for the standard library.
	Module string `yaml:"module" json:"module"`
	// Affected are the versions that leak. A pattern has none.
	Affected []Range `yaml:"affected,omitempty" json:"ranges,omitempty"`
	// Names is a version of the module that has all functions in Stacks. It is empty for the standard library.
	Names string `yaml:"names,omitempty" json:"-"`
	// Stacks are the fingerprints. Any of them matches.
	Stacks []Fingerprint `yaml:"stacks" json:"-"`
	// Least is the number of goroutines or bytes from which the entry explains a leak: a healthy process may have fewer.
	Least leak.Quantity `yaml:"least,omitempty" json:"-"`
	Links []string      `yaml:"links" json:"links"`
	// Scenario is the scenario of the library that reproduces the leak.
	Scenario string `yaml:"scenario,omitempty" json:"scenario,omitempty"`
	// Verified is where the fingerprint is from: the profile of its scenario, or the issue and the source code.
	Verified Evidence `yaml:"verified" json:"verified"`
	// Look says what to look for in one's code, Confirm how to find out whether the entry is the cause.
	Look    string `yaml:"look" json:"look"`
	Confirm string `yaml:"confirm" json:"confirm"`
}

// Std is the module of entries in the standard library, which have no versions.
const Std = "std"

// Class is what leaks.
type Class string

// The classes. A descriptor leak shows in profiles by the goroutine or the allocation that goes with it.
const (
	Goroutine  Class = "goroutine"
	Heap       Class = "heap"
	Descriptor Class = "descriptor"
)

// Evidence is what verified an entry.
type Evidence string

// The kinds of evidence.
const (
	ByScenario Evidence = "scenario"
	ByIssue    Evidence = "issue"
)

// Range are versions from Introduced up to, but not including, Fixed.
type Range struct {
	// Introduced is "always" if the module has leaked since its first version, and empty if the first version that leaks
	// is unknown. Both include all earlier versions.
	Introduced string `yaml:"introduced,omitempty" json:"introduced,omitempty"`
	// Fixed is empty if no version has a fix.
	Fixed string `yaml:"fixed,omitempty" json:"fixed,omitempty"`
}

// Fingerprint is a stack in the form of the stack check of scenarios. It compares names of functions, and not
// positions, which change with every version.
type Fingerprint struct {
	// Profile is the kind of profile with the stack: goroutine (the default) or heap.
	Profile Class    `yaml:"profile,omitempty"`
	Match   string   `yaml:"match"`
	Callers []string `yaml:"callers,omitempty"`
	State   string   `yaml:"state,omitempty"`
	// Names is a version of the module that has the functions, if that of the entry does not.
	Names string `yaml:"names,omitempty"`
}

// Least amounts of entries that state none. A known leak has a specific stack, but a healthy process can have some
// goroutines there at any time. A heap profile samples 512 KiB, so that one sample is no evidence.
const (
	leastGoroutines = 10
	leastBytes      = 2 << 20
)

// Leak reports whether the entry is a known leak, and not a pattern.
func (e *Entry) Leak() bool { return len(e.Affected) > 0 }

// Reference names the entry by its first link: "kubernetes/kubernetes#93138".
func (e *Entry) Reference() string {
	for _, link := range e.Links {
		if m := issue.FindStringSubmatch(link); m != nil {
			return m[1] + "#" + m[2]
		}
	}
	return e.ID
}

var issue = regexp.MustCompile(`^https://github\.com/([\w.-]+/[\w.-]+)/(?:issues|pull)/(\d+)`)

// Fixed returns the versions with the fix, "v0.21.0" or "v1.6.12 and v1.7.3", or "" if none has it.
func (e *Entry) Fixed() string {
	var all []string
	for _, r := range e.Affected {
		if r.Fixed != "" {
			all = append(all, r.Fixed)
		}
	}
	return strings.Join(all, " and ")
}

// affects returns the range that has the version, nil if no range has it.
func (e *Entry) affects(version string) *Range {
	for i, r := range e.Affected {
		from := r.Introduced == "" || r.Introduced == "always" || semver.Compare(version, r.Introduced) >= 0
		if from && (r.Fixed == "" || semver.Compare(version, r.Fixed) < 0) {
			return &e.Affected[i]
		}
	}
	return nil
}

// All returns the entries of the catalogue, by ID.
func All() []*Entry { return library().entries }

// library is the embedded catalogue, parsed once. A test checks that it is valid.
var library = sync.OnceValue(func() *index {
	entries, err := load(files)
	if err != nil {
		panic(err)
	}
	return newIndex(entries)
})

// load reads all entries and returns all problems.
func load(files fs.FS) ([]*Entry, error) {
	var entries []*Entry
	var errs []error
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		var e Entry
		in := yaml.NewDecoder(bytes.NewReader(data))
		in.KnownFields(true)
		if err := errors.Join(in.Decode(&e), e.validate(name)); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		entries = append(entries, &e)
		return nil
	})
	return entries, errors.Join(append(errs, err)...)
}

// validate returns all problems of an entry.
func (e *Entry) validate(name string) error {
	var errs []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	need(e.ID+".yaml" == path.Base(name), "id: %q is not the name of the file", e.ID)
	need(e.Leak() == (path.Dir(name) == "leaks"), "affected: known leaks in leaks have versions, patterns in patterns have none")
	need(e.Title != "" && e.Look != "" && e.Confirm != "", "title, look and confirm are required")
	need(e.Class == Goroutine || e.Class == Heap || e.Class == Descriptor, "class: %q", e.Class)
	need(e.Verified == ByIssue || e.Verified == ByScenario && e.Scenario != "", "verified: scenario, with a scenario, or issue")
	need(e.Module == Std || module.CheckPath(e.Module) == nil, "module: %q", e.Module)
	need(e.Module == Std || semver.IsValid(e.Names), "names: %q is not a version", e.Names)
	need(e.Least > 0 || e.Leak() && e.Least == 0, "least: patterns require the amount that stands out")
	need(len(e.Links) > 0, "links are required")
	for _, link := range e.Links {
		u, err := url.Parse(link)
		need(err == nil && u.Scheme == "https" && u.Host != "", "links: %q", link)
	}
	for _, r := range e.Affected {
		need(r.Fixed == "" || semver.IsValid(r.Fixed), "fixed: %q is not a version", r.Fixed)
		need(r.Introduced == "" || r.Introduced == "always" || semver.IsValid(r.Introduced), "introduced: %q is not a version", r.Introduced)
		need(e.affects(e.Names) != nil || e.Module == Std || len(e.Affected) > 1, "names: %s is not affected", e.Names)
	}
	need(len(e.Stacks) > 0, "stacks are required")
	for _, s := range e.Stacks {
		need(s.Profile == "" || s.Profile == Heap || s.Profile == Goroutine, "profile: %q", s.Profile)
		need(s.Profile != Heap || s.State == "", "state: heap profiles have none")
		need(s.Match != "", "match is required")
		need(s.Names == "" || semver.IsValid(s.Names), "names: %q is not a version", s.Names)
		for _, expr := range append(s.Callers, s.Match) {
			_, err := regexp.Compile(expr)
			need(err == nil, "%q: %v", expr, err)
		}
	}
	return errors.Join(errs...)
}
