package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "github.com/eiffel-hpc/eiffel/lab/sameseed"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/plan"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// world is a generated declaration, snapshot and requests.
type world struct {
	cluster  reconfigure.Cluster
	seen     snapshot.Snapshot
	requests []reconfigure.Request
}

var slurmStates = []string{
	"IDLE", "MIXED", "ALLOCATED", "DOWN", "IDLE+CLOUD", "IDLE+CLOUD+POWERED_DOWN", "IDLE+CLOUD+POWERING_DOWN",
	"ALLOCATED+CLOUD+POWERING_UP", "DOWN+CLOUD+POWERED_DOWN", "IDLE+NOT_RESPONDING", "IDLE+DRAIN+INVALID_REG",
	"IDLE+DRAIN", "ALLOCATED+DRAIN", "DOWN+REBOOT_ISSUED", "ALLOCATED+REBOOT_ISSUED",
}

var modes = []reconfigure.Mode{
	reconfigure.Resume, reconfigure.Suspend, reconfigure.Deploy, reconfigure.Update, reconfigure.Enlarge,
	reconfigure.Shrink, reconfigure.Resize, reconfigure.MakeImage,
}

func resizes(r reconfigure.Request) bool {
	return r.Mode == reconfigure.Enlarge || r.Mode == reconfigure.Shrink || r.Mode == reconfigure.Resize
}

func drawWorld(t *rapid.T) world {
	w := world{cluster: reconfigure.Cluster{Control: reconfigure.Control{Name: "ctl", Source: source("c")}}}
	for i := range rapid.IntRange(1, 3).Draw(t, "groups") {
		most := rapid.IntRange(1, 6).Draw(t, "max")
		w.cluster.Groups = append(w.cluster.Groups, reconfigure.NodeGroup{
			Name: fmt.Sprint("group", i), Prefix: string(rune('a' + i)), Width: 1,
			Source: source(rapid.SampledFrom([]string{"v1", "v2"}).Draw(t, "image")), Max: most,
			Min: rapid.IntRange(0, most).Draw(t, "min"), MaxStopped: rapid.IntRange(0, most).Draw(t, "most stopped"),
			WhenIdle: rapid.SampledFrom([]reconfigure.WhenIdle{
				reconfigure.IdleDelete, reconfigure.IdleStop, reconfigure.IdleShelve,
			}).Draw(t, "when idle"),
		})
	}
	w.cluster.Slurm.ResumeTimeout = rapid.SampledFrom([]time.Duration{0, 5 * time.Minute, time.Hour}).
		Draw(t, "resume timeout")
	w.cluster.Settings.Retries = rapid.IntRange(0, 2).Draw(t, "retries")
	w.seen = drawObservation(t, w.cluster)
	names := w.cluster.Nodes().Names()
	names = append(names, "stranger1", "a7")
	for i := range rapid.IntRange(1, 4).Draw(t, "requests") {
		r := reconfigure.Request{ID: reconfigure.RequestID(i + 1), Mode: rapid.SampledFrom(modes).Draw(t, "mode")}
		if r.Mode != reconfigure.Deploy {
			r.Nodes = nodeset.Of(rapid.SliceOfN(rapid.SampledFrom(names), 1, 5).Draw(t, "nodes")...)
		}
		if r.Mode == reconfigure.Update {
			r.Options = drawOptions(t)
			r.Deferred = drawDeferred(t, r.ID)
		}
		if r.Mode == reconfigure.MakeImage {
			r.Image, r.Touched = "fresh", rapid.Bool().Draw(t, "touched")
			r.Deferred = drawDeferred(t, r.ID)
		}
		if r.Mode == reconfigure.Shrink || r.Mode == reconfigure.Resize {
			r.DrainTimeout = rapid.SampledFrom([]time.Duration{time.Minute, time.Hour}).Draw(t, "drain timeout")
			r.Deferred = drawDeferred(t, r.ID)
		}
		w.requests = append(w.requests, r)
	}
	return w
}

// drawDeferred draws whether the previous plan deferred the request.
func drawDeferred(t *rapid.T, id reconfigure.RequestID) []reconfigure.Deferral {
	if !rapid.Bool().Draw(t, "deferred") {
		return nil
	}
	return []reconfigure.Deferral{{Request: id, Kind: reconfigure.WaitsForJobs}}
}

func drawOptions(t *rapid.T) reconfigure.Options {
	return reconfigure.Options{
		Image:        rapid.SampledFrom([]string{"", "", "v1", "v2"}).Draw(t, "other image"),
		Reimage:      rapid.IntRange(0, 3).Draw(t, "reimage") == 0,
		FromSlurm:    rapid.Bool().Draw(t, "from Slurm"),
		DrainTimeout: rapid.SampledFrom([]time.Duration{time.Minute, time.Hour}).Draw(t, "drain timeout"),
	}
}

func drawObservation(t *rapid.T, c reconfigure.Cluster) snapshot.Snapshot {
	seen := snapshot.Snapshot{
		Desired: map[string]reconfigure.Spec{}, Instances: map[string]reconfigure.Instance{},
		States:  map[string]reconfigure.NodeState{},
		Time:    time.Time{}.Add(10 * time.Minute), // requests are as old as that
		Sources: map[reconfigure.Source]reconfigure.Resolved{}, Missing: map[snapshot.System]string{},
	}
	answers := rapid.Bool().Draw(t, "slurm answers")
	if !answers {
		seen.Missing[snapshot.Slurm] = "no route to host"
	}
	for _, image := range []string{"c", "v1", "v2"} {
		broken := rapid.SampledFrom([]string{"", "", "", "missing"}).Draw(t, "broken")
		seen.Sources[source(image)] = reconfigure.Resolved{ImageID: image, FlavorID: "f", NetworkID: "n", Err: broken,
			Class: class(broken)}
	}
	for _, node := range append(c.Nodes().Names(), c.Control.Name, "a7") {
		group := reconfigure.ControlGroup
		if g, ok := c.GroupOf(node); ok {
			group = g.Name
		}
		if rapid.Bool().Draw(t, "instance") {
			seen.Instances[node] = reconfigure.Instance{Node: node, ID: "id-" + node,
				Tainted: rapid.IntRange(0, 4).Draw(t, "tainted") == 0}
		}
		if rapid.Bool().Draw(t, "desired") {
			seen.Desired[node] = reconfigure.Spec{Group: group,
				ImageID: rapid.SampledFrom([]string{"v1", "v2"}).Draw(t, "image"), FlavorID: "f", NetworkID: "n",
				Power: rapid.SampledFrom([]reconfigure.Power{"", "", "", reconfigure.PowerOff, reconfigure.Shelved}).
					Draw(t, "power"),
			}
		}
		if answers && node != c.Control.Name && (node != "a7" || rapid.Bool().Draw(t, "Slurm knows it")) {
			s := reconfigure.SlurmNode(node, strings.Split(rapid.SampledFrom(slurmStates).Draw(t, "state"), "+")...)
			s.Busy = s.HasAny(reconfigure.NodeAllocated | reconfigure.NodeMixed)
			s.Reason = rapid.SampledFrom([]string{"", "reconfigure: update", "reconfigure: shrink", "disk is full",
				"reimage", "reimage image=v1"}).Draw(t, "reason")
			s.Returns = s.Rebooting() && rapid.Bool().Draw(t, "returns")
			seen.States[node] = s
		}
	}
	return seen
}

// become returns the snapshot after all changes of a plan succeeded.
func (w world) become(p reconfigure.Plan) snapshot.Snapshot {
	after := w.seen
	after.Desired = p.Desired
	after.Instances, after.States = map[string]reconfigure.Instance{}, map[string]reconfigure.NodeState{}
	for node, i := range w.seen.Instances {
		after.Instances[node] = i
	}
	for node, s := range w.seen.States {
		after.States[node] = s
	}
	for _, c := range p.Changes {
		action := c.Action
		if action == reconfigure.Capture && c.HandOver {
			action = reconfigure.Remove
		}
		switch action {
		case reconfigure.Remove:
			delete(after.Instances, c.Node)
			after.States[c.Node] = reconfigure.NodeState{Node: c.Node,
				Flags: reconfigure.NodeIdle | reconfigure.NodeCloud | reconfigure.NodePoweredDown}
		case reconfigure.Stop:
			after.States[c.Node] = reconfigure.NodeState{Node: c.Node,
				Flags: reconfigure.NodeIdle | reconfigure.NodeCloud | reconfigure.NodePoweredDown}
		case reconfigure.Drain, reconfigure.Undrain:
			state := after.States[c.Node]
			state.Flags &^= reconfigure.NodeDrain
			state.Reason = ""
			if c.Action == reconfigure.Drain {
				state.Flags |= reconfigure.NodeDrain
				state.Reason = "reconfigure: update"
			}
			after.States[c.Node] = state
		case reconfigure.Configure: // it keeps its instance and its jobs
			state := after.States[c.Node]
			if p.Everywhere && w.cluster.Persistent().Contains(c.Node) {
				state.Flags &^= reconfigure.NodeCloud
			}
			after.States[c.Node] = state
		default:
			after.Instances[c.Node] = reconfigure.Instance{Node: c.Node, ID: "id-" + c.Node}
			kind := after.States[c.Node].Flags & reconfigure.NodeCloud
			after.States[c.Node] = reconfigure.NodeState{Node: c.Node, Flags: kind | reconfigure.NodeIdle,
				Boot: w.seen.Time}
		}
	}
	if p.Everywhere && w.seen.Answers(snapshot.Slurm) {
		w.reread(after)
	}
	return after
}

// reread changes the states as if Slurm had read slurm.conf for the declaration.
func (w world) reread(after snapshot.Snapshot) {
	for node := range after.States {
		if !w.cluster.Nodes().Contains(node) && node != "ctl" {
			delete(after.States, node)
		}
	}
	for node := range w.cluster.Nodes().All() {
		state, known := after.States[node]
		state.Node = node
		state.Flags &^= reconfigure.NodeCloud
		if !known {
			state.Flags = reconfigure.NodeIdle | reconfigure.NodePoweredDown
		}
		if !w.cluster.Persistent().Contains(node) {
			state.Flags |= reconfigure.NodeCloud
		}
		after.States[node] = state
	}
}

// When Slurm reads a slurm.conf without a node, it ends the jobs on it.
func TestSlurmForgetsNoJob(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		p := plan.Compute(w.cluster, w.seen, w.requests)
		_, there := w.seen.Instances["a7"]
		if state := w.seen.States["a7"]; p.Everywhere && there && (state.Running() || state.Usable()) {
			t.Fatalf("%v makes Slurm forget %+v", p, state)
		}
	})
}

func TestNothingOutsideDeclaredGroups(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		known := w.cluster.Nodes().Union(nodeset.Of(w.cluster.Control.Name, "a7"))
		if strange := plan.Compute(w.cluster, w.seen, w.requests).Nodes().Difference(known); !strange.Empty() {
			t.Fatalf("the plan changes %s, which is not declared", strange)
		}
	})
}

func TestPersistentNodesAreNeverRemoved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		p := plan.Compute(w.cluster, w.seen, w.requests)
		stay := w.cluster.Persistent().Union(nodeset.Of("ctl"))
		if lost := p.Nodes(reconfigure.Remove).Intersect(stay); !lost.Empty() {
			t.Fatalf("the plan removes %s", lost)
		}
	})
}

func TestEveryChangeNamesARequestThatAskedForIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		for _, c := range plan.Compute(w.cluster, w.seen, w.requests).Changes {
			if len(c.Requests) == 0 || c.Reason == "" {
				t.Fatalf("%+v has no request or no reason", c)
			}
			for _, id := range c.Requests {
				if r := w.requests[id-1]; r.Mode != reconfigure.Deploy && !r.Nodes.Contains(c.Node) &&
					!(resizes(r) && c.Node == "ctl") {
					t.Fatalf("%+v is said to be for %+v, which does not name the node", c, r)
				}
			}
		}
	})
}

// A stopped instance can be started unchanged: it is finished, belongs to a cloud node, and differs from its entry only
// in the power state.
func TestWhatIsStoppedIsFinishedAndWithinTheMaximum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		p := plan.Compute(w.cluster, w.seen, w.requests)
		for _, c := range p.Changes {
			i, there := w.seen.Instances[c.Node]
			was, is := w.seen.Desired[c.Node], p.Desired[c.Node]
			g, _ := w.cluster.GroupOf(c.Node)
			switch {
			case c.Action == reconfigure.Start && (is.Stopped() || !was.Stopped() || was.Running() != is):
				t.Fatalf("%+v starts %+v", c, was)
			case c.Action == reconfigure.Start && (!there || i.Tainted || i.ID == ""):
				t.Fatalf("%+v starts %+v", c, i)
			case c.Action == reconfigure.Stop && (!is.Stopped() || was.Running() != is.Running()):
				t.Fatalf("%+v stops %+v", c, was)
			case c.Action == reconfigure.Stop && (!there || i.Tainted || w.cluster.Persistent().Contains(c.Node)):
				t.Fatalf("%+v stops %+v", c, i)
			case c.Action == reconfigure.Stop && !was.Stopped() && stopped(g, p.Desired) > g.MaxStopped:
				t.Fatalf("%+v, but %d nodes are stopped", c, stopped(g, p.Desired))
			case c.Action == reconfigure.Adopt && is != was.Running():
				t.Fatalf("%+v adopts %+v", c, was)
			case !c.Action.Provisions() && is != was && c.Action != reconfigure.Capture && c.Action != reconfigure.Adopt:
				t.Fatalf("%+v changes the entry %+v", c, was)
			}
		}
	})
}

func stopped(g reconfigure.NodeGroup, nodes map[string]reconfigure.Spec) int {
	return g.Nodes().Where(func(node string) bool { return nodes[node].Stopped() }).Len()
}

func TestNoJobIsEndangered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		for _, c := range plan.Compute(w.cluster, w.seen, w.requests).Changes {
			i, there := w.seen.Instances[c.Node]
			disturbs := c.Action == reconfigure.Replace || c.Action == reconfigure.Remove ||
				c.Action == reconfigure.Reboot || c.Action == reconfigure.Capture || c.Action == reconfigure.Stop
			if !disturbs || !there {
				continue
			}
			if !w.seen.Answers(snapshot.Slurm) && !i.Tainted || w.seen.States[c.Node].Running() {
				t.Fatalf("%+v although Slurm has the node as %+v (answers: %v)", c, w.seen.States[c.Node],
					w.seen.Answers(snapshot.Slurm))
			}
		}
	})
}

func TestOnlyChangedNodesChangeInTheMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		p := plan.Compute(w.cluster, w.seen, w.requests)
		changed := p.Provisioned().Union(p.Nodes(reconfigure.Adopt, reconfigure.Capture))
		for _, node := range append(w.cluster.Nodes().Names(), "ctl") {
			was, had := w.seen.Desired[node]
			is, has := p.Desired[node]
			if !changed.Contains(node) && (was != is || had != has) {
				t.Fatalf("the map changes for %s, which the plan does not name", node)
			}
		}
	})
}

func TestTheNextPlanIsEmpty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		w.seen.Missing = nil
		p := plan.Compute(w.cluster, w.seen, w.requests)
		next := plan.Compute(w.cluster, w.become(p), w.requests)
		for _, c := range next.Changes {
			// A deploy always runs the playbooks, and a suspend always stops: both are idempotent. A reimage makes a new
			// instance each time. What was rejected for a conflict, or deferred, may be planned the next time. So is an
			// image, which the planner does not see.
			again := slices.ContainsFunc(c.Requests,
				func(id reconfigure.RequestID) bool {
					return w.requests[id-1].Reimage || w.requests[id-1].Mode == reconfigure.MakeImage
				})
			idempotent := c.Action == reconfigure.Configure || c.Action == reconfigure.Stop
			if !idempotent && !rejected(p, c.Node) && !again && !waited(p, c.Node) && !w.contested(c.Node) {
				t.Fatalf("after %v the same requests still want %+v", p, c)
			}
		}
	})
}

func TestPlanningTogetherIsPlanningOneAfterAnother(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		together := plan.Compute(w.cluster, w.seen, w.requests)
		if len(together.Rejected)+len(together.Deferred) > 0 || slices.ContainsFunc(w.requests, different) {
			return // the controller plans conflicting requests one after the other
		}
		one := w
		for _, r := range w.requests {
			p := plan.Compute(one.cluster, one.seen, []reconfigure.Request{r})
			one.seen = one.become(p)
		}
		for _, node := range w.cluster.Nodes().Names() {
			if together.Desired[node] != one.seen.Desired[node] {
				t.Fatalf("%s: together %+v, one after another %+v", node, together.Desired[node],
					one.seen.Desired[node])
			}
		}
	})
}

// contested reports whether an update or a resize and another request name a node: the controller plans those one after
// the other, too.
func (w world) contested(node string) bool {
	named, choosy := 0, false
	for _, r := range w.requests {
		if r.Nodes.Contains(node) || r.Mode == reconfigure.Deploy {
			named++
			choosy = choosy || r.Mode == reconfigure.Update || resizes(r)
		}
	}
	return named > 1 && choosy
}

// different reports whether a request has options, so that it may conflict with another one of its mode: the controller
// plans those one after the other.
func different(r reconfigure.Request) bool { return r.Options != reconfigure.Options{} }

func TestOnlyOurDrainsEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		for _, c := range plan.Compute(w.cluster, w.seen, w.requests).Changes {
			state := w.seen.States[c.Node]
			stale := state.Ours() || c.Undrain && state.Rebooting() && state.Returns
			if (c.Undrain || c.Action == reconfigure.Undrain) && (!state.Drained() || !stale) {
				t.Fatalf("%+v although Slurm has the node as %+v", c, state)
			}
			if c.Action == reconfigure.Drain && state.Drained() {
				t.Fatalf("%+v would replace the drain %+v", c, state)
			}
		}
	})
}

// Each request gets an outcome: when the jobs have ended, none of its nodes is deferred.
func TestNoNodeIsDeferredAfterItsJobs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		w.seen.Missing = nil
		p := plan.Compute(w.cluster, w.seen, w.requests)
		if next := plan.Compute(w.cluster, plan.AfterDrain(w.become(p), p), w.requests); len(next.Deferred) > 0 {
			for _, wait := range next.Deferred {
				if wasWaiting(p, wait) {
					t.Fatalf("%+v although its jobs have ended", wait)
				}
			}
		}
	})
}

func waited(p reconfigure.Plan, node string) bool {
	return slices.ContainsFunc(p.Deferred, func(w reconfigure.Deferral) bool { return w.Node == node })
}

func wasWaiting(p reconfigure.Plan, wait reconfigure.Deferral) bool {
	return slices.Contains(p.Deferred, wait)
}

func rejected(p reconfigure.Plan, node string) bool {
	for _, r := range p.Rejected {
		if r.Node == node {
			return true
		}
	}
	return false
}
