package reconcile

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "github.com/eiffel-hpc/eiffel/lab/sameseed"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

var states = []string{
	"IDLE", "MIXED", "ALLOCATED", "DOWN", "IDLE DRAIN", "ALLOCATED DRAIN", "IDLE NOT_RESPONDING", "DOWN REBOOT_ISSUED",
	"IDLE CLOUD", "ALLOCATED CLOUD",
	"IDLE CLOUD POWERED_DOWN", "DOWN CLOUD POWERED_DOWN", "IDLE CLOUD POWERING_DOWN", "ALLOCATED CLOUD POWERING_UP",
	"ALLOCATED CLOUD POWERED_DOWN POWER_UP",
	"ALLOCATED CLOUD POWERED_DOWN", "DOWN CLOUD", "ALLOCATED DOWN", "IDLE CLOUD POWERED_DOWN DRAIN",
}

// drawn returns random answers of the sources about nodes that are declared, undeclared, or of another cluster.
func drawn(t *rapid.T) (reconfigure.Cluster, observation) {
	c, o := example(), healthy()
	c.Groups[0].Min = rapid.IntRange(0, 4).Draw(t, "min")
	c.Groups[0].MaxAge = rapid.SampledFrom([]time.Duration{0, time.Minute}).Draw(t, "max_age")
	for _, source := range []snapshot.System{snapshot.Terraform, snapshot.Cloud, snapshot.Slurm} {
		if !chance(t, 8) {
			o.Missing[source] = "no route to host"
		}
	}
	for _, node := range append(c.Nodes().Names(), "ctl", "old1", "stranger") {
		o.gone(node)
		delete(o.States, node)
		if chance(t, 6) {
			o.slurm(node, rapid.SampledFrom(states).Draw(t, "state"))
			o.reachedAt(node, rapid.SampledFrom([]string{node, "192.0.2.1", "192.0.2.2"}).Draw(t, "address"))
			o.reasoned(
				node,
				rapid.SampledFrom([]string{
					"", "reconfigure: boot: no SSH", "reconfigure: update", "Not responding", "memory errors",
				}).Draw(t, "reason"),
			)
		}
		if node == "stranger" {
			continue // only Slurm has it
		}
		if most := map[bool]int{true: 8, false: 3}[node == "ctl"]; chance(t, most) {
			o.has(node, "standard")
		}
		if !chance(t, 4) {
			delete(o.Desired, node)
		}
		if i, made := o.Instances[node]; made && !chance(t, 4) {
			i.Tainted = true
			o.Instances[node] = i
		}
		if !chance(t, 4) {
			delete(o.Servers, node)
		}
		for i := range max(0, rapid.IntRange(-3, 2).Draw(t, "strays")) {
			o.serve(
				node,
				fmt.Sprint("stray-", node, i),
				time.Duration(rapid.IntRange(0, 30).Draw(t, "age"))*time.Minute,
			)
		}
	}
	o.busy.Nodes = nodeset.Of(rapid.SliceOfN(rapid.SampledFrom(c.Nodes().Names()), 0, 2).Draw(t, "at work")...)
	return c, o
}

// chance is false once in n draws.
func chance(t *rapid.T, n int) bool { return rapid.IntRange(1, n).Draw(t, "chance") != 1 }

func TestFixesAreSafeWhateverTheSourcesSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cluster, seen := drawn(t)
		requests := map[string]Fix{}
		findings := seen.compare(cluster)
		for _, f := range findings {
			state := seen.States[f.Node]
			switch {
			case f.Node == "stranger":
				t.Fatalf("what is not ours is named: %+v", f)
			case seen.busy.Nodes.Contains(f.Node):
				t.Fatalf("a request is at work on it: %+v", f)
			case f.Fix != None && !(len(seen.Missing) == 0):
				t.Fatalf("a fix, although a source is unreachable: %+v", f)
			case f.Fix != None && f.Node == cluster.Control.Name:
				t.Fatalf("a fix of the control node: %+v", f)
			case f.Fix == Suspend && seen.Instances[f.Node].ID != "" && state.Running():
				t.Fatalf("a job runs there: %+v", f)
			case f.Fix == Enlarge && seen.Instances[f.Node].ID != "" && (state.Usable() || state.Running()):
				t.Fatalf("a job runs or may start on it: %+v", f)
			case f.Fix == Suspend && cluster.Persistent().Contains(f.Node):
				t.Fatalf("a persistent node is not suspended: %+v", f)
			}
			if (f.Fix == Retire || f.Fix == Renew) && (!state.Usable() || state.Cloud() != (f.Fix == Retire)) {
				t.Fatalf("it is not in use, or this is not the way to renew it: %+v", f)
			}
			if f.Fix == HandBack &&
				(!cluster.Nodes().Contains(f.Node) || !state.Cloud() || !Abandoned(state) && !IsForgotten(state) || state.Running() || attended(state) ||
					seen.Instances[f.Node].ID != "") {
				t.Fatalf("it is not ours to hand back: %+v", f)
			}
			if f.Fix == Delete {
				mayGo(t, cluster, seen, f)
			}
			if _, ok := f.Fix.Mode(); ok {
				if was, twice := requests[f.Node]; twice {
					t.Fatalf("two requests for %s: %s and %s", f.Node, was, f.Fix)
				}
				requests[f.Node] = f.Fix
			}
		}
		for node, fix := range requests {
			if fix != Suspend {
				notDoubled(t, seen, node, findings)
			}
		}
	})
}

// mayGo checks that a server is not in use.
func mayGo(t *rapid.T, c reconfigure.Cluster, seen observation, f Finding) {
	i := slices.IndexFunc(seen.Servers[f.Node], func(s reconfigure.Server) bool { return s.ID == f.Server })
	state := seen.States[f.Node]
	switch {
	case i < 0, seen.Instances[f.Node].ID == f.Server:
		t.Fatalf("Terraform has it, or the cloud has not: %+v", f)
	case now.Sub(seen.Servers[f.Node][i].Created) < minAge:
		t.Fatalf("it is too young: %+v", f)
	case !c.Nodes().Contains(f.Node):
		t.Fatalf("it has no node's name: %+v", f)
	case state.Running() && (state.Address == seen.Servers[f.Node][i].Address || state.Address == f.Node):
		t.Fatalf("a job may run on it: %+v", f)
	}
}

// notDoubled checks that where an instance is made, all other instances of its name are removed.
func notDoubled(t *rapid.T, seen observation, node string, findings []Finding) {
	for _, s := range seen.Servers[node] {
		goes := slices.ContainsFunc(findings, func(f Finding) bool { return f.Server == s.ID && f.Fix == Delete })
		if s.ID != seen.Instances[node].ID && !goes {
			t.Fatalf("%s would have a second instance beside %s", node, s.ID)
		}
	}
}

func TestAHealthyClusterHasNoFindings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cluster := example()
		cluster.Groups[0].Min, cluster.Groups[0].Max = rapid.IntRange(0, 3).Draw(t, "min"), 8
		seen := healthy()
		for node := range cluster.Nodes().All() {
			seen.gone(node)
			kind, always := " CLOUD", cluster.Persistent().Contains(node)
			if always {
				kind = ""
			}
			switch way := rapid.IntRange(0, 4).Draw(t, "way"); {
			case always, way == 0:
				seen.has(node, "standard")
				seen.slurm(
					node,
					rapid.SampledFrom([]string{
						"IDLE", "MIXED", "ALLOCATED", "IDLE DRAIN", "DOWN", "ALLOCATED COMPLETING", "DOWN REBOOT_ISSUED",
					}).
						Draw(t, "state")+
						kind,
				)
				seen.reachedAt(node, rapid.SampledFrom([]string{node, "192.0.2.1"}).Draw(t, "address"))
			case way == 1:
				seen.slurm(node, "IDLE CLOUD POWERED_DOWN")
			case way == 2:
				seen.slurm(node, "ALLOCATED CLOUD POWERED_DOWN POWER_UP") // its ResumeProgram is about to be called
			case way == 3:
				seen.slurm(node, "IDLE CLOUD POWERING_DOWN") // its instance was removed before SuspendTimeout
			case way == 4:
				seen.slurm(node, "ALLOCATED CLOUD POWERING_UP")
				seen.busy.Nodes = seen.busy.Nodes.Union(nodeset.Of(node))
			}
		}
		if findings := seen.compare(cluster); len(findings) > 0 {
			t.Fatalf("%+v", findings)
		}
	})
}
