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
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// Journal is where requests are, and where fixes are submitted.
type Journal interface {
	// Pending is the requests without an outcome.
	Pending(ctx context.Context) ([]reconfigure.Request, error)
	// LastMoves is the newest event of each node that is not a note.
	LastMoves(ctx context.Context) (map[string]reconfigure.Event, error)
	// Submit returns when the request is durable, with its number.
	Submit(ctx context.Context, r reconfigure.Request) (reconfigure.Request, error)
}

// Cloud removes what Terraform does not know.
type Cloud interface {
	// RemoveServer returns when the cloud has the instance no more. That it is gone already is success. One that is
	// not the cluster's, has another name or was not made before the time MUST stay.
	RemoveServer(ctx context.Context, id, name string, before time.Time) error
}

// Scheduler is the Slurm of a control node.
type Scheduler interface {
	// States is these nodes, as far as Slurm knows them. It may have others, too.
	States(ctx context.Context, nodes nodeset.NodeSet) (map[string]reconfigure.NodeState, error)
	// PowerDown gives nodes back to power saving, whatever state they are in.
	PowerDown(ctx context.Context, nodes nodeset.NodeSet) error
}

// DefaultMinAge is from which age on an instance that Terraform does not know belongs to no run of Terraform any more.
const DefaultMinAge = 15 * time.Minute

// Reconciler compares the sources, and fixes what differs.
type Reconciler struct {
	Cluster   reconfigure.Cluster
	Journal   Journal
	Observe   func(ctx context.Context) (snapshot.Snapshot, error)
	Cloud     func(ctx context.Context) (Cloud, error)
	Scheduler func(control reconfigure.Instance) Scheduler
	MinAge    time.Duration // of an instance that Terraform does not know
}

// Comparison is what a comparison came to.
type Comparison struct {
	Findings []Finding
	Seen     snapshot.Snapshot
	Busy     Busy
	work     work // as the journal had it after the sources were asked
}

// Differs is the nodes at which the sources differ; notes do not count.
func (c Comparison) Differs() nodeset.NodeSet {
	var names []string
	for _, f := range c.Findings {
		if !f.Kind.Note() {
			names = append(names, f.Node)
		}
	}
	return nodeset.Of(names...)
}

// CompareTwice compares, and where anything differs does so once more after a pause.
func (r Reconciler) CompareTwice(ctx context.Context, pause time.Duration) (Comparison, error) {
	first, err := r.Compare(ctx)
	if err != nil || len(first.Findings) == 0 {
		return first, err
	}
	select {
	case <-ctx.Done():
		return first, ctx.Err()
	case <-time.After(pause):
	}
	second, err := r.Compare(ctx)
	second.Findings = Confirm(first.Findings, second.Findings)
	return second, err
}

// Compare asks all sources, and the journal before and after them: what a request was at work on meanwhile is not
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
	return Comparison{Findings: Compare(r.Cluster, seen, busy, r.MinAge), Seen: seen, Busy: busy, work: after}, nil
}

// Fix removes the instances that nothing uses, since new ones of the same names may follow, and hands nodes back
// to Slurm. It tells each result, and names the nodes with which that did not go well: a request for them would
// double an instance.
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
	return failed, errors.Join(errs...)
}

// removeOrphans asks for each instance just before it is removed whether a request has come for its node.
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
		if err == nil {
			err = cloud.RemoveServer(ctx, f.Server, f.Node, c.Seen.Time.Add(-r.MinAge))
		}
		told(f, err)
	}
}

// handBack asks Slurm once more which of the nodes are DOWN by a reason of ours.
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
		if err == nil && !Abandoned(states[f.Node]) {
			err = fmt.Errorf("%s is left alone: it is not DOWN by a reason of ours any more", f.Node)
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

// with is the findings that have a fix.
func with(findings []Finding, fix Fix) []Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f Finding) bool { return f.Fix != fix })
}

// stillIdle is an error where a request has come for a node since the comparison.
func (r Reconciler) stillIdle(ctx context.Context, c Comparison, node string) error {
	now, err := r.work(ctx)
	if err == nil && now.busy(c.work).Contains(node) || now.whole {
		err = fmt.Errorf("%s is left alone: a request has come for it meanwhile", node)
	}
	return err
}

// Requests is the fixes that are requests: one a mode, whose reason is what was found.
func Requests(findings []Finding) []reconfigure.Request {
	nodes, found := map[reconfigure.Mode][]string{}, map[reconfigure.Mode][]string{}
	for _, f := range findings {
		mode, ok := f.Fix.Mode()
		if !ok {
			continue
		}
		nodes[mode] = append(nodes[mode], f.Node)
		if word := f.Kind.Words(); !slices.Contains(found[mode], word) {
			found[mode] = append(found[mode], word)
		}
	}
	var all []reconfigure.Request
	for _, mode := range slices.Sorted(maps.Keys(nodes)) {
		reason := "reconcile: " + strings.Join(found[mode], ", ")
		all = append(all, reconfigure.Request{Mode: mode, Nodes: nodeset.Of(nodes[mode]...), Reason: reason})
	}
	return all
}

// Words is the kind for people.
func (k Kind) Words() string { return strings.ReplaceAll(string(k), "_", " ") }

// Submit writes requests down for a caller. After an error those that are returned are written.
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

// Unattended compares, and fixes what was there at the last comparison, too. The new Look is kept before anything is
// done about it: what fails must not be tried at every comparison, nor by every process that dies of it. The requests
// are left to whoever carries out requests.
func (r Reconciler) Unattended(
	ctx context.Context, last Look, stale time.Duration, keep func(Look) error, tell func(Finding, error) error,
) error {
	c, err := r.Compare(ctx)
	if err != nil {
		return err
	}
	fixes, next := last.Next(r.Cluster, c.Seen, c.Findings, stale)
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

// work is what is to be done, and what was done last, as the journal has it.
type work struct {
	nodes nodeset.NodeSet // that requests without an outcome name
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

// busy is the nodes that a request names, or to which something has happened since.
func (w work) busy(earlier work) nodeset.NodeSet { return w.nodes.Union(w.since(earlier)) }

// since is the nodes to which something has happened since an earlier look into the journal.
func (w work) since(earlier work) nodeset.NodeSet {
	var names []string
	for node, e := range w.last {
		if e.ID != earlier.last[node].ID {
			names = append(names, node)
		}
	}
	return nodeset.Of(names...)
}
