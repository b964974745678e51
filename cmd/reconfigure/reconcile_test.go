package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/reconcile"
)

// TestReconcileTable compares the table with a golden file: nodes of which the same is told share a row, and commands can be typed as they stand.
func TestReconcileTable(t *testing.T) {
	leaked := func(node string) reconcile.Finding {
		return reconcile.Finding{Node: node, Kind: reconcile.Leaked, Detail: "Slurm has powered it down, but its instance is there", Fix: reconcile.Suspend}
	}
	outdated := func(node string) reconcile.Finding {
		return reconcile.Finding{Node: node, Kind: reconcile.Outdated, Detail: "its image is not what is declared now", Command: "reconfigure update " + reconcile.Nodes}
	}
	report := newReconcileReport("eiffel", compared{
		findings: []reconcile.Finding{
			outdated("node01"), outdated("node02"), leaked("node03"), outdated("node04"), leaked("node04"), leaked("node05"),
			{Node: "node06", Kind: reconcile.Orphan, Detail: "the cloud has an instance of ours that Terraform does not know: 1234", Server: "1234", Fix: reconcile.Delete},
			{Node: "node07", Kind: reconcile.Missing, Detail: "it is persistent, and has no instance", Fix: reconcile.Enlarge},
			{Node: "node08", Kind: reconcile.PowersUp, Detail: "Slurm waits for it, and no request for it is under way", Fix: reconcile.Resume},
			{Node: "node09", Kind: reconcile.Tainted, Detail: "its instance was not made to the end"},
		},
		seen:   reconcile.Observation{AtWork: nodeset.Of("node10", "node11")},
		silent: []silence{{partyCloud, "no route to host"}},
	})
	var b strings.Builder
	if err := report.write(&b); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "reconcile.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Error(diff)
	}
}

func TestFixesBecomeOneRequestAMode(t *testing.T) {
	got := requests([]reconcile.Finding{
		{Node: "b", Kind: reconcile.Leaked, Fix: reconcile.Suspend}, {Node: "a", Kind: reconcile.PowersDown, Fix: reconcile.Suspend}, {Node: "c", Kind: reconcile.Hollow},
		{Node: "d", Kind: reconcile.Orphan, Fix: reconcile.Delete}, {Node: "e", Kind: reconcile.PowersUp, Fix: reconcile.Resume},
		{Node: "f", Kind: reconcile.Missing, Fix: reconcile.Enlarge}, {Node: "g", Kind: reconcile.Leaked, Fix: reconcile.Suspend},
	})
	want := []reconfigure.Request{
		{Mode: reconfigure.Enlarge, Nodes: nodeset.Of("f"), Reason: "reconcile: missing"},
		{Mode: reconfigure.Resume, Nodes: nodeset.Of("e"), Reason: "reconcile: powers up"},
		{Mode: reconfigure.Suspend, Nodes: nodeset.Of("a", "b", "g"), Reason: "reconcile: leaked, powers down"},
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b nodeset.NodeSet) bool { return a.String() == b.String() })); diff != "" {
		t.Error(diff)
	}
}

func TestTheVerdictIsOnWhatDiffers(t *testing.T) {
	for name, test := range map[string]struct {
		compared compared
		want     int
	}{
		"nothing":      {compared{}, 0},
		"a note":       {compared{findings: []reconcile.Finding{{Node: "a", Kind: reconcile.Outdated}}}, 0},
		"a difference": {compared{findings: []reconcile.Finding{{Node: "a", Kind: reconcile.Leaked}}}, 10},
		"silence":      {compared{silent: []silence{{partySlurm, "?"}}}, 1},
		"both":         {compared{findings: []reconcile.Finding{{Node: "a", Kind: reconcile.Leaked}}, silent: []silence{{partySlurm, "?"}}}, 1},
	} {
		if got := exitCode(test.compared.verdict()); got != test.want {
			t.Errorf("%s: exit code %d, want %d", name, got, test.want)
		}
	}
}

func TestWhatHappensMeanwhileIsAtWork(t *testing.T) {
	at := func(ids map[string]int64) work {
		w := work{last: map[string]reconfigure.Event{}}
		for node, id := range ids {
			w.last[node] = reconfigure.Event{ID: id}
		}
		return w
	}
	got := at(map[string]int64{"a": 1, "b": 3, "c": 4}).since(at(map[string]int64{"a": 1, "b": 2}))
	if got.String() != nodeset.Of("b", "c").String() {
		t.Errorf("%s", got)
	}
}

func TestWhoIsSilentSaysNothing(t *testing.T) {
	made := time.Unix(1, 0)
	o := sight{
		servers: map[string][]reconfigure.Server{"a": {{ID: "1", Node: "a", Status: "ACTIVE", Address: "192.0.2.1", ImageID: "i", Created: made}}},
		silent:  []silence{{partySlurm, "?"}, {partyTerraform, "?"}},
	}.observation(time.Unix(2, 0), time.Minute)
	if !o.Cloud || o.Slurm || o.Terraform {
		t.Errorf("cloud %t, Slurm %t, Terraform %t", o.Cloud, o.Slurm, o.Terraform)
	}
	want := map[string][]reconcile.Server{"a": {{ID: "1", Address: "192.0.2.1", ImageID: "i", Created: made}}}
	if diff := cmp.Diff(want, o.Servers); diff != "" {
		t.Error(diff)
	}
}

func TestAnOrphanIsLeftAloneWhenARequestHasCome(t *testing.T) {
	log, err := journal.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	var before compared
	if before.work, err = workIn(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	if err := before.stillIdle(t.Context(), log, "node03"); err != nil {
		t.Errorf("nobody has asked for it: %v", err)
	}
	if _, err := log.Submit(t.Context(), reconfigure.Request{Mode: reconfigure.Resume, Nodes: nodeset.Of("node03")}); err != nil {
		t.Fatal(err)
	}
	if err := before.stillIdle(t.Context(), log, "node03"); err == nil {
		t.Error("a request has come for it")
	}
	if err := before.stillIdle(t.Context(), log, "node04"); err != nil {
		t.Errorf("the request is for another node: %v", err)
	}
	if _, err := log.Submit(t.Context(), reconfigure.Request{Mode: reconfigure.Deploy}); err != nil {
		t.Fatal(err)
	}
	if err := before.stillIdle(t.Context(), log, "node04"); err == nil {
		t.Error("a request has come for the whole cluster")
	}
}
