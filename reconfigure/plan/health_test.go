package plan_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/plan"
)

// drawAiling draws a world in which some groups have failures, some partitions are all or nothing, and jobs wait. Most
// requests are Slurm's, for nodes without an instance.
func drawAiling(t *rapid.T) world {
	w := drawWorld(t)
	w.cluster.Settings = reconfigure.Settings{CoolDown: 2 * time.Minute,
		Breaker: rapid.IntRange(0, 3).Draw(t, "breaker")}
	w.cluster.Slurm.ResumeTimeout = 10 * time.Minute
	w.seen.Time = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w.seen.Health = map[string]reconfigure.Health{}
	ago := func() time.Time {
		return w.seen.Time.Add(-time.Duration(rapid.IntRange(0, 12).Draw(t, "minutes ago")) * time.Minute)
	}
	w.seen.Instances["ctl"] = reconfigure.Instance{Node: "ctl", ID: "id-ctl"}
	for _, image := range []string{"c", "v1", "v2"} {
		w.seen.Sources[source(image)] = reconfigure.Resolved{ImageID: image, FlavorID: "f", NetworkID: "n"}
	}
	for node := range w.cluster.Nodes().All() {
		if rapid.IntRange(0, 3).Draw(t, "there") > 0 {
			delete(w.seen.Instances, node)
		}
	}
	var names []string
	for _, g := range w.cluster.Groups {
		names = append(names, g.Name)
		h := reconfigure.Health{Group: g.Name, Failures: rapid.IntRange(0, 4).Draw(t, "failures"),
			Last: reconfigure.Setback{Class: reconfigure.ClassSSH}}
		if rapid.Bool().Draw(t, "full") {
			h.Full = reconfigure.Setback{Class: reconfigure.ClassQuota, Time: ago()}
		}
		if rapid.Bool().Draw(t, "probed") {
			h = h.Trying(g.Node(rapid.IntRange(1, g.Max).Draw(t, "probe")), ago())
		}
		w.seen.Health[g.Name] = h
	}
	for _, name := range []string{"one", "other"} {
		w.cluster.Partitions = append(w.cluster.Partitions, reconfigure.Partition{
			Name: name, Groups: rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, len(names), rapid.ID).
				Draw(t, "groups"),
			AllOrNothing: rapid.IntRange(0, 3).Draw(t, "all or nothing") > 0,
		})
	}
	for i := range w.requests {
		r := &w.requests[i]
		if rapid.IntRange(0, 3).Draw(t, "Slurm asks") > 0 {
			*r = reconfigure.Request{ID: r.ID, Mode: reconfigure.Resume,
				Nodes: nodeset.Of(rapid.SliceOfN(rapid.SampledFrom(w.cluster.Nodes().Names()), 1, 5).
					Draw(t, "nodes")...)}
		}
		if r.Mode != reconfigure.Resume {
			continue
		}
		r.Insist = rapid.IntRange(0, 3).Draw(t, "insist") == 0
		for range rapid.IntRange(1, 2).Draw(t, "jobs") {
			r.Jobs = append(r.Jobs, reconfigure.Job{
				ID: int64(rapid.IntRange(1, 3).Draw(t, "job")), Nodes: r.Nodes,
				Partition: rapid.SampledFrom([]string{"", "one", "other"}).Draw(t, "partition"),
			})
		}
	}
	return w
}

// forSlurm reports whether a change is only for requests of Slurm's.
func (w world) forSlurm(c reconfigure.Change) bool {
	return !slices.ContainsFunc(c.Requests, func(id reconfigure.RequestID) bool {
		return w.requests[id-1].Mode != reconfigure.Resume || w.requests[id-1].Insist
	})
}

// Because of its health, a group loses only new cloud nodes that only Slurm asks for. Nothing else in the plan changes.
func TestHealthRejectsOnlyNewNodesForSlurm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawAiling(t)
		p := plan.Compute(w.cluster, w.seen, w.requests)
		well := w.seen
		well.Health = nil
		for _, c := range plan.Compute(w.cluster, well, w.requests).Changes {
			is, kept := p.Of(c.Node)
			if kept && is.Probe {
				c.Probe, c.Reason = is.Probe, is.Reason
			}
			switch diff := cmp.Diff(c, is); {
			case kept && diff == "":
			case kept:
				t.Fatalf("another change than without (-without +with):\n%s", diff)
			case c.Action != reconfigure.Create || !w.forSlurm(c) || w.cluster.Persistent().Contains(c.Node):
				t.Fatalf("%+v is refused", c)
			}
			for _, id := range c.Requests {
				if !kept && !slices.ContainsFunc(p.Rejected, func(r reconfigure.Rejection) bool {
					return r.Node == c.Node && r.Request == id && r.Awaited && r.Class != "" && r.Reason != ""
				}) {
					t.Fatalf("request %s has no rejection of %s: %+v", id, c.Node, p.Rejected)
				}
			}
			was, had := w.seen.Desired[c.Node]
			if now, has := p.Desired[c.Node]; !kept && (now != was || has != had) {
				t.Fatalf("%s is rejected, and its entry in the map is %+v instead of %+v", c.Node, now, was)
			}
		}
	})
}

// A group that cools down gets no new node for Slurm; one with an open breaker gets exactly one at a time.
func TestOneNodeAtATimeIsTried(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawAiling(t)
		p := plan.Compute(w.cluster, w.seen, w.requests)
		for _, g := range w.cluster.Groups {
			h := w.seen.Health[g.Name]
			_, cools := plan.CoolsDown(h, w.seen.Time, w.cluster.Settings)
			tried := p.Where(func(c reconfigure.Change) bool {
				return c.Action == reconfigure.Create && w.forSlurm(c) &&
					g.Nodes().Difference(g.Persistent()).Contains(c.Node)
			})
			for node := range tried.All() {
				if cools {
					t.Fatalf("%s is made although the group cools down", node)
				}
			}
			if !plan.Broken(h, w.cluster.Settings) {
				continue
			}
			probing := plan.Probing(h, w.seen.Time, w.cluster.Slurm)
			if tried.Len() > 1 || probing != "" && !nodeset.Of(probing).Union(tried).Equal(nodeset.Of(probing)) {
				t.Fatalf("%s are tried beside %q", tried, probing)
			}
			broken := slices.ContainsFunc(p.Rejected,
				func(r reconfigure.Rejection) bool { return g.Nodes().Contains(r.Node) && r.Class == h.Last.Class })
			if broken && probing == "" && tried.Empty() {
				t.Fatalf("nothing of group %s is tried: %+v", g.Name, p.Rejected)
			}
		}
	})
}

// No node is made only for jobs that get all of their nodes or none, and lack another node.
func TestNoNodeIsMadeForAJobThatCannotBegin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawAiling(t)
		p := plan.Compute(w.cluster, w.seen, w.requests)
		well := w.seen
		well.Health = nil
		refused := plan.Compute(w.cluster, well, w.requests).Nodes().Difference(p.Nodes())
		lost := func(j reconfigure.Job) bool {
			return w.cluster.AllOrNothing(j) && !j.Nodes.Intersect(refused).Empty()
		}
		for _, c := range p.Changes {
			needs := slices.DeleteFunc(reconfigure.Merged(p.Jobs),
				func(j reconfigure.Job) bool { return !j.Nodes.Contains(c.Node) })
			idle := c.ForJobs && len(needs) > 0 &&
				!slices.ContainsFunc(needs, func(j reconfigure.Job) bool { return !lost(j) })
			if c.Action == reconfigure.Create && idle && !c.Probe && !w.cluster.Persistent().Contains(c.Node) {
				t.Fatalf("%+v is made for %+v, which do not get %s", c, needs, refused)
			}
		}
	})
}
