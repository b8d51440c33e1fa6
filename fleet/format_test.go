package fleet

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/leakrig/leakrig/rundir"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// pageAssets are the parts of a page that every page has.
var pageAssets = regexp.MustCompile(`(?s)<style>.*?</style>|<script>.*?</script>|<meta (name="generator"|http-equiv)[^>]*>`)

// TestRecordOfNovember2026 checks that a record of schema 3 is read, and that its verdict and its reports stay the same.
// The record in testdata is never written again.
func TestRecordOfNovember2026(t *testing.T) {
	r, seal, err := ReadSealed("testdata/run")
	if err != nil || !seal.Holds() {
		t.Fatalf("%v, seal %+v", err, seal)
	}
	v := Judge(r, r.Bounds)
	v.RunDir = "testdata/run"
	verdict, err := JSON(v)
	if err != nil {
		t.Fatal(err)
	}
	var text, page bytes.Buffer
	if err := Text(&text, v); err != nil {
		t.Fatal(err)
	}
	if err := HTML(&page, v); err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string][]byte{VerdictFile: verdict, "fleet.text": text.Bytes(), rundir.HTMLFile: pageAssets.ReplaceAll(page.Bytes(), nil)} {
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("differs from %s; look at it with go test -update && git diff", path)
		}
	}
}
