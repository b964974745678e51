package explain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// works has, for each phase, which program does it, and what is done.
var works = map[reconfigure.Phase]struct {
	source Source
	what   string
}{
	reconfigure.PhaseRequested: {Worker, "reads the request"},
	reconfigure.PhasePlan:      {Worker, "plans"},
	reconfigure.PhaseDrain:     {Slurm, "drains the node"},
	reconfigure.PhaseClean:     {Ansible, "cleans the disk"},
	reconfigure.PhaseImage:     {Cloud, "makes the image"},
	reconfigure.PhaseApply:     {Terraform, "changes the instance"},
	reconfigure.PhaseBoot:      {SSH, "waits until the instance answers"},
	reconfigure.PhaseConfigure: {Ansible, "configures the node"},
	reconfigure.PhaseVerify:    {Slurmd, "registers with Slurm"},
	reconfigure.PhaseReport:    {Slurm, "is told the result"},
}

// boots reports whether a phase is one in which an instance boots. If a new attempt begins after it, it has failed.
func boots(p reconfigure.Phase) bool {
	return p == reconfigure.PhaseBoot || p == reconfigure.PhaseConfigure || p == reconfigure.PhaseVerify
}

// walker turns the events of one node into steps.
type walker struct {
	facts    Facts
	node     string
	requests map[int64]reconfigure.RequestID // by plan
	steps    []Step
	current  int  // the place of the last step that is no note; -1: none
	open     bool // that step has not ended
}

// nodeSteps returns the steps of the operations of a node, from its events in order.
func (f Facts) nodeSteps(node string, events []reconfigure.Event, requests map[int64]reconfigure.RequestID) []Step {
	w := walker{facts: f, node: node, requests: requests, current: -1}
	for _, e := range events {
		w.take(e)
	}
	if w.open && f.ended(w.steps[w.current]) {
		w.steps[w.current].Result = Interrupted
	}
	for i := range w.steps {
		w.link(&w.steps[i])
	}
	return w.steps
}

// ended reports whether the worker that did a step that has not ended is no longer there.
func (f Facts) ended(s Step) bool { return f.Worker == "" || s.Begin.Before(f.WorkerSince) }

func (w *walker) take(e reconfigure.Event) {
	last := &Step{}
	if w.current >= 0 {
		last = &w.steps[w.current]
	}
	if w.open && last.Link.Plan != e.Plan { // a node has one operation at a time
		last.End, last.Result, w.open = e.Time, Interrupted, false
	}
	switch e.Level {
	case reconfigure.Begun:
		if w.open {
			last.End, last.Result, last.Reason = e.Time, Done, ""
		}
		if e.Phase == reconfigure.PhaseApply && last.Link.Plan == e.Plan && boots(last.phase) {
			w.fail(last) // another attempt begins
		}
		w.begin(e, Lasts)
		w.open = true
	case reconfigure.Done:
		if w.open && last.phase == e.Phase {
			last.End, last.Result, last.Reason, w.open = e.Time, Done, "", false
		}
	case reconfigure.Failed:
		if !w.open {
			last = w.begin(e, Failed)
		}
		last.End, last.Result, w.open = e.Time, Failed, false
		last.Class, last.Reason = reconfigure.ClassIn(e.Message), text.OneLine(e.Message)
	case reconfigure.Note:
		switch {
		case e.OfResource():
		case w.open && last.phase == e.Phase:
			last.Reason = text.OneLine(e.Message)
		case w.open && rank(e.Phase) < rank(last.phase): // about a run that continues after the phase
		default:
			w.steps = append(w.steps, note(e, w.node, w.requests[e.Plan]))
		}
	}
}

// note returns the step of a note, about a node or about a whole plan.
func note(e reconfigure.Event, node string, request reconfigure.RequestID) Step {
	s := Step{
		Begin: e.Time, End: e.Time, Source: Worker, What: "notes", Reason: text.OneLine(e.Message),
		Link: Link{Request: request, Plan: e.Plan},
	}
	if node != "" {
		s.Nodes = nodeset.Of(node)
	}
	return s
}

func (w *walker) begin(e reconfigure.Event, r Result) *Step {
	work := works[e.Phase]
	w.current = len(w.steps)
	w.steps = append(w.steps, Step{
		Begin: e.Time, Source: cmp.Or(work.source, Worker), Nodes: nodeset.Of(w.node),
		What: cmp.Or(work.what, string(e.Phase)), Result: r,
		Link: Link{Request: w.requests[e.Plan], Plan: e.Plan}, phase: e.Phase,
	})
	return &w.steps[w.current]
}

// fail marks the last step of an attempt that was followed by another one: the life of its instance says why.
func (w *walker) fail(s *Step) {
	s.Result = Failed
	if l, ok := w.life(*s); ok && l.Failed != "" {
		s.Class, s.Reason = reconfigure.ClassIn(l.Failed), text.OneLine(l.Failed)
	}
}

// life returns the instance that the node had at the end of a step.
func (w *walker) life(s Step) (reconfigure.Life, bool) {
	end := s.End
	if end.IsZero() {
		end = w.facts.Now
	}
	for _, l := range slices.Backward(w.facts.byNode[w.node]) {
		if !l.Made.After(end) {
			return l, !l.Ended() || l.Removed.After(s.Begin)
		}
	}
	return reconfigure.Life{}, false
}

// link adds the instance, its host and the evidence to a step.
func (w *walker) link(s *Step) {
	if l, ok := w.life(*s); ok {
		s.Link.Instance, s.Link.Host = text.OneLine(l.Instance), text.OneLine(l.Host)
	}
	if s.Result != Failed {
		return
	}
	kept := slices.ContainsFunc(w.facts.Evidence, func(e reconfigure.Evidence) bool {
		return e.Node == w.node && e.Plan == s.Link.Plan
	})
	if kept {
		s.Link.Evidence = "reconfigure evidence --all " + w.node
		if s.Link.Request != 0 {
			s.Link.Evidence += " --request " + s.Link.Request.String()
		}
	}
}

// requestsByPlan returns the newest of the subject's requests for which each plan started operations.
func (f Facts) requestsByPlan() map[int64]reconfigure.RequestID {
	requests := map[int64]reconfigure.RequestID{}
	for _, r := range f.Requests {
		for _, e := range f.Events[r.ID] {
			requests[e.Plan] = r.ID
		}
	}
	return requests
}

// eventsByNode returns the events of the subject's requests, each once, by node and in order. The empty name has
// those of whole plans.
func (f Facts) eventsByNode() map[string][]reconfigure.Event {
	known, byNode := map[int64]bool{}, map[string][]reconfigure.Event{}
	for _, r := range f.Requests {
		for _, e := range f.Events[r.ID] {
			if !known[e.ID] {
				known[e.ID] = true
				byNode[e.Node] = append(byNode[e.Node], e)
			}
		}
	}
	for _, events := range byNode {
		slices.SortFunc(events, func(a, b reconfigure.Event) int { return cmp.Compare(a.ID, b.ID) })
	}
	return byNode
}

// called returns the step of a request's submission, and the step until its first operation began.
func (f Facts) called(r reconfigure.Request) []Step {
	what := "request " + r.ID.String() + ": " + string(r.Mode)
	if !r.Nodes.Empty() {
		what += " " + text.Clip(r.Nodes.String(), 60)
	}
	for i, job := range r.Jobs {
		if i == 3 {
			what += fmt.Sprintf(" and %d more", len(r.Jobs)-i)
			break
		}
		what += map[bool]string{true: " for job ", false: ", "}[i == 0] + fmt.Sprint(job.ID)
	}
	if r.Campaign != 0 {
		what += " of campaign " + r.Campaign.String()
	}
	source, why := Caller, ""
	if r.Mode == reconfigure.Resume && len(r.Jobs) > 0 {
		source = Slurm
	}
	if r.Caller != "" {
		why = "by " + text.OneLine(r.Caller)
	}
	if r.Reason != "" {
		why = cmp.Or(why+": ", "") + text.OneLine(r.Reason)
	}
	steps := []Step{{
		Begin: r.Submitted, End: r.Submitted, Source: source, Nodes: r.Nodes, What: what, Reason: why,
		Link: Link{Request: r.ID},
	}}
	queue := Step{
		Begin: r.Submitted, Source: Worker, Nodes: r.Nodes, What: "begins request " + r.ID.String(), Result: Lasts,
		Link: Link{Request: r.ID}, phase: reconfigure.PhasePlan,
	}
	_, ended := f.Outcomes[r.ID]
	events := f.Events[r.ID]
	switch {
	case len(events) > 0:
		queue.End, queue.Result = events[0].Time, Done
	case ended:
		return steps // the outcome says why
	}
	return append(steps, queue)
}

// finished returns the step of a request's outcome, and of its nodes that no operation has changed.
func (f Facts) finished(r reconfigure.Request, of nodeset.NodeSet) []Step {
	outcome, ended := f.Outcomes[r.ID]
	at, verdicts := f.Now, r.Verdicts
	if ended {
		at, verdicts = outcome.Finished, outcome.Verdicts
	}
	var steps []Step
	for _, v := range verdicts {
		nodes := v.Nodes()
		if !of.Empty() {
			nodes = nodes.Intersect(of)
		}
		result := map[reconfigure.Status]Result{
			reconfigure.StatusRejected: Rejected, reconfigure.StatusRefused: Refused, reconfigure.StatusFailed: Failed,
		}[v.Status]
		if nodes.Empty() || result == "" || result == Failed && f.failed(r, v.Node) {
			continue
		}
		steps = append(steps, Step{
			Begin: at, End: at, Source: Worker, Nodes: nodes, What: "decides", Result: result, Class: v.Class,
			Reason: text.OneLine(v.Class.Said(v.Reason)), Link: Link{Request: r.ID}, phase: reconfigure.PhasePlan,
		})
	}
	if !ended {
		return steps
	}
	results := map[reconfigure.Code]Result{
		reconfigure.CodeDone: Done, reconfigure.CodePartial: Failed, reconfigure.CodeFailed: Failed,
		reconfigure.CodeRefused: Refused, reconfigure.CodeCancelled: Cancelled,
	}
	what := "ends request " + r.ID.String()
	if outcome.Code == reconfigure.CodePartial {
		what += " in part"
	}
	return append(steps, Step{
		Begin: at, End: at, Source: Worker, Nodes: r.Nodes, What: what, Result: results[outcome.Code],
		Reason: text.OneLine(outcome.Error), Link: Link{Request: r.ID},
	})
}

// failed reports whether an event says that a node failed for a request.
func (f Facts) failed(r reconfigure.Request, node string) bool {
	return slices.ContainsFunc(f.Events[r.ID], func(e reconfigure.Event) bool {
		return e.Level == reconfigure.Failed && e.Node == node
	})
}

// inOrder sorts steps by their beginning.
func inOrder(steps []Step) []Step {
	slices.SortStableFunc(steps, func(a, b Step) int { return a.Begin.Compare(b.Begin) })
	return steps
}

// together joins steps of several nodes that do the same for the same request with the same result. The joined step
// begins with the first one and ends with the last one.
func together(steps []Step) []Step {
	type key struct {
		source   Source
		what     string
		result   Result
		class    reconfigure.Class
		reason   string
		request  reconfigure.RequestID
		plan     int64
		instance int // the number of the node's steps before it with the same work in the same plan
	}
	type work struct {
		node, what string
		plan       int64
	}
	var joined []Step
	var names [][]string
	place, times := map[key]int{}, map[work]int{}
	for _, s := range steps {
		w := work{s.Nodes.String(), s.What, s.Link.Plan}
		k := key{s.Source, s.What, s.Result, s.Class, s.Reason, s.Link.Request, s.Link.Plan, times[w]}
		times[w]++
		i, known := place[k]
		if !known || s.Link.Plan == 0 {
			place[k] = len(joined)
			joined, names = append(joined, s), append(names, s.Nodes.Names())
			continue
		}
		other := &joined[i]
		names[i] = append(names[i], s.Nodes.Names()...)
		other.Begin = earlier(other.Begin, s.Begin)
		other.End = later(other.End, s.End)
		if other.Link.Evidence != "" {
			other.Link.Evidence = fmt.Sprintf("reconfigure evidence --request %s", s.Link.Request)
		}
		other.Link.Instance, other.Link.Host = "", ""
	}
	for i := range joined {
		joined[i].Nodes = nodeset.Of(names[i]...)
	}
	return joined
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// later returns the later end; zero, which is no end, is the latest.
func later(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && a.After(b) {
		return a
	}
	return b
}
