package client

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/ansible"
	"github.com/eiffel-hpc/eiffel/reconfigure/controller"
	"github.com/eiffel-hpc/eiffel/reconfigure/plan"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
	"github.com/eiffel-hpc/eiffel/reconfigure/status"
	tf "github.com/eiffel-hpc/eiffel/reconfigure/terraform"
)

// Preview plans as the worker does. For nodes that must be drained first, it shows the changes after their jobs have
// ended.
func Preview(ctx context.Context, a *site.Adapters, requests []reconfigure.Request) (status.Preview, error) {
	seen, err := a.Observer().Observe(ctx, controller.Scope(a.Site.Cluster, requests))
	if err != nil {
		return status.Preview{}, err
	}
	if reason, missing := seen.Missing[snapshot.Terraform]; missing {
		return status.Preview{}, errors.New(reason)
	}
	first := plan.Compute(a.Site.Cluster, seen, requests)
	if first.Everywhere {
		if seen.Conf, err = a.Conf(ctx, seen); err != nil {
			return status.Preview{}, err
		}
		first = plan.Compute(a.Site.Cluster, seen, requests)
	}
	last := plan.Compute(a.Site.Cluster, plan.AfterDrain(seen, first), requests)
	terraform, problem := terraformPreview(ctx, a, seen, last)
	unseen := ""
	if errors.Is(problem, tf.ErrNotInitialized) || errors.Is(problem, site.ErrOutdated) {
		unseen, problem = "Terraform's changes cannot be shown: "+problem.Error()+".", nil
	}
	report, err := status.NewPreview(first, last, terraform, problem)
	report.Unseen = unseen
	for _, play := range ansible.Plays(a.Site.Cluster, seen.Instances, last) {
		report.Plays = append(report.Plays, status.Play(play))
	}
	return report, err
}

// terraformPreview returns Terraform's changes in all shards that the plan concerns.
func terraformPreview(
	ctx context.Context, a *site.Adapters, seen snapshot.Snapshot, p reconfigure.Plan,
) (all reconfigure.Preview, err error) {
	shards := map[string]bool{}
	if p.Shared {
		shards[reconfigure.DefaultShard] = true
	}
	for node := range p.Provisioned().All() {
		shards[seen.Shard(node)] = true
		if spec, ok := p.Desired[node]; ok {
			shards[spec.Shard] = true
		}
	}
	if err := a.Site.RootModuleUpToDate(); err != nil && len(shards) > 0 {
		return all, err
	}
	refused := &reconfigure.Refusal{}
	for _, shard := range slices.Sorted(maps.Keys(shards)) {
		d, err := a.Driver(ctx, shard)
		if err != nil {
			return all, err
		}
		one, err := d.Preview(ctx, p)
		if refusal := (*reconfigure.Refusal)(nil); errors.As(err, &refusal) {
			refused.Changes = append(refused.Changes, refusal.Changes...)
		} else if err != nil {
			return all, err
		} else if err := d.Discard(one); err != nil {
			return all, err
		}
		all.Changes = append(all.Changes, one.Changes...)
	}
	if len(refused.Changes) > 0 {
		return all, refused
	}
	return all, nil
}
