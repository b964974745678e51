package spare_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/spare"
)

// now is a Thursday.
var now = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

const down = "IDLE CLOUD POWERED_DOWN"

// cluster has a group with one persistent and four cloud nodes, and one without spare nodes. The states of nodes that a
// test does not name are down.
func cluster(n int, hours string) reconfigure.Cluster {
	var h reconfigure.Hours
	if hours != "" {
		h, _ = reconfigure.ParseHours(hours)
	}
	return reconfigure.Cluster{
		Groups: []reconfigure.NodeGroup{
			{Name: "g", Prefix: "n", Width: 1, Min: 1, Max: 5, Spare: n, SpareHours: h},
			{Name: "other", Prefix: "o", Width: 1, Max: 3},
		},
		Slurm:    reconfigure.Timing{SuspendTime: 10 * time.Minute, ResumeTimeout: 10 * time.Minute},
		Settings: reconfigure.Settings{CoolDown: 2 * time.Minute, Breaker: 3},
	}
}

func TestDecide(t *testing.T) {
	type facts = spare.Facts
	for _, c := range []struct {
		name           string
		spare          int
		hours          string
		states         string // NODE STATE WORDS…, by ;
		change         func(*reconfigure.Cluster, *facts)
		up, keep, over string
	}{
		{name: "none is declared", states: "n2 IDLE CLOUD"},
		{name: "all are down", spare: 2, up: "n[2-3]", keep: "n[2-3]"},
		{name: "more than there are", spare: 9, up: "n[2-5]", keep: "n[2-5]"},
		{name: "they are there", spare: 2, states: "n3 IDLE CLOUD; n5 IDLE CLOUD", keep: "n[3,5]"},
		{name: "more are there", spare: 1, states: "n3 IDLE CLOUD; n5 IDLE CLOUD", keep: "n3"},
		{name: "one has a job", spare: 1, states: "n2 ALLOCATED CLOUD", up: "n3", keep: "n3"},
		{name: "one has room for more jobs", spare: 1, states: "n2 MIXED CLOUD", up: "n3", keep: "n3"},
		{name: "one comes up", spare: 1, states: "n2 IDLE CLOUD POWERING_UP NOT_RESPONDING", keep: "n2"},
		{name: "one was asked for", spare: 1, states: "n2 IDLE CLOUD POWERED_DOWN POWER_UP", keep: "n2"},
		{name: "one comes up for a job", spare: 1, states: "n2 ALLOCATED CLOUD POWERING_UP", up: "n3", keep: "n3"},
		{name: "one that is there is kept before one that comes", spare: 1,
			states: "n2 IDLE CLOUD POWERING_UP; n3 IDLE CLOUD", keep: "n3"},
		{name: "a persistent node is none", spare: 1, states: "n1 IDLE", up: "n2", keep: "n2"},
		{name: "a planned node is one", spare: 1, states: "n2 IDLE CLOUD PLANNED", keep: "n2"},
		{name: "a reserved node is none", spare: 1, states: "n2 IDLE CLOUD RESERVED", up: "n3", keep: "n3"},
		{name: "a drained node is none", spare: 1, states: "n2 IDLE CLOUD DRAIN", up: "n3", keep: "n3"},
		{name: "a node that is checked is one", spare: 1, states: "n2 IDLE CLOUD DRAIN",
			change: func(_ *reconfigure.Cluster, f *facts) {
				s := f.States["n2"]
				s.Reason = reconfigure.ReasonPrefix + " " + reconfigure.PurposeHealth
				f.States["n2"] = s
			}, keep: "n2"},
		{name: "a silent node is none", spare: 1, states: "n2 IDLE CLOUD NOT_RESPONDING", up: "n3", keep: "n3"},
		{name: "nodes that cannot come up", spare: 1, states: "n2 IDLE CLOUD POWERING_DOWN; n3 DOWN CLOUD POWERED_DOWN; " +
			"n4 IDLE CLOUD POWERED_DOWN DRAIN; n5 IDLE CLOUD POWERED_DOWN NOT_RESPONDING"},
		{name: "a stopped one comes up first", spare: 1, up: "n4", keep: "n4",
			change: func(_ *reconfigure.Cluster, f *facts) { f.Stopped = nodeset.Of("n4") }},
		{name: "one has a request", spare: 1, up: "n3", keep: "n3",
			change: func(_ *reconfigure.Cluster, f *facts) { f.Busy = nodeset.Of("n2") }},
		{name: "one has failed", spare: 1, up: "n3", keep: "n3",
			change: func(_ *reconfigure.Cluster, f *facts) {
				f.Failed = map[string]time.Time{"n2": now.Add(-59 * time.Minute)}
			}},
		{name: "one failed long ago", spare: 1, up: "n2", keep: "n2",
			change: func(_ *reconfigure.Cluster, f *facts) {
				f.Failed = map[string]time.Time{"n2": now.Add(-time.Hour)}
			}},
		{name: "the group cools down", spare: 2, states: "n5 IDLE CLOUD", keep: "n5",
			change: func(_ *reconfigure.Cluster, f *facts) {
				f.Health = map[string]reconfigure.Health{"g": {Full: reconfigure.Setback{Time: now.Add(-time.Minute)}}}
			}},
		{name: "the group has cooled down", spare: 2, up: "n2", keep: "n2",
			change: func(_ *reconfigure.Cluster, f *facts) {
				f.Health = map[string]reconfigure.Health{"g": {Full: reconfigure.Setback{Time: now.Add(-2 * time.Minute)}}}
			}},
		{name: "one has failed to boot", spare: 2, up: "n2", keep: "n2",
			change: func(_ *reconfigure.Cluster, f *facts) {
				f.Health = map[string]reconfigure.Health{"g": {Failures: 1, Last: reconfigure.Setback{Time: now}}}
			}},
		{name: "the breaker is open", spare: 2,
			change: func(_ *reconfigure.Cluster, f *facts) {
				last := reconfigure.Setback{Time: now.Add(-59 * time.Minute)}
				f.Health = map[string]reconfigure.Health{"g": {Failures: 3, Last: last}}
			}},
		{name: "the breaker has been open for long", spare: 2, up: "n2", keep: "n2",
			change: func(_ *reconfigure.Cluster, f *facts) {
				f.Health = map[string]reconfigure.Health{"g": {Failures: 3, Last: reconfigure.Setback{Time: now.Add(-time.Hour)}}}
			}},
		{name: "the breaker has been open for long, and a node is tried", spare: 2,
			change: func(_ *reconfigure.Cluster, f *facts) {
				f.Health = map[string]reconfigure.Health{"g": {Failures: 3, Last: reconfigure.Setback{Time: now.Add(-time.Hour)},
					Probe: reconfigure.Probe{Node: "n5", Since: now}}}
			}},
		{name: "a limit over two groups", spare: 3, states: "o1 ALLOCATED CLOUD", up: "n2", keep: "n2",
			change: func(c *reconfigure.Cluster, _ *facts) {
				c.Limits = []reconfigure.Limit{{Groups: []string{"g", "other"}, Max: 3}, {Groups: []string{"other"}, Max: 1}}
			}},
		{name: "in the hours", spare: 1, hours: "Thu 12:00-13:00", up: "n2", keep: "n2"},
		{name: "beyond the hours", spare: 1, hours: "Thu 11:00-12:00", states: "n2 IDLE CLOUD"},
		{name: "idle for long beyond the hours", spare: 1, hours: "Thu 11:00-12:00", over: "n2",
			states: "n2 IDLE CLOUD; n3 IDLE CLOUD; n4 ALLOCATED CLOUD; n5 IDLE CLOUD POWERING_UP; o1 IDLE CLOUD",
			change: func(_ *reconfigure.Cluster, f *facts) {
				for node, s := range f.States {
					s.IdleSince = now.Add(-11 * time.Minute)
					if node == "n3" {
						s.IdleSince = now.Add(-9 * time.Minute)
					}
					f.States[node] = s
				}
			}},
		{name: "idle for long in the hours", spare: 1, hours: "Thu 12:00-13:00", states: "n2 IDLE CLOUD; n3 IDLE CLOUD",
			keep: "n2", change: func(_ *reconfigure.Cluster, f *facts) {
				for node, s := range f.States {
					s.IdleSince = now.Add(-time.Hour)
					f.States[node] = s
				}
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			declared := cluster(c.spare, c.hours)
			f := facts{Now: now, States: map[string]reconfigure.NodeState{"n1": reconfigure.SlurmNode("n1", "ALLOCATED")}}
			for _, node := range strings.Fields("n2 n3 n4 n5 o1 o2 o3") {
				f.States[node] = reconfigure.SlurmNode(node, strings.Fields(down)...)
			}
			for part := range strings.SplitSeq(c.states, ";") {
				if words := strings.Fields(part); len(words) > 0 {
					s := reconfigure.SlurmNode(words[0], words[1:]...)
					s.Busy = s.HasAny(reconfigure.NodeAllocated | reconfigure.NodeMixed)
					f.States[words[0]] = s
				}
			}
			if c.change != nil {
				c.change(&declared, &f)
			}
			d := spare.Decide(declared, f)
			want := fmt.Sprintf("up %s, keep %s, over %s", c.up, c.keep, c.over)
			if got := fmt.Sprintf("up %s, keep %s, over %s", d.Up, d.Keep, d.Over); got != want {
				t.Errorf("got %s\nwant %s", got, want)
			}
		})
	}
}

func TestExceptions(t *testing.T) {
	for _, c := range []struct{ is, keep, want string }{
		{"", "", ""},
		{"n1", "", "n1"},
		{"n[2-5]:2,n1", "", "n1"},
		{"n[2-5]:2,n1", "n[2,4]", "n1,n2,n4"},
		{"n1,n2,n4", "n4", "n1,n4"},
		{"n[1-4]", "n3", "n1,n3"},                         // as slurmctld writes it after +=
		{"n[1,3],o2,o[1-3]:1", "n3", "n1,o2,o[1-3]:1,n3"}, // an administrator has added o2
		{"n[1-2]:1", "n3", "n[1-2]:1,n3"},
		{"{nodes}", "n3", "{nodes},n3"},
	} {
		if got := spare.Exceptions(cluster(2, ""), c.is, parse(t, c.keep)); got != c.want {
			t.Errorf("%q with %q becomes %q, want %q", c.is, c.keep, got, c.want)
		}
	}
	if is := "n[2-5],o[1-3]:1"; spare.Exceptions(cluster(0, ""), is, nodeset.NodeSet{}) != is {
		t.Error("without spare nodes the exceptions change")
	}
}

func parse(t *testing.T, list string) nodeset.NodeSet {
	t.Helper()
	if list == "" {
		return nodeset.NodeSet{}
	}
	set, err := nodeset.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return set
}
