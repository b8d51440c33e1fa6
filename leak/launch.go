package leak

import (
	"strconv"
	"strings"
	"time"
)

// Launch is one start of a program with any placement.
type Launch struct {
	// Variant is the variant's name, for messages.
	Variant string
	// Program is the binary on this machine; Args are its arguments.
	Program string
	Args    []string
	Env     map[string]string
	// Port is where it shall listen, 0 for one that is free.
	Port         int
	Pprof, Ready string
	ReadyTimeout time.Duration
	// Rules and Limits are those of the scenario, for a pod.
	Rules []PolicyRule
	// Aliases are names in /bin of the pod under which the program is found as well.
	Aliases []string
	Limits  map[string]string
	// Log is the file for its output, which exists.
	Log string
	// Info is kept for the record.
	Info SubjectInfo
}

// profileRate is how many bytes are allocated between two heap samples of a subject that leakrig
// starts: an eighth of Go's default, so that a leak of some hundred KiB is attributed.
const profileRate = 64 << 10

// WithProfileRate returns a GODEBUG value with leakrig's sampling rate, unless the value already sets a rate.
func WithProfileRate(godebug string) string {
	if strings.Contains(godebug, "memprofilerate=") {
		return godebug
	}
	return strings.TrimPrefix(godebug+",memprofilerate="+strconv.Itoa(profileRate), ",")
}
