package status

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// story is a deploy of two nodes and a resume of one, as the journal has them: one node fails, and the playbooks do not
// reach one that is not up.
func story() []reconfigure.Event {
	all := []reconfigure.Event{
		{Node: "node01", Phase: reconfigure.PhaseApply, Level: reconfigure.Begun},
		{Node: "node02", Phase: reconfigure.PhaseApply, Level: reconfigure.Begun},
		{Phase: reconfigure.PhaseApply, Level: reconfigure.Note, Message: "Terraform plans create node[01-02]"},
		{
			Phase:   reconfigure.PhaseApply,
			Level:   reconfigure.Note,
			Message: "create openstack_networking_secgroup_v2.cluster",
		},
		{
			Phase:   reconfigure.PhaseApply,
			Level:   reconfigure.Note,
			Message: "create openstack_networking_secgroup_v2.cluster: done after 0 s",
		},
		{
			Node:    "node01",
			Phase:   reconfigure.PhaseApply,
			Level:   reconfigure.Note,
			Message: "create openstack_compute_instance_v2.node",
		},
		{
			Node:    "node02",
			Phase:   reconfigure.PhaseApply,
			Level:   reconfigure.Note,
			Message: "create openstack_compute_instance_v2.node",
		},
		{
			Node:    "node01",
			Phase:   reconfigure.PhaseApply,
			Level:   reconfigure.Note,
			Message: "create openstack_compute_instance_v2.node: 10 s so far",
		},
		{
			Node:    "node02",
			Phase:   reconfigure.PhaseApply,
			Level:   reconfigure.Note,
			Message: "create openstack_compute_instance_v2.node: failed after 11 s",
		},
		{Node: "node02", Phase: reconfigure.PhaseApply, Level: reconfigure.Failed, Message: "No valid host was found"},
		{Node: "node01", Phase: reconfigure.PhaseApply, Level: reconfigure.Done},
		{Node: "node01", Phase: reconfigure.PhaseConfigure, Level: reconfigure.Begun},
		{Node: "node01", Phase: reconfigure.PhaseConfigure, Level: reconfigure.Note, Message: "packages : install"},
		{
			Node:    "node09",
			Phase:   reconfigure.PhaseConfigure,
			Level:   reconfigure.Note,
			Message: "does not have the latest changes: could not be reached",
		},
		{Node: "node01", Phase: reconfigure.PhaseConfigure, Level: reconfigure.Done},
		{
			Node:    "node02",
			Phase:   reconfigure.PhaseReport,
			Level:   reconfigure.Note,
			Message: "delete openstack_compute_instance_v2.node: done after 5 s",
		},
		{
			Node:    "node02",
			Phase:   reconfigure.PhaseReport,
			Level:   reconfigure.Note,
			Message: "what is left of it could not be removed: conflict",
		},
		{
			Phase:   reconfigure.PhaseReport,
			Level:   reconfigure.Note,
			Message: "Slurm could not be given node02 back: no answer",
		},
	}
	for i := range all {
		all[i].ID, all[i].Plan, all[i].Time = int64(i+1), 1, noon.Add(time.Duration(i)*time.Second)
	}
	return all
}

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.Local)

func logOf(t *testing.T, verbose bool, events []reconfigure.Event) string {
	var out bytes.Buffer
	log := slog.New(
		slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}),
	)
	v := NewLogView(t.Context(), log, reconfigure.Request{ID: 7, Mode: reconfigure.Deploy}, verbose)
	v.Events(events)
	v.Events(nil)
	v.End()
	return out.String()
}

func TestLogHasPhasesFailuresAndNewsButNoSteps(t *testing.T) {
	golden(t, "log.txt", logOf(t, false, story()))
}

func TestVerboseLogHasEveryEvent(t *testing.T) {
	got := logOf(t, true, story())
	for _, e := range story() {
		if e.Message != "" && !strings.Contains(got, e.Message) {
			t.Errorf("the log has no %q:\n%s", e.Message, got)
		}
	}
}

func TestEventsOfManyNodesAreOneLine(t *testing.T) {
	events := []reconfigure.Event{
		{ID: 1, Node: "node01", Phase: reconfigure.PhaseBoot, Level: reconfigure.Begun},
		{ID: 2, Node: "node02", Phase: reconfigure.PhaseBoot, Level: reconfigure.Failed, Message: "no"},
		{ID: 3, Node: "node03", Phase: reconfigure.PhaseBoot, Level: reconfigure.Begun},
		{ID: 4, Phase: reconfigure.PhaseBoot, Level: reconfigure.Note, Message: "for all"},
	}
	want := []text.Group[reconfigure.Event]{
		{First: events[0], Nodes: nodeset.Of("node01", "node03")},
		{First: events[1], Nodes: nodeset.Of("node02")},
		{First: events[3], Nodes: nodeset.NodeSet{}},
	}
	if diff := cmp.Diff(want, grouped(events)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := grouped(nil); len(got) > 0 {
		t.Errorf("of nothing: %v", got)
	}
}

// screen returns what a terminal with this number of columns shows after a text was written to it. It supports only the
// escape sequences that LiveView uses.
type screen struct {
	width int
	rows  [][]rune
	row   int
}

func (s *screen) Write(p []byte) (int, error) {
	text := string(p)
	for text != "" {
		var up int
		if n, err := fmt.Sscanf(text, "\x1b[%dA\r\x1b[J", &up); err == nil && n == 1 {
			if up > s.row {
				return 0, fmt.Errorf("cursor goes %d up from row %d", up, s.row)
			}
			s.row -= up
			s.rows = s.rows[:s.row]
			text = text[strings.Index(text, "J")+1:]
			continue
		}
		line, rest, _ := strings.Cut(text, "\n")
		if strings.ContainsRune(line, '\x1b') {
			return 0, fmt.Errorf("unknown sequence in %q", line)
		}
		runes := []rune(line)
		for first := true; first || len(runes) > 0; first = false {
			n := min(len(runes), s.width)
			s.rows = append(s.rows, runes[:n])
			s.row, runes = s.row+1, runes[n:]
		}
		text = rest
	}
	return len(p), nil
}

func (s *screen) String() string {
	var b strings.Builder
	for _, row := range s.rows {
		b.WriteString(string(row) + "\n")
	}
	return b.String()
}

func newTestView(s *screen, height int) *LiveView {
	v := NewLiveView(s, reconfigure.Request{ID: 7, Mode: reconfigure.Resume, Nodes: nodeset.Of("node01", "node02")},
		func() (int, int) { return s.width, height })
	return v
}

func TestLiveViewAtEveryMoment(t *testing.T) {
	s := &screen{width: 72}
	v := newTestView(s, 20)
	var film strings.Builder
	for i, e := range story() {
		v.now = func() time.Time { return noon.Add(time.Duration(i+63) * time.Second) }
		v.Events([]reconfigure.Event{e})
		fmt.Fprintf(&film, "--- %d\n%s", e.ID, s)
	}
	v.End()
	fmt.Fprintf(&film, "--- end\n%s", s)
	golden(t, "film.txt", film.String())
}

func TestLiveViewWritesOnlyWhatChanges(t *testing.T) {
	var out bytes.Buffer
	v := NewLiveView(&out, reconfigure.Request{ID: 7, Mode: reconfigure.Deploy}, func() (int, int) { return 100, 24 })
	v.now = func() time.Time { return noon }
	v.Events(story()[:2])
	written := out.Len()
	v.Events(nil)
	v.Events(nil)
	if out.Len() != written {
		t.Errorf("written for nothing: %q", out.String()[written:])
	}
}

func TestPictureFitsTheTerminal(t *testing.T) {
	nodes := map[string]stop{}
	for i := range 4000 {
		s := stop{phase: reconfigure.PhaseBoot, level: reconfigure.Begun, since: noon}
		if i%100 == 50 {
			s.level, s.reason = reconfigure.Failed, fmt.Sprintf("for reason %d", i)
		}
		nodes[fmt.Sprintf("node%04d", i)] = s
	}
	for _, size := range [][2]int{{200, 50}, {80, 24}, {20, 5}, {3, 2}, {1, 1}} {
		lines := picture(nodes, noon, size[0], size[1])
		if len(lines) > max(size[1]-1, 1) {
			t.Errorf("%d lines on a terminal of %v", len(lines), size)
		}
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n >= size[0] && n > 1 {
				t.Errorf("%d characters on a terminal of %v: %q", n, size, line)
			}
		}
	}
	lines := picture(nodes, noon, 80, 24)
	if !strings.Contains(lines[0], "failed") || lines[22] != "… and 19 more" {
		t.Errorf("first %q, last %q", lines[0], lines[22])
	}
}

func TestPictureGoesAlsoWhenTheTerminalWasMadeNarrower(t *testing.T) {
	s := &screen{width: 100}
	v := newTestView(s, 20)
	v.now = func() time.Time { return noon }
	v.Events(story()[:8])
	narrow := &screen{width: 30}
	_, _ = narrow.Write([]byte(s.String())) // a terminal wraps its lines again
	v.out, v.size = narrow, func() (int, int) { return narrow.width, 20 }
	v.End()
	if got := narrow.String(); strings.Contains(got, "openstack") || !strings.Contains(got, "Terraform plans") {
		t.Errorf("it shows:\n%s", got)
	}
}
