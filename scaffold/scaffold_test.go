package scaffold

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime/pprof"
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
