package web

import (
	"fmt"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/reconcile"
	"github.com/eiffel-hpc/eiffel/reconfigure/status"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// need is one thing that waits for a person.
type need struct {
	What    string
	Nodes   nodeset.NodeSet
	Since   time.Time // zero: unknown
	Why     string    // why it matters
	Detail  string    // in the words of the source
	Command string    // what to type; empty: nothing
	Request reconfigure.RequestID
	Fixes   bool // it may end without a person: the worker fixes it, or Slurm asks again
}

// matters says why a finding of the comparison matters.
var matters = map[reconcile.Kind]string{
	reconcile.Orphan:     "the instance costs money, and nothing removes it",
	reconcile.LeakedPort: "the port uses an address and quota",
	reconcile.Doubled:    "two instances have one name, and Slurm can reach only one",
	reconcile.Lost:       "Terraform believes in an instance that is gone",
	reconcile.Tainted:    "the next run of Terraform would replace the instance",
	reconcile.Unfinished: "an interrupted change is half done",
	reconcile.Unadopted:  "Terraform does not manage an instance that Slurm uses",
	reconcile.Leaked:     "the instance costs money, and no job can use it",
	reconcile.Undeclared: "the instance costs money, and all.yml does not declare its node",
	reconcile.PowersUp:   "a job waits for a node that nobody makes",
	reconcile.PowersDown: "the instance of an idle node is not removed",
	reconcile.Missing:    "a node that must always exist is missing",
	reconcile.Hollow:     "Slurm may start jobs on a node that does not exist",
	reconcile.SetDown:    "Slurm does not use the node until it is handed back",
	reconcile.GivenUp:    "a node that must always be up is powered down",
	reconcile.Stopped:    "jobs cannot use the node while its instance does not run",
	reconcile.Silent:     "jobs cannot use the node while its slurmd does not answer",
	reconcile.Drained:    "Slurm starts no jobs there, and nothing ends the drain",
	reconcile.Cleaned:    "the node has an empty disk, and must be made anew",
	reconcile.Image:      "the node runs another image than was planned",
	reconcile.Address:    "Slurm or SSH may reach another machine",
	reconcile.Outdated:   "the node differs from the declaration until it is updated",
	reconcile.Aged:       "the instance is older than its group allows",
	reconcile.Unchecked:  "the last health check is older than its group allows",
}

// needsOf returns what waits for a person, the most urgent first. Look has the times of its findings.
func needsOf(r status.Report, look reconcile.Look, now time.Time) []need {
	var all []need
	if p := r.Pause; p != nil {
		all = append(all, need{
			What: "The cluster is paused", Since: p.Since, Why: "no request begins, and no job gets new nodes",
			Detail: by(p.By, p.Reason), Command: "reconfigure continue",
		})
	}
	for _, u := range r.Unreachable {
		all = append(all, need{
			What: u.Source.Words() + " does not answer", Why: "what it knows is missing on this page", Detail: u.Reason,
			Command: "reconfigure check",
		})
	}
	for _, g := range r.Groups {
		all = append(all, needsOfGroup(g)...)
	}
	all = append(all, needsOfFailures(r, now)...)
	for _, q := range r.Requests {
		if n, ok := needOfRequest(q); ok {
			all = append(all, n)
		}
	}
	if c := r.Campaign; c != nil && c.State == reconfigure.CampaignPaused {
		all = append(all, need{
			What: "Campaign " + c.ID.String() + " is paused", Since: c.Started, Why: "the remaining nodes stay outdated",
			Detail: c.Why, Command: "reconfigure campaign continue",
		})
	}
	all = append(all, needsOfLook(r.Reconcile, look)...)
	if l := r.Reconcile; l != nil && l.Overdue {
		all = append(all, need{
			What: "No worker compares the sources", Since: l.Time, Why: "what differs is not noticed, and not fixed",
			Command: "reconfigure worker",
		})
	}
	for i := range all {
		all[i].Detail = text.Clip(text.OneLine(all[i].Detail), 600)
	}
	return all
}

func by(who, why string) string {
	switch {
	case who == "":
		return why
	case why == "":
		return "by " + who
	}
	return "by " + who + ": " + why
}

func needsOfGroup(g status.Group) (all []need) {
	if b := g.Breaker; b != nil {
		all = append(all, need{
			What: fmt.Sprintf("%s: %d boot failures in a row", g.Group, b.Failures), Nodes: nodeset.Of(b.Node), Since: b.Since,
			Why: "one node is made at a time until one boots", Detail: b.Class.Said(b.Reason),
			Command: "reconfigure continue " + g.Group,
		})
	}
	if d := g.CoolDown; d != nil {
		all = append(all, need{
			What: g.Group + " cools down", Nodes: nodeset.Of(d.Node), Why: "the cloud has no room: no node of the group is made",
			Detail: d.Class.Said(d.Reason), Command: "reconfigure continue " + g.Group,
		})
	}
	return all
}

// recently is the time for which a failed node needs a person, unless it succeeds before. Older failures are in the
// timeline: no job has needed the node since.
const recently = 24 * time.Hour

// needsOfFailures groups the nodes whose last operation failed by phase and class. A node with a finding, or that was
// not tried because of the failures of its group, has its need from there.
func needsOfFailures(r status.Report, now time.Time) (all []need) {
	found := map[string]bool{}
	if r.Reconcile != nil {
		for _, f := range r.Reconcile.Findings {
			found[f.Node] = true
		}
	}
	held := map[string]bool{} // groups
	for _, g := range r.Groups {
		held[g.Group] = g.Breaker != nil || g.CoolDown != nil
	}
	var failed []status.Node
	for _, n := range r.Nodes {
		l := n.Last
		if l == nil || l.Level != reconfigure.Failed || now.Sub(l.Time) >= recently || found[n.Node] {
			continue
		}
		class := reconfigure.ClassIn(l.Message)
		if untried := l.Phase == reconfigure.PhasePlan && (class.Boots() || class.NoRoom()); untried && held[n.Group] {
			continue
		}
		failed = append(failed, n)
	}
	type what struct {
		phase reconfigure.Phase
		class reconfigure.Class
	}
	groups := text.GroupNodes(failed, func(n status.Node) (string, what) {
		return n.Node, what{n.Last.Phase, reconfigure.ClassIn(n.Last.Message)}
	})
	for _, g := range groups {
		last, class := g.First.Last, reconfigure.ClassIn(g.First.Last.Message)
		n := need{
			What: sentence(string(last.Phase)) + " failed (" + string(class) + ")", Nodes: g.Nodes, Since: last.Time,
			Why: class.ForOwner(), Detail: last.Message, Command: "reconfigure explain " + g.First.Node,
			Fixes: class.NoRoom() || class.Passing(), // Slurm asks again, and the next try may succeed
		}
		if g.Nodes.Len() > 1 {
			n.Detail = g.First.Node + ": " + n.Detail
		}
		for _, f := range failed {
			if g.Nodes.Contains(f.Node) && f.Last.Time.Before(n.Since) {
				n.Since = f.Last.Time
			}
		}
		all = append(all, n)
	}
	return all
}

// needOfRequest returns the need of a request that waits for other things than jobs or its turn.
func needOfRequest(q status.Request) (need, bool) {
	if !q.State.Deferred() || q.State == status.WaitsForJobs {
		return need{}, false
	}
	return need{
		What: fmt.Sprintf("Request %s (%s) %s", q.ID, q.Mode, q.State.Words()), Nodes: q.Nodes, Since: q.Submitted,
		Why: "its nodes do not change until then", Detail: q.Why(), Command: "reconfigure explain request " + q.ID.String(),
		Request: q.ID,
	}, true
}

// needsOfLook groups the findings of the last comparison.
func needsOfLook(l *status.Look, look reconcile.Look) (all []need) {
	if l == nil {
		return nil
	}
	type what struct {
		kind            reconcile.Kind
		detail, command string
		fix             reconcile.Fix
	}
	plain := map[string]string{} // the command of a finding with its place for the nodes
	for _, f := range look.Findings {
		plain[f.Node+" "+string(f.Kind)] = f.Command
	}
	groups := text.GroupNodes(l.Findings, func(f status.Finding) (string, what) {
		return f.Node, what{f.Kind, f.Detail, plain[f.Node+" "+string(f.Kind)], f.Fix}
	})
	for _, g := range groups {
		f := g.First
		n := need{
			What: sentence(f.Kind.Words()), Nodes: g.Nodes, Since: look.SinceOf(g.Nodes, f.Kind), Why: matters[f.Kind],
			Detail: f.Detail, Command: f.Command, Fixes: f.Fix != reconcile.None,
		}
		if g.Nodes.Len() > 1 {
			n.Command = strings.ReplaceAll(plain[f.Node+" "+string(f.Kind)], reconcile.Nodes, "'"+g.Nodes.String()+"'")
		}
		if n.Command == "" && n.Fixes {
			n.Command = "reconfigure reconcile --fix"
		}
		all = append(all, n)
	}
	return all
}

// sentence returns words with a capital letter.
func sentence(words string) string {
	if words == "" {
		return ""
	}
	return strings.ToUpper(words[:1]) + words[1:]
}
