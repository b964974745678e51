package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// New returns the story of a subject. A subject of which nothing is known has no steps.
func New(f Facts, s Subject) Story {
	f.byNode = map[string][]reconfigure.Life{}
	for _, l := range f.Lives {
		f.byNode[l.Node] = append(f.byNode[l.Node], l)
	}
	story := Story{Subject: s, Steps: []Step{}, Advice: []string{}, Missing: f.missing()}
	switch {
	case s.Job != 0:
		story.ofJob(f)
	case s.Request != 0:
		story.ofRequest(f)
	default:
		story.ofNode(f)
	}
	story.State = text.OneLine(story.State)
	return story
}

// missing returns the sources that did not answer.
func (f Facts) missing() []snapshot.Unreachable {
	all := f.Seen.Unreachable()
	for i := range all {
		all[i].Reason = text.OneLine(all[i].Reason)
	}
	return all
}

// ofRequest tells the story of a request.
func (s *Story) ofRequest(f Facts) {
	if len(f.Requests) == 0 {
		s.State = "unknown"
		return
	}
	r := f.Requests[0]
	nodes := f.operations()
	s.failures(nodes)
	steps := append(f.called(r), together(nodes)...)
	steps = append(steps, f.planNotes()...)
	s.Steps = inOrder(append(steps, f.finished(r, nodeset.NodeSet{})...))
	outcome, ended := f.Outcomes[r.ID]
	if !ended {
		s.State = f.stateOf(r)
		s.await(f, r, r.Open(), steps)
		return
	}
	s.State = fmt.Sprintf("%s after %s", outcome.Code, text.Span(outcome.Finished.Sub(r.Submitted)))
	if outcome.Code != reconfigure.CodeDone {
		s.adviseOnFailures(f)
	}
}

// stateOf returns the state of a request without an outcome.
func (f Facts) stateOf(r reconfigure.Request) string {
	switch {
	case r.IsDeferred():
		return "deferred"
	case len(f.Events[r.ID]) == 0:
		return "waits"
	case f.Worker == "":
		return "interrupted"
	}
	return "at work"
}

// operations returns the steps of all operations for the subject's requests, in order.
func (f Facts) operations() []Step {
	var steps []Step
	plans, byNode := f.requestsByPlan(), f.eventsByNode()
	for _, node := range slices.Sorted(maps.Keys(byNode)) {
		if node != "" {
			steps = append(steps, f.nodeSteps(node, byNode[node], plans)...)
		}
	}
	return inOrder(steps)
}

// planNotes returns the notes about whole plans.
func (f Facts) planNotes() []Step {
	var steps []Step
	plans := f.requestsByPlan()
	for _, e := range f.eventsByNode()[""] {
		if e.Level != reconfigure.Note || e.OfResource() {
			continue
		}
		steps = append(steps, note(e, "", plans[e.Plan]))
	}
	return steps
}

// adviseOnFailures says what a person can do after the newest failure of each class.
func (s *Story) adviseOnFailures(f Facts) {
	told := map[reconfigure.Class]bool{}
	for _, step := range slices.Backward(s.Steps) {
		if step.Result.bad() && step.Class != "" && !told[step.Class] {
			told[step.Class] = true
			s.adviseOnFailure(f, step)
		}
	}
}

// failures counts the steps that failed.
func (s *Story) failures(steps []Step) {
	for _, step := range steps {
		if step.Result != Failed {
			continue
		}
		i := slices.IndexFunc(s.Failures, func(a Failures) bool {
			return a.Class == step.Class && a.Host == step.Link.Host
		})
		if i < 0 {
			i = len(s.Failures)
			s.Failures = append(s.Failures, Failures{Class: step.Class, Host: step.Link.Host})
		}
		s.Failures[i].Count++
		if step.End.After(s.Failures[i].Last) {
			s.Failures[i].Last = step.End
		}
	}
	slices.SortStableFunc(s.Failures, func(a, b Failures) int { return cmp.Compare(b.Count, a.Count) })
}

// ofNode tells the story of a node.
func (s *Story) ofNode(f Facts) {
	its := nodeset.Of(s.Node)
	operations := f.nodeSteps(s.Node, f.eventsByNode()[s.Node], f.requestsByPlan())
	s.failures(operations)
	var steps, ends []Step
	var open []reconfigure.Request
	for _, r := range f.Requests {
		steps = append(steps, f.called(r)...)
		ends = append(ends, f.finished(r, its)...)
		if _, ended := f.Outcomes[r.ID]; !ended && f.concerns(r, its) {
			open = append(open, r)
		}
	}
	s.Steps = inOrder(slices.Concat(steps, operations, f.instances(s.Node), ends))
	s.Now = f.answers(s.Node)
	s.State = f.nodeState(s.Node)
	if len(open) > 0 {
		r := open[0]
		for _, one := range open {
			if last, ok := unended(f.stepsOf(one, its)); ok && last.phase != reconfigure.PhasePlan {
				r = one
			}
		}
		s.await(f, r, its, f.stepsOf(r, its))
		// The next try waits or is about to begin: why the last one failed is what a person asks.
		if last, ok := lastTried(operations); ok && last.Result == Failed {
			s.State += ", failed last at " + clock(last.End)
			s.adviseOnFailure(f, last)
		}
		return
	}
	last, ok := lastOf(operations, "")
	state := f.Seen.States[s.Node]
	switch {
	case ok && last.Result == Failed:
		s.State += ", failed last at " + clock(last.End)
		s.adviseOnFailure(f, last)
	case state.ForeignDrain() && state.Misfit():
		s.adviseOnFailure(f, Step{Nodes: its, Class: reconfigure.ClassUnregistered})
	case state.ForeignDrain():
		s.advise("`scontrol update nodename=%s state=resume` ends the drain", s.Node)
	case state.Down():
		s.advise("`reconfigure resume %s` starts it again", s.Node)
	}
}

// lastTried returns the last step that has changed something, or has tried to.
func lastTried(steps []Step) (Step, bool) {
	return lastOf(slices.DeleteFunc(slices.Clone(steps), func(s Step) bool {
		return s.phase == reconfigure.PhasePlan && s.Result != Failed
	}), "")
}

// concerns reports whether a request without an outcome still has something to do at a node. A request for the whole
// cluster may be done with it.
func (f Facts) concerns(r reconfigure.Request, node nodeset.NodeSet) bool {
	if !r.Nodes.Empty() {
		return !r.Open().Intersect(node).Empty()
	}
	_, lasts := unended(f.stepsOf(r, node))
	return lasts || !r.Touched
}

// stepsOf returns the steps of a request at some nodes.
func (f Facts) stepsOf(r reconfigure.Request, nodes nodeset.NodeSet) []Step {
	f.Requests = []reconfigure.Request{r}
	steps := f.called(r)
	for _, step := range f.operations() {
		if nodes.Empty() || !step.Nodes.Intersect(nodes).Empty() {
			steps = append(steps, step)
		}
	}
	return inOrder(steps)
}

// instances returns a step for each life of a node.
func (f Facts) instances(node string) []Step {
	var steps []Step
	for _, l := range f.byNode[node] {
		step := Step{
			Begin: l.Made, End: l.Removed, Source: Cloud, Nodes: nodeset.Of(node),
			What: "has instance " + text.OneLine(l.Instance), Result: Lasts,
			Reason: text.OneLine(fmt.Sprintf("image %s, flavor %s",
				cmp.Or(l.Image, l.ImageID), cmp.Or(l.Flavor, l.FlavorID))),
			Link: Link{Plan: l.Plan, Instance: text.OneLine(l.Instance), Host: text.OneLine(l.Host)},
		}
		if l.Ended() {
			step.Result = Done
		}
		if l.Failed != "" {
			step.Result, step.Reason = Failed, step.Reason+"; it did not become ready"
			if reconfigure.ClassIn(l.Failed).NoRoom() { // no later step says so if another flavor was tried
				step.Reason += ": " + text.OneLine(l.Failed)
			}
		}
		steps = append(steps, step)
	}
	return steps
}

// nodeState returns the state of a node in Slurm and its group.
func (f Facts) nodeState(node string) string {
	var words []string
	if state := f.Seen.States[node]; state.Node != "" {
		words = append(words, state.String()+" in Slurm")
	}
	if group := f.groupOf(node); group != "" {
		words = append(words, "of group "+group)
	}
	if len(words) == 0 {
		return "unknown"
	}
	return strings.Join(words, ", ")
}

// answers returns what each source that answered says about a node.
func (f Facts) answers(node string) []Answer {
	var all []Answer
	if f.Seen.Asked(snapshot.Slurm) {
		state, words := f.Seen.States[node], "does not know the node"
		if state.Node != "" {
			words = state.String()
			if state.Reason != "" {
				words += ": " + state.Reason
			}
		}
		all = append(all, Answer{Slurm, text.OneLine(words)})
	}
	if f.Seen.Asked(snapshot.Cloud) {
		words := "no instance"
		for i, server := range f.Seen.Servers[node] {
			if words += ", "; i == 0 {
				words = ""
			}
			words += string(server.Status) + " " + server.ID
			if server.Host != "" {
				words += " on host " + server.Host
			}
			if server.Fault.Words != "" {
				words += ": " + server.Fault.Words
			}
		}
		all = append(all, Answer{Cloud, text.OneLine(words)})
	}
	if f.Seen.Asked(snapshot.Terraform) {
		words := "no instance"
		if instance, there := f.Seen.Instances[node]; there && instance.ID != "" {
			words = "instance " + instance.ID
			if instance.Tainted {
				words += ", tainted"
			}
		}
		all = append(all, Answer{Terraform, text.OneLine(words)})
	}
	return all
}
