package web

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	_ "github.com/eiffel-hpc/eiffel/lab/sameseed"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/explain"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/reconcile"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
	"github.com/eiffel-hpc/eiffel/reconfigure/status"
	"github.com/eiffel-hpc/eiffel/reconfigure/usage"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares a view with its golden file.
func golden(t *testing.T, name string, view any) {
	t.Helper()
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(view); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", name+".json")
	if *update {
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), b.String()); d != "" {
		t.Errorf("%s (-want +got):\n%s", file, d)
	}
}

// noon returns a time for the tests: seconds after noon.
func noon(s int) time.Time { return time.Date(2026, 1, 1, 12, 0, s, 0, time.UTC) }

// example returns two nodes: one boots, runs a job and is removed; another one fails twice.
func example() facts {
	first := reconfigure.Life{
		Node: "n1", Instance: "i1", Plan: 1, Group: "g", Planned: noon(100), Made: noon(300), Booted: noon(400),
		Configured: noon(700), Registered: noon(750), Removed: noon(3000),
	}
	second := reconfigure.Life{
		Node: "n2", Instance: "i2", Plan: 1, Group: "g", Planned: noon(100), Made: noon(300), Failed: "no-ssh: x",
		Removed: noon(900),
	}
	found := reconfigure.Life{Node: "n2", Instance: "i3", Made: noon(2000)}
	return facts{
		window: window{noon(0), noon(3600)}, now: noon(3600), nodes: []string{"n1", "n2", "n3"},
		group: func(string) string { return "g" }, lives: []reconfigure.Life{first, second, found}, jobs: true,
		asked: map[int64]time.Time{1: noon(50)},
		usual: map[string]usage.Typical{"g": {Count: 1, Median: 10 * time.Minute, P95: 11 * time.Minute}},
		failures: []reconfigure.Event{
			{Node: "n2", Time: noon(890), Message: "no-ssh: x"}, {Node: "n2", Time: noon(891), Message: "no-ssh: x"},
			{Node: "n3", Time: noon(1800), Message: "quota: x"}, {Node: "n9", Time: noon(1800)},
		},
		runs: []reconfigure.JobRun{
			{ID: 1, Nodes: nodeset.Of("n1", "n9"), Started: noon(800), Ended: noon(2500)},
			{ID: 2, Nodes: nodeset.Of("n1", "n2", "n3", "n4"), Started: noon(3500)}, {ID: 3, Nodes: nodeset.Of("n1")},
		},
	}
}

func TestTimelineRows(t *testing.T) {
	golden(t, "rows", example().rows())
	f := example()
	f.jobs, f.runs = false, nil
	if bars := f.rows()[0].Bars; bars[0].Class != "up" {
		t.Errorf("without jobs the first bar is %s", bars[0].Class)
	}
}

// TestBarsStayInTheirWindow paints random lives into random windows: the bars are in order, in the window, and do not
// overlap; a page of them is small.
func TestBarsStayInTheirWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		moment := func(name string) time.Time {
			if s := rapid.IntRange(-5000, 9000).Draw(t, name); s%7 != 0 {
				return noon(s)
			}
			return time.Time{}
		}
		var spans []span
		for range rapid.IntRange(0, 40).Draw(t, "lives") {
			l := reconfigure.Life{
				Planned: moment("planned"), Made: moment("made"), Booted: moment("booted"), Configured: moment("configured"),
				Registered: moment("registered"), Removed: moment("removed"), Plan: rapid.Int64Range(0, 1).Draw(t, "plan"),
			}
			spans = append(spans, spansOf(l, moment("asked"), noon(5000), rapid.Bool().Draw(t, "jobs"))...)
		}
		w := window{noon(0), noon(rapid.IntRange(1, 4000).Draw(t, "length"))}
		taken := [columns]bool{}
		for _, bar := range w.bars(spans) {
			last := -1
			for part := range strings.SplitSeq(bar.D[1:], "M") {
				var from, length int
				if n, err := fmt.Sscanf(part, "%d 0h%d", &from, &length); n != 2 || err != nil {
					t.Fatalf("%q: %v", part, err)
				}
				if from <= last || length < 1 || from+length > columns {
					t.Fatalf("%s has %q after %d", bar.Class, part, last)
				}
				last = from + length - 1
				for c := from; c <= last; c++ {
					if taken[c] {
						t.Fatalf("column %d is painted twice", c)
					}
					taken[c] = true
				}
			}
		}
	})
}

func TestStart(t *testing.T) {
	cluster := reconfigure.Cluster{
		Name: "c", Control: reconfigure.Control{Name: "ctl"},
		Groups:   []reconfigure.NodeGroup{{Name: "g", Prefix: "n", Width: 1, Min: 1, Max: 8}},
		Limits:   []reconfigure.Limit{{Groups: []string{"g"}, Max: 4}},
		Settings: reconfigure.Settings{Reconcile: 10 * time.Minute, Breaker: 3, CoolDown: time.Hour},
	}
	seen := snapshot.Snapshot{
		Instances: map[string]reconfigure.Instance{"n1": {Node: "n1", ID: "i1"}, "n2": {Node: "n2", ID: "i2"}},
		Servers:   map[string][]reconfigure.Server{}, Missing: map[snapshot.System]string{snapshot.Cloud: "no route\nto it"},
		States: map[string]reconfigure.NodeState{
			"n1": {Node: "n1", Flags: reconfigure.NodeAllocated, Busy: true}, "n2": {Node: "n2", Flags: reconfigure.NodeIdle},
			"n3": {Node: "n3", Flags: reconfigure.NodeIdle | reconfigure.NodePoweredDown | reconfigure.NodeCloud},
			"n4": {Node: "n4", Flags: reconfigure.NodeDown}, "n5": {Node: "n5", Flags: reconfigure.NodeIdle | reconfigure.NodeDrain},
		},
	}
	failed := reconfigure.Setback{Node: "n4", Class: reconfigure.ClassSSH, Reason: "no answer", Time: noon(50)}
	known := status.Journal{
		Time: noon(100), Leader: "process 1", Pause: &reconfigure.Pause{Since: noon(10), By: "root", Reason: "rack 4"},
		Health: map[string]reconfigure.Health{"g": {Failures: 3, Since: noon(20), Last: failed, Full: failed}},
		Pending: []status.Request{
			status.NewRequest(reconfigure.Request{
				ID: 7, Mode: reconfigure.Deploy, Submitted: noon(30),
				Deferred: []reconfigure.Deferral{{Request: 7, Kind: reconfigure.CannotPlan, Reason: "no image"}},
			}, nil),
		},
		Campaign: &reconfigure.Campaign{ID: 2, State: reconfigure.CampaignPaused, Why: "two failed", Started: noon(5)},
		Last:     map[string]reconfigure.Event{},
	}
	for node, reason := range map[string]string{
		"n2": "no-ssh: it has a finding", "n3": "no-ssh: no answer", "n4": "no-ssh: refused", "n5": "no-ssh: no answer",
		"n6": "capacity: no host",
	} {
		known.Last[node] = reconfigure.Event{
			Time: noon(60).Add(-time.Duration(node[1]) * time.Minute), Node: node, Phase: reconfigure.PhaseBoot,
			Level: reconfigure.Failed, Message: reason,
		}
	}
	known.Last["n8"] = reconfigure.Event{ // the breaker held it back
		Time: noon(60), Node: "n8", Phase: reconfigure.PhasePlan, Level: reconfigure.Failed, Message: "no-ssh: 3 in a row",
	}
	known.Last["n7"] = reconfigure.Event{ // it is too long ago
		Time: noon(0).Add(-24 * time.Hour), Node: "n7", Phase: reconfigure.PhaseApply, Level: reconfigure.Failed,
	}
	look := reconcile.Look{
		Time: noon(90), Since: map[string]time.Time{"n2 leaked": noon(40), "n3 leaked": noon(30)},
		Findings: []reconcile.Finding{
			{Node: "n2", Kind: reconcile.Leaked, Detail: "no job", Fix: reconcile.Suspend},
			{Node: "n3", Kind: reconcile.Leaked, Detail: "no job", Fix: reconcile.Suspend},
			{Node: "n1", Kind: reconcile.Silent, Detail: "x", Command: "reconfigure update {NODES}"},
			{Node: "n2", Kind: reconcile.Silent, Detail: "x", Command: "reconfigure update {NODES}"},
		},
	}
	room := &reconfigure.Room{
		Limit: reconfigure.Use{Instances: 10, Cores: -1, RAM: 4096}, Used: reconfigure.Use{Instances: 9, Cores: 7, RAM: 2048},
	}
	ready := readyTimes{week: map[string]usage.Typical{"g": {Count: 4, Median: time.Minute, P95: 2 * time.Minute}}}
	report := status.New(cluster, seen, known, look)
	golden(t, "start", newStart(cluster, report, Answers{Seen: seen, Room: room}, look, ready, noon(100)))
}

// TestEveryFindingMatters checks that each kind of finding has words, and that no words have no kind.
func TestEveryFindingMatters(t *testing.T) {
	source, err := os.ReadFile("../reconcile/reconcile.go")
	if err != nil {
		t.Fatal(err)
	}
	for kind, words := range matters {
		if words == "" || !bytes.Contains(source, []byte(`= "`+string(kind)+`"`)) {
			t.Errorf("%s: %q", kind, words)
		}
	}
	declared := regexp.MustCompile(`(?m)^\t\w+ +(?:Kind +)?= "(\w+)" +// `)
	kinds := 0
	for _, found := range declared.FindAllStringSubmatch(string(source), -1) {
		if strings.Contains(found[0], "Kind") {
			kinds++
			if matters[reconcile.Kind(found[1])] == "" {
				t.Errorf("%s has no words", found[1])
			}
		}
	}
	if kinds < 20 {
		t.Errorf("only %d kinds were found", kinds)
	}
}

func TestSelectionsComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := selection{
			Window: rapid.SampledFrom(append(lengths, "", "36h")).Draw(t, "window"), Page: rapid.IntRange(1, 90).Draw(t, "page"),
			Job: rapid.Int64Range(0, 1<<40).Draw(t, "job"), Request: reconfigure.RequestID(rapid.Int64Range(0, 9).Draw(t, "request")),
			Group: rapid.String().Draw(t, "group"), Host: strings.TrimSpace(rapid.String().Draw(t, "host")),
			Image: strings.TrimSpace(rapid.String().Draw(t, "image")), Class: rapid.SampledFrom(reconfigure.Classes()).Draw(t, "class"),
			Node: rapid.SampledFrom([]string{"", "n1", "n[1-3],m4"}).Draw(t, "node"), Table: rapid.Bool().Draw(t, "table"),
		}
		if rapid.Bool().Draw(t, "until") {
			s.Until = noon(rapid.IntRange(0, 1e6).Draw(t, "seconds"))
		}
		at, err := url.Parse(s.URL())
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseSelection(at.Query())
		if err != nil {
			t.Fatal(err)
		}
		got.nodes = nodeset.NodeSet{}
		if d := cmp.Diff(s, got, cmp.AllowUnexported(selection{}), cmp.Comparer(nodeset.NodeSet.Equal)); d != "" {
			t.Fatalf("%s (-want +got):\n%s", at, d)
		}
	})
}

func TestWindows(t *testing.T) {
	now := noon(0)
	for name, c := range map[string]struct {
		pick       selection
		begin, end time.Time
		want       window
	}{
		"a day":            {selection{}, time.Time{}, time.Time{}, window{now.Add(-24 * time.Hour), now}},
		"an hour":          {selection{Window: "1h"}, noon(-9), noon(-1), window{now.Add(-time.Hour), now}},
		"until":            {selection{Window: "1h", Until: noon(-60)}, time.Time{}, time.Time{}, window{noon(-3660), noon(-60)}},
		"it fits":          {selection{}, noon(-80000), noon(-40000), window{noon(-82000), noon(-38000)}},
		"it fits, open":    {selection{}, noon(-80000), time.Time{}, window{noon(-84000), noon(4000)}},
		"at least an hour": {selection{}, noon(-120), noon(-60), window{noon(-3600), noon(0)}},
	} {
		if got := newWindow(c.pick, c.begin, c.end, now); !got.Since.Equal(c.want.Since) || !got.Until.Equal(c.want.Until) {
			t.Errorf("%s: %s to %s, not %s to %s", name, got.Since, got.Until, c.want.Since, c.want.Until)
		}
	}
	for _, length := range append(lengths, "2h", "60d") {
		w := newWindow(selection{Window: length}, time.Time{}, time.Time{}, now)
		ticks := w.ticks(time.UTC)
		if len(ticks) < 4 || len(ticks) > 13 {
			t.Errorf("%s has %d ticks", length, len(ticks))
		}
		if !slices.IsSortedFunc(ticks, func(a, b tick) int { return a.Column - b.Column }) {
			t.Errorf("%s: the ticks are %v", length, ticks)
		}
	}
}

func TestPaging(t *testing.T) {
	w := window{noon(-3600), noon(0)}
	for _, c := range []struct {
		page, count, first, last int
		prev, next               bool
	}{
		{1, 0, 0, 0, false, false}, {1, 50, 1, 50, false, false}, {1, 51, 1, 50, false, true}, {2, 51, 51, 51, true, false},
		{9, 51, 51, 51, true, false}, {2, 4000, 51, 100, true, true},
	} {
		v := newTimeline(selection{Page: c.page}, w, c.count, noon(0))
		if v.First != c.first || v.Last != c.last || v.Prev != "" != c.prev || v.Next != "" != c.next {
			t.Errorf("page %d of %d: %d to %d, %q, %q", c.page, c.count, v.First, v.Last, v.Prev, v.Next)
		}
	}
}

func TestWaitBar(t *testing.T) {
	golden(t, "wait", newWaitBar([]explain.Part{
		{Part: usage.PartSlurm, Took: 10}, {Part: usage.PartCloud, Node: "n1", Took: 30}, {Part: usage.PartTurn, Took: 0},
	}))
	if bar := newWaitBar([]explain.Part{{Part: usage.PartQueue}}); bar.Parts[0].W != "0.00" {
		t.Errorf("a wait of no time has the width %s", bar.Parts[0].W)
	}
	for _, part := range []usage.Part{
		usage.PartSlurm, usage.PartQueue, usage.PartEarlier, usage.PartCloud, usage.PartBoot, usage.PartAnsible,
		usage.PartRegister, usage.PartLaunch, usage.PartTurn,
	} {
		if partClasses[part] == "" {
			t.Errorf("%s has no class", part)
		}
	}
}

func TestRequestView(t *testing.T) {
	r := reconfigure.Request{ID: 4, Mode: reconfigure.Resume, Nodes: nodeset.Of("n1", "n2"), Submitted: noon(0), Caller: "root"}
	events := []reconfigure.Event{
		{ID: 1, Time: noon(1), Plan: 1, Phase: reconfigure.PhaseApply, Level: reconfigure.Note, Message: "Terraform: create n[1-2]"},
		{ID: 2, Time: noon(2), Plan: 1, Node: "n1", Phase: reconfigure.PhaseApply, Level: reconfigure.Failed, Message: "x\ny"},
	}
	o := reconfigure.Outcome{Request: 4, Code: reconfigure.CodeRefused, Finished: noon(9), Verdicts: []reconfigure.Verdict{
		{Node: "n1", Status: reconfigure.StatusRefused, Reason: "it would also destroy n9"},
	}}
	golden(t, "request", []*requestView{newRequest(r, events, o, true), newRequest(r, events[:1], reconfigure.Outcome{}, false)})
	many := make([]reconfigure.Event, mostLines+7)
	if lines, more := logOf(many); len(lines) != mostLines || more != 7 {
		t.Errorf("%d lines and %d more", len(lines), more)
	}
}

func TestHoursRows(t *testing.T) {
	golden(t, "hours", hoursRows(map[string]usage.Hours{
		"b": {Used: 3 * time.Hour, Idle: time.Hour}, "a": {Wasted: 4 * time.Hour}, "": {Idle: time.Hour},
	}, map[string]int{"b": 2}))
}
