//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leakrig/leakrig/rundir"

	_ "embed"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/reports"
)

// inBrowser opens the report of a real run in a headless Chromium, in the settings that readers use: with its script
// and without, in light and dark mode, on a desktop and on a phone.
func inBrowser(t *testing.T, dir rundir.Dir) {
	file := dir.Path(rundir.HTMLFile)
	plain := openPage(t, file, false)
	if title := evaluate[string](t, plain.ctx, `document.querySelector('h1').innerText`); title != "watch-then-delete" {
		t.Errorf("title %q", title)
	}
	if text := evaluate[string](t, plain.ctx, `document.querySelector('.sentence').innerText`); !strings.Contains(text, "StreamWatcher") {
		t.Errorf("sentence %q", text)
	}
	// The source of the blocking line comes from the module cache, and its link leads to the upstream repository.
	line := evaluate[string](t, plain.ctx, `document.querySelector('.culprit code').innerText + ' ' + document.querySelector('.culprit a').href`)
	if line != "sw.result <- Event{ https://github.com/kubernetes/apimachinery/blob/v0.18.8/pkg/watch/streamwatcher.go#L127" {
		t.Errorf("the card of leaky names %s", line)
	}
	// The numbers of the marked frames, for goroutines and heap, equal those of go tool pprof.
	for id, index := range map[string]string{"flame1-0": "goroutine", "flame1-1": "inuse_space"} {
		said := evaluate[string](t, plain.ctx, fmt.Sprintf(`document.querySelector('.panel:has(> .views > #%s-0) .flame .fp title').textContent`, id))
		probe, _, _ := strings.Cut(strings.Replace(index, "inuse_space", "heap", 1), "_")
		want := pprofTotal(t, index, receive, dir.Path("leaky", "round-0", probe+".pb.gz"), dir.Path("leaky", "round-8", probe+".pb.gz"))
		if !strings.HasPrefix(said, receive) || !strings.Contains(said, "total +"+want+",") && !strings.Contains(said, "("+want+" B)") {
			t.Errorf("%s: the frame says %q, go tool pprof %s", index, said, want)
		}
	}
	for _, p := range []*opened{plain, openPage(t, file, true)} {
		looksRight(t, p)
		p.quiet(t)
	}
	met("chromium")
}

// pprofTotal returns the cumulative change of a function according to go tool pprof, in goroutines or bytes.
func pprofTotal(t *testing.T, index, function, base, last string) string {
	t.Helper()
	out, err := exec.Command("go", "tool", "pprof", "-top", "-cum", "-unit=B", "-sample_index="+index, "-nodecount=100000", "-nodefraction=0", "-base", base, last).Output()
	check(t, err)
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) > 5 && f[5] == function {
			return strings.TrimSuffix(f[3], "B")
		}
	}
	t.Fatalf("go tool pprof does not know %s:\n%s", function, out)
	return ""
}

// TestExamples checks the examples in the documentation. It saves pictures of them in the folder LEAKRIG_PICTURES, if
// set.
func TestExamples(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../docs/examples/*.html")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, file := range files {
		file, err := filepath.Abs(file)
		check(t, err)
		name := strings.TrimSuffix(filepath.Base(file), ".html")
		t.Run(name, func(t *testing.T) {
			p := openPage(t, file, true)
			looksRight(t, p)
			p.quiet(t)
			if dir := os.Getenv("LEAKRIG_PICTURES"); dir != "" {
				pictures(t, file, filepath.Join(dir, name))
			}
		})
	}
	met("chromium")
}

func TestReportWithoutScript(t *testing.T) {
	t.Parallel()
	p := openPage(t, writeReport(t, reportInput(60, nil), "html"), false)
	looksRight(t, p)
	// The style sheet alone implements the tabs.
	if n := evaluate[int](t, p.ctx, `[...document.querySelectorAll('.flame')].filter(e => e.checkVisibility()).length`); n != 1 {
		t.Errorf("%d flame graphs at once", n)
	}
	before := evaluate[string](t, p.ctx, visibleFlame)
	check(t, chromedp.Do(p.ctx, chromedp.Click(chromedp.CSS(`label[for="flame1-1"]`))))
	if after := evaluate[string](t, p.ctx, visibleFlame); after == before || !strings.Contains(after, "Heap bytes") {
		t.Errorf("the tab shows %q after %q", after, before)
	}
	check(t, chromedp.Do(p.ctx, chromedp.Focus(chromedp.CSS(`#flame1-1`)), chromedp.KeyEvent(kb.ArrowRight)))
	if after := evaluate[string](t, p.ctx, visibleFlame); !strings.Contains(after, "Heap objects") {
		t.Errorf("the arrow key shows %q", after)
	}
	p.quiet(t)
	met("chromium")
}

const visibleFlame = `[...document.querySelectorAll('.flame')].filter(e => e.checkVisibility()).map(e => e.getAttribute('aria-label')).join()`

// interactive brings the first visible flame graph into sight, and waits until it has all frames.
func interactive(t *testing.T, p *opened) {
	t.Helper()
	evaluate[any](t, p.ctx, `[...document.querySelectorAll('.flame-box')].find(e => e.checkVisibility()).scrollIntoView({behavior: 'instant'})`)
	becomes(t, p, `document.querySelector('.flame.zoomable') !== null`)
}

// becomes waits until the expression is true.
func becomes(t *testing.T, p *opened, expression string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !evaluate[bool](t, p.ctx, expression); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not true after 10 s: %s", expression)
		}
	}
}

// TestFlameHasAllFrames opens a page with 10,000 stacks. Its script draws what the page itself draws, with the same
// numbers, and zooms in to frames that the page has no room for.
func TestFlameHasAllFrames(t *testing.T) {
	t.Parallel()
	file := writeReport(t, reportInput(10_000, nil), "html")
	const titles = `[...[...document.querySelectorAll('.flame')].find(e => e.checkVisibility()).querySelectorAll(':scope > svg > title')].map(e => e.textContent).filter(e => !e.includes('narrower frame'))`
	for _, tab := range []string{"flame1-0", "flame1-1", "flame1-2"} {
		static, p := openPage(t, file, false), openPage(t, file, true)
		for _, p := range []*opened{static, p} {
			evaluate[any](t, p.ctx, fmt.Sprintf(`document.getElementById(%q).click()`, tab))
		}
		interactive(t, p)
		drawn := evaluate[[]string](t, p.ctx, titles)
		for _, title := range evaluate[[]string](t, static.ctx, titles) {
			if !slices.Contains(drawn, title) {
				t.Errorf("%s: the script does not draw\n%s\nbut\n%s", tab, title, drawn[1])
				break
			}
		}
		if tab == "flame1-0" {
			// leaf9999 grew by 8 × 3 × (1 + 9999 % 9). No view at the start has it.
			check(t, chromedp.Do(p.ctx, chromedp.SendKeys(chromedp.CSS(`.flame-tools input`), "leaf9999")))
			becomes(t, p, `document.querySelector('.flame-tools output').textContent === "+24, < 0.1 % of all change, 1 frame"`)
			if slices.ContainsFunc(drawn, func(s string) bool { return strings.Contains(s, "leaf9999") }) {
				t.Error("leaf9999 is wide")
			}
			check(t, chromedp.Do(p.ctx, chromedp.KeyEvent(kb.Enter)))
			if on := evaluate[string](t, p.ctx, `document.querySelector('.flame > svg.on').getAttribute('width') + document.querySelector('.flame > svg.on').textContent`); !strings.HasPrefix(on, "100%example.com/m/p.leaf9999 [chan send]\ntotal +24, 5 → 29") {
				t.Errorf("zoomed to %q", on)
			}
		}
		p.quiet(t)
	}
	// Every frame is within reach of clicks on narrow ones.
	p := openPage(t, file, true)
	interactive(t, p)
	least := evaluate[float64](t, p.ctx, `(() => {
		const svg = [...document.querySelectorAll('.flame')].find(e => e.checkVisibility());
		let clicks = 0;
		for (; clicks < 20; clicks++) {
			const narrow = [...svg.children].filter(e => e.querySelector('title').textContent.includes('narrower frame')).pop();
			if (!narrow) return clicks;
			narrow.querySelector('rect').dispatchEvent(new MouseEvent('click', {bubbles: true}));
		}
		return clicks;
	})()`)
	if least == 0 || least > 8 {
		t.Errorf("%v clicks to the narrowest frames", least)
	}
	met("chromium")
}

func TestReportWithScript(t *testing.T) {
	t.Parallel()
	p := openPage(t, writeReport(t, reportInput(60, nil), "html"), true)
	looksRight(t, p)

	interactive(t, p)
	const frame = `[...document.querySelectorAll('.flame-box .flame')].find(e => e.checkVisibility()).children`
	box := func(name string) string {
		return evaluate[string](t, p.ctx, fmt.Sprintf(`[...%s].find(e => e.querySelector('title').textContent.startsWith(%q))?.getAttribute('width') ?? 'none'`, frame, name))
	}
	const serve = "example.com/m/p.serve3"
	was := box(serve)
	click := func(name string) {
		evaluate[any](t, p.ctx, fmt.Sprintf(`[...%s].find(e => e.querySelector('title').textContent.startsWith(%q)).querySelector('rect').dispatchEvent(new MouseEvent('click', {bubbles: true}))`, frame, name))
	}
	click(serve)
	if was == "100%" || was == "none" || box(serve) != "100%" || box("all stacks") != "100%" {
		t.Errorf("zoomed in: %s became %s below %s", was, box(serve), box("all stacks"))
	}
	check(t, chromedp.Do(p.ctx, chromedp.Focus(chromedp.CSS(`.flame-box`)), chromedp.KeyEvent(kb.Escape)))
	if box(serve) != was {
		t.Errorf("zoomed out: %s became %s", was, box(serve))
	}
	check(t, chromedp.Do(p.ctx, chromedp.Focus(chromedp.CSS(`.flame-box`)), chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.Enter)))
	if said := evaluate[string](t, p.ctx, `document.querySelector('.at-frame').textContent`); !strings.Contains(said, "total ") || !strings.Contains(said, " per operation on average") {
		t.Errorf("the keyboard came to %q", said)
	}
	// A link leads to the frame, from any state of the page.
	to := evaluate[string](t, p.ctx, `document.querySelector('.frame-actions a').getAttribute('href')`)
	zoomed := evaluate[string](t, p.ctx, `document.querySelector('.flame > svg.on title').textContent`)
	check(t, chromedp.Do(p.ctx, chromedp.KeyEvent(kb.Escape)))
	evaluate[any](t, p.ctx, `document.getElementById('flame1-2').click(); document.querySelector('.flames').open = false`)
	evaluate[any](t, p.ctx, fmt.Sprintf(`location.hash = %q`, to))
	becomes(t, p, fmt.Sprintf(`document.querySelector('#flame1-0').checked && document.querySelector('.flames').open && document.querySelector('.flame > svg.on title')?.textContent === %q`, zoomed))
	check(t, chromedp.Do(p.ctx, chromedp.Focus(chromedp.CSS(`.flame-box`)), chromedp.KeyEvent(kb.Escape)))

	inOthers := regexp.MustCompile(`leaf[1-5]$|work[1-3]$`) // leaf1 is in leaf10
	// The search finds all frames. It says how much they grew, and its numbers are those of the table of functions.
	search := func(text string) string {
		evaluate[any](t, p.ctx, fmt.Sprintf(`(() => { const e = document.querySelector('.flame-tools input'); e.value = %q; e.dispatchEvent(new Event('input')); })()`, text))
		return evaluate[string](t, p.ctx, `document.querySelector('.flame-tools output').textContent`)
	}
	if said := search("leaf1"); said == "" || evaluate[int](t, p.ctx, `document.querySelectorAll('.flame .hit').length`) == 0 {
		t.Errorf("no hits, said to be %q", said)
	}
	for _, row := range evaluate[[]string](t, p.ctx, `[...document.querySelector('.flames .numbers table').tBodies[0].rows].slice(0, 8).map(r => r.cells[1].textContent + ' ' + r.cells[2].textContent)`) {
		total, name, _ := strings.Cut(row, " ")
		if said := search(name); !strings.HasPrefix(said, total+", ") && !inOthers.MatchString(name) {
			t.Errorf("%s grew by %s, the search says %q", name, total, said)
		}
	}
	if said := search("no such function"); said != "not found" {
		t.Errorf("found %q", said)
	}
	search("")

	// Callers above and callees below have the total of the function.
	click(serve)
	evaluate[any](t, p.ctx, `[...document.querySelectorAll('.frame-actions button')].find(e => e.checkVisibility()).click()`)
	around := evaluate[[]string](t, p.ctx, `[...document.querySelectorAll('.flame-box .flame')].find(e => e.checkVisibility()).querySelectorAll(':scope > svg > title').values().map(e => e.textContent.split('\n')[0] + ' ' + /total [^,]*/.exec(e.textContent)[0] + ' ' + e.parentElement.getAttribute('y')).toArray()`)
	if len(around) < 3 || !strings.HasPrefix(around[0], "example.com/m/p.main total ") || !strings.HasPrefix(around[1], serve+" total ") ||
		strings.Fields(around[0])[2] != strings.Fields(around[1])[2] || !strings.HasSuffix(around[0], " 0") || !strings.HasSuffix(around[1], " 19") {
		t.Errorf("around %s: %q", serve, around)
	}
	check(t, chromedp.Do(p.ctx, chromedp.Focus(chromedp.CSS(`.flame-box`)), chromedp.KeyEvent(kb.Escape)))

	// Modules have colours.
	evaluate[any](t, p.ctx, `(() => { const s = document.querySelector('.flame-tools select'); s.selectedIndex = 1; s.dispatchEvent(new Event('change')); })()`)
	if said := evaluate[string](t, p.ctx, `document.querySelector('.modules-key').innerText`); !strings.HasPrefix(strings.TrimSpace(said), "example.com/m ") {
		t.Errorf("modules %q", said)
	}
	if fill := evaluate[string](t, p.ctx, frame+`[1].querySelector('rect').getAttribute('fill')`); fill != "#f7c9a8" {
		t.Errorf("coloured %s", fill)
	}
	colours(t, p.ctx, "dark")
	if faint := evaluate[[]string](t, p.ctx, contrast); len(faint) > 0 {
		t.Errorf("hard to read: %s", strings.Join(faint, "\n"))
	}
	colours(t, p.ctx, "light")

	for _, sorted := range []string{"descending", "ascending"} {
		evaluate[any](t, p.ctx, `document.querySelector('.flames table.sortable th button').click()`)
		if got := evaluate[string](t, p.ctx, `document.querySelector('.flames table.sortable th').getAttribute('aria-sort')`); got != sorted {
			t.Errorf("sorted %s, want %s", got, sorted)
		}
		column := evaluate[[]float64](t, p.ctx, `[...document.querySelector('.flames table.sortable').tBodies[0].rows].map(r => parseFloat(r.cells[0].textContent.replace('−', '-')))`)
		if sorted == "descending" {
			slices.Reverse(column)
		}
		if len(column) < 5 || !slices.IsSorted(column) {
			t.Errorf("%s: %v", sorted, column)
		}
	}
	evaluate[any](t, p.ctx, `document.querySelector('.command .copy').click()`)
	if said := evaluate[string](t, p.ctx, `getSelection().toString()`); !strings.HasPrefix(said, "leakrig ") {
		t.Errorf("copied %q", said)
	}

	downloads := t.TempDir()
	callBrowser(t, p.ctx, cdpbrowser.SetDownloadBehavior, cdpbrowser.SetDownloadBehaviorParams{Behavior: cdpbrowser.SetDownloadBehaviorBehaviorAllow, DownloadPath: downloads})
	evaluate[any](t, p.ctx, `[...document.querySelectorAll('.flame-tools .tool')].find(b => b.textContent === 'Save as SVG').click()`)
	saved := ""
	for deadline := time.Now().Add(10 * time.Second); saved == "" && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		data, _ := os.ReadFile(filepath.Join(downloads, "flame.svg"))
		saved = string(data)
	}
	if !strings.HasPrefix(saved, "<svg ") || !strings.Contains(saved, "leaf1") {
		t.Errorf("saved %.80q", saved)
	}
	p.quiet(t)
	met("chromium")
}

// TestDiffInBrowser opens the page that compares two profiles, with and without its script. It searches boxes of
// several frames, and moves through them frame by frame and box by box.
func TestDiffInBrowser(t *testing.T) {
	t.Parallel()
	file := diffPage(t)
	for _, script := range []bool{false, true} {
		p := openPage(t, file, script)
		readable(t, p)
		if shown := evaluate[int](t, p.ctx, `[...document.querySelectorAll('.flame')].find(e => e.checkVisibility()).querySelectorAll(':scope > svg > rect').length`); shown != 4 {
			t.Errorf("script %t: %d boxes, want the whole, two callers, and one of each stack", script, shown)
		}
		if script {
			interactive(t, p)
			check(t, chromedp.Do(p.ctx, chromedp.Focus(chromedp.CSS(`.flame-box`)), chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.ArrowDown)))
			if said := evaluate[string](t, p.ctx, `document.querySelector('.at-frame').textContent`); !strings.HasPrefix(said, "example.com/p.handle\nexample.com/p.wait [select]\ntotal +50, new") {
				t.Errorf("two boxes down there is %q", said)
			}
			check(t, chromedp.Do(p.ctx, chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.ArrowUp)))
			if said := evaluate[string](t, p.ctx, `document.querySelector('.at-frame').textContent`); !strings.HasPrefix(said, "example.com/p.main\nexample.com/p.serve\ntotal +47") {
				t.Errorf("right of it and up there is %q", said)
			}
			check(t, chromedp.Do(p.ctx, chromedp.SendKeys(chromedp.CSS(`.flame-tools input`), "a")))
			if said := evaluate[string](t, p.ctx, `document.querySelector('.flame-tools output').textContent`); said != "+47, 100.0 % of all change, 5 frames" { // in 3 boxes, each with an a in a name
				t.Errorf("found %q", said)
			}
		}
		p.quiet(t)
	}
	met("chromium")
}

// TestReportWithoutStyle checks that a viewer whose policy also drops the style sheet still shows everything, with all
// tabs one below the other.
func TestReportWithoutStyle(t *testing.T) {
	t.Parallel()
	file := writeReport(t, reportInput(60, nil), "html")
	page, err := os.ReadFile(file)
	check(t, err)
	strict := bytes.Replace(page, []byte("style-src "), []byte("style-src 'none'; ignored-src "), 1)
	check(t, os.WriteFile(file, bytes.Replace(strict, []byte("script-src "), []byte("script-src 'none'; ignored-too "), 1), 0o644))
	p := openPage(t, file, true)
	if styled := evaluate[string](t, p.ctx, `getComputedStyle(document.querySelector('.tabs > .panel:last-of-type')).display`); styled != "block" {
		t.Fatalf("the style sheet is there: %s", styled)
	}
	for what, least := range map[string]int{"svg.chart path": 10, ".flame > svg > rect": 20, ".sentence": 1} {
		script := fmt.Sprintf(`[...document.querySelectorAll(%q)].filter(e => { const b = e.getBoundingClientRect(); return b.width + b.height > 0; }).length`, what)
		if n := evaluate[int](t, p.ctx, script); n < least {
			t.Errorf("%d of %s in sight", n, what)
		}
	}
	met("chromium")
}

// TestReportStaysText checks that text from profiles, scenarios and logs is escaped everywhere.
func TestReportStaysText(t *testing.T) {
	t.Parallel()
	const hostile = `<script>alert(1)</script>"onload="alert(1)'><img src=x onerror=alert(1)></title></svg><svg onload=alert(1)></script><script>alert(1)</script>`
	in := reportInput(20, func(name string) string { return hostile + name })
	for format, c := range map[string]struct {
		scripts int
		texts   []string
	}{"html": {1, []string{"work3", "a log line", "A scenario", "a finding"}}, "svg": {0, []string{"work3"}}} {
		p := openPage(t, writeReport(t, in, format), true)
		if n := evaluate[int](t, p.ctx, `document.getElementsByTagName('script').length`); n != c.scripts {
			t.Errorf("%s: %d scripts", format, n)
		}
		if bad := evaluate[string](t, p.ctx, `[...document.querySelectorAll('*')].filter(e => e.localName === 'img' || [...e.attributes].some(a => a.name.startsWith('on'))).map(e => e.outerHTML.slice(0, 80)).join()`); bad != "" {
			t.Errorf("%s: %s", format, bad)
		}
		for _, text := range c.texts {
			if !evaluate[bool](t, p.ctx, fmt.Sprintf(`document.documentElement.textContent.includes(%q)`, hostile+text)) {
				t.Errorf("%s: %s is missing or changed", format, text)
			}
		}
		if format == "html" {
			readable(t, p) // such long names do not widen the page
		}
		p.quiet(t)
	}
	met("chromium")
}

// TestHistoryInBrowser checks the page over many runs. One run cannot be read, and the sentence of another contains
// markup.
func TestHistoryInBrowser(t *testing.T) {
	t.Parallel()
	var runs []reports.HistoryRun
	for night := range 30 {
		in := reportInput(12, nil)
		in.Record.Started = in.Record.Started.AddDate(0, 0, night)
		in.Record.Variants[1].Subject = leak.SubjectInfo{GoVersion: fmt.Sprintf("go1.%d", 20+night/10)}
		if night == 29 {
			in.Verdict.Result, in.Verdict.Sentence = leak.NotMet, `<script>alert(1)</script>"onload="alert(1)`
			in.Verdict.Variants[1].Findings[0].Outcome = leak.Leaking
		}
		runs = append(runs, reports.HistoryRun{Dir: fmt.Sprint(night), Report: fmt.Sprintf("browser/%d/report.html", night), Record: in.Record, Verdict: in.Verdict})
	}
	runs = append(runs, reports.HistoryRun{Dir: "broken", Problem: "no such file"})
	var b bytes.Buffer
	check(t, reports.History(&b, runs, runs[29].Record.Started))
	file := filepath.Join(t.TempDir(), "index.html")
	check(t, os.WriteFile(file, b.Bytes(), 0o644))
	for _, scripted := range []bool{false, true} {
		p := openPage(t, file, scripted)
		readable(t, p)
		for _, list := range []string{".calendar", ".nights"} {
			if days := evaluate[int](t, p.ctx, fmt.Sprintf(`document.querySelectorAll('%s a[aria-label]').length`, list)); days != 30 {
				t.Errorf("%s has %d days", list, days)
			}
		}
		if to := evaluate[string](t, p.ctx, `document.querySelector('svg.chart a').getAttribute('href')`); !strings.HasPrefix(to, "./browser/") {
			t.Errorf("a point leads to %s", to)
		}
		text := evaluate[string](t, p.ctx, `document.body.innerText`)
		for _, want := range []string{`<script>alert(1)</script>"onload="alert(1)`, "goroutines was clean and is leaking", "go1.21", "no such file"} {
			if !strings.Contains(text, want) {
				t.Errorf("the page lacks %s", want)
			}
		}
		p.quiet(t)
	}
	if dir := os.Getenv("LEAKRIG_PICTURES"); dir != "" {
		pictures(t, file, filepath.Join(dir, "history"))
	}
	met("chromium")
}

// TestReportOpensAtOnce checks that a page is small and shows the verdict without scrolling, for any number of
// stacks. A benchmark limits the time to the first paint.
func TestReportOpensAtOnce(t *testing.T) {
	for _, c := range []struct {
		stacks int
		limit  float64
	}{{60, 300}, {10_000, 1000}} {
		file := writeReport(t, reportInput(c.stacks, nil), "html")
		info, err := os.Stat(file)
		check(t, err)
		if info.Size() > 2<<20 {
			t.Errorf("%d stacks: %d bytes", c.stacks, info.Size())
		}
		p := openPage(t, file, true)
		var waits []float64
		reloads := 1
		if timed {
			reloads = 7
		}
		for range reloads {
			check(t, chromedp.Do(p.ctx, chromedp.Reload(), chromedp.WaitVisible(chromedp.CSS(".sentence"))))
			seen := evaluate[float64](t, p.ctx, `new Promise(done => {
				const paint = () => { const p = performance.getEntriesByName('first-contentful-paint')[0]; p ? done(p.startTime) : setTimeout(paint, 5); };
				paint();
			})`, chromedp.EvalAwaitPromise)
			if !evaluate[bool](t, p.ctx, `document.querySelector('.sentence').getBoundingClientRect().bottom < innerHeight`) {
				t.Error("the verdict is below the fold")
			}
			waits = append(waits, seen)
		}
		slices.Sort(waits)
		t.Logf("%d stacks, %d KiB: verdict painted after %.0f ms (median of %d; %.0f to %.0f)", c.stacks, info.Size()>>10, waits[len(waits)/2], len(waits), waits[0], waits[len(waits)-1])
		if timed && waits[len(waits)/2] > c.limit {
			t.Errorf("%d stacks: %v ms, at most %.0f wanted", c.stacks, waits, c.limit)
		}
	}
	met("chromium")
}

// opened is an open page with its problems: console messages, exceptions, dialogs, and requests other than for files.
type opened struct {
	ctx      context.Context
	problems []string
}

// openPage opens a file. scripted enables the page's own script; scripts of the test always run.
func openPage(t *testing.T, file string, scripted bool) *opened {
	t.Helper()
	p := &opened{ctx: browser(t)}
	listen := chromedp.Listen(p.ctx, func(ev any) {
		switch ev := ev.(type) {
		case *log.EventEntryAdded:
			p.problems = append(p.problems, "log: "+ev.Entry.Text)
		case *runtime.EventExceptionThrown:
			p.problems = append(p.problems, "exception: "+ev.ExceptionDetails.Text)
		case *runtime.EventConsoleAPICalled:
			p.problems = append(p.problems, fmt.Sprintf("console: %s", ev.Type))
		case *page.EventJavascriptDialogOpening:
			p.problems = append(p.problems, "dialog: "+ev.Message)
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(ev.Request.URL, "file://") {
				p.problems = append(p.problems, "request: "+ev.Request.URL)
			}
		}
	})
	check(t, listen)
	call(t, p.ctx, log.Enable, cdp.Empty{})
	call(t, p.ctx, network.Enable, network.EnableParams{})
	call(t, p.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !scripted})
	check(t, chromedp.Do(p.ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate("file://"+file)))
	call(t, p.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{})
	return p
}

// quiet fails if the page had a problem.
func (p *opened) quiet(t *testing.T) {
	t.Helper()
	if len(p.problems) > 0 {
		t.Errorf("the page complains: %q", p.problems)
	}
}

//go:embed contrast.js
var contrast string

// looksRight checks what every reader needs: visible verdict, charts and flame graphs, landmarks, readable text, and
// no page wider than its window.
func looksRight(t *testing.T, p *opened) {
	t.Helper()
	for what, least := range map[string]int{
		".sentence": 1, "main": 1, "nav[aria-label]": 1, "figure svg.chart[role=img] title": 3, ".flame[role=img][aria-label] > svg": 2,
	} {
		script := fmt.Sprintf(`[...document.querySelectorAll(%q)].filter(e => (e.localName === 'title' ? e.parentElement : e).checkVisibility()).length`, what)
		if n := evaluate[int](t, p.ctx, script); n < least {
			t.Errorf("%d of %s in sight", n, what)
		}
	}
	// Each tab shows only its own panel.
	if hidden := evaluate[string](t, p.ctx, `[...document.querySelectorAll('.tabs')].flatMap(tabs => {
		const inputs = [...tabs.querySelectorAll(':scope > input')], was = inputs.find(i => i.checked);
		const bad = inputs.filter(i => {
			i.checked = true;
			const shown = [...tabs.querySelectorAll(':scope > .panel')].filter(e => getComputedStyle(e).display !== 'none');
			return shown.length !== 1 || shown[0] !== i.nextElementSibling.nextElementSibling;
		});
		was.checked = true;
		return bad.map(i => i.id);
	}).join()`); hidden != "" {
		t.Errorf("tabs that do not show their panel alone: %s", hidden)
	}
	readable(t, p)
}

// readable checks what readers with low vision, without a mouse or with a phone need.
func readable(t *testing.T, p *opened) {
	t.Helper()
	if nameless := evaluate[string](t, p.ctx, `[...document.querySelectorAll('button, input, a, [role=img], [tabindex]')].filter(e => !(e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.labels?.length || e.textContent.trim())).map(e => e.outerHTML.slice(0, 90)).join()`); nameless != "" {
		t.Errorf("without a name: %s", nameless)
	}
	for _, scheme := range []string{"light", "dark"} {
		colours(t, p.ctx, scheme)
		if faint := evaluate[[]string](t, p.ctx, contrast); len(faint) > 0 {
			t.Errorf("%s: hard to read: %s", scheme, strings.Join(faint[:min(len(faint), 8)], "\n"))
		}
	}
	colours(t, p.ctx, "light")
	for _, width := range []int64{390, 1280} {
		check(t, chromedp.Do(p.ctx, chromedp.EmulateViewport(width, 844)))
		if wide := evaluate[int](t, p.ctx, `document.documentElement.scrollWidth - document.documentElement.clientWidth`); wide > 0 {
			t.Errorf("scrolls sideways at %d px, by %d", width, wide)
		}
	}
}

func colours(t *testing.T, ctx context.Context, scheme string) {
	t.Helper()
	call(t, ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
}

// pictures saves pictures of a page for a person to check.
func pictures(t *testing.T, file, dir string) {
	t.Helper()
	check(t, os.MkdirAll(dir, 0o755))
	for _, c := range []struct {
		name, scheme, media string
		width               int64
	}{{"light", "light", "", 1280}, {"dark", "dark", "", 1280}, {"phone", "light", "", 390}, {"print", "light", "print", 720}} {
		p := openPage(t, file, true)
		call(t, p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: c.media, Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: c.scheme}}})
		evaluate[any](t, p.ctx, `document.querySelectorAll('#flame1-1').forEach(e => e.click())`) // the heap graph
		check(t, chromedp.Do(p.ctx, chromedp.EmulateViewport(c.width, 900)))
		picture, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
		check(t, err)
		check(t, os.WriteFile(filepath.Join(dir, c.name+".png"), picture, 0o644))
	}
	p := openPage(t, file, true)
	pdf, err := chromedp.Run(p.ctx, chromedp.PrintToPDF())
	check(t, err)
	check(t, os.WriteFile(filepath.Join(dir, "print.pdf"), pdf, 0o644))
}

// reportInput returns a judged run of two variants with this number of stacks each. If name is given, its results
// replace every untrusted string.
func reportInput(stacks int, name func(string) string) reports.Input {
	if name == nil {
		name = func(s string) string { return s }
	}
	start := time.Date(2026, 11, 20, 14, 3, 12, 0, time.UTC)
	in := reports.Input{
		RunDir:   "runs/browser/20261120T140312Z",
		Scenario: &leak.Scenario{Metadata: leak.Metadata{Name: "browser", Description: name("A scenario")}},
		Record: &leak.Record{
			Schema: leak.RecordSchema, Scenario: "browser", Leakrig: "(test)", Started: start, Finished: start.Add(time.Minute),
			Plan: leak.Plan{Variants: []string{"leaky", "fixed"}, Rounds: 8}, Warnings: []string{name("a log line")},
			Metrics: map[string]leak.Metric{"goroutine.count": {Unit: "goroutines"}, "heap.alloc": {Unit: "bytes"}, "heap.objects": {Unit: "objects"}},
		},
		Verdict: &leak.Verdict{Schema: leak.VerdictSchema, Result: leak.Met, Sentence: name("leaky leaks, fixed is clean.")},
	}
	for _, variant := range in.Record.Plan.Variants {
		growth := map[string]int64{"leaky": 3, "fixed": 0}[variant]
		outcome := map[string]leak.Outcome{"leaky": leak.Leaking, "fixed": leak.Clean}[variant]
		vr := leak.VariantRecord{Name: variant, Stacks: map[string]leak.Stack{}}
		var grown []leak.StackGrowth
		f := leak.Finding{
			Check: "goroutines", Kind: "growth", Series: "goroutine.count", Unit: "goroutines", Outcome: outcome, Summary: name("a finding"),
			PerOperation: float64(growth), Low: float64(growth) * 0.9, High: float64(growth) * 1.1, Bound: 0.1, BoundPerOperation: true,
		}
		for round := range 9 {
			var groups []leak.Group
			for i := range stacks {
				s := leak.Stack{State: "chan send"}
				for _, fn := range []string{fmt.Sprintf("leaf%d", i), fmt.Sprintf("work%d", i%40), fmt.Sprintf("serve%d", i%7), "main"} {
					s.Frames = append(s.Frames, leak.Frame{Func: "example.com/m/p." + name(fn), File: "example.com/m@v1.0.0/p/p.go", Line: 1 + i})
				}
				vr.Stacks[s.ID()] = s
				grew := int64(round) * growth * int64(1+i%9+4000/(1+i)) // a few large stacks, many small ones
				groups = append(groups, leak.Group{Stack: s.ID(), Count: 5 + grew, Bytes: 4096 + 2048*grew})
				if round == 8 && grew > 0 && len(grown) < 20 {
					grown = append(grown, leak.StackGrowth{ID: s.ID(), Stack: s, From: 5, To: 5 + grew, PerOperation: 1, Fingerprint: i == 0})
				}
			}
			shot := leak.Snapshot{Round: round, Operations: 20 * round, Settle: leak.SettleResult{Settled: true}}
			for _, probe := range []string{"goroutine", "heap"} {
				source := map[string]string{"goroutine": "profile", "heap": "heap"}[probe]
				shot.Samples = append(shot.Samples, leak.Sample{
					Probe: probe, Groups: map[string][]leak.Group{source: groups}, Files: []string{fmt.Sprintf("%s/round-%d/%s.pb.gz", variant, round, probe)},
					Values: map[string]float64{"count": float64(50 + 60*int64(round)*growth), "alloc": 1 << 20, "objects": 5000},
				})
			}
			f.Points = append(f.Points, leak.Point{Round: round, Operations: 20 * round, Value: shot.Samples[0].Values["count"]})
			vr.Snapshots = append(vr.Snapshots, shot)
		}
		in.Record.Variants = append(in.Record.Variants, vr)
		in.Verdict.Variants = append(in.Verdict.Variants, leak.VariantVerdict{
			Variant: variant, Outcome: outcome, Result: leak.Met, Reason: name("a reason"),
			Findings: []leak.Finding{f}, Growing: grown, HeapGrowing: grown,
		})
	}
	return in
}

func writeReport(t *testing.T, in reports.Input, format string) string {
	t.Helper()
	for _, f := range reports.Formats() {
		if f.Name == format {
			var b bytes.Buffer
			check(t, f.Render(&b, in))
			file := filepath.Join(t.TempDir(), "report."+format)
			check(t, os.WriteFile(file, b.Bytes(), 0o644))
			return file
		}
	}
	t.Fatalf("no format %s", format)
	return ""
}

// diffPage writes the page of a diff.
func diffPage(t *testing.T) string {
	t.Helper()
	call := func(names ...string) leak.Stack {
		s := leak.Stack{State: "select"}
		for _, n := range names {
			s.Frames = append([]leak.Frame{{Func: "example.com/p." + n, File: "example.com/p/p.go", Line: 3}}, s.Frames...)
		}
		return s
	}
	d := &leak.Diff{Unit: "goroutines", Source: "dump", From: 10, To: 60, Stacks: []leak.StackGrowth{
		{Stack: call("main", "serve", "handle", "wait"), From: 0, To: 50}, {Stack: call("main", "serve", "idle"), From: 10, To: 10 - 3},
	}}
	var b bytes.Buffer
	check(t, reports.Diff(&b, reports.DiffInput{Diff: d, Base: "before.txt", Now: "<b>after.txt", Max: 10}))
	file := filepath.Join(t.TempDir(), "diff.html")
	check(t, os.WriteFile(file, b.Bytes(), 0o644))
	return file
}

func call[P, R any](t *testing.T, ctx context.Context, cmd cdp.Command[P, R], params P) {
	t.Helper()
	_, err := chromedp.Call(ctx, cmd, params)
	check(t, err)
}

func callBrowser[P, R any](t *testing.T, ctx context.Context, cmd cdp.Command[P, R], params P) {
	t.Helper()
	_, err := chromedp.CallBrowser(ctx, cmd, params)
	check(t, err)
}

func evaluate[T any](t *testing.T, ctx context.Context, script string, options ...chromedp.EvaluateOption) T {
	t.Helper()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](script, options...))
	check(t, err)
	return v
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// browser starts a Chromium without network access. If Chromium is missing, it skips the test with a visible message,
// or fails it in CI.
func browser(t *testing.T) context.Context {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("Chromium is not on the PATH")
		}
		t.Skip("SKIPPED: Chromium is not on the PATH, the report was not tested in a browser")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.ProxyServer("127.0.0.1:9"), // the discard port: any request to another host fails
		chromedp.UserDataDir(t.TempDir()))
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}
