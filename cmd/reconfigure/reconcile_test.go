package main

import (
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure/reconcile"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

func TestTheVerdictIsOnWhatDiffers(t *testing.T) {
	silent := snapshot.Snapshot{Missing: map[snapshot.System]string{snapshot.Slurm: "?"}}
	leaked := []reconcile.Finding{{Node: "a", Kind: reconcile.Leaked}}
	for name, test := range map[string]struct {
		found reconcile.Comparison
		want  int
	}{
		"nothing":      {reconcile.Comparison{}, 0},
		"a note":       {reconcile.Comparison{Findings: []reconcile.Finding{{Node: "a", Kind: reconcile.Outdated}}}, 0},
		"a difference": {reconcile.Comparison{Findings: leaked}, 10},
		"silence":      {reconcile.Comparison{Seen: silent}, 1},
		"both":         {reconcile.Comparison{Findings: leaked, Seen: silent}, 1},
	} {
		if got := exitCode(test.found.Err()); got != test.want {
			t.Errorf("%s: exit code %d, want %d", name, got, test.want)
		}
	}
}
