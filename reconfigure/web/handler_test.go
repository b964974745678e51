package web_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/web"
)

// views are the addresses of the pages of a storm of 20 hours.
var views = []string{
	"", "timeline", "timeline?window=6h", "timeline?window=90d", "timeline?as=table", "requests", "request/3", "job/4203",
	"node/node05", "campaign", "drift", "hours", "hours?period=1d",
}

// get returns the status, the headers and the body of an answer.
func fetch(t *testing.T, method, url string, change func(*http.Request)) (int, http.Header, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(r)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Header, string(body)
}

// TestPagesHaveAPolicy reads each page of a storm: it is complete, its policy allows no inline script or style, and it
// has none.
func TestPagesHaveAPolicy(t *testing.T) {
	url := weather(t, 20*time.Hour).serve(t)
	inline := regexp.MustCompile(`(?i)<script(?:>|[^>]*>[^<])|<style|\sstyle=|\son\w+=|javascript:`)
	for _, path := range append(views, "static/page.js", "static/page.css", "static/icon.svg", "at?node=node05&around=1&time=2000-01-01T10:00:00Z") {
		code, headers, body := fetch(t, http.MethodGet, url+"/"+path, nil)
		if code != http.StatusOK || len(body) < 50 {
			t.Errorf("%s: %d, %d bytes", path, code, len(body))
		}
		policy := headers.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none';") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: the policy is %q", path, policy)
		}
		if headers.Get("X-Content-Type-Options") != "nosniff" || headers.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: the headers are %v", path, headers)
		}
		if strings.HasPrefix(headers.Get("Content-Type"), "text/html") {
			if !strings.HasSuffix(strings.TrimSpace(body), "</html>") {
				t.Errorf("%s: the page is cut off", path)
			}
			if found := inline.FindString(body); found != "" {
				t.Errorf("%s has %q", path, found)
			}
		}
	}
}

// TestOnlyReads calls each page with methods that write, and with another host: nothing changes.
func TestOnlyReads(t *testing.T) {
	s := weather(t, 20*time.Hour)
	before, err := s.journal.Pulse(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := s.serve(t)
	for _, path := range append(views, "events", "find?q=node05", "metrics", "none") {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch, "OPTIONS", "TRACE"} {
			if code, _, _ := fetch(t, method, at+"/"+path, nil); code != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d", method, path, code)
			}
		}
		if path == "events" {
			continue // its answer would not end
		}
		if code, _, _ := fetch(t, http.MethodGet, at+"/"+path, func(r *http.Request) { r.Host = "evil.example" }); code !=
			http.StatusMisdirectedRequest {
			t.Errorf("%s of another host: %d", path, code)
		}
	}
	for _, path := range views {
		fetch(t, http.MethodGet, at+"/"+path, nil)
	}
	if after, err := s.journal.Pulse(t.Context()); err != nil || after != before {
		t.Errorf("the pulse was %s and is %s, %v", before, after, err)
	}
}

// TestWrongAddresses reads pages that do not exist, and wrong filters.
func TestWrongAddresses(t *testing.T) {
	at := weather(t, 20*time.Hour).serve(t)
	for path, want := range map[string]int{
		"none": 404, "node/": 404, "request/999999": 404, "request/x": 400, "request/0": 400, "job/-1": 400, "node/stranger": 404,
		"node/a%5B1-2%5D": 400, "timeline?window=91d": 400, "timeline?window=1s": 400, "timeline?class=none": 400,
		"timeline?job=x": 400, "timeline?job=999": 404, "timeline?request=999999": 404, "timeline?node=%5B": 400,
		"timeline?until=now": 400, "timeline?page=-1": 400, "hours?period=2d": 400, "at?node=a&time=x": 400,
		"at?node=a&around=-1&time=2000-01-01T10:00:00Z": 400, "find?q=two+nodes": 400,
		"job/999": 200, "timeline?page=999": 200, "timeline?host=nowhere": 200, "timeline?until=2100-01-01T00:00:00Z": 200,
		"find?q=node05": 303, "find?q=17": 303, "find?q=request+3": 303,
	} {
		if code, _, body := fetch(t, http.MethodGet, at+"/"+path, nil); code != want {
			t.Errorf("%s: %d, not %d: %s", path, code, want, body)
		}
	}
}

// TestFilters reads the timeline with each filter.
func TestFilters(t *testing.T) {
	s := weather(t, 20*time.Hour)
	at := s.serve(t)
	third, _, err := s.journal.Request(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`<g [^>]*data-node="([^"]*)"`)
	rows := func(query string) (nodes []string) {
		t.Helper()
		code, _, body := fetch(t, http.MethodGet, at+"/timeline?"+query, nil)
		if code != http.StatusOK {
			t.Fatalf("%s: %d", query, code)
		}
		for _, found := range row.FindAllStringSubmatch(body, -1) {
			nodes = append(nodes, found[1])
		}
		return nodes
	}
	all := rows("window=1d")
	if len(all) < 20 {
		t.Fatalf("%d rows: %v", len(all), all)
	}
	for query, want := range map[string]func(nodes []string) bool{
		"group=gpu":            func(n []string) bool { return len(n) > 2 && strings.HasPrefix(strings.Join(n, ""), "gpu") },
		"node=node%5B05-06%5D": func(n []string) bool { return strings.Join(n, " ") == "node05 node06" },
		"host=compute-1":       func(n []string) bool { return len(n) > 2 && len(n) < len(all) },
		"image=rocky-9.6-gpu":  func(n []string) bool { return len(n) > 2 && strings.HasPrefix(strings.Join(n, ""), "gpu") },
		"image=none":           func(n []string) bool { return len(n) == 0 },
		"class=capacity":       func(n []string) bool { return strings.Join(n, " ") == "gpu1 gpu2" },
		"class=playbook":       func(n []string) bool { return strings.Join(n, " ") == "node09" },
		"job=" + strconv.FormatInt(third.Jobs[0].ID, 10): func(n []string) bool { return len(n) > 0 && len(n) <= 4 },
		"request=3":                            func(n []string) bool { return len(n) > 0 && len(n) <= 4 },
		"group=gpu&class=playbook":             func(n []string) bool { return len(n) == 0 },
		"window=1h&until=2000-01-01T00:00:30Z": func(n []string) bool { return len(n) == 0 },
	} {
		if got := rows(query); !want(got) {
			t.Errorf("%s has the rows %v", query, got)
		}
	}
}

// TestAddresses listens on sockets, and rejects addresses that others can reach.
func TestAddresses(t *testing.T) {
	for address, ok := range map[string]bool{
		"127.0.0.1:80": true, "localhost:80": true, "[::1]:80": true, "127.8.0.1:0": true, "/run/eiffel/page": true,
		"0.0.0.0:80": false, ":80": false, "[::]:80": false, "192.0.2.1:80": false, "example.org:80": false, "page": false,
		"127.0.0.1": false, "127.0.0.1:": false, "": false,
	} {
		if err := web.CheckAddress(address); (err == nil) != ok {
			t.Errorf("%q: %v", address, err)
		}
	}
	socket := filepath.Join(t.TempDir(), "page")
	for range 2 { // the second one replaces the socket that a killed process would leave
		l, err := web.Listen(t.Context(), socket)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := web.Listen(t.Context(), socket); err == nil {
			t.Error("two processes listen at one socket")
		}
		if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o660 {
			t.Errorf("the socket is %v, %v", info.Mode(), err)
		}
		l.(interface{ SetUnlinkOnClose(bool) }).SetUnlinkOnClose(false)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := web.Serve(ctx, l, http.NotFoundHandler()); err != nil {
			t.Error(err)
		}
		l.Close()
	}
	if err := os.WriteFile(socket+"2", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := web.Listen(t.Context(), socket+"2"); err == nil {
		t.Error("a file was replaced by a socket")
	}
}

// TestEvents listens to the events of a page: a request is told.
func TestEvents(t *testing.T) {
	s := empty(t)
	answer, err := http.Get(s.serve(t) + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if kind := answer.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Errorf("the type is %s", kind)
	}
	read := func() string {
		t.Helper()
		text := ""
		for b := make([]byte, 1); !strings.HasSuffix(text, "\n\n"); text += string(b) {
			if _, err := answer.Body.Read(b); err != nil {
				t.Fatal(err)
			}
		}
		return text
	}
	if said := read(); said != "retry: 5000\n\n" {
		t.Errorf("first it says %q", said)
	}
	first := read()
	if _, err := s.journal.Submit(t.Context(), reconfigure.Request{Mode: reconfigure.Resume}); err != nil {
		t.Fatal(err)
	}
	if second := read(); !strings.HasPrefix(second, "data: ") || first == second {
		t.Errorf("it says %q and then %q", first, second)
	}
}

// TestStoriesKnowNewLives reads the page of a node before and after its instance is removed.
func TestStoriesKnowNewLives(t *testing.T) {
	s := empty(t)
	at := s.serve(t)
	record := func(l reconfigure.Life) {
		t.Helper()
		release, _, err := s.journal.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.journal.Record(t.Context(), reconfigure.Event{Node: l.Node, Life: &l}); err != nil {
			t.Fatal(err)
		}
		if err := release(); err != nil {
			t.Fatal(err)
		}
	}
	shows := func(want string) {
		t.Helper()
		if _, _, body := fetch(t, http.MethodGet, at+"/node/node05", nil); !strings.Contains(body, want) {
			t.Errorf("the page does not have %q", want)
		}
	}
	life := reconfigure.Life{
		Node: "node05", Instance: "first", Plan: 1, Made: s.now.Add(-3 * time.Hour), Removed: s.now.Add(-5 * time.Minute),
	}
	record(life)
	shows("has instance first")
	life.Instance, life.Made, life.Removed = "second", s.now.Add(-time.Minute), time.Time{}
	record(life)
	shows("has instance second")
	shows("has instance first")
}
