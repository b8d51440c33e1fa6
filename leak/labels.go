package leak

import "strings"

// RunLabel is on everything that a run makes in a cluster; its value is the run.
const RunLabel = "leakrig.dev/run"

const namespacePrefix = "leakrig-"

// NamespaceOf returns the namespace of a run in a cluster of any kind.
func NamespaceOf(run string) string { return namespacePrefix + run }

// RunOf is the run that a namespace is of.
func RunOf(namespace string) string { return strings.TrimPrefix(namespace, namespacePrefix) }
