package ansible

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

func TestThePlaysOfAPlan(t *testing.T) {
	const told, control, elsewhere, lookup, compute = "Addresses on the other nodes", "The control node",
		"Slurm's configuration on the other nodes", "New addresses of persistent nodes", "The compute nodes"
	change := func(action reconfigure.Action, node string) reconfigure.Change {
		return reconfigure.Change{Node: node, Action: action}
	}
	for name, tc := range map[string]struct {
		plan reconfigure.Plan
		want map[string]string
	}{
		"a resume": {
			reconfigure.Plan{Changes: []reconfigure.Change{change(reconfigure.Create, "node02")}},
			map[string]string{told: "big1,ctl,node[01,03,10]", compute: "node02"},
		},
		"a resume of a persistent node": {
			reconfigure.Plan{Changes: []reconfigure.Change{change(reconfigure.Replace, "node01")}},
			map[string]string{told: "big1,ctl,node[03,10]", lookup: "ctl", compute: "node01"},
		},
		"a suspend": {
			reconfigure.Plan{Changes: []reconfigure.Change{change(reconfigure.Remove, "node03")}},
			map[string]string{},
		},
		"an enlargement": {
			reconfigure.Plan{Everywhere: true, Changes: []reconfigure.Change{change(reconfigure.Configure, "ctl"),
				change(reconfigure.Create, "node02")}},
			map[string]string{told: "big1,node[01,03,10]", control: "ctl", elsewhere: "big1,node[01,03,10]",
				compute: "node02"},
		},
		"a shrinking": {
			reconfigure.Plan{Everywhere: true, Changes: []reconfigure.Change{change(reconfigure.Configure, "ctl"),
				change(reconfigure.Remove, "node03")}},
			map[string]string{told: "big1,node[01,10]", control: "ctl", elsewhere: "big1,node[01,10]"},
		},
		"only another configuration of Slurm": {
			reconfigure.Plan{Everywhere: true},
			map[string]string{told: "big1,node[01,03,10]", control: "ctl", elsewhere: "big1,node[01,03,10]"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			site, err := os.ReadFile("../../ansible/site.yml")
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			last := 0
			for _, play := range Plays(testCluster(), testInstances(), tc.plan) {
				got[play.Name] = play.Hosts.String()
				at := strings.Index(string(site), "\n- name: "+play.Name+"\n")
				if at <= last {
					t.Errorf("site.yml does not have %q, or not in this place", play.Name)
				}
				last = at
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Unchanged nodes need no news of a node that keeps its address.
func TestNodesThatDoNotChangeHavePlaysWhereAddressesChange(t *testing.T) {
	kept := testCluster()
	for i := range kept.Groups {
		kept.Groups[i].KeepPorts = kept.Groups[i].Name == "standard"
	}
	update := func(nodes ...string) (p reconfigure.Plan) {
		for _, node := range nodes {
			p.Changes = append(p.Changes, reconfigure.Change{Node: node, Action: reconfigure.Replace})
		}
		return p
	}
	for _, tc := range []struct {
		plan reconfigure.Plan
		want []Play
	}{
		{update("node01"), []Play{{"The compute nodes", nodeset.Of("node01")}}},
		{update("big1", "node01"), []Play{
			{"Addresses on the other nodes", nodeset.Of("ctl", "node03", "node10")},
			{"New addresses of persistent nodes", nodeset.Of("ctl")},
			{"The compute nodes", nodeset.Of("big1", "node01")},
		}},
	} {
		if diff := cmp.Diff(tc.want, Plays(kept, testInstances(), tc.plan)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.plan, diff)
		}
	}
}
