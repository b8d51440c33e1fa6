package bisect

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// pageAssets are the parts of a page that every page has.
var pageAssets = regexp.MustCompile(`(?s)<style>.*?</style>|<script>.*?</script>|<meta (name="generator"|http-equiv)[^>]*>`)

// TestRecordOfNovember2026 checks that a record of schema 2 is read, and that its reports stay the same. The record in
// testdata is never written again.
func TestRecordOfNovember2026(t *testing.T) {
	r, seal, err := ReadSealed("testdata/run")
	if err != nil || !seal.Holds() {
		t.Fatalf("%v, seal %+v", err, seal)
	}
	for _, f := range Formats() {
		var b bytes.Buffer
		if err := f.Render(&b, r, "testdata/run"); err != nil {
			t.Fatal(err)
		}
		got := pageAssets.ReplaceAll(b.Bytes(), nil)
		path := filepath.Join("testdata", "bisect."+f.Name)
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
