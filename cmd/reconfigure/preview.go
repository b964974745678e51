package main

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/ansible"
	"github.com/eiffel-hpc/eiffel/reconfigure/controller"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/plan"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
	"github.com/eiffel-hpc/eiffel/reconfigure/status"
)

// preview shows what a request would come to if it were made now, together with those that wait. Nothing is changed,
// the declaration neither: s has it as it would be after the edit, where there is one.
func preview(c *cli.Context, s site, r reconfigure.Request, e *edit) error {
	r.Submitted = time.Now()
	var report status.Preview
	err := s.ifJournal(c.Context, func(log *journal.Journal) error {
		requests := []reconfigure.Request{r}
		if log != nil {
			pending, err := log.Pending(c.Context)
			if err != nil {
				return err
			}
			requests = controller.With(pending, r)
		}
		adapters := s.adapters(log, logger(c))
		defer adapters.close()
		var err error
		report, err = adapters.preview(c.Context, requests)
		return err
	})
	if err != nil {
		return err
	}
	if e != nil {
		report.Declaration = &e.MinNodes
	}
	if err := showPreview(c, report); err != nil || len(report.Refused) == 0 {
		return err
	}
	refused := reconfigure.Outcome{Code: reconfigure.CodeRefused, Error: "Terraform would do what no request asks for"}
	return &outcomeError{outcome: refused, logs: s.state("log")}
}

// preview plans as the worker does. Of nodes that must be drained first it shows what is done when their jobs have
// ended.
func (a *adapters) preview(ctx context.Context, requests []reconfigure.Request) (status.Preview, error) {
	seen, err := a.observer().Observe(ctx, controller.Scope(a.cluster, requests))
	if err != nil {
		return status.Preview{}, err
	}
	if reason, missing := seen.Missing[snapshot.Terraform]; missing {
		return status.Preview{}, errors.New(reason)
	}
	first := plan.Compute(a.cluster, seen, requests)
	last := plan.Compute(a.cluster, plan.AfterDrain(seen, first), requests)
	terraform, problem := a.terraformPreview(ctx, seen, last)
	report, err := status.NewPreview(first, last, terraform, problem)
	for _, play := range ansible.Plays(a.cluster, seen.Instances, last, true) {
		report.Plays = append(report.Plays, status.Play(play))
	}
	return report, err
}

// terraformPreview is what Terraform would do, in all shards that the plan concerns.
func (a *adapters) terraformPreview(
	ctx context.Context, seen snapshot.Snapshot, p reconfigure.Plan,
) (all reconfigure.Preview, err error) {
	shards := map[string]bool{}
	if p.Shared {
		shards[reconfigure.DefaultShard] = true
	}
	for node := range p.Nodes(reconfigure.Create, reconfigure.Replace, reconfigure.Remove).All() {
		shards[seen.Shard(node)] = true
		if spec, ok := p.Desired[node]; ok {
			shards[spec.Shard] = true
		}
	}
	refused := &reconfigure.Refusal{}
	for _, shard := range slices.Sorted(maps.Keys(shards)) {
		d, err := a.driver(ctx, shard)
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

func showPreview(c *cli.Context, p status.Preview) error {
	if wantsJSON(c) {
		return json.NewEncoder(c.App.Writer).Encode(p)
	}
	return p.Write(c.App.Writer)
}
