package config_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure/config"
)

// TestFreshInstancesAreDeclaredWithoutContradiction declares `fresh: job` for the shipped partition, with further
// edits, and compares the problems.
func TestFreshInstancesAreDeclaredWithoutContradiction(t *testing.T) {
	const fresh, cloud = "all_or_nothing: false", "min_nodes: 2"
	for _, c := range []struct {
		name  string
		edits []string // pairs
		want  []string
	}{
		{"of cloud nodes", []string{cloud, "min_nodes: 0"}, nil},
		{"of persistent nodes", nil,
			[]string{"node_groups[0].min_nodes: must be 0: the jobs of partition main get fresh instances, and a " +
				"persistent node keeps its instance"}},
		{"of nodes that are stopped", []string{cloud, "min_nodes: 0", "when_idle: delete", "when_idle: shelve"},
			[]string{"node_groups[0].when_idle: must be delete: the jobs of partition main get fresh instances"}},
		{"of nodes of another partition", []string{cloud, "min_nodes: 0", "\n# Slurm's power",
			"  - {name: other, groups: [standard]}\n\n# Slurm's power"},
			[]string{"partitions[1].groups: has group standard, whose nodes partition main gives to one job each; " +
				"use another group, or fresh: job here too"}},
		{"of nodes of another such partition", []string{cloud, "min_nodes: 0", "\n# Slurm's power",
			"  - {name: other, groups: [standard], fresh: job}\n\n# Slurm's power"}, nil},
		{"several jobs on a node", []string{cloud, "min_nodes: 0", "slurm: {MaxTime: 7-00:00:00}",
			"slurm: {oversubscribe: FORCE}"},
			[]string{"partitions[0].slurm.oversubscribe: cannot be set here: it is generated from fresh: job"}},
		{"a prolog of the site",
			[]string{cloud, "min_nodes: 0", "extra: {}", "extra: {Prolog: /bin/true, EPILOG: /bin/true}"},
			[]string{"slurm.extra.EPILOG: cannot be set here: partition main has fresh: job (line N), which needs it",
				"slurm.extra.Prolog: cannot be set here: partition main has fresh: job (line N), which needs it"}},
		{"flags of the prolog",
			[]string{cloud, "min_nodes: 0", "extra: {}", "extra: {PrologFlags: [X11, NoHold]}"}, nil},
		{"a prolog before the first step only",
			[]string{cloud, "min_nodes: 0", "extra: {}", "extra: {PrologFlags: Serial}"},
			[]string{"slurm.extra.PrologFlags: must contain Alloc: with fresh: job each node is marked before its " +
				"job uses it"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := shipped(t)
			for _, e := range append([][2]string{{fresh, "fresh: job"}}, inPairs(c.edits)...) {
				if !strings.Contains(text, e[0]) {
					t.Fatalf("%q is not in the shipped declaration", e[0])
				}
				text = strings.Replace(text, e[0], e[1], 1)
			}
			cluster, err := config.Load(directory(t, text))
			var got []string
			var problems *config.Problems
			if errors.As(err, &problems) {
				for _, p := range *problems {
					got = append(got, p.Path+": "+lineNumber.ReplaceAllString(p.Message, "line N"))
				}
			} else if err != nil || !cluster.Fresh("standard") {
				t.Errorf("fresh is %v (%v)", cluster.Partitions, err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func inPairs(all []string) (made [][2]string) {
	for i := 0; i+1 < len(all); i += 2 {
		made = append(made, [2]string{all[i], all[i+1]})
	}
	return made
}
