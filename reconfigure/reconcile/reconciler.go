package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/sleep"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// Journal has the requests, and stores the fixes that are requests.
type Journal interface {
	// Pending lists the requests without an outcome.
	Pending(ctx context.Context) ([]reconfigure.Request, error)
	// LastMoves returns the newest event of each node that is not a note.
	LastMoves(ctx context.Context) (map[string]reconfigure.Event, error)
	// Submit returns the request with its number when it is durable.
	Submit(ctx context.Context, r reconfigure.Request) (reconfigure.Request, error)
}

// Cloud removes what Terraform does not know.
type Cloud interface {
	// RemoveServer returns when the instance is removed; an absent instance is success. It MUST NOT remove an
	// instance of another cluster, with another name, or created after the time before.
	RemoveServer(ctx context.Context, id, name string, before time.Time) error
	// RemovePort removes a port; an absent port is success. It MUST NOT remove a port of another cluster, with
	// another name, in use by a server, or created after the time before.
	RemovePort(ctx context.Context, id, name string, before time.Time) error
}

// Scheduler is Slurm on a control node.
type Scheduler interface {
	// States returns the states of these nodes, as far as Slurm knows them. The answer may have other nodes too.
	States(ctx context.Context, nodes nodeset.NodeSet) (map[string]reconfigure.NodeState, error)
	// PowerDown hands nodes back to power saving, in any state.
	PowerDown(ctx context.Context, nodes nodeset.NodeSet) error
	// PowerDownASAP drains nodes, marks the reason as ours, and makes Slurm power down each node when its jobs have
	// ended.
	PowerDownASAP(ctx context.Context, nodes nodeset.NodeSet, reason string) error
}

// DefaultMinAge is the age from which an instance that Terraform does not know cannot belong to a run of Terraform.
const DefaultMinAge = 15 * time.Minute

// Reconciler compares the sources, and fixes differences.
type Reconciler struct {
	Cluster   reconfigure.Cluster
	Journal   Journal
	Observe   func(ctx context.Context) (snapshot.Snapshot, error)
	Cloud     func(ctx context.Context) (Cloud, error)
	Scheduler func(control reconfigure.Instance) Scheduler
	MinAge    time.Duration // the minimum age of an instance that Terraform does not know
	Commands  reconfigure.CloudCommands
}

// Comparison is the result of a comparison of the sources.
type Comparison struct {
	Findings []Finding
	Seen     snapshot.Snapshot
	Busy     Busy
	work     work // from the journal, after the sources were asked
}

// DiffersError means that something differs. The differences were printed.
type DiffersError struct{ Nodes nodeset.NodeSet }

func (e *DiffersError) Error() string {
	return fmt.Sprintf("%s: Slurm, Terraform and the cloud differ", e.Nodes)
}

// Err returns a *DiffersError if something differs, and another error if a source did not answer.
func (c Comparison) Err() error {
	var unreachable []string
	for _, u := range c.Seen.Unreachable() {
		unreachable = append(unreachable, u.Source.Words())
	}
	switch differs := c.Differs(); {
	case len(unreachable) > 0:
		return fmt.Errorf(
			"the comparison is incomplete, and nothing is fixed: no answer from: %s", strings.Join(unreachable, ", "),
		)
	case !differs.Empty():
		return &DiffersError{differs}
	}
	return nil
}

// Left divides the findings that remain after the fixes that are not requests, some of which failed: those for which
// requests are made, and the rest.
func (c Comparison) Left(failed nodeset.NodeSet) (open, rest []Finding) {
	for _, f := range c.Findings {
		_, asked := f.Fix.Mode()
		switch {
		case asked && !failed.Contains(f.Node): // else the request would make a second instance
			open = append(open, f)
		case asked, f.Fix == None, failed.Contains(f.Node):
			rest = append(rest, f)
		}
	}
	return open, rest
}

// Differs returns the nodes at which the sources differ; notes do not count.
func (c Comparison) Differs() nodeset.NodeSet {
	var names []string
	for _, f := range c.Findings {
		if !f.Kind.Note() {
			names = append(names, f.Node)
		}
	}
	return nodeset.Of(names...)
}

// CompareTwice compares, and compares again after a pause if anything differs. Only findings of both comparisons
// count.
func (r Reconciler) CompareTwice(ctx context.Context, pause time.Duration) (Comparison, error) {
	first, err := r.Compare(ctx)
	if err != nil || len(first.Findings) == 0 {
		return first, err
	}
	if err := sleep.For(ctx, pause); err != nil {
		return first, err
	}
	second, err := r.Compare(ctx)
	second.Findings = Confirm(first.Findings, second.Findings)
	return second, err
}

// Compare asks all sources, and the journal before and after them. Nodes with a request at work meanwhile are not
// judged.
func (r Reconciler) Compare(ctx context.Context) (Comparison, error) {
	before, err := r.work(ctx)
	if err != nil {
		return Comparison{}, err
	}
	seen, err := r.Observe(ctx)
	if err != nil {
		return Comparison{}, err
	}
	after, err := r.work(ctx)
	if err != nil {
		return Comparison{}, err
	}
	busy := Busy{Nodes: before.nodes.Union(after.nodes).Union(after.since(before)), Whole: before.whole || after.whole}
	busy.Calm = r.Cluster.Nodes().Where(func(node string) bool {
		return after.last[node].Time.Before(seen.Time.Add(-2*r.Cluster.Slurm.SuspendTimeout - time.Minute))
	})
	findings := Compare(r.Cluster, seen, busy, r.MinAge, r.Commands)
	return Comparison{Findings: findings, Seen: seen, Busy: busy, work: after}, nil
}

// Fix removes the instances and ports that nothing uses and hands nodes back to Slurm. Call it before the requests
// are made, since they may make new instances with the same names. It calls tell with each result, and returns the
// nodes for which that failed: a request for them would make a second instance.
func (r Reconciler) Fix(
	ctx context.Context, c Comparison, tell func(Finding, error) error,
) (failed nodeset.NodeSet, err error) {
	var errs []error
	told := func(f Finding, err error) {
		if err != nil {
			failed = failed.Union(nodeset.Of(f.Node))
		}
		errs = append(errs, err, tell(f, err))
	}
	r.removeOrphans(ctx, c, told)
	r.handBack(ctx, c, told)
	r.retire(ctx, c, told)
	return failed, errors.Join(errs...)
}

// removeOrphans checks just before each removal that no request has come for the node.
func (r Reconciler) removeOrphans(ctx context.Context, c Comparison, told func(Finding, error)) {
	orphans := with(c.Findings, Delete)
	if len(orphans) == 0 {
		return
	}
	cloud, failure := r.Cloud(ctx)
	for _, f := range orphans {
		err := failure
		if err == nil {
			err = r.stillIdle(ctx, c, f.Node)
		}
		before := c.Seen.Time.Add(-r.MinAge)
		switch {
		case err != nil:
		case f.Port != "":
			err = cloud.RemovePort(ctx, f.Port, f.Node, before)
		default:
			err = cloud.RemoveServer(ctx, f.Server, f.Node, before)
		}
		told(f, err)
	}
}

// handBack asks Slurm again which of the nodes are DOWN with a reason of ours, or forgotten.
func (r Reconciler) handBack(ctx context.Context, c Comparison, told func(Finding, error)) {
	down := with(c.Findings, HandBack)
	if len(down) == 0 {
		return
	}
	power := r.Scheduler(c.Seen.Instances[r.Cluster.Control.Name])
	var names []string
	for _, f := range down {
		names = append(names, f.Node)
	}
	states, failure := power.States(ctx, nodeset.Of(names...))
	for _, f := range down {
		err := failure
		if err == nil && !Abandoned(states[f.Node]) && !IsForgotten(states[f.Node]) {
			err = fmt.Errorf("%s is skipped: it is no longer DOWN with a reason of this tool, or forgotten", f.Node)
		}
		if err == nil {
			err = r.stillIdle(ctx, c, f.Node)
		}
		if err == nil {
			err = power.PowerDown(ctx, nodeset.Of(f.Node))
		}
		told(f, err)
	}
}

// with returns the findings that have this fix.
func with(findings []Finding, fix Fix) []Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f Finding) bool { return f.Fix != fix })
}

// stillIdle returns an error if a request has come for the node since the comparison.
func (r Reconciler) stillIdle(ctx context.Context, c Comparison, node string) error {
	now, err := r.work(ctx)
	if err == nil && now.busy(c.work).Contains(node) || now.whole {
		err = fmt.Errorf("%s is skipped: a request has come for it meanwhile", node)
	}
	return err
}

// Requests returns the fixes that are requests: one for each fix, with the findings as its reason.
func Requests(findings []Finding) []reconfigure.Request {
	nodes, found := map[Fix][]string{}, map[Fix][]string{}
	for _, f := range findings {
		if _, ok := f.Fix.Mode(); !ok {
			continue
		}
		nodes[f.Fix] = append(nodes[f.Fix], f.Node)
		if word := f.Kind.Words(); !slices.Contains(found[f.Fix], word) {
			found[f.Fix] = append(found[f.Fix], word)
		}
	}
	var all []reconfigure.Request
	for _, fix := range slices.Sorted(maps.Keys(nodes)) {
		mode, _ := fix.Mode()
		reason := "reconcile: " + strings.Join(found[fix], ", ")
		request := reconfigure.Request{Mode: mode, Nodes: nodeset.Of(nodes[fix]...), Reason: reason}
		request.Reimage = fix == Renew // an update has no drain timeout, so that it never ends before the jobs
		all = append(all, request)
	}
	return all
}

// Words returns the kind for people.
func (k Kind) Words() string { return strings.ReplaceAll(string(k), "_", " ") }

// Submit writes requests to the journal for a caller. On an error, the returned requests were written.
func (r Reconciler) Submit(
	ctx context.Context,
	requests []reconfigure.Request,
	by string,
) ([]reconfigure.Request, error) {
	for i := range requests {
		requests[i].Caller = by
		var err error
		if requests[i], err = r.Journal.Submit(ctx, requests[i]); err != nil {
			return requests[:i], err
		}
	}
	return requests, nil
}

// Unattended compares, and fixes what the previous comparison also found. It stores the new Look with keep before it
// fixes anything, so that a fix that fails, or kills the process, is not retried at every comparison. It only submits
// the requests; a worker carries them out.
func (r Reconciler) Unattended(
	ctx context.Context, last Look, stale time.Duration, keep func(Look) error, tell func(Finding, error) error,
) error {
	c, err := r.Compare(ctx)
	if err != nil {
		return err
	}
	fixes, next := last.Next(r.Cluster, c.Seen, c.Findings, stale)
	due, checked := last.checks(r.Cluster, c)
	fixes, next.Checked = append(fixes, due...), checked
	if err := keep(next); err != nil {
		return err
	}
	c.Findings = fixes
	failed, failure := r.Fix(ctx, c, tell)
	now, err := r.work(ctx)
	if err != nil {
		return errors.Join(failure, err)
	}
	busy := failed.Union(now.busy(c.work))
	open := slices.DeleteFunc(fixes, func(f Finding) bool { return now.whole || busy.Contains(f.Node) })
	_, err = r.Submit(ctx, Requests(open), "reconcile in the worker")
	return errors.Join(failure, err)
}

// work has the journal's data: open requests, and the last event of each node.
type work struct {
	nodes nodeset.NodeSet // the nodes of requests without an outcome
	whole bool            // such a request is for the whole cluster
	last  map[string]reconfigure.Event
}

func (r Reconciler) work(ctx context.Context) (work, error) {
	var w work
	requests, err := r.Journal.Pending(ctx)
	if err != nil {
		return w, err
	}
	for _, request := range requests {
		w.nodes, w.whole = w.nodes.Union(request.Open()), w.whole || request.Nodes.Empty()
	}
	w.last, err = r.Journal.LastMoves(ctx)
	return w, err
}

// busy returns the nodes that a request names, or that have a new event since earlier.
func (w work) busy(earlier work) nodeset.NodeSet { return w.nodes.Union(w.since(earlier)) }

// since returns the nodes that have a new event since earlier.
func (w work) since(earlier work) nodeset.NodeSet {
	var names []string
	for node, e := range w.last {
		if e.ID != earlier.last[node].ID {
			names = append(names, node)
		}
	}
	return nodeset.Of(names...)
}
