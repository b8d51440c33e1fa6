package reports

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

// SourceFrame is a frame whose source lines the reports can show.
type SourceFrame struct {
	Subject leak.SubjectInfo
	Frame   leak.Frame
}

// SourceFrames returns the frames whose source is needed, most important first. For each shown stack they are the
// innermost frame outside the standard library, and the creator if known.
func SourceFrames(in Input) []SourceFrame {
	var list []SourceFrame
	for _, x := range newView(in).Variants {
		for _, l := range newVariantStacks(x, nil, 1).Lists {
			for _, s := range l.Stacks {
				for _, f := range sourceFrames(s.Stack) {
					list = append(list, SourceFrame{x.Record.Binary(s.Probe), f})
				}
			}
		}
	}
	return list
}

func sourceFrames(s leak.Stack) []leak.Frame {
	list := []leak.Frame{s.Origin()}
	if s.Creator != nil {
		list = append(list, *s.Creator)
	}
	return list
}

// excerpt is a part of a source file as the page shows it.
type excerpt struct {
	What, Position string
	// Creator is set for the line that created the goroutine.
	Creator bool
	Lines   []sourceLine
}

type sourceLine struct {
	Number int
	Text   string
	// Here marks the line of the frame.
	Here bool
}

// excerpts returns the available source lines of the stack.
func excerpts(s leak.Stack, info leak.SubjectInfo, sources rundir.Sources) []excerpt {
	var list []excerpt
	for i, f := range sourceFrames(s) {
		e, ok := sources[info.SourceKey(f)]
		if !ok {
			continue
		}
		x := excerpt{What: "stands in", Position: info.Position(f)}
		switch {
		case s.Creator != nil && i > 0:
			x.What, x.Creator = "created in", true
		case s.State == "":
			x.What = "allocates in"
		}
		x.What += " " + f.Short()
		lines, _ := head(e.Lines, htmlSource)
		for k, text := range outdent(lines) {
			x.Lines = append(x.Lines, sourceLine{e.First + k, text, e.First+k == f.Line})
		}
		list = append(list, x)
	}
	return list
}

// culprit is the source line on the card of a leaking variant.
type culprit struct {
	Frame linkedFrame
	// Line is the text of the line, "" if unavailable.
	Line string
}

// Culprit returns the line at which the variant leaks, or nil if no leak was found.
func (v view) Culprit(x variant) *culprit {
	g, _, ok := x.lead()
	if !ok {
		return nil
	}
	info, f := x.Record.Binary(g.Probe), g.Stack.Origin()
	c := culprit{Frame: linkedFrame{f, upstream(info, f)}}
	for _, e := range excerpts(g.Stack, info, v.Sources) {
		for _, l := range e.Lines {
			if l.Here && e.Position == info.Position(f) {
				c.Line = strings.TrimSpace(l.Text)
			}
		}
	}
	return &c
}

// outdent replaces tabs with four spaces and removes the common indent.
func outdent(lines []string) []string {
	var out []string
	least := -1
	for _, line := range lines {
		line = strings.ReplaceAll(line, "\t", "    ")
		out = append(out, line)
		if indent := len(line) - len(strings.TrimLeft(line, " ")); strings.TrimSpace(line) != "" && (least < 0 || indent < least) {
			least = indent
		}
	}
	for i, line := range out {
		out[i] = line[min(max(least, 0), len(line)):]
	}
	return out
}

// hosts maps module paths to their repositories. The first group of an expression is the name of the repository, and
// the last is the folder of the module.
var hosts = []struct {
	module *regexp.Regexp
	repo   string
}{
	{regexp.MustCompile(`^(github\.com/[^/]+/[^/]+)(?:/(.+))?$`), "https://$1"},
	{regexp.MustCompile(`^k8s\.io/([^/]+)(?:/(.+))?$`), "https://github.com/kubernetes/$1"},
	{regexp.MustCompile(`^sigs\.k8s\.io/([^/]+)(?:/(.+))?$`), "https://github.com/kubernetes-sigs/$1"},
	{regexp.MustCompile(`^golang\.org/x/([^/]+)(?:/(.+))?$`), "https://github.com/golang/$1"},
	{regexp.MustCompile(`^gopkg\.in/([^/]+)\.v\d+()$`), "https://github.com/go-$1/$1"},
	{regexp.MustCompile(`^gopkg\.in/([^/]+/[^/]+)\.v\d+()$`), "https://github.com/$1"},
	{regexp.MustCompile(`^go\.etcd\.io/([^/]+)(?:/(.+))?$`), "https://github.com/etcd-io/$1"},
	{regexp.MustCompile(`^go\.uber\.org/([^/]+)(?:/(.+))?$`), "https://github.com/uber-go/$1"},
	{regexp.MustCompile(`^google\.golang\.org/(grpc)(?:/(.+))?$`), "https://github.com/grpc/grpc-go"},
	{regexp.MustCompile(`^google\.golang\.org/(protobuf)(?:/(.+))?$`), "https://github.com/protocolbuffers/protobuf-go"},
}

var (
	majorVersion = regexp.MustCompile(`(^|/)v\d+$`)
	pseudo       = regexp.MustCompile(`^v\d+\.\d+\.\d+-(?:.*[.-])?\d{14}-([0-9a-f]{12})$`)
	release      = regexp.MustCompile(`^v\d+\.\d+\.\d+[0-9A-Za-z.-]*$`)
	goRelease    = regexp.MustCompile(`^go1(\.\d+)+$`)
)

// upstream returns the URL of the frame's source line, or "" if its host is unknown.
func upstream(info leak.SubjectInfo, f leak.Frame) string {
	if _, own := info.Own(f); own {
		return "" // a module without a dot in its path looks like the standard library
	}
	module, version, file, ok := info.Origin(f)
	if !ok {
		return ""
	}
	if module == "std" {
		if !goRelease.MatchString(version) {
			return ""
		}
		return blob("https://github.com/golang/go", version, "src/"+file, f.Line)
	}
	for _, h := range hosts {
		m := h.module.FindStringSubmatchIndex(module)
		if m == nil {
			continue
		}
		folder := ""
		if m[4] >= 0 {
			folder = majorVersion.ReplaceAllString(module[m[4]:m[5]], "")
		}
		ref, ok := gitRef(version, folder)
		if !ok {
			return ""
		}
		if folder != "" {
			file = folder + "/" + file
		}
		return blob(string(h.module.ExpandString(nil, h.repo, module, m)), ref, file, f.Line)
	}
	return ""
}

// gitRef returns the tag of a version, with the folder for a module in a folder: "folder/v1.2.3". For a
// pseudo-version it returns the commit.
func gitRef(version, folder string) (string, bool) {
	version = strings.TrimSuffix(version, "+incompatible")
	if m := pseudo.FindStringSubmatch(version); m != nil {
		return m[1], true
	}
	if !release.MatchString(version) {
		return "", false
	}
	if folder != "" {
		return folder + "/" + version, true
	}
	return version, true
}

func blob(repo, ref, file string, line int) string {
	parts := slices.Concat(strings.Split(ref, "/"), strings.Split(file, "/"))
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return fmt.Sprintf("%s/blob/%s#L%d", repo, strings.Join(parts, "/"), line)
}
