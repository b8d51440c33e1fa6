package subjects

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// Another process takes the subject's fixed port before the subject does: it would be measured in its place.
func TestAttackPortTakenFirst(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: who listens is known on Linux alone")
	}
	port, err := choosePort(0)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	taken := make(chan net.Listener, 1)
	go func() {
		for { // the log is made once the port was found free
			if _, err := os.Stat(logOf(dir)); err == nil {
				break
			}
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			t.Error(err)
			close(taken)
			return
		}
		taken <- l
		_ = http.Serve(l, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	}()
	s, err := start(t.Context(), "deaf", dir, func(spec *leak.SubjectSpec) { spec.Port = port })
	if l, ok := <-taken; ok {
		l.Close()
	}
	if err == nil {
		t.Fatalf("%v was taken for the subject", s.Target().URL)
	}
	if !strings.Contains(err.Error(), "which the subject did not start") || !strings.Contains(leak.Hint(err), "subject.port") {
		t.Errorf("%v (hint %q)", err, leak.Hint(err))
	}
}

// A script around the program is not what is measured.
func TestAttackScriptAroundSubject(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: who listens is known on Linux alone")
	}
	s, _ := mustStart(t, "ready", func(spec *leak.SubjectSpec) {
		spec.Command = []string{"sh", "-c", `"$0"; true`, os.Args[0]}
	})
	target := s.Target()
	name, err := target.Process(t.Context())
	if err != nil || !strings.HasPrefix(name, "process "+get(t, s, "/pid")+", ") {
		t.Errorf("it is %q, %v; its pid is %s", name, err, get(t, s, "/pid"))
	}
	status, err := target.Proc.Open("status")
	if err != nil {
		t.Fatal(err)
	}
	defer status.Close()
	text := make([]byte, 4096)
	n, _ := status.Read(text)
	if !strings.Contains(string(text[:n]), "\nPid:\t"+get(t, s, "/pid")+"\n") {
		t.Errorf("its /proc is another process's:\n%s", text[:n])
	}
}

// TestAttackChildInSessionOfItsOwn checks that a child with its own session and without a parent ends with the
// subject.
func TestAttackChildInSessionOfItsOwn(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: such children are found on Linux alone")
	}
	pids := filepath.Join(t.TempDir(), "pid")
	s, _ := mustStart(t, "ready", func(spec *leak.SubjectSpec) {
		spec.Command = []string{"sh", "-c", `(setsid sh -c 'echo $$ >"$1"; exec sleep 600' sh "$1" &) ; exec "$0"`, os.Args[0], pids}
	})
	var child int
	for child == 0 {
		data, _ := os.ReadFile(pids)
		child, _ = strconv.Atoi(strings.TrimSpace(string(data)))
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	gone(t, child)
}
