package scenarios

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// brief formats the problems of an error as "line:column: path: message | hint", one per line.
func brief(err error) string {
	var problems Problems
	if !errors.As(err, &problems) {
		return fmt.Sprint(err)
	}
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = strings.TrimPrefix(strings.Replace(p.String(), "\n  hint: ", " | ", 1), p.File+":")
	}
	return strings.Join(lines, "\n")
}

// section returns a top-level part of full's spec with all its lines.
func section(name string) string {
	return strings.TrimSuffix(regexp.MustCompile("(?m)^  "+name+":\n(    .*\n)+").FindString(full), "\n")
}

func TestProblems(t *testing.T) {
	for _, row := range []struct{ comment, old, new, want string }{
		// Structure: keys, nulls, types.
		{
			"a misspelt key",
			"  rounds: 5", "  ronds: 5",
			"24:3: spec.ronds: unknown key | did you mean rounds?",
		},
		{
			"a key that is near none",
			"  rounds: 5", "  frequency: 5",
			"24:3: spec.frequency: unknown key | keys: parameters, cluster, fixtures, subject, dependencies, variants, warmup, rounds, maxRounds, for, linger, soak, sizes, control, parallel, round, operation, settle, probes, holders, checks, allow, attribution",
		},
		{
			"a misspelt key whose right one is there too",
			"  rounds: 5", "  rounds: 5\n  roundss: 6",
			"25:3: spec.roundss: unknown key | keys: parameters, cluster, fixtures, subject, dependencies, variants, warmup, rounds, maxRounds, for, linger, soak, sizes, control, parallel, round, operation, settle, probes, holders, checks, allow, attribution",
		},
		{
			"a misspelt key in a kind's block",
			"maxPerOp: 4KiB", "maxperop: 4KiB",
			"36:29: spec.checks[1].growth.maxperop: unknown key | did you mean maxPerOp?",
		},
		{
			"a key twice",
			"  rounds: 5", "  rounds: 5\n  rounds: 6",
			"25:3: spec.rounds: given twice | the first one is on line 24",
		},
		{
			"a key twice in a block",
			"times: 3}", "times: 3, times: 4}",
			"27:48: spec.round[1].post.times: given twice | the first one is on line 27",
		},
		{
			"a key twice in a map",
			"{A: 0.10}", "{A: 1, A: 2}",
			"22:68: spec.variants[1].env.A: given twice | the first one is on line 22",
		},
		{
			"an odd key",
			"  rounds: 5", "  rounds: 5\n  \"a.b\\n\": 6",
			`25:3: spec["a.b\n"]: unknown key | keys: parameters, cluster, fixtures, subject, dependencies, variants, warmup, rounds, maxRounds, for, linger, soak, sizes, control, parallel, round, operation, settle, probes, holders, checks, allow, attribution`,
		},
		{
			"a number as a key",
			"  rounds: 5", "  rounds: 5\n  12: 6",
			"25:3: spec.12: unknown key | keys: parameters, cluster, fixtures, subject, dependencies, variants, warmup, rounds, maxRounds, for, linger, soak, sizes, control, parallel, round, operation, settle, probes, holders, checks, allow, attribution",
		},
		{
			"a list as a key",
			"  rounds: 5", "  rounds: 5\n  ? [a]\n  : b",
			"25:5: spec: a key must be plain text | write key: value",
		},
		{
			"nothing as a key",
			"  rounds: 5", "  rounds: 5\n  ~: b",
			"25:3: spec: a key must be plain text | write key: value",
		},
		{
			"a merge key",
			"    - {name: fixed, ", "    - {<<: {name: a}, name: fixed, ",
			`22:8: spec.variants[1]["<<"]: merge keys are not supported | repeat the keys, or use *name for a whole value`,
		},
		{
			"no value",
			"  rounds: 5", "  rounds:",
			"24:10: spec.rounds: has no value | leave it out, or give it a value",
		},
		{
			"null as a value",
			"description: Everything at once.", "description: ~",
			"5:16: metadata.description: has no value | leave it out, or give it a value",
		},
		{
			"null in a map",
			"{A: 0.10}", "{A: }",
			"22:65: spec.variants[1].env.A: has no value | leave it out, or give it a value",
		},
		{
			"null in a list",
			"[--verbose]", "[~]",
			"11:12: spec.subject.args[0]: has no value | leave it out, or give it a value",
		},
		{
			"a number for text",
			"name: full", "name: 123",
			`4:9: metadata.name: expected text, found the number 123 | for example name: "123"`,
		},
		{
			"a boolean for text",
			"description: Everything at once.", "description: true",
			`5:16: metadata.description: expected text, found the boolean true | for example description: "true"`,
		},
		{
			"a date for text",
			"description: Everything at once.", "description: 2026-01-02",
			`5:16: metadata.description: expected text, found the date 2026-01-02 | for example description: "2026-01-02"`,
		},
		{
			"a number for text in a list",
			"[--verbose]", "[8080]",
			`11:12: spec.subject.args[0]: expected text, found the number 8080 | for example - "8080"`,
		},
		{
			"text for a list",
			"providers: [embedded]", "providers: embedded",
			`8:24: spec.cluster.providers: expected a list of text, found the text "embedded" | for example providers: [embedded]`,
		},
		{
			"a mapping for text",
			"name: full", "name: {a: b}",
			"4:9: metadata.name: expected text, found a mapping | for example name: word",
		},
		{
			"a list for text",
			"name: full", "name: [a]",
			"4:9: metadata.name: expected text, found a list | for example name: word",
		},
		{
			"a list for a mapping",
			"{rounds: 0}", "[0]",
			"23:11: spec.warmup: expected a mapping, found a list | for example warmup: {rounds: …}",
		},
		{
			"text for a mapping",
			"{rounds: 0}", "none",
			`23:11: spec.warmup: expected a mapping, found the text "none" | for example warmup: {rounds: …}`,
		},
		{
			"a list for a map",
			"{A: 0.10}", "[A]",
			"22:61: spec.variants[1].env: expected a map of text, found a list | for example env: {key: word}",
		},
		{
			"a mapping in a map of text",
			"{A: 0.10}", "{A: {b: c}}",
			"22:65: spec.variants[1].env.A: expected text, found a mapping | for example A: word",
		},
		{
			"text for an integer",
			"rounds: 5", "rounds: five",
			`24:11: spec.rounds: expected an integer, found the text "five" | for example rounds: 10`,
		},
		{
			"quoted digits for an integer",
			"rounds: 5", `rounds: "5"`,
			`24:11: spec.rounds: expected an integer, found the text "5" | for example rounds: 10`,
		},
		{
			"a fraction for an integer",
			"rounds: 5", "rounds: 5.0",
			"24:11: spec.rounds: expected an integer, found the number 5.0 | for example rounds: 10",
		},
		{
			"hexadecimal, which is never intended",
			"rounds: 5", "rounds: 0x10",
			"24:11: spec.rounds: expected an integer, found the number 0x10 | for example rounds: 10",
		},
		{
			"an integer too large for 64 bits",
			"rounds: 5", "rounds: 99999999999999999999",
			"24:11: spec.rounds: 99999999999999999999 is out of range for this integer",
		},
		{
			"a list for a duration",
			"readyTimeout: 2m", "readyTimeout: [2m]",
			"16:19: spec.subject.readyTimeout: expected a duration, found a list | for example readyTimeout: 1m30s",
		},
		{
			"a duration without a unit",
			"readyTimeout: 2m", "readyTimeout: 2",
			`16:19: spec.subject.readyTimeout: "2" is not a duration such as 500ms, 2s or 1m30s`,
		},
		{
			"a duration that is none",
			"readyTimeout: 2m", "readyTimeout: soon",
			`16:19: spec.subject.readyTimeout: "soon" is not a duration such as 500ms, 2s or 1m30s`,
		},
		{
			"a mapping for a quantity",
			"max: 10", "max: {a: b}",
			"35:38: spec.checks[0].delta.max: expected a quantity, found a mapping | for example max: 2KiB",
		},
		{
			"a boolean for a quantity",
			"max: 10", "max: true",
			`35:38: spec.checks[0].delta.max: "true" is not a number such as 10, 0.01 or 2KiB`,
		},
		{
			"an unknown tag",
			"name: full", "name: !secret full",
			`4:9: metadata.name: the tag "!secret" is not known | leave the tag out`,
		},
		{
			"a scalar for a list of blocks",
			"  probes:\n    - goroutine\n    - heap: {}\n    - process\n", "  probes: goroutine\n",
			`30:11: spec.probes: expected a list of probes, found the text "goroutine" | write one entry a line, each with a dash: - goroutine`,
		},
		// Blocks.
		{
			"an unknown kind, with settings",
			"- delta: {", "- detla: {",
			"35:7: spec.checks[0].detla: unknown kind of check | did you mean delta?",
		},
		{
			"an unknown kind, bare",
			"- process", "- processes",
			"33:7: spec.probes[2].processes: unknown kind of probe | did you mean process?",
		},
		{
			"two kinds in one entry, by wrong indentation",
			"    - heap: {}", "    - heap:\n      dumpLimit: 1",
			"32:7: spec.probes[1]: expected one kind of probe, found the keys heap, dumpLimit | indent what belongs to heap further than heap itself, or start a new entry with a dash",
		},
		{
			"an entry that is a list",
			"    - heap: {}", "    - [heap]",
			"32:7: spec.probes[1]: expected a kind of probe, found a list | probes: goroutine, heap, process",
		},
		{
			"an entry that is a number",
			"    - heap: {}", "    - 12",
			"32:7: spec.probes[1]: expected a kind of probe, found the number 12 | probes: goroutine, heap, process",
		},
		{
			"an empty entry",
			"    - heap: {}", "    - {}",
			"32:7: spec.probes[1]: expected a kind of probe, found an empty mapping | probes: goroutine, heap, process",
		},
		{
			"no settings",
			"    - heap: {}", "    - heap:",
			"32:12: spec.probes[1].heap: has no settings | without settings it is just - heap",
		},
		{
			"settings that are a list",
			"    - heap: {}", "    - heap: [a]",
			"32:13: spec.probes[1].heap: expected a mapping, found a list | for example heap: {}",
		},
		{
			"a name that is empty",
			"name: second", `name: ""`,
			"27:20: spec.round[1].post.name: is empty | leave it out for the default name\n" +
				`28:14: spec.operation: no action is named "second" | actions: post, post`,
		},
		{
			"a name that is a number",
			"name: second", "name: 2",
			"27:20: spec.round[1].post.name: expected text, found the number 2 | for example name: \"2\"\n" +
				`28:14: spec.operation: no action is named "second" | actions: post, post`,
		},
		{
			"a kind that is declared wrongly",
			"- named: {", "- broken: {",
			"39:7: spec.checks[4].broken: the kind's configuration is a scenarios.broken | this is a mistake in leakrig, not in the file",
		},
		{
			"a validator's error at a value",
			"times: 3}", "times: 0}",
			"27:45: spec.round[1].post.times: 0 is not positive",
		},
		{
			"a validator's error at a missing field",
			"{name: second, path: /b, ", "{name: second, ",
			"27:7: spec.round[1].post.path: is missing | for example path: /",
		},
		{
			"a validator's error about the whole block",
			"path: /b", "path: /whole",
			"27:13: spec.round[1].post: post: does not work | try another",
		},
		{
			"two checks with one default name",
			"{probe: process, metric: descriptors,", "{probe: heap,",
			`37:7: spec.checks[2].growth.name: an earlier check is named "growth heap" too | give it a unique name:`,
		},
		{
			"two actions with one name",
			"name: second", "name: post",
			"27:20: spec.round[1].post.name: an earlier action is named \"post\" too | give it a unique name:\n" +
				`28:14: spec.operation: no action is named "second" | actions: post, post`,
		},
		// The head and metadata.
		{
			"another version",
			"leakrig.dev/v1", "leakrig.dev/v2",
			`1:13: apiVersion: "leakrig.dev/v2" is not supported | write apiVersion: leakrig.dev/v1`,
		},
		{
			"no version",
			"apiVersion: leakrig.dev/v1\n", "",
			"1:1: apiVersion: is missing | write apiVersion: leakrig.dev/v1",
		},
		{
			"another kind",
			"kind: Scenario", "kind: Pod",
			`2:7: kind: "Pod" is not supported | write kind: Scenario`,
		},
		{
			"no name",
			"  name: full\n", "",
			"3:1: metadata.name: is missing | lower-case letters, digits and dashes",
		},
		{
			"a name with capitals",
			"name: full", "name: Full",
			`4:9: metadata.name: "Full" is not a name | lower-case letters, digits and dashes, for example watch-then-delete`,
		},
		{
			"a name that ends in a dash",
			"name: full", "name: full-",
			`4:9: metadata.name: "full-" is not a name | lower-case letters, digits and dashes, for example watch-then-delete`,
		},
		{
			"a name of 64 characters",
			"name: full", "name: a123456789a123456789a123456789a123456789a123456789a123456789a123",
			"4:9: metadata.name: has 64 characters, 63 are allowed",
		},
		{
			"a link without TLS",
			"[https://example.org/1]", `[https://example.org/1, "http://example.org"]`,
			`6:34: metadata.links[1]: "http://example.org" is not an https URL | for example https://github.com/kubernetes/kubernetes/issues/1`,
		},
		{
			"a link without a host",
			"[https://example.org/1]", `["https:///1"]`,
			`6:11: metadata.links[0]: "https:///1" is not an https URL | for example https://github.com/kubernetes/kubernetes/issues/1`,
		},
		{
			"a script for a link",
			"[https://example.org/1]", `["javascript:alert(1)"]`,
			`6:11: metadata.links[0]: "javascript:alert(1)" is not an https URL | for example https://github.com/kubernetes/kubernetes/issues/1`,
		},
		// The cluster.
		{
			"an unknown provider",
			"[embedded]", "[embeded]",
			`8:25: spec.cluster.providers[0]: no provider is named "embeded" | did you mean embedded?`,
		},
		{
			"a provider near none",
			"[embedded]", "[cloud]",
			`8:25: spec.cluster.providers[0]: no provider is named "cloud" | providers: kind, embedded`,
		},
		{
			"a provider twice",
			"[embedded]", "[kind, kind]",
			`8:31: spec.cluster.providers[1]: "kind" is listed twice`,
		},
		{
			"no provider",
			"[embedded]", "[]",
			"8:24: spec.cluster.providers: names no provider | leave it out for all of them",
		},
		{
			"a version that is not full",
			"v1.33.0", "v1.33",
			`8:48: spec.cluster.kubernetes: "v1.33" is not a version of Kubernetes | a full version, for example v1.34.4`,
		},
		// The subject.
		{
			"build and command",
			"    build: ./server", "    build: ./server\n    command: [a]",
			"11:14: spec.subject.command: build and command exclude each other | keep one of them",
		},
		{
			"neither",
			"    build: ./server\n", "",
			"9:3: spec.subject.build: is missing, and so is command | give build: a folder with a main package, or command: [program, argument]",
		},
		{
			"build misspelt, which is not also missing",
			"    build: ./server", "    biuld: ./server",
			"10:5: spec.subject.biuld: unknown key | did you mean build?",
		},
		{
			"an absolute folder",
			"./server", "/server",
			`10:12: spec.subject.build: "/server" is neither a name nor a relative path | a name below subjects/, or a path from this file that starts with ./ or ../`,
		},
		{
			"a folder below another",
			"./server", "a/server",
			`10:12: spec.subject.build: "a/server" is neither a name nor a relative path | a name below subjects/, or a path from this file that starts with ./ or ../`,
		},
		{
			"a folder that climbs",
			"./server", "..",
			`10:12: spec.subject.build: ".." is neither a name nor a relative path | a name below subjects/, or a path from this file that starts with ./ or ../`,
		},
		{
			"an empty folder",
			"./server", `""`,
			`10:12: spec.subject.build: "" is neither a name nor a relative path | a name below subjects/, or a path from this file that starts with ./ or ../`,
		},
		{
			"a port too large",
			"port: 8080", "port: 65536",
			"13:11: spec.subject.port: 65536 is not between 0 and 65535 | leave it out for a free one",
		},
		{
			"a negative port",
			"port: 8080", "port: -1",
			"13:11: spec.subject.port: -1 is not between 0 and 65535 | leave it out for a free one",
		},
		{
			"a relative path",
			"pprof: /pprof", "pprof: pprof",
			`14:12: spec.subject.pprof: "pprof" does not begin with a slash | write /pprof`,
		},
		{
			"an empty path",
			"ready: /ready", `ready: ""`,
			`15:12: spec.subject.ready: "" does not begin with a slash | write /`,
		},
		{
			"a start in no time",
			"readyTimeout: 2m", "readyTimeout: 0s",
			"16:19: spec.subject.readyTimeout: 0s is not positive | for example 60s",
		},
		{
			"an equals sign in a variable",
			"{A: 1,", "{A=B: 1,",
			`12:16: spec.subject.env["A=B"]: "A=B" is not the name of a variable | write NAME: value`,
		},
		{
			"a variable without a name",
			"{A: 1,", `{"": 1,`,
			`12:15: spec.subject.env[""]: the name of a variable is empty`,
		},
		{
			"a NUL in a variable",
			"C: text", `C: "te\0xt"`,
			"12:29: spec.subject.env.C: the value holds a NUL character",
		},
		// Variants.
		{
			"no variants at all",
			section("variants"), "  variants: []",
			"17:13: spec.variants: at least one variant is needed | for example - {name: current, expect: clean}",
		},
		{
			"a variant without a name",
			"- {name: fixed, ", "- {",
			"22:7: spec.variants[1].name: is missing | lower-case letters, digits and dashes",
		},
		{
			"a word that is no time to run",
			"{name: fixed, ", "{name: fixed, when: never, ",
			`22:27: spec.variants[1].when: "never" is not full | write when: full, or leave it out`,
		},
		{
			"no variant that always runs",
			section("variants"), strings.NewReplacer("- {name: ", "- {when: full, name: ", "- name: leaky", "- name: leaky\n      when: full").Replace(section("variants")),
			"19:13: spec.variants[0].when: no variant runs by default | leave when out of at least one variant",
		},
		{
			"two variants of one name",
			"name: fixed", "name: leaky",
			`22:14: spec.variants[1].name: "leaky" is taken by an earlier variant | variants need different names`,
		},
		{
			"a variant's name with a slash",
			"name: fixed", "name: a/b",
			`22:14: spec.variants[1].name: "a/b" is not a name | lower-case letters, digits and dashes, for example watch-then-delete`,
		},
		{
			"a modfile in a folder",
			"modfile: fixed.mod", "modfile: mods/fixed.mod",
			`22:30: spec.variants[1].modfile: "mods/fixed.mod" is not the plain name of a .mod file | a file in the subject's folder, for example leaky.mod`,
		},
		{
			"a rewrite that is not a Go file",
			"modfile: fixed.mod", "rewrite: ../old.go",
			`22:30: spec.variants[1].rewrite: "../old.go" is not the plain name of a .go file | a file in the subject's folder, for example before-fix.go`,
		},
		{
			"more pods than the fixtures have room for",
			"  rounds: 5", "  rounds: 5\n  fixtures: {nodes: 2, pods: 221}",
			"25:30: spec.fixtures.pods: 221 is not between 0 and 220 | a node has room for 110",
		},
		{
			"too many nodes",
			"  rounds: 5", "  rounds: 5\n  fixtures: {nodes: 10001}",
			"25:21: spec.fixtures.nodes: 10001 is not between 0 and 10000",
		},
		{
			"fixtures without a cluster",
			"  cluster: {providers: [embedded], kubernetes: v1.33.0}", "  fixtures: {nodes: 2}",
			"8:13: spec.fixtures: no cluster for the fixtures | give spec.cluster, or leave the fixtures out",
		},
		{
			"a modfile with another ending",
			"modfile: fixed.mod", "modfile: go.sum",
			`22:30: spec.variants[1].modfile: "go.sum" is not the plain name of a .mod file | a file in the subject's folder, for example leaky.mod`,
		},
		{
			"a modfile that is just an ending",
			"modfile: fixed.mod", "modfile: .mod",
			`22:30: spec.variants[1].modfile: ".mod" is not the plain name of a .mod file | a file in the subject's folder, for example leaky.mod`,
		},
		{
			"modfiles without a build",
			"build: ./server", "command: [./server]",
			"19:16: spec.variants[0].modfile: only a subject that is built has a modfile | give spec.subject.build, or leave the modfile out\n" +
				"22:30: spec.variants[1].modfile: only a subject that is built has a modfile | give spec.subject.build, or leave the modfile out",
		},
		{
			"no expectation",
			"expect: clean, ", "",
			"22:7: spec.variants[1].expect: is missing | write expect: clean or expect: leaking",
		},
		{
			"an unknown expectation",
			"expect: clean", "expect: fine",
			`22:49: spec.variants[1].expect: "fine" is neither clean nor leaking | write expect: clean or expect: leaking`,
		},
		{
			"no fingerprint",
			"      fingerprint: [receive, growth heap]\n", "",
			"18:7: spec.variants[0].fingerprint: is needed where leaking is expected | name the checks that must find the leak, for example [receive]",
		},
		{
			"an empty fingerprint",
			"[receive, growth heap]", "[]",
			"21:20: spec.variants[0].fingerprint: is needed where leaking is expected | name the checks that must find the leak, for example [receive]",
		},
		{
			"a fingerprint where clean is expected",
			"expect: clean", "expect: clean, fingerprint: [receive]",
			"22:69: spec.variants[1].fingerprint: a variant that is expected clean has no fingerprint | leave it out, or expect leaking",
		},
		{
			"a fingerprint that is not a check",
			"[receive, growth heap]", "[receive, growth process]",
			`21:30: spec.variants[0].fingerprint[1]: no check is named "growth process" | checks: delta goroutine, growth heap, growth process.descriptors, receive, named`,
		},
		{
			"a fingerprint near a check",
			"[receive, growth heap]", "[growth heaps]",
			`21:21: spec.variants[0].fingerprint[0]: no check is named "growth heaps" | did you mean growth heap?`,
		},
		// The sequence.
		{
			"no rounds",
			"rounds: 5", "rounds: 0",
			"24:11: spec.rounds: 0 is not between 1 and 1000",
		},
		{
			"too many rounds",
			"rounds: 5", "rounds: 1001",
			"24:11: spec.rounds: 1001 is not between 1 and 1000",
		},
		{
			"negative warm-up",
			"{rounds: 0}", "{rounds: -1}",
			"23:20: spec.warmup.rounds: -1 is not between 0 and 100",
		},
		{
			"too much warm-up",
			"{rounds: 0}", "{rounds: 101}",
			"23:20: spec.warmup.rounds: 101 is not between 0 and 100",
		},
		{
			"no actions",
			section("round"), "  round: []",
			"25:10: spec.round: at least one action is needed | a round without load shows no growth; see `leakrig kinds`",
		},
		{
			"an operation that is not an action",
			"operation: second", "operation: secnd",
			`28:14: spec.operation: no action is named "secnd" | did you mean second?`,
		},
		{
			"no operation, with two actions",
			"  operation: second\n", "",
			"7:1: spec.operation: is needed where a round has several actions | growth is counted per operation of one action: post, second",
		},
		{
			"a short quiet",
			"quiet: 100ms", "quiet: 49ms",
			"29:19: spec.settle.quiet: 49ms is not between 50ms and 1h0m0s",
		},
		{
			"a long quiet",
			"quiet: 100ms, timeout: 5s", "quiet: 61m, timeout: 5h",
			"29:19: spec.settle.quiet: 1h1m0s is not between 50ms and 1h0m0s",
		},
		{
			"a timeout of just two windows",
			"timeout: 5s", "timeout: 200ms",
			"29:35: spec.settle.timeout: 200ms is not more than twice quiet (100ms) | two quiet windows are compared, so both must fit in",
		},
		{
			"a quiet too long for the default timeout",
			"quiet: 100ms, timeout: 5s", "quiet: 20s",
			"29:3: spec.settle.timeout: 30s is not more than twice quiet (20s) | two quiet windows are compared, so both must fit in",
		},
		// Rounds by time.
		{
			"rounds by time and by number",
			"  rounds: 5", "  rounds: 5\n  soak: {every: 10m, for: 72h}",
			"24:11: spec.rounds: use either soak or a number of rounds | keep one of them",
		},
		{
			"more rounds by time and by number",
			"  rounds: 5", "  soak: {every: 10m, for: 72h}\n  maxRounds: 9",
			"25:14: spec.maxRounds: use either soak or a number of rounds | keep one of them",
		},
		{
			"variants at once, beyond the limit",
			"  rounds: 5", "  rounds: 5\n  parallel: 17",
			"25:13: spec.parallel: 17 is not between 1 and 16",
		},
		{
			"soaks at once",
			"  rounds: 5", "  parallel: 2\n  soak: {every: 10m, for: 72h}",
			"24:13: spec.parallel: cannot be combined with spec.soak | leave it out",
		},
		{
			"a soak without an end",
			"  rounds: 5", "  soak: {every: 10m}",
			"24:3: spec.soak.for: is missing | as in soak: {every: 10m, for: 72h}",
		},
		{
			"the two mixed up",
			"  rounds: 5", "  soak: {every: 12h, for: 10m}",
			"24:17: spec.soak.every: 12h0m0s is more than for (10m0s) | every is one round, for is all of them",
		},
		{
			"rounds a day and more apart",
			"  rounds: 5", "  soak: {every: 25h, for: 100h}",
			"24:17: spec.soak.every: 25h0m0s is not between 0 and 24h0m0s | for example 10m",
		},
		{
			"for ever",
			"  rounds: 5", "  soak: {every: 10m, for: 9999h}",
			"24:27: spec.soak.for: 9999h0m0s is not between 0 and 2160h0m0s | for example 72h",
		},
		{
			"more rounds than settle",
			"  rounds: 5", "  soak: {every: 200ms, for: 72h}",
			"24:17: spec.soak.every: 200ms is not more than twice settle.quiet (100ms), so every round would be late | raise it, or lower settle.quiet: two quiet windows are compared after each round",
		},
		{
			"too many rounds",
			"  rounds: 5", "  soak: {every: 1s, for: 2000h}",
			"24:17: spec.soak.every: makes 7200000 rounds in 2000h0m0s, 1000000 are allowed | let rounds be further apart",
		},
		// Probes and checks.
		{
			"no probes",
			section("probes"), "  probes: []",
			"30:11: spec.probes: at least one probe is needed | for example [goroutine, heap]; see `leakrig kinds`",
		},
		{
			"a probe twice",
			"    - process", "    - process\n    - heap",
			"34:7: spec.probes[3].heap: the probe heap is listed twice | a probe is read once a snapshot",
		},
		{
			"no checks",
			section("checks"), "  checks: []",
			"34:11: spec.checks: at least one check is needed | without a bound nothing can be decided; see `leakrig kinds`",
		},
		{
			"a check of a probe that is not taken",
			"    - process\n", "",
			`36:23: spec.checks[2].growth.probe: no probe "process" in this scenario | probes here: goroutine, heap`,
		},
		{
			"a check of a misspelt probe",
			"{probe: goroutine, max", "{probe: gorutine, max",
			`35:22: spec.checks[0].delta.probe: no probe "gorutine" in this scenario | did you mean goroutine?`,
		},
		{
			"a check of no probe",
			"{probe: goroutine, max", "{max",
			"35:7: spec.checks[0].delta.probe: names no probe | probes here: goroutine, heap, process",
		},
		{
			"a check of an unknown metric",
			"metric: descriptors", "metric: descriptor",
			`37:40: spec.checks[2].growth.metric: the probe process has no metric "descriptor" | did you mean descriptors?`,
		},
		{
			"a check of a metric of another probe",
			"metric: descriptors", "metric: objects",
			`37:40: spec.checks[2].growth.metric: the probe process has no metric "objects" | metrics of process: resident, descriptors`,
		},
	} {
		if strings.Count(full, row.old) == 0 {
			t.Errorf("%s: %q is not part of the scenario", row.comment, row.old)
		}
		_, err := load(strings.Replace(full, row.old, row.new, 1))
		if got := brief(err); got != row.want {
			t.Errorf("%s:\ngot  %s\nwant %s", row.comment, got, row.want)
		}
	}
}

// TestNoProblems checks that the ends of every range are valid.
func TestNoProblems(t *testing.T) {
	for _, row := range []struct{ comment, old, new string }{
		{"a name of 63 characters", "name: full", "name: " + strings.Repeat("a", maxName)},
		{"a name of one character", "name: full", "name: a"},
		{"the fewest rounds", "rounds: 5", "rounds: 1"},
		{"the most rounds", "rounds: 5", "rounds: 1000"},
		{"rounds by time", "rounds: 5", "soak: {every: 10m, for: 72h}"},
		{"the longest soak", "rounds: 5", "soak: {every: 24h, for: 2160h}"},
		{"the most warm-up", "{rounds: 0}", "{rounds: 100}"},
		{"the lowest port, any free one", "port: 8080", "port: 0"},
		{"the highest port", "port: 8080", "port: 65535"},
		{"the shortest quiet", "quiet: 100ms", "quiet: 50ms"},
		{"the longest quiet", "quiet: 100ms, timeout: 5s", "quiet: 1h, timeout: 2h1s"},
		{"a build in the folder above", "./server", "../server"},
		{"a build by name", "./server", "my_server-1.2"},
		{"one action needs no operation", "    - post: {name: second, path: /b, times: 3}\n  operation: second\n", ""},
		{"the default metric by its name", "{probe: goroutine,", "{probe: goroutine, metric: total,"},
	} {
		if _, err := load(strings.Replace(full, row.old, row.new, 1)); err != nil {
			t.Errorf("%s: %v", row.comment, err)
		}
	}
}

// TestLoadNeedsACluster checks that a scenario without a cluster refuses load through an API server.
func TestLoadNeedsACluster(t *testing.T) {
	text := strings.Replace(full, "  round:\n", "  round:\n    - clustered: {}\n", 1)
	if _, err := load(text); err != nil {
		t.Fatal(err)
	}
	text = strings.Replace(text, "  cluster: {providers: [embedded], kubernetes: v1.33.0}\n", "", 1)
	_, err := load(text)
	if got := brief(err); !strings.Contains(got, "clustered works through an API server, and the scenario has no cluster | give spec.cluster") {
		t.Error(got)
	}
}
