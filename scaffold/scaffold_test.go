package scaffold

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/scenarios"
	"github.com/leakrig/leakrig/session"
)

// TestSkeleton checks that the scenario of a profile is valid, and names its stacks.
func TestSkeleton(t *testing.T) {
	park := make(chan struct{})
	defer close(park)
	for range 50 {
		go func() { <-park }()
	}
	path := filepath.Join(t.TempDir(), "production.txt")
	file, err := os.Create(path)
	if err == nil {
		err = pprof.Lookup("goroutine").WriteTo(file, 2)
	}
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	var out bytes.Buffer
	if err := Skeleton(&out, path); err != nil {
		t.Fatal(err)
	}
	s, err := scenarios.Load(scenarios.Source{Name: "reproduction.yaml", Data: out.Bytes()}, session.Kinds())
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if v := s.Spec.Variants[0]; len(v.Fingerprint) != 1 || len(s.Spec.Checks) != 1 {
		t.Errorf("%+v, %d checks\n%s", v, len(s.Spec.Checks), out.String())
	}
}

// TestSkeletonOfStandardLibrary checks that a profile whose largest stack has only the standard library gets a
// fingerprint, and that stacks with the same function and state get one.
func TestSkeletonOfStandardLibrary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "production.txt")
	var text bytes.Buffer
	for i := range 30 {
		fmt.Fprintf(&text, "goroutine %d [select]:\nnet/http.(*persistConn).readLoop(0x1)\n\t/go/src/net/http/transport.go:%d +0x1\ncreated by net/http.(*Transport).dialConn\n\t/go/src/net/http/transport.go:1 +0x1\n\n", i+1, 2000+i%2)
	}
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Skeleton(&out, path); err != nil {
		t.Fatal(err)
	}
	s, err := scenarios.Load(scenarios.Source{Name: "reproduction.yaml", Data: out.Bytes()}, session.Kinds())
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if v := s.Spec.Variants[0]; len(v.Fingerprint) != 1 || !strings.Contains(out.String(), `match: 'net/http\.\(\*persistConn\)\.readLoop'`) {
		t.Errorf("%+v\n%s", v, out.String())
	}
}
