package campaign

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	_ "github.com/eiffel-hpc/eiffel/lab/sameseed"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// declared has the groups n, with nodes n1 to n6 of which two are persistent, and g, with g1 to g3.
func declared() reconfigure.Cluster {
	source := func(image string) reconfigure.Source {
		return reconfigure.Source{Image: image, Flavor: "small", Network: "net"}
	}
	return reconfigure.Cluster{
		Control: reconfigure.Control{Name: "ctl", Source: source("control")},
		Groups: []reconfigure.NodeGroup{
			{Name: "n", Prefix: "n", Width: 1, Source: source("new"), Min: 2, Max: 6},
			{Name: "g", Prefix: "g", Width: 1, Source: source("gpu"), Min: 3, Max: 3},
		},
	}
}

// facts has all nodes idle with the image "old"; every source answers.
func facts() Facts {
	c := declared()
	seen := snapshot.Snapshot{
		Time: noon, Desired: map[string]reconfigure.Spec{}, Instances: map[string]reconfigure.Instance{},
		States: map[string]reconfigure.NodeState{}, Sources: map[reconfigure.Source]reconfigure.Resolved{},
		Missing: map[snapshot.System]string{},
	}
	for _, g := range c.Groups {
		seen.Sources[g.Source] = reconfigure.Resolved{ImageID: g.Image, FlavorID: "small", NetworkID: "net"}
		for node := range g.Nodes().All() {
			seen.Instances[node] = reconfigure.Instance{Node: node, ID: "id-" + node}
			seen.Desired[node] = reconfigure.Spec{Group: g.Name, ImageID: "old", FlavorID: "small", NetworkID: "net"}
			seen.States[node] = reconfigure.SlurmNode(node, "IDLE")
		}
	}
	return Facts{Cluster: c, Seen: &seen, Outcomes: map[reconfigure.RequestID]reconfigure.Outcome{}}
}

// A stopped node is made anew when it is needed.
func TestStoppedNodesNeedNoCampaign(t *testing.T) {
	f := facts()
	for _, node := range []string{"n5", "n6"} {
		spec := f.Seen.Desired[node]
		spec.Power = reconfigure.PowerOff
		f.Seen.Desired[node] = spec
		f.Seen.States[node] = reconfigure.SlurmNode(node, "IDLE", "CLOUD", "POWERED_DOWN")
	}
	c := reconfigure.Campaign{Groups: []string{"n"}}
	if got := Outdated(c, f.Cluster, *f.Seen); got.String() != "n[1-4]" {
		t.Errorf("outdated are %s", got)
	}
}

// right makes nodes match the declaration.
func (f Facts) renew(nodes ...string) {
	for _, node := range nodes {
		g, _ := f.Cluster.GroupOf(node)
		f.Seen.Desired[node] = target(g, *f.Seen)
	}
}

func (f Facts) state(node, reason string, words ...string) {
	s := reconfigure.SlurmNode(node, words...)
	s.Reason, s.Busy = reason, slices.Contains(words, "ALLOCATED")
	f.Seen.States[node] = s
}

func started(t testing.TB, f Facts, change func(*reconfigure.Campaign)) reconfigure.Campaign {
	t.Helper()
	c := reconfigure.Campaign{ID: 1, Groups: []string{"n"}, CampaignLimits: reconfigure.CampaignLimits{
		Batch: 2, MaxUnavailable: 2, PauseOnFailures: 1, DrainTimeout: time.Hour,
	}}
	if change != nil {
		change(&c)
	}
	c, err := New(c, f.Cluster, *f.Seen)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func named(requests []reconfigure.Request) string {
	var all nodeset.NodeSet
	for _, r := range requests {
		all = all.Union(r.Nodes)
	}
	return all.String()
}

func TestWhichNodesAreNext(t *testing.T) {
	busy := func(f Facts) {
		for node := range f.Cluster.Groups[0].Nodes().All() {
			f.state(node, "", "ALLOCATED")
		}
	}
	type campaign = *reconfigure.Campaign
	for name, c := range map[string]struct {
		campaign func(campaign)
		facts    func(Facts)
		pending  []reconfigure.Request
		want     string
		state    reconfigure.CampaignState
		why      string
	}{
		"as many as a batch has":        {want: "n[1-2]"},
		"no more than may be away":      {campaign: func(c campaign) { c.MaxUnavailable = 1 }, want: "n1"},
		"a batch of all":                {campaign: func(c campaign) { c.Batch, c.MaxUnavailable = 9, 9 }, want: "n[1-6]"},
		"idle nodes first":              {facts: func(f Facts) { f.state("n1", "", "ALLOCATED") }, want: "n[2-3]"},
		"busy nodes where all are busy": {facts: busy, want: "n[1-2]"},
		"not those that are right":      {facts: func(f Facts) { f.renew("n1", "n3") }, want: "n[2,4]"},
		"not those that are powered down": {
			facts: func(f Facts) { f.state("n1", "", "IDLE", "POWERED_DOWN") }, want: "n[2-3]",
		},
		"not those that Slurm powers up": {
			facts: func(f Facts) { f.state("n1", "", "ALLOCATED", "POWERING_UP") }, want: "n[2-3]",
		},
		"a node that is down costs no one": {facts: func(f Facts) { f.state("n6", "broken", "DOWN") }, want: "n[1,6]"},
		"a foreign drain is left alone, and counts": {
			facts: func(f Facts) { f.state("n1", "disk", "IDLE", "DRAIN") }, want: "n2",
		},
		"as many are unavailable as allowed": {
			facts: func(f Facts) { f.state("n1", "disk", "IDLE", "DRAIN"); f.state("n2", "disk", "IDLE", "DRAIN") },
			why:   "Slurm cannot use n[1-2], and no more than 2 may be unavailable",
		},
		"nodes of another group are unavailable": {
			facts: func(f Facts) { f.state("g1", "disk", "DOWN"); f.state("g2", "disk", "DOWN") }, want: "n[1-2]",
		},
		"another request names nodes": {
			pending: []reconfigure.Request{{ID: 9, Mode: reconfigure.Suspend, Nodes: nodeset.Of("n1", "n3")}}, want: "n[2,4]",
		},
		"another update has nodes away": {
			pending: []reconfigure.Request{{ID: 9, Mode: reconfigure.Update, Nodes: nodeset.Of("n6")}}, want: "n1",
		},
		"a postponed node comes last": {
			campaign: func(c campaign) { c.Postponed = map[string]int{"n1": 1} }, want: "n[2-3]",
		},
		"Slurm does not answer": {
			facts: func(f Facts) { f.Seen.Missing[snapshot.Slurm] = "no route" }, why: "Slurm does not answer",
		},
		"Terraform's state cannot be read": {
			facts: func(f Facts) { f.Seen.Missing[snapshot.Terraform] = "locked" }, why: "Terraform does not answer",
		},
		"another image is declared by now": {
			facts: func(f Facts) {
				f.Seen.Sources[f.Cluster.Groups[0].Source] = reconfigure.Resolved{
					ImageID: "newer", FlavorID: "small", NetworkID: "net",
				}
			},
			state: reconfigure.CampaignPaused,
			why:   "the image of n has changed since it began: abort it, and start a new one",
		},
		"the cloud does not say what the image is": {
			facts: func(f Facts) {
				f.Seen.Sources[f.Cluster.Groups[0].Source] = reconfigure.Resolved{Err: "timeout"}
			},
			why: "the declared image, flavor or network of n cannot be resolved: timeout",
		},
		"all are right": {
			facts: func(f Facts) { f.renew("n1", "n2", "n3", "n4", "n5", "n6") }, state: reconfigure.CampaignDone,
		},
		"all others are right": {
			facts: func(f Facts) {
				f.renew("n1", "n2", "n3", "n4", "n5")
				f.state("n6", "disk", "IDLE", "DRAIN")
			},
			state: reconfigure.CampaignDone, why: "n6 stay as they are, since somebody else has drained them",
		},
		"all others are right, and the last one is powered up": {
			facts: func(f Facts) {
				f.renew("n1", "n2", "n3", "n4", "n5")
				f.state("n6", "", "ALLOCATED", "POWERING_UP")
			},
			why: "Slurm powers up or reboots n6, or other requests name them",
		},
		"paused":  {campaign: func(c campaign) { c.State = reconfigure.CampaignPaused }, state: reconfigure.CampaignPaused},
		"aborted": {campaign: func(c campaign) { c.State = reconfigure.CampaignAborted }, state: reconfigure.CampaignAborted},
	} {
		t.Run(name, func(t *testing.T) {
			f := facts()
			was := started(t, f, nil)
			if c.campaign != nil {
				c.campaign(&was)
			}
			if c.facts != nil {
				c.facts(f)
			}
			f.Pending = c.pending
			is, requests := Next(was, f)
			if got := named(requests); got != c.want {
				t.Errorf("next: %q, not %q", got, c.want)
			}
			if c.state == "" {
				c.state = reconfigure.CampaignRunning
			}
			if is.State != c.state || is.Why != c.why {
				t.Errorf("%s, %q; not %s, %q", is.State, is.Why, c.state, c.why)
			}
			for _, r := range requests {
				if r.Mode != reconfigure.Update || r.Campaign != 1 || r.DrainTimeout != time.Hour || r.Nodes.Len() != 1 {
					t.Errorf("request %+v", r)
				}
			}
		})
	}
}

// end gives each open request of a campaign this verdict.
func (f Facts) end(c reconfigure.Campaign, v reconfigure.Verdict) {
	for node, id := range c.Open {
		v.Node = node
		f.Outcomes[id] = reconfigure.Outcome{Request: id, Verdicts: []reconfigure.Verdict{v}}
	}
}

// submit numbers requests, as the journal does.
func submit(c reconfigure.Campaign, requests []reconfigure.Request, last *reconfigure.RequestID) reconfigure.Campaign {
	for _, r := range requests {
		*last++
		r.ID = *last
		c = c.Submitted(r)
	}
	return c
}

func TestOutcomesAreNoted(t *testing.T) {
	done := reconfigure.Verdict{Status: reconfigure.StatusDone}
	for name, c := range map[string]struct {
		outcome reconfigure.Verdict
		code    reconfigure.Code
		limit   int
		want    func(*reconfigure.Campaign)
	}{
		"done": {outcome: done, want: func(c *reconfigure.Campaign) { c.Done = nodeset.Of("n1") }},
		"unchanged": {
			outcome: reconfigure.Verdict{Status: reconfigure.StatusUnchanged}, want: func(*reconfigure.Campaign) {},
		},
		"its jobs did not end": {
			outcome: reconfigure.Verdict{Status: reconfigure.StatusRejected, Class: reconfigure.ClassBusy},
			want:    func(c *reconfigure.Campaign) { c.Postponed = map[string]int{"n1": 1} },
		},
		"cancelled": {
			code: reconfigure.CodeCancelled, want: func(c *reconfigure.Campaign) { c.Postponed = map[string]int{"n1": 1} },
		},
		"failed": {
			outcome: reconfigure.Verdict{Status: reconfigure.StatusFailed, Class: reconfigure.ClassSSH, Reason: "no answer"},
			limit:   1,
			want: func(c *reconfigure.Campaign) {
				c.Failed = map[string]string{"n1": "no-ssh: no answer"}
				c.State, c.Why = reconfigure.CampaignPaused, "1 of its nodes failed: n1: no-ssh: no answer"
			},
		},
		"failed, which is less than it takes": {
			outcome: reconfigure.Verdict{Status: reconfigure.StatusFailed, Reason: "no answer"}, limit: 2,
			want: func(c *reconfigure.Campaign) { c.Failed = map[string]string{"n1": "no answer"} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := facts()
			was := started(t, f, func(r *reconfigure.Campaign) { r.PauseOnFailures = max(c.limit, 1) })
			was.Open = map[string]reconfigure.RequestID{"n1": 5}
			c.outcome.Node = "n1"
			f.Outcomes[5] = reconfigure.Outcome{Request: 5, Code: c.code, Verdicts: []reconfigure.Verdict{c.outcome}}
			if c.outcome.Status == "" {
				f.Outcomes[5] = reconfigure.Outcome{Request: 5, Code: c.code}
			}
			f.Seen = nil
			want := was.Clone()
			want.Open = nil
			c.want(&want)
			is, requests := Next(was, f)
			if d := cmp.Diff(want, is, cmpopts.EquateEmpty()); d != "" || len(requests) > 0 {
				t.Errorf("submitted %v (-want +got):\n%s", requests, d)
			}
		})
	}
}

// passing brings the canary of a campaign to its test.
func passing(t *testing.T, f Facts, c reconfigure.Campaign) reconfigure.Campaign {
	t.Helper()
	c, requests := Next(c, f)
	if k, under := c.Under(); !under || k.Phase != reconfigure.CanaryReserve || c.Reserved == "" || len(requests) > 0 {
		t.Fatalf("it begins with %+v, %v", c, requests)
	}
	if again, requests := Next(c, f); cmp.Diff(c, again, cmpopts.EquateEmpty()) != "" || len(requests) > 0 {
		t.Fatalf("before it is reserved: %+v, %v", again, requests)
	}
	f.Test.Reserved = true
	c, requests = Next(c, f)
	if len(requests) != 1 {
		t.Fatalf("the canary is begun by %v", requests)
	}
	last := reconfigure.RequestID(c.Attempts * 10)
	c = submit(c, requests, &last)
	if again, requests := Next(c, f); cmp.Diff(c, again, cmpopts.EquateEmpty()) != "" || len(requests) > 0 {
		t.Fatalf("while the canary is updated: %+v, %v", again, requests)
	}
	f.end(c, reconfigure.Verdict{Status: reconfigure.StatusDone})
	f.renew(requests[0].Nodes.Names()...)
	c, requests = Next(c, f)
	if k, _ := c.Under(); k.Phase != reconfigure.CanaryTest || len(requests) > 0 {
		t.Fatalf("after its update: %+v, %v", c, requests)
	}
	return c
}

func TestACanaryComesFirst(t *testing.T) {
	f := facts()
	f.Tests = true
	c := passing(t, f, started(t, f, func(c *reconfigure.Campaign) { c.Canary = true }))
	if c, requests := Next(c, f); len(requests) > 0 || c.State != reconfigure.CampaignCanary {
		t.Fatalf("while it is tested: %+v, %v", c, requests)
	}
	f.Test.Ended = true
	c, requests := Next(c, f)
	if !c.Passed("n") || len(requests) > 0 {
		t.Fatalf("after the test: %+v, %v", c, requests)
	}
	if c, requests = Next(c, f); named(requests) != "n[2-3]" || c.State != reconfigure.CampaignRunning {
		t.Errorf("%s: next: %v", c.State, requests)
	}
}

func TestABadCanaryPausesTheCampaign(t *testing.T) {
	f := facts()
	f.Tests = true
	c := passing(t, f, started(t, f, func(c *reconfigure.Campaign) { c.Canary = true }))
	f.Test.Ended, f.Test.Failure = true, "job 7 has failed"
	c, requests := Next(c, f)
	if c.State != reconfigure.CampaignPaused || c.Why != "the canary n1 failed: job 7 has failed" || len(requests) > 0 {
		t.Fatalf("%+v, %v", c, requests)
	}
	if _, under := c.Under(); under {
		t.Error("the canary has not ended")
	}
	f.state("n1", "reconfigure: canary failed", "IDLE", "DRAIN")
	if c, requests := Next(c, f); c.State != reconfigure.CampaignPaused || len(requests) > 0 {
		t.Fatalf("paused: %+v, %v", c, requests)
	}
	c = Continue(c) // the same node is tried again, although it matches the declaration
	f.Test = Test{}
	if waits, requests := Next(c, f); len(waits.Canaries) > 1 || len(requests) > 0 {
		t.Fatalf("before the old reservation has ended: %+v, %v", waits, requests)
	}
	c.Reserved = ""
	c = passing(t, f, c)
	if k, _ := c.Under(); k.Node != "n1" || c.Reserved != "reconfigure_1_2" {
		t.Errorf("the next canary is %s, reserved as %s", k.Node, c.Reserved)
	}
}

func TestACanaryThatDoesNotComeUpPausesTheCampaign(t *testing.T) {
	f := facts()
	c := started(t, f, func(c *reconfigure.Campaign) { c.Canary, c.PauseOnFailures = true, 5 })
	c, requests := Next(c, f)
	if named(requests) != "n1" {
		t.Fatalf("next: %v", requests)
	}
	last := reconfigure.RequestID(0)
	c = submit(c, requests, &last)
	f.end(c, reconfigure.Verdict{Status: reconfigure.StatusFailed, Reason: "no SSH"})
	if c, requests = Next(c, f); c.State != reconfigure.CampaignPaused || len(requests) > 0 ||
		!strings.Contains(c.Why, "the canary n1 failed: no SSH") {
		t.Errorf("%+v, %v", c, requests)
	}
}

func TestEachGroupHasACanary(t *testing.T) {
	f := facts()
	c := started(t, f, func(c *reconfigure.Campaign) { c.Canary, c.Groups = true, []string{"n", "g"} })
	var last reconfigure.RequestID
	var order []string
	for range 40 {
		var requests []reconfigure.Request
		c, requests = Next(c, f)
		order = append(order, named(requests))
		c = submit(c, requests, &last)
		f.end(c, reconfigure.Verdict{Status: reconfigure.StatusDone})
		for node := range c.Open {
			f.renew(node)
		}
	}
	if order[0] != "n1" && order[0] != "g1" || !strings.HasSuffix(order[1], "1") || strings.Contains(order[1], ",") {
		t.Errorf("it begins with %q", order)
	}
	if c.State != reconfigure.CampaignDone || c.Done.Len() != 9 {
		t.Errorf("%+v", c)
	}
}

func TestWhatFailedIsTriedAgainWhenItContinues(t *testing.T) {
	f := facts()
	f.renew("n1", "n2", "n3", "n4", "n5", "n6")
	f.state("n4", "reconfigure: no SSH", "DOWN", "DRAIN")
	c := started(t, f, nil)
	c.State, c.Failed = reconfigure.CampaignPaused, map[string]string{"n4": "no SSH"}
	c, requests := Next(Continue(c), f)
	if named(requests) != "n4" || len(c.Failed) > 0 {
		t.Errorf("%+v: next: %v", c, requests)
	}
}

func TestTheNodesOfEachFormerImageAreKnown(t *testing.T) {
	f := facts()
	f.renew("n2")
	spec := f.Seen.Desired["n3"]
	spec.ImageID = "older"
	f.Seen.Desired["n3"] = spec
	delete(f.Seen.Instances, "n6")
	c := started(t, f, nil)
	want := map[string]map[string]nodeset.NodeSet{"n": {"old": nodeset.Of("n1", "n4", "n5"), "older": nodeset.Of("n3")}}
	if d := cmp.Diff(want, c.Former); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestTheLimitsHold runs campaigns with random nodes and outcomes.
func TestTheLimitsHold(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := facts()
		number := func(name string, least, most int) int { return rapid.IntRange(least, most).Draw(rt, name) }
		c := started(t, f, func(c *reconfigure.Campaign) {
			c.Batch, c.MaxUnavailable, c.PauseOnFailures = number("batch", 1, 4), number("away", 1, 4), number("pause", 1, 3)
			c.Canary = rapid.Bool().Draw(rt, "canary")
		})
		f.Tests = c.Canary && rapid.Bool().Draw(rt, "tests")
		var last reconfigure.RequestID
		for range number("steps", 1, 40) {
			play(rt, f, c)
			f.Test = Test{Reserved: rapid.Bool().Draw(rt, "reserved"), Ended: rapid.Bool().Draw(rt, "ended")}
			if f.Test.Ended && rapid.Bool().Draw(rt, "bad") {
				f.Test.Failure = "bad"
			}
			is, requests := Next(c, f)
			if d := cmp.Diff(fmt.Sprint(is, requests), fmt.Sprint(Next(c, f))); d != "" {
				rt.Fatalf("Next is not pure: %s", d)
			}
			check(rt, f, c, is, requests)
			c = submit(is, requests, &last)
			if _, under := c.Under(); !under {
				c.Reserved = ""
			}
			if c.State == reconfigure.CampaignPaused && rapid.Bool().Draw(rt, "continue") {
				c = Continue(c)
			}
		}
	})
}

// play changes a node, or an open request.
func play(rt *rapid.T, f Facts, c reconfigure.Campaign) {
	node := rapid.SampledFrom(f.Cluster.Groups[0].Nodes().Names()).Draw(rt, "node")
	switch words := rapid.SampledFrom([]string{
		"IDLE", "ALLOCATED", "DOWN", "IDLE DRAIN", "IDLE DRAIN ours", "IDLE POWERED_DOWN", "ALLOCATED POWERING_UP", "right",
	}).Draw(rt, "becomes"); words {
	case "right":
		f.renew(node)
	case "IDLE DRAIN ours":
		f.state(node, "reconfigure: update", "IDLE", "DRAIN")
	default:
		f.state(node, "disk", strings.Fields(words)...)
	}
	for node, id := range c.Open {
		v := rapid.SampledFrom([]reconfigure.Verdict{
			{}, {Status: reconfigure.StatusDone}, {Status: reconfigure.StatusUnchanged},
			{Status: reconfigure.StatusFailed, Reason: "no SSH"},
			{Status: reconfigure.StatusRejected, Class: reconfigure.ClassBusy},
		}).Draw(rt, "outcome")
		if v.Node = node; v.Status != "" {
			f.Outcomes[id] = reconfigure.Outcome{Request: id, Verdicts: []reconfigure.Verdict{v}}
		}
		if v.Status == reconfigure.StatusDone {
			f.renew(node)
		}
	}
}

// check checks the contract of Next.
func check(rt *rapid.T, f Facts, was, is reconfigure.Campaign, requests []reconfigure.Request) {
	if len(requests) > 0 && !is.Active() {
		rt.Fatalf("it is %s, and begins %v", is.State, requests)
	}
	if len(is.Open)+len(requests) > max(is.Batch, len(is.Open)) {
		rt.Fatalf("%d are open, and %d begin", len(is.Open), len(requests))
	}
	away, more := 0, 0
	for node := range f.Cluster.Groups[0].Nodes().All() {
		_, open := is.Open[node]
		s := f.Seen.States[node]
		if open || !s.Usable() && !s.HasAny(
			reconfigure.NodePoweredDown|reconfigure.NodePoweringDown|reconfigure.NodePoweringUp) {
			away++
		} else if strings.Contains(","+strings.Join(names(requests), ",")+",", ","+node+",") {
			more++
		}
	}
	if more > 0 && away+more > is.MaxUnavailable {
		rt.Fatalf("%d nodes are unavailable, and %d more begin", away, more)
	}
	for _, node := range names(requests) {
		s := f.Seen.States[node]
		g, _ := f.Cluster.GroupOf(node)
		_, failed := is.Failed[node]
		_, open := is.Open[node]
		again := is.Again.Contains(node)
		canary, under := is.Under()
		switch {
		case len(f.Seen.Outdated(f.Cluster, node)) == 0 && !again:
			rt.Fatalf("%s is right, and begins", node)
		case g.Name != "n", failed, open, s.ForeignDrain(), s.PoweredDown():
			rt.Fatalf("%s begins", node)
		case !is.Passed(g.Name) && (!under || canary.Node != node || len(requests) > 1):
			rt.Fatalf("%s begins before the canary", node)
		}
	}
}

func names(requests []reconfigure.Request) (all []string) {
	for _, r := range requests {
		all = append(all, r.Nodes.Names()...)
	}
	return all
}
