package leak

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// Launch is one start of a program with any placement.
type Launch struct {
	// Variant is the name of the variant or of the dependency, for messages.
	Variant string
	// Dependency is set for a program that is not measured. It needs no Pprof, and with no Ready it is ready when it
	// accepts connections.
	Dependency bool
	// Addresses are those of the dependencies, by name.
	Addresses map[string]string
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

// What names the program in errors.
func (l Launch) What() string {
	if l.Dependency {
		return "dependency " + l.Variant
	}
	return "subject " + l.Variant
}

// NotReady returns the error of a program that has not become ready in time.
func (l Launch) NotReady(last error) error {
	question, fields := "GET "+l.Ready, "subject.ready and subject.readyTimeout"
	if l.Ready == "" {
		question = "connect"
	}
	if l.Dependency {
		fields = "ready and readyTimeout of the dependency"
	}
	return WithHint(fmt.Errorf("%s did not become ready in %s: %s: %w", l.What(), l.ReadyTimeout, question, last), "see %s; %s change what is waited for", l.Log, fields)
}

// portName is the name of the program's own port in arguments and variables.
const portName = "port"

// Fill replaces $(port) by the program's own port, and $(NAME.addr), $(NAME.host) and $(NAME.port) by the address of a
// dependency. Args and Env contain them.
func (l Launch) Fill(text string, port int) string {
	if !strings.Contains(text, "$(") {
		return text
	}
	pairs := []string{"$(" + portName + ")", strconv.Itoa(port)}
	for name, address := range l.Addresses {
		pairs = append(pairs, "$("+name+".addr)", address)
		if host, port, err := net.SplitHostPort(address); err == nil {
			pairs = append(pairs, "$("+name+".host)", host, "$("+name+".port)", port)
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
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
