package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/eiffel-hpc/eiffel/lab/browser"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal/memory"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/reconcile"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
	"github.com/eiffel-hpc/eiffel/reconfigure/web"
)

// corpus has texts that run a script where a page does not escape them.
var corpus = []string{
	`<script>alert(1)</script>`, `"><script>alert(1)</script>`, `'><img src=x onerror=alert(1)>`, `<svg onload=alert(1)>`,
	`</title><script>alert(1)</script>`, `</textarea><script>alert(1)</script>`, `" onmouseover="alert(1)`,
	`' onfocus='alert(1)' autofocus='`, `javascript:alert(1)`, `<iframe srcdoc="<script>alert(1)</script>">`,
	`{{.Body}}{{range}}`, `<!--`, `--><script>alert(1)</script>`, `&lt;script&gt;alert(1)&lt;/script&gt;`, "`<b>`${alert(1)}",
	`</svg><style>*{display:none}</style>`, `<meta http-equiv=refresh content="0;url=//evil.example">`,
	"<scr\x00ipt>alert(1)</scr\x00ipt>", "\xff\xfe<b onclick=alert(1)>", `<base href=//evil.example/>`, "a\u202egnp.exe<b>",
	`<a href="data:text/html,<script>alert(1)</script>">x</a>`, strings.Repeat(`<i>`, 500),
}

// hostile returns a scene with a text in every field that others write.
func hostile(t *testing.T, evil string) scene {
	t.Helper()
	ctx, now := t.Context(), time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return now.Add(time.Duration(s-600) * time.Second) }
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	j, set := memory.New(), nodeset.Of("node05")
	request := reconfigure.Request{
		Mode: reconfigure.Resume, Nodes: set, Submitted: at(1), Reason: evil, Caller: evil,
		Jobs: []reconfigure.Job{{ID: 4, Nodes: set, Partition: evil}},
	}
	first, err := j.Submit(ctx, request)
	check(err)
	request.Submitted = at(500)
	second, err := j.Submit(ctx, request)
	check(err)
	release, ok, err := j.Acquire(ctx)
	if check(err); !ok {
		t.Fatal("the lease is taken")
	}
	plan, err := j.Begin(ctx, []reconfigure.RequestID{first.ID})
	check(err)
	event := func(s int, phase reconfigure.Phase, level reconfigure.Level, message string) reconfigure.Event {
		return reconfigure.Event{Time: at(s), Plan: plan, Node: "node05", Phase: phase, Level: level, Message: message}
	}
	life := event(3, reconfigure.PhaseBoot, reconfigure.Begun, "")
	life.Life = &reconfigure.Life{
		Node: "node05", Instance: evil, Plan: plan, Group: evil, Image: evil, Flavor: evil, Host: evil, Planned: at(2),
		Made: at(3), Removed: at(300), Failed: "no-ssh: " + evil,
	}
	check(j.Record(ctx, event(2, reconfigure.PhaseApply, reconfigure.Begun, ""), life,
		event(200, reconfigure.PhaseBoot, reconfigure.Note, evil), event(300, reconfigure.PhaseBoot, reconfigure.Failed, "no-ssh: "+evil),
		reconfigure.Event{Time: at(2), Plan: plan, Phase: reconfigure.PhaseApply, Level: reconfigure.Note, Message: "Terraform: " + evil}))
	check(j.Keep(ctx, reconfigure.Evidence{
		Time: at(300), Plan: plan, Node: "node05", Phase: reconfigure.PhaseBoot, Kind: reconfigure.WitnessConsole, Text: evil,
	}))
	check(j.Finish(ctx, reconfigure.Outcome{
		Request: first.ID, Code: reconfigure.CodeFailed, Error: evil, Finished: at(301), Verdicts: []reconfigure.Verdict{
			{Node: "node05", Status: reconfigure.StatusRefused, Class: reconfigure.ClassRefused, Reason: evil},
		},
	}))
	check(j.Defer(ctx, reconfigure.Outcome{Request: second.ID, Deferred: []reconfigure.Deferral{
		{Request: second.ID, Kind: reconfigure.CannotPlan, Reason: evil},
	}}))
	check(j.UpdateHealth(ctx, "standard", func(h reconfigure.Health) reconfigure.Health {
		s := reconfigure.Setback{Node: "node05", Class: reconfigure.ClassSSH, Reason: evil, Time: at(590)}
		h.Failures, h.Since, h.Last, h.Full = 3, at(1), s, s
		return h
	}))
	_, err = j.StartCampaign(ctx, reconfigure.Campaign{
		State: reconfigure.CampaignPaused, Why: evil, Groups: []string{evil}, Reason: evil, Caller: evil, Started: at(1),
		Failed: map[string]string{"node06": evil},
	})
	check(err)
	check(j.KeepJobRuns(ctx, 0, reconfigure.JobRun{
		ID: 4, User: evil, Partition: evil, State: evil, Nodes: set, Submitted: at(1), Started: at(310), Ended: at(400),
	}))
	check(release())
	check(j.Pause(ctx, evil, evil))
	cluster := declared()
	cluster.Name = evil
	seen := snapshot.Snapshot{
		States: map[string]reconfigure.NodeState{
			"node05": {Node: "node05", Flags: reconfigure.NodeDown, Other: []string{evil}, Reason: evil},
		},
		Servers: map[string][]reconfigure.Server{
			"node05": {{ID: evil, Host: evil, ImageID: evil, Status: reconfigure.ServerStatus(evil), Fault: reconfigure.Fault{Words: evil}}},
		},
		Instances: map[string]reconfigure.Instance{"node05": {Node: "node05", ID: evil, Address: evil}},
		Desired:   map[string]reconfigure.Spec{"node05": {Group: "standard", ImageID: evil}},
		Missing:   map[snapshot.System]string{snapshot.Terraform: evil},
	}
	look := reconcile.Look{Time: at(599), Findings: []reconcile.Finding{
		{Node: "node05", Kind: reconcile.Silent, Detail: evil, Server: evil, Command: evil + " {NODES}"},
		{Node: "node06", Kind: reconcile.Kind(evil), Detail: evil, Command: evil},
	}, Unreachable: []snapshot.Unreachable{{Source: snapshot.Cloud, Reason: evil}}}
	return scene{cluster: cluster, journal: j, answers: web.Answers{Seen: seen}, look: look, now: now, holder: evil, since: now}
}

// hostileViews are the pages of a hostile scene, also with a text in the address.
func hostileViews(evil string) []string {
	q := url.QueryEscape(evil)
	return []string{
		"", "timeline", "timeline?as=table", "requests", "request/1", "request/2", "job/4", "node/node05", "campaign", "drift",
		"hours", "timeline?host=" + q, "timeline?image=" + q + "&group=" + q, "timeline?class=" + q, "timeline?job=" + q,
		"timeline?node=" + q, "timeline?until=" + q, "timeline?window=" + q, "hours?period=" + q, "find?q=" + q,
		"node/" + url.PathEscape(evil), "job/" + url.PathEscape(evil), "none/" + url.PathEscape(evil),
	}
}

// TestHostileTextIsEscaped reads each page with each text in every field: no tag of it is one of the page.
func TestHostileTextIsEscaped(t *testing.T) {
	known := regexp.MustCompile(`<(script|iframe|img|b|i|base|meta|style|svg|a)\b[^>]*>`)
	own := regexp.MustCompile(`^<(script src="[./]*static/page\.js" defer|meta (charset|name)="[^>]*"|svg (viewBox|class)="[^>]*|a (href|class|rel)="[^>]*)>$`)
	for _, evil := range corpus {
		at := hostile(t, evil).serve(t)
		for _, path := range hostileViews(evil) {
			_, headers, body := fetch(t, http.MethodGet, at+"/"+path, nil)
			if !strings.HasPrefix(headers.Get("Content-Type"), "text/html") {
				continue
			}
			for _, tag := range known.FindAllString(body, -1) {
				if !own.MatchString(tag) || strings.Contains(tag, "javascript:") || strings.Contains(tag, "alert") &&
					strings.Contains(tag, `"alert`) {
					t.Errorf("%.40q at %s: %.200q", evil, path, tag)
				}
			}
			if strings.ContainsAny(body, "\x00\u202e") || !strings.HasSuffix(strings.TrimSpace(body), "</html>") {
				t.Errorf("%.40q at %s: a control character, or the end is missing", evil, path)
			}
		}
		_, headers, body := fetch(t, http.MethodGet, at+"/at?node=node05&around=600&time=2026-01-01T11:52:00Z", nil)
		if headers.Get("Content-Type") != "application/json" || strings.Contains(body, "<") {
			t.Errorf("%.40q at a time: %.200q", evil, body)
		}
	}
}

// TestHostileTextInABrowser opens the pages with some of the texts: no script of theirs runs, nothing violates the
// policy, and the text is there to read.
func TestHostileTextInABrowser(t *testing.T) {
	b := browser.Open(t)
	for _, evil := range corpus[:6] {
		at := hostile(t, evil).serve(t)
		for _, path := range hostileViews(evil)[:12] {
			b.Run(chromedp.Navigate(at+"/"+path), chromedp.WaitVisible("#live"))
			foreign := browser.Script[int](b, `document.querySelectorAll('img, iframe, base, style, [onerror], [onload], [onfocus], [onmouseover], `+
				`script:not([src$="static/page.js"])').length`)
			if foreign != 0 {
				t.Errorf("%q at %s: %d foreign elements", evil, path, foreign)
			}
		}
		b.Run(chromedp.Navigate(at + "/node/node05"))
		if text := browser.Script[string](b, `document.body.textContent`); !strings.Contains(text, evil) {
			t.Errorf("%q cannot be read on the page of the node", evil)
		}
		b.Run(chromedp.Navigate(at + "/timeline"))
		hoverRow(b, "node05", 0.996)
		if text := browser.Script[string](b, `document.querySelector('#hover').textContent`); !strings.Contains(text, evil) {
			t.Errorf("%q cannot be read at the pointer: %s", evil, text)
		}
	}
}

// hoverRow moves the pointer over the row of a node, to a share of the window, and waits for what the page tells.
func hoverRow(b *browser.Tab, node string, share float64) {
	b.Helper()
	b.Wait(`!!document.querySelector('.rows')`)
	place := browser.Script[[]float64](b, fmt.Sprintf(`(() => {
		const rows = document.querySelector('.rows').getBoundingClientRect();
		const at = [...document.querySelectorAll('.rows g')].findIndex((g) => g.dataset.node === %q);
		return [rows.left + rows.width * %f, rows.top + (at + 0.5) * 26];
	})()`, node, share))
	b.Run(chromedp.MouseEvent("mouseMoved", place[0], place[1]))
	b.Wait(fmt.Sprintf(`!document.querySelector('#hover').hidden && document.querySelector('#hover').textContent.startsWith(%q)`, node))
}
