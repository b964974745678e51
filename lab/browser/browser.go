// Package browser opens pages in Debian's Chromium for tests.
package browser

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Tab is a tab of a browser. Its methods end the test on an error.
type Tab struct {
	*testing.T
	ctx context.Context

	lock     sync.Mutex
	problems []string // violations of the policy, errors of scripts, and dialogs
}

// shared is the Chromium of all tabs of a package, which Main closes.
var shared struct {
	sync.Mutex
	kept  bool // Main runs
	ctx   context.Context
	close []func()
}

// Main runs a package's tests with one Chromium. Without it, each tab has a Chromium of its own.
func Main(m *testing.M) (code int) {
	shared.kept = true
	code = m.Run()
	for _, undo := range slices.Backward(shared.close) {
		undo()
	}
	return code
}

// start starts Chromium, or returns the one that runs.
func start(t *testing.T) context.Context {
	shared.Lock()
	defer shared.Unlock()
	if shared.ctx != nil {
		return shared.ctx
	}
	end := t.Cleanup
	if shared.kept {
		end = func(undo func()) { shared.close = append(shared.close, undo) }
	}
	dir, err := os.MkdirTemp("", "chromium")
	if err != nil {
		t.Fatal(err)
	}
	end(func() { _ = os.RemoveAll(dir) })
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"), chromedp.NoSandbox,
		chromedp.Env("TMPDIR="+dir), chromedp.WSURLReadTimeout(2*time.Minute))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	end(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	end(cancel)
	if err := chromedp.Do(ctx); err != nil { // it starts
		t.Fatal(err)
	}
	if shared.kept {
		shared.ctx = ctx
	}
	return ctx
}

// Open opens a tab of Chromium, which shares nothing with others. At the end of the test, it fails if the page violated
// its policy, threw an error or opened a dialog.
func Open(t *testing.T) *Tab {
	t.Helper()
	if _, err := exec.LookPath("chromium"); err != nil {
		if testing.Short() {
			t.Skip("needs Chromium: run `make tools`")
		}
		t.Fatal("there is no Chromium: run `make tools`")
	}
	ctx, cancel := chromedp.NewContext(start(t), chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	b := &Tab{T: t, ctx: ctx}
	err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *log.EventEntryAdded:
			harmful := e.Entry.Level == log.EntryLevelError || e.Entry.Source == log.EntrySourceSecurity
			if harmful && !strings.Contains(e.Entry.Text, networkChanged) {
				b.problem(string(e.Entry.Source) + ": " + e.Entry.Text)
			}
		case *runtime.EventExceptionThrown:
			b.problem("error: " + e.ExceptionDetails.Text)
		case *page.EventJavascriptDialogOpening:
			b.problem("dialog: " + e.Message)
			go func() { _, _ = chromedp.Call(ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{}) }()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	Call(b, log.Enable, cdp.Empty{})
	Call(b, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	t.Cleanup(func() {
		b.lock.Lock()
		defer b.lock.Unlock()
		if len(b.problems) > 0 {
			t.Errorf("%d problems in the browser:\n%s", len(b.problems), strings.Join(b.problems, "\n"))
		}
	})
	return b
}

func (b *Tab) problem(words string) {
	b.lock.Lock()
	defer b.lock.Unlock()
	b.problems = append(b.problems, words)
}

// Call calls a command of the browser.
func Call[P, R any](b *Tab, command cdp.Command[P, R], params P) {
	b.Helper()
	if _, err := chromedp.Call(b.ctx, command, params); err != nil {
		b.Fatal(err)
	}
}

// Get runs an action, and returns its value.
func Get[T any](b *Tab, action chromedp.Action[T]) T {
	b.Helper()
	value, err := chromedp.Run(b.ctx, action)
	if err != nil {
		b.Fatal(err)
	}
	return value
}

// networkChanged is Chromium's error for the requests that it ends because this computer got or lost a network, as it
// does when a lab starts or ends. A page's stream of events connects again.
const networkChanged = "net::ERR_NETWORK_CHANGED"

// Run runs actions. A page that does not load because of networkChanged is loaded again.
func (b *Tab) Run(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	err := chromedp.Do(b.ctx, actions...)
	for try := 1; err != nil && strings.Contains(err.Error(), networkChanged) && try < 10; try++ {
		err = chromedp.Do(b.ctx, actions...)
	}
	if err != nil {
		b.Fatal(err)
	}
}

// Size sets the size of the screen, and whether it is dark.
func (b *Tab) Size(width, height int64, dark bool) {
	b.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	Call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height, DeviceScaleFactor: 1,
	})
	Call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
}

// Script returns the value of an expression.
func Script[T any](b *Tab, expression string) T {
	b.Helper()
	return Get(b, chromedp.Evaluate[T](expression))
}

// Wait waits until an expression is true. It may be false, or fail, while the page changes to another one.
func (b *Tab) Wait(expression string) {
	b.Helper()
	for {
		if is, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("!!("+expression+")")); err == nil && is {
			return
		}
		select {
		case <-b.Context().Done():
			b.Fatal(expression)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
