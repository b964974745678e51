package grow_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/eiffel-hpc/eiffel/lab/browser"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
)

// pages are two pages in a browser that are open while a job gets its nodes, runs and ends. They are never loaded
// again.
type pages struct {
	*testing.T
	overview, timeline *browser.Tab
}

// observe makes a page keep each text of a function that it had in a row.
const observe = `(() => {
	window.shown = [];
	const look = () => { const text = what(); if (shown.at(-1) !== text) shown.push(text); };
	new MutationObserver(look).observe(document.getElementById('main'), {childList: true, subtree: true});
	look();
})()`

// states returns the nodes of the first group by state, and the modes of the open requests.
const states = `window.what = () => [...document.querySelectorAll('.card:first-child .states li')]
	.concat(...document.querySelectorAll('[aria-labelledby=open] td:nth-child(2)'))
	.map((e) => e.textContent.trim()).join(', ')`

// phases returns the phase that a bar of each row shows at the end of the window: that of now.
const phases = `window.what = () => [...document.querySelectorAll('.rows g')].map((row) => {
	const now = [...row.querySelectorAll('path:not(.usual):not(.failed)')].find((path) =>
		[...path.getAttribute('d').matchAll(/M(\d+) 0h(\d+)/g)].some((bar) => +bar[1] + +bar[2] === 1000));
	return row.dataset.node + ' ' + (now ? now.className.baseVal : 'gone');
}).join(', ')`

// openPages opens the pages of a `reconfigure serve` on the control host.
func openPages(t *testing.T) pages {
	t.Helper()
	at := lab.Serve(t)
	open := func(path, what string) *browser.Tab {
		b := browser.Open(t)
		b.Run(chromedp.Navigate(at+"/"+path), chromedp.WaitVisible("#live"), chromedp.Evaluate[chromedp.Void](what),
			chromedp.Evaluate[chromedp.Void](observe))
		return b
	}
	return pages{t, open("", states), open("timeline?window=1h&node=node[03-06]", phases)}
}

// shown returns what a page has shown, in order.
func shown(b *browser.Tab) []string {
	b.Helper()
	return browser.Script[[]string](b, `window.shown`)
}

// await waits until a page shows a text.
func (p pages) await(b *browser.Tab, text string) {
	p.Helper()
	lab.Eventually(p.T, harness.JobPatience, func() (bool, string) {
		all := shown(b)
		return strings.Contains(all[len(all)-1], text), fmt.Sprintf("the page shows no %q, but %q", text, all)
	})
}

// follow waits until the pages show that a job runs, and lets it end.
func (p pages) follow(node, job string) {
	p.Helper()
	p.await(p.overview, "2 busy")
	lab.AwaitJob(p.T, job, "RUNNING")
	lab.LetGo(p.T, node)
	lab.AwaitJob(p.T, job, "COMPLETED")
}

// end waits until the pages show that the nodes are gone, and checks what they have shown.
func (p pages) end(node string) {
	p.Helper()
	p.await(p.overview, "4 powered down")
	p.await(p.timeline, node+" gone")
	for _, b := range []*browser.Tab{p.overview, p.timeline} {
		p.Logf("a page has shown\n%s", strings.Join(shown(b), "\n"))
	}
	p.assertOrder(p.overview, "4 powered down", "resume", "2 busy", "suspend", "4 powered down")
	p.assertOrder(p.timeline, "^$", node+" configure", node+" (idle|busy)", node+" gone")
}

// assertOrder checks that a page has shown what matches these expressions, one after the other.
func (p pages) assertOrder(b *browser.Tab, expressions ...string) {
	p.Helper()
	rest := shown(b)
	for _, e := range expressions {
		i := slices.IndexFunc(rest, regexp.MustCompile(e).MatchString)
		if i < 0 {
			p.Errorf("the page has not shown %q in its place:\n%s", e, strings.Join(shown(b), "\n"))
			return
		}
		rest = rest[i:]
	}
}
