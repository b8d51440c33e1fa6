package engine

import (
	"runtime"
	"testing"
)

// A cluster is in use for as long as any run uses it, whichever cache that has.
func TestInUse(t *testing.T) {
	ours, theirs, name := t.TempDir(), t.TempDir(), "leakrig-kept-"+t.Name()
	free := func(cache string) bool {
		unlock, ok := Unused(cache, name)
		if ok {
			unlock()
		}
		return ok
	}
	release, err := Use(ours, name)
	if err != nil {
		t.Fatal(err)
	}
	if free(ours) || runtime.GOOS == "linux" && free(theirs) {
		t.Error("it is not marked as in use")
	}
	release()
	if !free(ours) || !free(theirs) {
		t.Error("it is still in use")
	}
}
