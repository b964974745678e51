package ansible

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/sitefiles"
)

// SitePlaybook configures the nodes of an attached cluster by a playbook of the site, which is run as the site would
// run it: in its folder, with the ansible.cfg that is there. The inventory has the nodes that wait, in the groups
// compute and group_NAME, and the control node, in the group control.
type SitePlaybook struct {
	*Runner
	Playbook string // the absolute path
}

// Sums returns no checksums, so no node counts as configured before.
func (SitePlaybook) Sums(
	reconfigure.Cluster, map[string]reconfigure.Instance, nodeset.NodeSet,
) (map[string]string, error) {
	return map[string]string{}, nil
}

// Configure runs the playbook for the changed compute nodes. A node has failed if a task failed on it or if it was
// unreachable, and done is called at once. Another node is configured if a task ran on it and the playbook ran to its
// end; otherwise it has reconfigure.ClassAnsible, and may be retried. An error means that the results are unknown, as
// for [Runner.Configure].
func (p SitePlaybook) Configure(
	ctx context.Context, c reconfigure.Cluster, instances map[string]reconfigure.Instance, extent reconfigure.Extent,
	watch func(node, message string), done func(node string, seen reconfigure.Configured, err error),
) (reconfigure.Failures, error) {
	results := results{done: done, told: map[string]bool{}, seen: map[string]reconfigure.Configured{}}
	control := nodeset.Of(c.Control.Name)
	results.wellFor(extent.Changed.Intersect(control))
	changed := extent.Changed.Difference(control)
	inv := newInventory(c, instances, sitefiles.Files{})
	failures := inv.absent(c, changed)
	results.tell(failures)
	changed = changed.Difference(failures.Nodes())
	if changed.Empty() {
		return failures, nil
	}
	seen := siteRecord{touched: map[string]bool{}, left: map[string]bool{}}
	end, err := p.play(ctx, c, inv.only(changed.Union(control)), func(e event) {
		if e.Event == eventDone {
			return // a tag of the site's own
		}
		seen.add(e)
		e.tell(changed, watch)
		results.hear(e, changed)
	})
	if err != nil {
		return nil, err
	}
	more, err := seen.verdicts(changed, end)
	if err != nil {
		return nil, fmt.Errorf("the site's playbook %s ended without results: %w", p.Playbook, err)
	}
	results.tell(more)
	results.wellFor(changed)
	maps.Copy(failures, more)
	return failures, nil
}

// play runs the playbook, and returns how Ansible ended.
func (p SitePlaybook) play(
	ctx context.Context, c reconfigure.Cluster, inv inventory, hear func(event),
) (end, err error) {
	s, err := newScratch(c.Settings.StateDir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	static, err := inv.static()
	if err == nil {
		err = os.WriteFile(s.inventory(), static, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("write the inventory of the site's playbook: %w", err)
	}
	_, end = p.execute(ctx, executor{Runner: p.Runner, scratch: s, playbook: p.Playbook, ofSite: true}, hear)
	return end, nil
}

// siteRecord collects the results of a playbook that marks no last task.
type siteRecord struct {
	record
	touched map[string]bool // the hosts on which a task began
	left    map[string]bool // the hosts that have left the run with a failure; a rescue section made good the others
}

func (r *siteRecord) add(e event) {
	r.record.add(e)
	switch e.Event {
	case eventStart:
		r.touched[e.Host] = true
	case eventLeft:
		r.left[e.Host] = true
	}
}

// verdicts returns the failures of the changed nodes, from the events of a run and Ansible's error.
func (r *siteRecord) verdicts(changed nodeset.NodeSet, end error) (reconfigure.Failures, error) {
	whole, err := r.whole(end)
	if err != nil {
		return nil, err
	}
	failures := reconfigure.Failures{}
	for node := range changed.All() {
		switch {
		case r.left[node]:
			failures[node] = r.failed[node]
		case !whole:
			failures[node] = r.notReached()
		case !r.touched[node]:
			failures[node] = noResult(errors.New("not configured: no play of the site's playbook has the node; " +
				"its group is compute"))
		}
	}
	return failures, nil
}
