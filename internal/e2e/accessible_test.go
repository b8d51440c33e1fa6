//go:build e2e

package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// The accessibility checks of axe-core, as npm packs them.
const (
	axePackage   = "axe-core@4.14.1"
	axeIntegrity = "sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
)

// TestAccessible checks each kind of page with all rules of axe-core, in light and dark mode, on a desktop and on a
// phone.
func TestAccessible(t *testing.T) {
	t.Parallel()
	axe := axeCore(t)
	diff := diffPage(t)
	pages := map[string]string{"diff": diff}
	for _, file := range glob(t, "../../docs/examples/*.html") {
		pages[filepath.Base(file)] = file
	}
	// The pages that packages compare with have no style sheet.
	html, err := os.ReadFile(diff)
	check(t, err)
	style := regexp.MustCompile(`(?s)<style>.+?</style>`).Find(html)
	dir := t.TempDir()
	for _, golden := range glob(t, "../../*/testdata/*.html") {
		html, err := os.ReadFile(golden)
		check(t, err)
		name := strings.ReplaceAll(strings.TrimPrefix(golden, "../../"), "/", "-")
		pages[name] = filepath.Join(dir, name)
		check(t, os.WriteFile(pages[name], bytes.Replace(html, []byte("</head>"), slices.Concat(style, []byte("</head>")), 1), 0o644))
	}
	for name, file := range pages {
		t.Run(name, func(t *testing.T) {
			file, err := filepath.Abs(file)
			check(t, err)
			p := openPage(t, file, true)
			evaluate[any](t, p.ctx, axe+"; null")
			for _, scheme := range []string{"light", "dark"} {
				colours(t, p.ctx, scheme)
				for _, width := range []int64{1280, 390} {
					check(t, chromedp.Do(p.ctx, chromedp.EmulateViewport(width, 900)))
					for _, v := range evaluate[[]string](t, p.ctx, violations, chromedp.EvalAwaitPromise) {
						t.Errorf("%s, %d pixels: %s", scheme, width, v)
					}
				}
			}
		})
	}
	met("chromium")
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no files: %v", pattern, err)
	}
	return files
}

// violations has a line for each rule that the page does not follow, with the first element.
const violations = `axe.run().then(r => {
	if (r.passes.length < 10) throw new Error('only ' + r.passes.length + ' rules applied');
	return r.violations.map(v => v.id + ': ' + v.help + ', ' + v.nodes.length + ' times, first in ' + v.nodes[0].html);
})`

// axeCore returns the script of axe-core. Without npm it skips the test with a visible message, or fails it in CI.
func axeCore(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	pack := exec.Command("npm", "pack", "--silent", axePackage)
	pack.Dir = dir
	name, err := pack.Output()
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("npm pack %s: %v", axePackage, err)
		}
		t.Skipf("SKIPPED: npm cannot fetch %s, no page was checked for accessibility: %v", axePackage, err)
	}
	data, err := os.ReadFile(filepath.Join(dir, strings.TrimSpace(string(name))))
	check(t, err)
	sum := sha512.Sum512(data)
	if got := "sha512-" + base64.StdEncoding.EncodeToString(sum[:]); got != axeIntegrity {
		t.Fatalf("%s has the checksum %s", axePackage, got)
	}
	script, err := packed(data, "package/axe.min.js")
	check(t, err)
	return script
}

// packed returns a file of a package.
func packed(data []byte, name string) (string, error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return "", err
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return "", fmt.Errorf("the package has no %s", name)
		}
		if err != nil {
			return "", err
		}
		if h.Name == name {
			text, err := io.ReadAll(r)
			return string(text), err
		}
	}
}
