// Package campaign decides which outdated nodes of a cluster are updated next, and when a campaign pauses or ends.
// Next is a pure function; Runner gathers its facts and stores its decisions. The package changes no node itself: it
// submits ordinary update requests, each for one node.
package campaign

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// Facts are the facts on which Next decides.
type Facts struct {
	Cluster  reconfigure.Cluster
	Seen     *snapshot.Snapshot                            // nil: no snapshot was taken, and no node is begun
	Pending  []reconfigure.Request                         // all requests without an outcome
	Outcomes map[reconfigure.RequestID]reconfigure.Outcome // the outcomes of the campaign's open requests
	// Tests reports whether the site has a test job.
	Tests bool
	Test  Test
}

// Test is the progress of the current canary's test.
type Test struct {
	Reserved bool // Slurm keeps the node free for it
	Ended    bool
	Failure  string // why it failed; empty: it has not
}

// New returns a campaign for the outdated nodes of groups. The groups must be declared, and the snapshot must have
// their declared sources. It returns an error if a source is unknown.
func New(
	c reconfigure.Campaign, cluster reconfigure.Cluster, seen snapshot.Snapshot,
) (reconfigure.Campaign, error) {
	c.Targets, c.Former = map[string]reconfigure.Spec{}, map[string]map[string]nodeset.NodeSet{}
	for _, name := range c.Groups {
		g, err := reconfigure.GroupNamed(cluster.Groups, name)
		if err != nil {
			return c, err
		}
		if why := seen.Sources[g.Source].Err; why != "" {
			return c, fmt.Errorf("the declared image, flavor or network of %s cannot be resolved: %s", name, why)
		}
		c.Targets[name] = target(g, seen)
		former := map[string]nodeset.NodeSet{}
		for node := range outdated(cluster, seen, g).All() {
			id := seen.Desired[node].ImageID
			former[id] = former[id].Union(nodeset.Of(node))
		}
		c.Former[name] = former
	}
	c.State = starting(c)
	return c, nil
}

// Outdated returns the nodes of a campaign that differ from the declaration. A stopped node is not included: it is
// made anew when it is needed.
func Outdated(c reconfigure.Campaign, cluster reconfigure.Cluster, seen snapshot.Snapshot) nodeset.NodeSet {
	var all nodeset.NodeSet
	for _, g := range groups(c, cluster) {
		all = all.Union(outdated(cluster, seen, g))
	}
	return all
}

func outdated(cluster reconfigure.Cluster, seen snapshot.Snapshot, g reconfigure.NodeGroup) nodeset.NodeSet {
	return g.Nodes().Where(func(node string) bool {
		return len(seen.Outdated(cluster, node)) > 0 && !seen.Desired[node].Stopped()
	})
}

// groups returns the declared groups of a campaign.
func groups(c reconfigure.Campaign, cluster reconfigure.Cluster) []reconfigure.NodeGroup {
	return slices.DeleteFunc(slices.Clone(cluster.Groups), func(g reconfigure.NodeGroup) bool {
		return !slices.Contains(c.Groups, g.Name)
	})
}

func target(g reconfigure.NodeGroup, seen snapshot.Snapshot) reconfigure.Spec {
	return seen.Sources[g.Source].Spec(g.Name)
}

func starting(c reconfigure.Campaign) reconfigure.CampaignState {
	if c.Canary {
		return reconfigure.CampaignCanary
	}
	return reconfigure.CampaignRunning
}

// Pause pauses a campaign that is active.
func Pause(c reconfigure.Campaign, why string) reconfigure.Campaign {
	if c.Active() {
		c.State, c.Why = reconfigure.CampaignPaused, why
	}
	return c
}

// Continue continues a paused campaign. Failed nodes are retried.
func Continue(c reconfigure.Campaign) reconfigure.Campaign {
	if c.State != reconfigure.CampaignPaused {
		return c
	}
	c.Again = c.Again.Union(nodeset.Collect(maps.Keys(c.Failed)))
	for _, k := range c.Canaries {
		if k.Phase == reconfigure.CanaryFailed && !c.Passed(k.Group) {
			c.Again = c.Again.Union(nodeset.Of(k.Node))
		}
	}
	c.Done = c.Done.Difference(c.Again)
	c.State, c.Why, c.Failed = starting(c), "", nil
	return c
}

// Abort ends a campaign. Requests that have begun continue.
func Abort(c reconfigure.Campaign, now time.Time) reconfigure.Campaign {
	if !c.Ends() {
		c.State, c.Why, c.Ended = reconfigure.CampaignAborted, "", now.Round(0).UTC()
	}
	return c
}

// Next records the outcomes of open requests, and returns the new campaign, with the requests to submit for it. It
// submits none
//   - for a node that is as declared, unless it failed in this campaign, nor for a node with a pending request;
//   - for a node that somebody else has drained, or that Slurm powers up or down;
//   - that would make more than MaxUnavailable nodes of the groups unavailable, or would open more than Batch requests;
//   - for other nodes of a group before its canary has passed.
func Next(c reconfigure.Campaign, f Facts) (reconfigure.Campaign, []reconfigure.Request) {
	c = c.Clone()
	for _, node := range slices.Sorted(maps.Keys(c.Open)) {
		if o, ended := f.Outcomes[c.Open[node]]; ended {
			c = noted(c, node, o, f)
		}
	}
	if len(c.Failed) > 0 && len(c.Failed) >= c.PauseOnFailures {
		c = Pause(c, failures(c))
	}
	if !c.Active() || f.Seen == nil {
		return c, nil
	}
	wait, stop := unfit(c, f)
	switch {
	case stop != "":
		return Pause(c, stop), nil
	case wait != "":
		c.Why = wait
		return c, nil
	}
	s := survey(c, f)
	if canary, under := c.Under(); under {
		return follow(c, canary, s, f)
	}
	first := slices.IndexFunc(s.candidates, func(n candidate) bool { return !c.Passed(n.group) })
	if first >= 0 {
		return begin(c, s.candidates[first], s, f)
	}
	if len(s.candidates) == 0 && s.later.Empty() && len(c.Open) == 0 {
		return ended(c, s, f.Seen.Time), nil
	}
	c.State = reconfigure.CampaignRunning
	return further(c, s)
}

// noted applies the outcome of a node's request.
func noted(c reconfigure.Campaign, node string, o reconfigure.Outcome, f Facts) reconfigure.Campaign {
	delete(c.Open, node)
	var v reconfigure.Verdict
	if i := slices.IndexFunc(o.Verdicts, func(v reconfigure.Verdict) bool { return v.Node == node }); i >= 0 {
		v = o.Verdicts[i]
	}
	canary, under := c.Under()
	under = under && canary.Node == node
	again := func() { // with another canary, or with this one later
		if under {
			c.Canaries = c.Canaries[:len(c.Canaries)-1]
		}
	}
	switch {
	case v.Status == reconfigure.StatusDone, v.Status == reconfigure.StatusUnchanged && f.right(node):
		// The worker that made the change may have died; the next one then found nothing to change.
		c.Done, c.Again = c.Done.Union(nodeset.Of(node)), c.Again.Difference(nodeset.Of(node))
		if under && f.Tests {
			canary.Phase = reconfigure.CanaryTest
			return with(c, canary)
		} else if under {
			canary.Phase = reconfigure.CanaryPassed
			return with(c, canary)
		}
	case v.Status == reconfigure.StatusUnchanged:
		c.Again = c.Again.Difference(nodeset.Of(node))
		again()
	case v.Class == reconfigure.ClassBusy, o.Code == reconfigure.CodeCancelled:
		if c.Postponed == nil {
			c.Postponed = map[string]int{}
		}
		c.Postponed[node]++
		again()
	default:
		if c.Failed == nil {
			c.Failed = map[string]string{}
		}
		c.Failed[node] = v.Class.Said(cmp.Or(v.Reason, o.Error, "its request failed"))
		if under {
			return failed(c, canary, c.Failed[node])
		}
	}
	return c
}

// right reports whether a node is known to have an instance as declared.
func (f Facts) right(node string) bool {
	return f.Seen != nil && f.Seen.Instances[node].ID != "" && len(f.Seen.Outdated(f.Cluster, node)) == 0
}

// with returns the campaign with a change of its last canary.
func with(c reconfigure.Campaign, canary reconfigure.Canary) reconfigure.Campaign {
	c.Canaries[len(c.Canaries)-1] = canary
	return c
}

func failed(c reconfigure.Campaign, canary reconfigure.Canary, why string) reconfigure.Campaign {
	canary.Phase, canary.Why = reconfigure.CanaryFailed, why
	return Pause(with(c, canary), fmt.Sprintf("the canary %s failed: %s", canary.Node, why))
}

// failures returns the reason of a pause.
func failures(c reconfigure.Campaign) string {
	nodes := nodeset.Collect(maps.Keys(c.Failed))
	return fmt.Sprintf("%d of its nodes failed: %s: %s", nodes.Len(), nodes, c.Failed[nodes.Names()[0]])
}

// unfit returns why a campaign cannot continue: wait passes by itself, stop needs an administrator.
func unfit(c reconfigure.Campaign, f Facts) (wait, stop string) {
	for _, source := range []snapshot.System{snapshot.Terraform, snapshot.Slurm} {
		if !f.Seen.Asked(source) {
			return source.Words() + " does not answer", ""
		}
	}
	for _, name := range c.Groups {
		i := slices.IndexFunc(f.Cluster.Groups, func(g reconfigure.NodeGroup) bool { return g.Name == name })
		if i < 0 {
			return "", fmt.Sprintf("node group %s is not declared any more", name)
		}
		g := f.Cluster.Groups[i]
		resolved, known := f.Seen.Sources[g.Source]
		if !known || resolved.Err != "" {
			return fmt.Sprintf("the declared image, flavor or network of %s cannot be resolved: %s", name, resolved.Err), ""
		}
		if drifts := snapshot.Differences(target(g, *f.Seen), c.Targets[name]); len(drifts) > 0 {
			return "", fmt.Sprintf("the %s of %s has changed since it began: abort it, and start a new one",
				drifts[0], name)
		}
	}
	return "", ""
}

// situation divides the nodes of a campaign's groups by their state.
type situation struct {
	candidates []candidate     // nodes that may be begun now, the best ones first
	later      nodeset.NodeSet // nodes that are outdated, and may not be begun now
	kept       nodeset.NodeSet // nodes that are outdated, and drained by somebody else
	away       nodeset.NodeSet // nodes that Slurm cannot use, now or soon
}

// candidate is a node that may be begun.
type candidate struct {
	name, group string
	rank        rank
}

// rank orders candidates: a node that Slurm already cannot use costs nothing, an idle node needs no drain, and a
// persistent node is not powered down by Slurm meanwhile.
type rank struct {
	away, idle, persistent bool
	postponed              int
}

func (r rank) compare(s rank) int {
	first := func(a, b bool) int {
		if a == b {
			return 0
		} else if a {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(r.postponed, s.postponed), first(r.away, s.away), first(r.idle, s.idle),
		first(r.persistent, s.persistent))
}

func survey(c reconfigure.Campaign, f Facts) situation {
	var s situation
	var pending, updates nodeset.NodeSet
	for _, r := range f.Pending {
		pending = pending.Union(r.Open())
		if r.Mode == reconfigure.Update {
			updates = updates.Union(r.Open())
		}
	}
	canary, under := c.Under()
	for _, g := range groups(c, f.Cluster) {
		persistent, old := g.Persistent(), outdated(f.Cluster, *f.Seen, g)
		for node := range g.Nodes().All() {
			state, self := f.Seen.States[node], nodeset.Of(node)
			_, open := c.Open[node]
			_, failed := c.Failed[node]
			away := open || updates.Contains(node) || under && canary.Node == node || unavailable(state)
			if away {
				s.away = s.away.Union(self)
			}
			again := c.Again.Contains(node) && state.Drained() && state.Ours()
			switch {
			case !old.Contains(node) && !again, c.Done.Contains(node), failed:
			case state.PoweredDown(), state.PoweringDown(): // its next instance is made as declared
			case state.ForeignDrain():
				s.kept = s.kept.Union(self)
			case open, pending.Contains(node), state.PoweringUp(), state.Rebooting():
				s.later = s.later.Union(self)
			default:
				s.candidates = append(s.candidates, candidate{node, g.Name, rank{
					away: away, idle: state.Usable() && !state.Busy, persistent: persistent.Contains(node),
					postponed: c.Postponed[node],
				}})
			}
		}
	}
	slices.SortStableFunc(s.candidates, func(a, b candidate) int { return a.rank.compare(b.rank) })
	return s
}

// unavailable reports whether Slurm cannot use a node for another reason than power saving.
func unavailable(s reconfigure.NodeState) bool {
	return !s.Usable() && !s.PoweredDown() && !s.PoweringDown() && !s.PoweringUp()
}

// further submits requests as far as the limits allow.
func further(c reconfigure.Campaign, s situation) (reconfigure.Campaign, []reconfigure.Request) {
	var requests []reconfigure.Request
	free, may := c.Batch-len(c.Open), c.MaxUnavailable-s.away.Len()
	for _, n := range s.candidates {
		switch {
		case free <= 0:
			continue
		case n.rank.away:
		case may <= 0:
			continue
		default:
			may--
		}
		free--
		requests = append(requests, request(c, n.name))
	}
	c.Why = ""
	if len(requests) == 0 && len(c.Open) == 0 {
		c.Why = s.waits(c)
	}
	return c, requests
}

// waits returns why no node can be begun now.
func (s situation) waits(c reconfigure.Campaign) string {
	if len(s.candidates) == 0 {
		return fmt.Sprintf("Slurm powers up or reboots %s, or other requests name them", s.later)
	}
	return fmt.Sprintf("Slurm cannot use %s, and no more than %d may be unavailable", s.away, c.MaxUnavailable)
}

func request(c reconfigure.Campaign, node string) reconfigure.Request {
	return reconfigure.Request{
		Mode: reconfigure.Update, Nodes: nodeset.Of(node), Caller: c.Caller, Reason: "campaign " + c.ID.String(),
		Options: reconfigure.Options{Campaign: c.ID, DrainTimeout: c.DrainTimeout},
	}
}

// begin chooses the canary of a group. Its node is reserved before it is updated, so that no job gets it between the
// update and the test.
func begin(
	c reconfigure.Campaign, n candidate, s situation, f Facts,
) (reconfigure.Campaign, []reconfigure.Request) {
	c.State = reconfigure.CampaignCanary
	if c.Reserved != "" { // the previous reservation is released first
		return c, nil
	}
	if len(c.Open) > 0 || !n.rank.away && s.away.Len() >= c.MaxUnavailable {
		c.Why = s.waits(c)
		return c, nil
	}
	c.Why = ""
	canary := reconfigure.Canary{Group: n.group, Node: n.name, Phase: reconfigure.CanaryUpdate}
	if f.Tests {
		canary.Phase = reconfigure.CanaryReserve
		c.Attempts++
		c.Reserved = fmt.Sprintf("reconfigure_%s_%d", c.ID, c.Attempts)
	}
	c.Canaries = append(c.Canaries, canary)
	if f.Tests {
		return c, nil
	}
	return c, []reconfigure.Request{request(c, n.name)}
}

// follow advances a canary to its next phase.
func follow(
	c reconfigure.Campaign, canary reconfigure.Canary, s situation, f Facts,
) (reconfigure.Campaign, []reconfigure.Request) {
	c.State, c.Why = reconfigure.CampaignCanary, ""
	switch canary.Phase {
	case reconfigure.CanaryReserve:
		still := func(n candidate) bool { return n.name == canary.Node }
		switch {
		case !slices.ContainsFunc(s.candidates, still): // somebody else drains or updates it: another canary is chosen
			c.Canaries = c.Canaries[:len(c.Canaries)-1]
			return c, nil
		// the limit was reached after it was chosen
		case s.away.Len() > c.MaxUnavailable && !unavailable(f.Seen.States[canary.Node]):
			c.Why = s.waits(c)
			return c, nil
		case !f.Test.Reserved:
			return c, nil
		}
		canary.Phase = reconfigure.CanaryUpdate
		return with(c, canary), []reconfigure.Request{request(c, canary.Node)}
	case reconfigure.CanaryTest:
		switch {
		case f.Test.Failure != "":
			return failed(c, canary, f.Test.Failure), nil
		case f.Test.Ended:
			canary.Phase = reconfigure.CanaryPassed
		case canary.Since.IsZero():
			canary.Since = f.Seen.Time.Round(0).UTC()
		}
		return with(c, canary), nil
	}
	return c, nil
}

func ended(c reconfigure.Campaign, s situation, now time.Time) reconfigure.Campaign {
	c.State, c.Why, c.Ended = reconfigure.CampaignDone, "", now.Round(0).UTC()
	if !s.kept.Empty() {
		c.Why = fmt.Sprintf("%s stay as they are, since somebody else has drained them", s.kept)
	}
	return c
}
