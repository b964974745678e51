package web_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/eiffel-hpc/eiffel/lab/browser"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// TestPagesInABrowser opens each page of a storm on a large and on a small screen, in light and in dark: it has its
// heading, it is not wider than the screen, and it listens.
func TestPagesInABrowser(t *testing.T) {
	at := weather(t, 20*time.Hour).serve(t)
	b := browser.Open(t)
	for _, dark := range []bool{false, true} {
		for _, width := range []int64{1280, 400} {
			b.Size(width, 900, dark)
			for _, path := range views {
				b.Run(chromedp.Navigate(at+"/"+path), chromedp.WaitVisible("#live"))
				if browser.Script[string](b, `document.querySelector('h1').textContent`) == "" {
					t.Errorf("%s has no heading", path)
				}
				if wide := browser.Script[int64](b, `document.documentElement.scrollWidth`); wide > width {
					t.Errorf("%s is %d wide on a screen of %d", path, wide, width)
				}
				ground := browser.Script[string](b, `getComputedStyle(document.documentElement).backgroundColor`)
				if (ground == "rgb(18, 22, 29)") != dark {
					t.Errorf("%s in dark %t is %s", path, dark, ground)
				}
			}
		}
	}
}

// TestFiltersInABrowser fills in each field of the timeline's form.
func TestFiltersInABrowser(t *testing.T) {
	s := weather(t, 20*time.Hour)
	third, _, err := s.journal.Request(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	at := s.serve(t)
	b := browser.Open(t)
	for field, value := range map[string]string{
		"group": "gpu", "class": "playbook", "node": "node[05-06]", "host": "compute-1", "image": "rocky-9.6-gpu",
		"job": fmt.Sprint(third.Jobs[0].ID), "request": "3",
	} {
		b.Run(chromedp.Navigate(at+"/timeline?window=1d"), chromedp.WaitVisible(".chart"))
		all := browser.Script[int](b, `document.querySelectorAll('.rows g').length`)
		// One script, since the page may replace its form between two calls.
		b.Run(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(
			`document.querySelector('[name=%s]').value = %q; document.querySelector('.filter button').click()`, field, value)))
		b.Wait(fmt.Sprintf(`new URLSearchParams(location.search).get(%q) === %q && !!document.querySelector('.rows g')`, field, value))
		if some := browser.Script[int](b, `document.querySelectorAll('.rows g').length`); some == 0 || some >= all {
			t.Errorf("%s %s has %d of %d rows", field, value, some, all)
		}
		if kept := browser.Script[string](b, `document.querySelector('[name="`+field+`"]').value`); kept != value {
			t.Errorf("%s shows %q, not %q", field, kept, value)
		}
	}
}

// TestKeyboard moves through the timeline by keys, and opens a node.
func TestKeyboard(t *testing.T) {
	at := weather(t, 20*time.Hour).serve(t)
	b := browser.Open(t)
	b.Size(1280, 900, false)
	b.Run(chromedp.Navigate(at+"/timeline"), chromedp.WaitVisible("#live"),
		chromedp.Evaluate[chromedp.Void](`document.querySelector('.names a').focus()`))
	focused := func() string { return browser.Script[string](b, `document.activeElement.dataset.node || ''`) }
	first := focused()
	b.Wait(fmt.Sprintf(`document.querySelector('#hover').textContent.startsWith(%q)`, first))
	told := browser.Script[string](b, `document.querySelector('#hover').textContent`)
	b.Run(chromedp.KeyEvent(strings.Repeat(kb.ArrowLeft, 30)))
	b.Wait(fmt.Sprintf(`document.querySelector('#hover').textContent !== %q`, told))
	b.Run(chromedp.KeyEvent(kb.ArrowDown))
	if second := focused(); second == first || second == "" {
		t.Errorf("after %s the focus is on %q", first, second)
	}
	b.Run(chromedp.KeyEvent(kb.Escape))
	b.Wait(`document.querySelector('#hover').hidden`)
	second := focused()
	b.Run(chromedp.KeyEvent(kb.Enter))
	b.Wait(fmt.Sprintf(`document.querySelector('h1').textContent === 'Node %s'`, second))
	b.Run(chromedp.Navigate(at+"/"), chromedp.WaitVisible("#live"), chromedp.KeyEvent(kb.Tab))
	if skip := browser.Script[string](b, `document.activeElement.className`); skip != "skip" {
		t.Errorf("the first stop of Tab is %q", skip)
	}
}

// TestLiveUpdate opens pages, and writes to the journal: they show it without a reload.
func TestLiveUpdate(t *testing.T) {
	s := empty(t)
	at := s.serve(t)
	b := browser.Open(t)
	b.Run(chromedp.Navigate(at+"/"), chromedp.WaitVisible("#live"))
	b.Run(chromedp.Evaluate[chromedp.Void](`window.same = 'this page'`))
	r, err := s.journal.Submit(t.Context(), reconfigure.Request{
		Mode: reconfigure.Resume, Nodes: nodeset.Of("node07"), Caller: "root", Submitted: s.now,
	})
	if err != nil {
		t.Fatal(err)
	}
	b.Wait(`document.querySelector('main').textContent.includes('node07')`)
	if browser.Script[string](b, `window.same`) != "this page" {
		t.Error("the page was loaded again")
	}
	b.Run(chromedp.Navigate(at+"/request/1"), chromedp.WaitVisible("#live"))
	if _, ok, err := s.journal.Acquire(t.Context()); !ok || err != nil {
		t.Fatal(ok, err)
	}
	plan, err := s.journal.Begin(t.Context(), []reconfigure.RequestID{r.ID})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		err := s.journal.Record(t.Context(), reconfigure.Event{
			Plan: plan, Node: "node07", Phase: reconfigure.PhaseApply, Level: reconfigure.Note, Message: fmt.Sprint("step ", i),
		})
		if err != nil {
			t.Fatal(err)
		}
		b.Wait(fmt.Sprintf(`document.querySelector('.log')?.textContent.includes('step %d')`, i))
	}
}

// TestWithoutScripts opens the pages in a browser without JavaScript: they show the same, and links lead on.
func TestWithoutScripts(t *testing.T) {
	at := weather(t, 20*time.Hour).serve(t)
	b := browser.Open(t)
	browser.Call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	for _, path := range views {
		b.Run(chromedp.Navigate(at+"/"+path), chromedp.WaitVisible("main"))
	}
	b.Run(chromedp.Navigate(at+"/timeline"), chromedp.WaitVisible(".rows"), chromedp.Click(`.summary a`),
		chromedp.WaitVisible("table"))
	if text := browser.Get(b, chromedp.Text("main")); !strings.Contains(text, "Instances") || !strings.Contains(text, "node05") {
		t.Errorf("the table has %.300s", text)
	}
}

// TestBelowAPath serves the page below a path, as a proxy does: each link stays below it.
func TestBelowAPath(t *testing.T) {
	s := weather(t, 20*time.Hour)
	mux := http.NewServeMux()
	mux.Handle("/eiffel/", http.StripPrefix("/eiffel", s.server(t).Handler()))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("%s is asked for", r.URL)
		http.NotFound(w, r)
	})
	at := listenAt(t, mux) + "/eiffel/"
	b := browser.Open(t)
	for _, path := range views {
		b.Run(chromedp.Navigate(at+path), chromedp.WaitVisible("#live"))
		outside := browser.Script[[]string](b, `[...document.querySelectorAll('a, link, script')].map((e) => e.href || e.src)`+
			`.filter((u) => !new URL(u).pathname.startsWith('/eiffel/'))`)
		if len(outside) > 0 {
			t.Errorf("%s leads to %v", path, outside)
		}
	}
}

// TestScreenshots writes the pictures of the documentation; see `make screenshots`.
func TestScreenshots(t *testing.T) {
	to := os.Getenv("EIFFEL_SCREENSHOTS")
	if to == "" {
		t.Skip("only `make screenshots` writes pictures")
	}
	at := weather(t, 20*time.Hour).serve(t)
	b := browser.Open(t)
	shoot := func(name, path string, width, height int64, dark bool, then func()) {
		b.Size(width, height, dark)
		b.Run(chromedp.Navigate(at+"/"+path), chromedp.WaitVisible("#live"))
		if then != nil {
			then()
		}
		if err := os.WriteFile(filepath.Join(to, name+".png"), browser.Get(b, chromedp.CaptureScreenshot()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	shoot("page-overview", "", 1200, 780, false, nil)
	shoot("page-timeline", "timeline?window=6h", 1200, 900, true, func() { hoverRow(b, "node06", 0.8) })
	if os.Getenv("EIFFEL_SCREENSHOTS_ALL") == "" {
		return
	}
	for _, path := range views {
		name := strings.NewReplacer("/", "-", "?", "-", "=", "-").Replace(path)
		shoot("all-"+name, path, 1200, 900, false, nil)
		shoot("dark-"+name, path, 1200, 900, true, nil)
		shoot("small-"+name, path, 400, 900, false, nil)
	}
}
