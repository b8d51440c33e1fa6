//go:build e2e

package e2e

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// inBrowser opens a report from its file in a headless Chromium, with the network off and the page's
// scripts disabled, and looks at it as a reader would.
func inBrowser(t *testing.T, page string) {
	ctx := browser(t)
	var problems []string
	listen := chromedp.Listen(ctx, func(ev any) {
		switch ev := ev.(type) {
		case *log.EventEntryAdded:
			problems = append(problems, ev.Entry.Text)
		case *runtime.EventExceptionThrown:
			problems = append(problems, ev.ExceptionDetails.Text)
		}
	})
	check(t, listen)
	call(t, ctx, log.Enable, cdp.Empty{})
	call(t, ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	check(t, chromedp.Do(ctx,
		chromedp.EmulateViewport(1280, 900),
		chromedp.Navigate("file://"+page),
		chromedp.WaitVisible(chromedp.CSS("h1")),
		chromedp.WaitVisible(chromedp.CSS(".sentence")),
	))
	// The page is loaded; what is evaluated from here on is the test's.
	call(t, ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{})
	if title := evaluate[string](t, ctx, `document.querySelector('h1').innerText`); title != "watch-then-delete" {
		t.Errorf("title %q", title)
	}
	if text := evaluate[string](t, ctx, `document.querySelector('.sentence').innerText`); !strings.Contains(text, "StreamWatcher") {
		t.Errorf("sentence %q", text)
	}
	if charts := evaluate[int](t, ctx, `document.querySelectorAll('svg[role=img]').length`); charts < 4 {
		t.Errorf("%d charts", charts)
	}
	for _, width := range []int64{1280, 390} {
		check(t, chromedp.Do(ctx, chromedp.EmulateViewport(width, 844)))
		if !evaluate[bool](t, ctx, `document.documentElement.scrollWidth <= document.documentElement.clientWidth`) {
			t.Errorf("scrolls sideways at %d px", width)
		}
	}
	if len(problems) > 0 {
		t.Errorf("the console says: %q", problems)
	}
	met("chromium")
}

func call[P, R any](t *testing.T, ctx context.Context, cmd cdp.Command[P, R], params P) {
	t.Helper()
	_, err := chromedp.Call(ctx, cmd, params)
	check(t, err)
}

func evaluate[T any](t *testing.T, ctx context.Context, script string) T {
	t.Helper()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](script))
	check(t, err)
	return v
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// browser starts a Chromium that talks to nobody. Where there is none the test is skipped, loudly, and
// never in CI.
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
			t.Fatal("there is no Chromium on the PATH")
		}
		t.Skip("SKIPPED: there is no Chromium on the PATH, the report was not looked at in a browser")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.ProxyServer("127.0.0.1:9"), // discards: whatever the page wanted from elsewhere would fail
		chromedp.UserDataDir(t.TempDir()))
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, time.Minute)
	t.Cleanup(cancel)
	return ctx
}
