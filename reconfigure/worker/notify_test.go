package worker

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/notify"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
)

// noticing is a site with a notify command that is a shell script.
func noticing(t *testing.T, script string) (s site.Site, log *journal.Journal) {
	t.Helper()
	s, log = exporting(t, "")
	s.Cluster.Name, s.Cluster.Settings.Notify = "test", filepath.Join(s.Dir, "notify")
	if err := os.WriteFile(s.Cluster.Settings.Notify, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return s, log
}

// fails records that a node failed.
func fails(t *testing.T, log *journal.Journal, node string) {
	t.Helper()
	r, err := log.Submit(t.Context(), reconfigure.Request{Mode: reconfigure.Resume, Nodes: nodeset.Of(node)})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := log.Begin(t.Context(), []reconfigure.RequestID{r.ID})
	if err != nil {
		t.Fatal(err)
	}
	err = log.Record(t.Context(), reconfigure.Event{
		Plan: plan, Node: node, Phase: reconfigure.PhaseBoot, Level: reconfigure.Failed, Message: "no-ssh: it failed",
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestTheNotifyCommandGetsWhatHappens records failures before, while and after a worker notifies.
func TestTheNotifyCommandGetsWhatHappens(t *testing.T) {
	s, log := noticing(t, `cat >>got`)
	got := func() (all []notify.Notice) {
		text, _ := os.ReadFile(s.File("got"))
		for line := range strings.Lines(string(text)) {
			var n notify.Notice
			if err := json.Unmarshal([]byte(line), &n); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			all = append(all, n)
		}
		return all
	}
	fails(t, log, "n1") // before the first worker that notifies
	n, end := notifies(t.Context(), s, log, slog.New(slog.DiscardHandler))
	fails(t, log, "n2")
	end()
	if all := got(); len(all) != 1 || all[0].Nodes.String() != "n2" || all[0].Cluster != "test" ||
		all[0].Class != "no-ssh" {
		t.Errorf("the command got %+v", all)
	}
	if up, known := n.last(); !up || !known {
		t.Errorf("the last call: %t, known %t", up, known)
	}
	fails(t, log, "n3") // while no worker runs
	n, end = notifies(t.Context(), s, log, slog.New(slog.DiscardHandler))
	end()
	if all := got(); len(all) != 1 {
		t.Errorf("within a minute the command got %+v", all)
	}
	n.turn(t.Context(), time.Now().Add(notify.Every))
	if all := got(); len(all) != 2 || all[1].Nodes.String() != "n3" {
		t.Errorf("after a minute the command got %+v", all)
	}
}

// TestAHungNotifyCommandIsKilled has a command that ignores signals, with a child.
func TestAHungNotifyCommandIsKilled(t *testing.T) {
	s, log := noticing(t, `trap '' INT TERM; sleep 1000 & echo $! >child; wait; wait`)
	var out logged
	n := &notifier{site: s, log: log, out: slog.New(slog.NewTextHandler(&out, nil)), within: 300 * time.Millisecond}
	fails(t, log, "n1")
	n.turn(t.Context(), time.Now())
	for _, words := range []string{"was killed", "kind=no-ssh", "sent again"} {
		if !strings.Contains(out.String(), words) {
			t.Errorf("the log lacks %q: %s", words, out.String())
		}
	}
	if why := NotifyError(s); !strings.Contains(why, "did not end within 300ms") {
		t.Errorf("status says %q", why)
	}
	if up, known := n.last(); up || !known {
		t.Errorf("the last call: %t, known %t", up, known)
	}
	child, err := os.ReadFile(s.File("child"))
	if err != nil {
		t.Fatal(err)
	}
	until(t, "its child ends", func() bool {
		stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(child)) + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
	if err := os.WriteFile(s.Cluster.Settings.Notify, []byte("#!/bin/sh\ncat >got\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	n.turn(t.Context(), time.Now().Add(notify.Every))
	if text, err := os.ReadFile(s.File("got")); err != nil || !strings.Contains(string(text), `"count":1`) {
		t.Errorf("the repaired command got %q (%v)", text, err)
	}
	if why := NotifyError(s); why != "" {
		t.Errorf("status still says %q", why)
	}
}
