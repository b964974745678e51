package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/reconcile"
)

// mend carries out the fixes, and follows the requests among them to their outcomes.
func mend(c *cli.Context, s site, log *journal.Journal, d compared) error {
	if len(d.silent) > 0 {
		return d.verdict()
	}
	left, failure := d.mendAtOnce(c.Context, s, log, func(f reconcile.Finding, err error) error { return showMended(c, f, err) })
	var open, rest []reconcile.Finding
	for _, f := range d.findings {
		_, asked := f.Fix.Mode()
		switch {
		case asked && !left.Contains(f.Node): // else it would double the instance that is still there
			open = append(open, f)
		case asked, f.Fix == reconcile.None, left.Contains(f.Node):
			rest = append(rest, f)
		}
	}
	requests := requests(open)
	for i := range requests {
		requests[i].Insist = requests[i].Mode == reconfigure.Resume // a person looks after it
	}
	requests, err := submitFixes(c.Context, log, requests, caller())
	if err == nil && len(requests) > 0 {
		err = followAll(c, s, log, requests)
	}
	if err := errors.Join(failure, err); err != nil {
		return err
	}
	return compared{findings: rest}.verdict()
}

// followAll hands requests over, and follows one after the other to its outcome.
func followAll(c *cli.Context, s site, log *journal.Journal, requests []reconfigure.Request) error {
	if err := handOver(c, s, log, requests...); err != nil {
		return err
	}
	var errs []error
	for _, r := range requests {
		err := followToTheEnd(c, s, log, r)
		if c.Context.Err() != nil {
			return err
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// submitFixes writes requests down that are fixes.
func submitFixes(ctx context.Context, log *journal.Journal, requests []reconfigure.Request, by string) ([]reconfigure.Request, error) {
	for i := range requests {
		requests[i].Caller = by
		var err error
		if requests[i], err = log.Submit(ctx, requests[i]); err != nil {
			return requests[:i], err
		}
	}
	return requests, nil
}

// requests is the fixes that are requests: one a mode, whose reason is what was found.
func requests(findings []reconcile.Finding) []reconfigure.Request {
	nodes, found := map[reconfigure.Mode][]string{}, map[reconfigure.Mode][]string{}
	for _, f := range findings {
		mode, ok := f.Fix.Mode()
		if !ok {
			continue
		}
		nodes[mode] = append(nodes[mode], f.Node)
		if word := kindWords(f.Kind); !slices.Contains(found[mode], word) {
			found[mode] = append(found[mode], word)
		}
	}
	var all []reconfigure.Request
	for _, mode := range slices.Sorted(maps.Keys(nodes)) {
		all = append(all, reconfigure.Request{Mode: mode, Nodes: nodeset.Of(nodes[mode]...), Reason: "reconcile: " + strings.Join(found[mode], ", ")})
	}
	return all
}

// mendAtOnce does what no request means, before the requests come: it removes the instances that are nobody's, since new ones of the same names may follow, and hands
// nodes back to Slurm. It tells each result, and names the nodes with which that did not go well.
func (d compared) mendAtOnce(ctx context.Context, s site, log *journal.Journal, tell func(reconcile.Finding, error) error) (left nodeset.NodeSet, _ error) {
	var errs []error
	told := func(f reconcile.Finding, err error) {
		if err != nil {
			left = left.Union(nodeset.Of(f.Node))
		}
		errs = append(errs, err, tell(f, err))
	}
	d.removeOrphans(ctx, s, log, told)
	d.handBack(ctx, s, log, told)
	return left, errors.Join(errs...)
}

// with is the findings that have a fix.
func (d compared) with(fix reconcile.Fix) []reconcile.Finding {
	return slices.DeleteFunc(slices.Clone(d.findings), func(f reconcile.Finding) bool { return f.Fix != fix })
}

// removeOrphans looks at each instance once more just before.
func (d compared) removeOrphans(ctx context.Context, s site, log *journal.Journal, told func(reconcile.Finding, error)) {
	orphans := d.with(reconcile.Delete)
	if len(orphans) == 0 {
		return
	}
	cloud, failure := s.cloud(ctx)
	for _, f := range orphans {
		err := failure
		if err == nil {
			err = d.stillIdle(ctx, log, f.Node)
		}
		if err == nil {
			err = cloud.RemoveServer(ctx, f.Server, f.Node, d.seen.Time.Add(-d.seen.MinAge))
		}
		told(f, err)
	}
}

// handBack asks Slurm once more which of the nodes are DOWN by our word.
func (d compared) handBack(ctx context.Context, s site, log *journal.Journal, told func(reconcile.Finding, error)) {
	down := d.with(reconcile.HandBack)
	if len(down) == 0 {
		return
	}
	power := s.scheduler(d.seen.Instances[s.cluster.Control.Name])
	states, failure := power.States(ctx)
	for _, f := range down {
		err := failure
		if err == nil && !reconcile.Abandoned(states[f.Node]) {
			err = fmt.Errorf("%s is left alone: it is not DOWN by our word any more", f.Node)
		}
		if err == nil {
			err = d.stillIdle(ctx, log, f.Node)
		}
		if err == nil {
			err = power.PowerDown(ctx, nodeset.Of(f.Node))
		}
		told(f, err)
	}
}

// stillIdle is an error where a request has come for a node since the comparison.
func (d compared) stillIdle(ctx context.Context, log *journal.Journal, node string) error {
	now, err := workIn(ctx, log)
	if err == nil && (now.whole || now.nodes.Union(now.since(d.work)).Contains(node)) {
		err = fmt.Errorf("%s is left alone: a request has come for it meanwhile", node)
	}
	return err
}
