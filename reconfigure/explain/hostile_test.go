package explain_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/explain"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// corpus has texts of nodes, users and clouds that change a terminal or look like output of the tool.
var corpus = []string{
	"\x1b[2J\x1b[H cleared", "\x1b]0;title\x07", "\x1b]8;;http://example.org\x1b\\link\x1b]8;;\x1b\\",
	"\u009b31mred in eight bits", "overwritten\rIt waits for nothing.", "back\b\b\bspace", "two\nIt waits for nothing.",
	"a\u202eright to left", "zero\u200bwidth", "NUL\x00", "broken \xff\xfe UTF-8", "line\u2028separator", "%s %d %!v(BAD)",
	"tab\tand\vfeed\f", "<script>alert(1)</script>", "a`reboot`$(reboot)", "\x7fdelete", strings.Repeat("long ", 2000),
}

// hostileFacts puts a text into every field that others write.
func hostileFacts(evil string) explain.Facts {
	at := func(s int) time.Time { return time.Date(2026, 1, 1, 12, 0, s, 0, time.UTC) }
	set := nodeset.Of("n1")
	event := func(id int64, s int, phase reconfigure.Phase, level reconfigure.Level, message string) reconfigure.Event {
		return reconfigure.Event{ID: id, Time: at(s), Plan: 1, Node: "n1", Phase: phase, Level: level, Message: message}
	}
	ended := reconfigure.Request{
		ID: 1, Mode: reconfigure.Resume, Nodes: set, Submitted: at(1), Reason: evil, Caller: evil,
		Jobs: []reconfigure.Job{{ID: 4, Nodes: set, Partition: evil}},
	}
	open := ended
	open.ID, open.Submitted, open.Touched = 2, at(30), true
	open.Deferred = []reconfigure.Deferral{{Request: 2, Kind: reconfigure.CannotPlan, Reason: evil}}
	return explain.Facts{
		Now: at(60),
		Seen: snapshot.Snapshot{
			States: map[string]reconfigure.NodeState{
				"n1": {Node: "n1", Flags: reconfigure.NodeDown, Other: []string{evil}, Reason: evil},
			},
			Servers: map[string][]reconfigure.Server{
				"n1": {{ID: evil, Host: evil, Status: reconfigure.ServerStatus(evil), Fault: reconfigure.Fault{Words: evil}}},
			},
			Instances: map[string]reconfigure.Instance{"n1": {Node: "n1", ID: evil}},
			Missing:   map[snapshot.System]string{},
		},
		Journal: explain.Journal{
			Requests: []reconfigure.Request{ended, open}, Pending: []reconfigure.Request{open},
			Outcomes: map[reconfigure.RequestID]reconfigure.Outcome{1: {
				Request: 1, Code: reconfigure.CodeFailed, Error: evil, Finished: at(20), Verdicts: []reconfigure.Verdict{
					{Node: "n1", Status: reconfigure.StatusRejected, Reason: evil},
				},
			}},
			Events: map[reconfigure.RequestID][]reconfigure.Event{1: {
				event(1, 2, reconfigure.PhaseApply, reconfigure.Begun, ""),
				event(2, 3, reconfigure.PhaseBoot, reconfigure.Begun, ""),
				event(3, 4, reconfigure.PhaseBoot, reconfigure.Note, evil),
				event(4, 9, reconfigure.PhaseBoot, reconfigure.Failed, "no-ssh: "+evil),
				event(5, 10, reconfigure.PhaseReport, reconfigure.Note, evil),
				{ID: 6, Time: at(10), Plan: 1, Phase: reconfigure.PhaseApply, Level: reconfigure.Note, Message: evil},
			}},
			Lives: []reconfigure.Life{{
				Node: "n1", Instance: evil, Plan: 1, Group: evil, Image: evil, Flavor: evil, Host: evil, Planned: at(2),
				Made: at(3), Removed: at(11), Failed: "no-ssh: " + evil,
			}},
			Runs:   []reconfigure.JobRun{{ID: 4, User: evil, Partition: evil, State: evil, Nodes: set, Submitted: at(1)}},
			Health: map[string]reconfigure.Health{},
			Pause:  &reconfigure.Pause{Since: at(5), By: evil, Reason: evil},
		},
	}
}

// TestHostileTextIsVisible tells stories and a history with hostile texts: no character of the output acts on a
// terminal, and no line of the history has a break, in any format.
func TestHostileTextIsVisible(t *testing.T) {
	for _, evil := range corpus {
		f := hostileFacts(evil)
		for _, subject := range []explain.Subject{{Job: 4}, {Node: "n1"}, {Request: 1}} {
			story := explain.New(f, subject)
			for _, wide := range []bool{false, true} {
				var b bytes.Buffer
				if err := story.Table(f.Now)(&b, wide, 100); err != nil {
					t.Fatal(err)
				}
				demandVisible(t, fmt.Sprintf("%s, wide %t", subject, wide), evil, b.String())
			}
			demandDecoded(t, subject.String(), evil, story)
		}
		waits := f
		waits.Requests, waits.Outcomes = f.Requests[1:], nil
		for _, pause := range []*reconfigure.Pause{f.Pause, nil} {
			waits.Pause = pause
			story := explain.New(waits, explain.Subject{Request: 2})
			if story.WaitsFor == nil {
				t.Fatal("request 2 waits for nothing")
			}
			demandDecoded(t, "waiting", evil, story)
		}
		lines, err := explain.NewHistory(fixed{f}, explain.Filter{}).Next(t.Context(), f.Now)
		if err != nil || len(lines) < 10 {
			t.Fatalf("%d lines, %v", len(lines), err)
		}
		for _, l := range lines {
			demandVisible(t, "history", evil, l.String()+"\n")
			if strings.Contains(l.String(), "\n") {
				t.Errorf("%q: a line has a break: %q", evil, l)
			}
			demandDecoded(t, "history", evil, l)
		}
	}
}

func demandVisible(t *testing.T, what, evil, got string) {
	t.Helper()
	for _, r := range got {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Errorf("%s with %.40q has %U: %.300q", what, evil, r, got)
			return
		}
	}
}

// demandDecoded checks the texts in JSON, as a program reads them.
func demandDecoded(t *testing.T, what, evil string, value any) {
	t.Helper()
	encoded, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var decoded any
	if err := json.Unmarshal(encoded, &decoded); err != nil {
		t.Fatal(err)
	}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, one := range v {
				walk(one)
			}
		case []any:
			for _, one := range v {
				walk(one)
			}
		case string:
			for _, r := range v {
				if !unicode.IsPrint(r) {
					t.Errorf("%s with %.40q has %U in JSON: %.200q", what, evil, r, v)
					return
				}
			}
		}
	}
	walk(decoded)
}
