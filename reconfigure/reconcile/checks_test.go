package reconcile

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

const checkInterval = time.Hour

// checking is the example cluster whose nodes are checked every hour, with n2 up. n1 was checked an hour ago, and n2
// booted an hour ago.
func checking() (reconfigure.Cluster, observation, Look) {
	cluster, seen := example(), healthy()
	cluster.Groups[0].HealthChecks, cluster.Groups[0].HealthInterval = []string{"disks"}, checkInterval
	seen.has("n2", "standard")
	seen.slurm("n2", "IDLE CLOUD")
	booted := now.Add(-checkInterval)
	seen.Lives = map[string]reconfigure.Life{
		"n2": {Node: "n2", Instance: "id-n2", Configured: booted.Add(-time.Minute), Registered: booted},
	}
	return cluster, seen, Look{Time: now.Add(-time.Minute), Checked: map[string]time.Time{"n1": booted}}
}

func TestWhichNodesAreCheckedAgain(t *testing.T) {
	for name, test := range map[string]struct {
		see  func(c *reconfigure.Cluster, o *observation, l *Look)
		want string
	}{
		"one at a time, in the order of their names": {nil, "n1"},
		"the one whose check is older": {func(_ *reconfigure.Cluster, _ *observation, l *Look) {
			l.Checked["n1"] = l.Checked["n1"].Add(time.Second)
		}, "n2"},
		"one without a known check": {func(_ *reconfigure.Cluster, o *observation, _ *Look) {
			o.Lives = nil
		}, "n2"},
		"a tenth of a large group": {func(c *reconfigure.Cluster, o *observation, _ *Look) {
			c.Groups[0].Max = 20
		}, "n[1-2]"},
		"a group without an interval": {func(c *reconfigure.Cluster, _ *observation, _ *Look) {
			c.Groups[0].HealthInterval = 0
		}, ""},
		"nodes that were checked within the interval": {func(_ *reconfigure.Cluster, o *observation, l *Look) {
			l.Checked = map[string]time.Time{"n1": now.Add(-checkInterval + 1), "n2": now}
		}, ""},
		"a node that booted within the interval": {func(_ *reconfigure.Cluster, o *observation, l *Look) {
			o.Lives["n2"] = reconfigure.Life{Registered: now.Add(-checkInterval + 1)}
			l.Checked["n1"] = now
		}, ""},
		"a check in the future": {func(_ *reconfigure.Cluster, _ *observation, l *Look) {
			l.Checked["n1"] = now.Add(time.Hour)
		}, "n1"},
		"a node with a job": {func(_ *reconfigure.Cluster, o *observation, _ *Look) {
			o.slurm("n1", "ALLOCATED")
		}, "n2"},
		"a node whose job ends": {func(_ *reconfigure.Cluster, o *observation, _ *Look) {
			o.slurm("n1", "IDLE COMPLETING")
			s := o.States["n1"]
			s.Busy = true
			o.States["n1"] = s
		}, "n2"},
		"a node on which a job is planned":   {slurmHas("IDLE PLANNED"), "n2"},
		"a reserved node":                    {slurmHas("IDLE RESERVED"), "n2"},
		"a node in maintenance":              {slurmHas("IDLE MAINTENANCE"), "n2"},
		"a drained node":                     {slurmHas("IDLE DRAIN"), "n2"},
		"a node that is DOWN":                {slurmHas("DOWN"), "n2"},
		"a node that does not answer":        {slurmHas("IDLE NOT_RESPONDING"), "n2"},
		"a node that is about to power down": {slurmHas("IDLE POWER_DOWN"), "n2"},
		"a node that reboots":                {slurmHas("IDLE REBOOT_ISSUED"), "n2"},
		"a node with a request": {func(_ *reconfigure.Cluster, o *observation, _ *Look) {
			o.busy.Nodes = nodeset.Of("n1")
		}, "n2"},
		"a request for the whole cluster": {func(_ *reconfigure.Cluster, o *observation, _ *Look) {
			o.busy.Whole = true
		}, ""},
		"a node that differs": {func(_ *reconfigure.Cluster, o *observation, _ *Look) {
			o.Servers["n1"][0].Address = "192.0.2.9"
		}, "n2"},
		"a source that does not answer": {func(_ *reconfigure.Cluster, o *observation, _ *Look) {
			o.unreachable(snapshot.Cloud)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, seen, look := checking()
			if test.see != nil {
				test.see(&cluster, &seen, &look)
			}
			before := fmt.Sprint(look)
			due, checked := look.checks(cluster, Comparison{
				Findings: seen.compare(cluster), Seen: seen.Snapshot, Busy: seen.busy,
			})
			var nodes []string
			for _, f := range due {
				nodes = append(nodes, f.Node)
				if !checked[f.Node].Equal(now) {
					t.Errorf("the check of %s has no time: %v", f.Node, checked)
				}
			}
			if got := nodeset.Of(nodes...).String(); got != test.want {
				t.Errorf("%q are checked, want %q", got, test.want)
			}
			if after := fmt.Sprint(look); after != before {
				t.Errorf("the last look has changed from %s to %s", before, after)
			}
		})
	}
}

func slurmHas(states string) func(*reconfigure.Cluster, *observation, *Look) {
	return func(_ *reconfigure.Cluster, o *observation, _ *Look) { o.slurm("n1", states) }
}

// TestEachNodeIsCheckedOncePerInterval makes comparisons for a day, while all nodes are up.
func TestEachNodeIsCheckedOncePerInterval(t *testing.T) {
	cluster, seen, look := checking()
	for _, node := range []string{"n3", "n4"} {
		seen.has(node, "standard")
		seen.slurm(node, "IDLE CLOUD")
	}
	log := &book{}
	r := Reconciler{
		Cluster: cluster, Journal: log, MinAge: minAge, Commands: commands(),
		Observe: func(context.Context) (snapshot.Snapshot, error) { return seen.Snapshot, nil },
	}
	for ; seen.Time.Before(now.Add(24 * time.Hour)); seen.Time = seen.Time.Add(5 * time.Minute) {
		keep := func(l Look) error { look = l; return nil }
		err := r.Unattended(t.Context(), look, time.Hour, keep, func(Finding, error) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	count := map[string]int{}
	for _, request := range log.submitted {
		if request.Mode != reconfigure.CheckNodes || request.Reason != "reconcile: unchecked" {
			t.Fatalf("%+v", request)
		}
		for node := range request.Nodes.All() {
			count[node]++
		}
	}
	for _, node := range []string{"n1", "n2", "n3", "n4"} {
		if count[node] != 24 {
			t.Errorf("%s was checked %d times in a day", node, count[node])
		}
	}
}
