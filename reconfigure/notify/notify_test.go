package notify_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/notify"
	"github.com/eiffel-hpc/eiffel/reconfigure/reconcile"
)

var start = time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)

func failure(id int64, after time.Duration, node string, class reconfigure.Class) reconfigure.Event {
	return reconfigure.Event{
		ID: id, Time: start.Add(after), Node: node, Phase: reconfigure.PhaseBoot, Level: reconfigure.Failed,
		Message: class.Said("it failed"),
	}
}

// sent returns the notices as JSON, as the command gets them.
func sent(t *testing.T, notices []notify.Notice) (all []string) {
	t.Helper()
	for _, n := range notices {
		text, err := json.Marshal(n)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(text))
	}
	return all
}

func TestOneNoticeAMinuteOfAKind(t *testing.T) {
	n := notify.Notifier{Cluster: "c"}
	n.Event(failure(1, 0, "n1", reconfigure.ClassSSH))
	first := `{"cluster":"c","class":"no-ssh","kind":"no-ssh","count":1,"nodes":"n1",` +
		`"since":"2026-01-31T08:00:00Z","time":"2026-01-31T08:00:00Z","text":"no-ssh: it failed"}`
	if diff := cmp.Diff([]string{first}, sent(t, n.Due(start))); diff != "" {
		t.Error(diff)
	}
	for i, node := range []string{"n2", "n3", "n2"} {
		n.Event(failure(int64(i+2), time.Duration(i+1)*time.Second, node, reconfigure.ClassSSH))
	}
	n.Event(failure(5, 4*time.Second, "n4", reconfigure.ClassQuota))
	if due := n.Due(start.Add(5 * time.Second)); len(due) != 1 || due[0].Kind != "quota" {
		t.Errorf("in the same minute %v is due", due)
	}
	due := n.Due(start.Add(time.Minute))
	if len(due) != 1 || due[0].Count != 3 || due[0].Nodes.String() != "n[2-3]" ||
		!due[0].Since.Equal(start.Add(time.Second)) {
		t.Errorf("a minute later %v is due", sent(t, due))
	}
	if due := n.Due(start.Add(time.Hour)); len(due) != 0 {
		t.Errorf("without an event %v is due", due)
	}
}

func TestAFailedNoticeIsSentAgainWithWhatCame(t *testing.T) {
	n := notify.Notifier{Cluster: "c"}
	n.Event(failure(1, 0, "n1", reconfigure.ClassSSH))
	due := n.Due(start)
	n.Event(failure(2, time.Second, "n2", reconfigure.ClassSSH))
	n.Failed(due[0])
	state, err := json.Marshal(n.State) // the worker is restarted
	if err != nil {
		t.Fatal(err)
	}
	n = notify.Notifier{Cluster: "c"}
	if err := json.Unmarshal(state, &n.State); err != nil {
		t.Fatal(err)
	}
	if due := n.Due(start.Add(30 * time.Second)); len(due) != 0 {
		t.Errorf("%v is tried again within a minute", due)
	}
	due = n.Due(start.Add(time.Minute))
	if len(due) != 1 || due[0].Count != 2 || due[0].Nodes.String() != "n[1-2]" || !due[0].Since.Equal(start) {
		t.Errorf("%v is due", sent(t, due))
	}
}

func TestAFindingCountsAtItsSecondComparisonOnce(t *testing.T) {
	n := notify.Notifier{}
	for i, want := range []int{0, 1, 0, 0} {
		at := start.Add(time.Duration(i) * 5 * time.Minute)
		n.Look(reconcile.Look{Time: at, Findings: []reconcile.Finding{
			{Node: "n1", Kind: reconcile.Orphan, Detail: "it is unknown"}, {Node: "n2", Kind: reconcile.Outdated},
		}})
		n.Look(reconcile.Look{Time: at}) // the same comparison again
		if due := n.Due(at); len(due) != want || want > 0 && (due[0].Class != "finding" || due[0].Kind != "orphan") {
			t.Errorf("after comparison %d %v is due", i+1, due)
		}
	}
	n.Look(reconcile.Look{Time: start.Add(time.Hour)})
	for i, want := range []int{0, 1} {
		at := start.Add(2*time.Hour + time.Duration(i)*5*time.Minute)
		n.Look(reconcile.Look{Time: at, Findings: []reconcile.Finding{{Node: "n1", Kind: reconcile.Orphan}}})
		if due := n.Due(at); len(due) != want {
			t.Errorf("when it is back, after comparison %d %v is due", i+1, due)
		}
	}
}

func TestAPausedCampaignAndTheClasses(t *testing.T) {
	all, some := notify.Notifier{}, notify.Notifier{Classes: []string{"quota"}}
	for _, n := range []*notify.Notifier{&all, &some} {
		for range 2 {
			n.Campaign(reconfigure.Campaign{ID: 3, State: reconfigure.CampaignPaused, Why: "2 nodes failed"}, start)
		}
		n.Event(failure(7, 0, "n1", reconfigure.ClassQuota))
	}
	due := all.Due(start)
	if len(due) != 2 || due[0].Count != 1 || due[0].Text != "campaign 3 is paused: 2 nodes failed" {
		t.Errorf("%v is due", due)
	}
	if due := some.Due(start); len(due) != 1 || due[0].Kind != "quota" || some.State.Event != 7 {
		t.Errorf("of the class quota %v is due", due)
	}
}
