package terraform

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/hashicorp/terraform-exec/tfexec"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Apply has the map of nodes kept, then carries out just what was previewed. The failures are those of single nodes; the other nodes are fine. Watch hears
// how it goes and must not block. An error means that there are no verdicts: before the first change it says why there was none (a *LockedError, say), after
// it what happened is unknown until somebody looks.
//
// A preview can be applied once, failed or not; another try needs another preview. A plan that only removes is tried again here: while Nova deletes an
// instance in ERROR or BUILD the provider gives up on its state, and to delete what is gone by then succeeds. In a mixed plan nobody waits for that.
func (d *Driver) Apply(ctx context.Context, p reconfigure.Preview, watch func(node, message string)) (reconfigure.Failures, error) {
	if err := d.keep(ctx, p.Plan); err != nil {
		return nil, err
	}
	failures, err := d.applySaved(ctx, p, watch)
	for _, pause := range d.pauses {
		again, ok := onlyRemovals(p.Plan, failures)
		if err != nil || !ok {
			break
		}
		watch("", fmt.Sprintf("could not remove %s, trying again in %s", again.Nodes(), pause))
		if err := sleep(ctx, pause); err != nil {
			return nil, fmt.Errorf("terraform apply: %w", err)
		}
		retry, problem := d.Preview(ctx, again)
		if problem != nil {
			return failures, nil // the reason why they failed in the first place is the better answer
		}
		failures, err = d.applySaved(ctx, retry, watch)
	}
	if err == nil && p.Plan.Shared {
		if problem := d.makePorts(ctx, p.Plan, watch); problem != nil {
			watch("", problem.Error()) // the nodes' instances are what was asked for
		}
	}
	return failures, err
}

// onlyRemovals is the plan for another try of the removals that failed, if the plan was for nothing else of Terraform's.
func onlyRemovals(p reconfigure.Plan, failed reconfigure.Failures) (again reconfigure.Plan, ok bool) {
	again = reconfigure.Plan{Desired: p.Desired, Shared: p.Shared}
	for _, c := range p.Changes {
		switch {
		case c.Action == reconfigure.Create, c.Action == reconfigure.Replace:
			return reconfigure.Plan{}, false
		case c.Action == reconfigure.Remove && failed[c.Node] != nil:
			again.Changes = append(again.Changes, c)
		}
	}
	return again, len(again.Changes) > 0
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// applySaved applies a saved plan and removes it.
func (d *Driver) applySaved(ctx context.Context, p reconfigure.Preview, watch func(node, message string)) (reconfigure.Failures, error) {
	if p.File == "" {
		return nil, nil
	}
	defer os.RemoveAll(filepath.Dir(p.File)) //nolint:errcheck // the next sweep tries again
	if len(p.Changes) == 0 {
		return nil, nil
	}
	nodes := map[string]string{}
	for _, c := range p.Changes {
		nodes[c.Address] = c.Node
	}
	said := stream{on: func(e event) {
		if message := progress(e); message != "" {
			watch(nodes[e.Hook.Resource.Address], message)
		}
	}}
	changed := p.Plan.Nodes(reconfigure.Create, reconfigure.Replace, reconfigure.Remove).Len()
	err := d.run(func(tf *tfexec.Terraform) error {
		return tf.ApplyJSON(ctx, &said,
			tfexec.DirOrPlan(p.File),
			tfexec.LockTimeout(seconds(d.cfg.LockTimeout)),
			tfexec.Parallelism(min(parallelism(changed), d.cfg.Parallelism)))
	})
	var ended *exec.ExitError
	if ctx.Err() == nil && errors.As(err, &ended) && !ended.Exited() {
		return nil, reconfigure.Classify(reconfigure.ClassUnknown, fmt.Errorf("terraform apply: %w: %w", errKilled, err))
	}
	if err == nil {
		return nil, nil
	}
	err = said.explain(ctx, err)
	if ctx.Err() == nil && begun(said.events) {
		if failures, all := verdicts(p.Changes, said.events); all {
			return failures, nil
		}
	}
	if begun(said.events) && reconfigure.ClassOf(err) == reconfigure.ClassOther {
		err = reconfigure.Classify(reconfigure.ClassUnknown, err)
	}
	return nil, fmt.Errorf("terraform apply: %w", err)
}

// begun tells whether any change was tried.
func begun(events []event) bool {
	return slices.ContainsFunc(events, func(e event) bool { return e.Type == applyStart })
}
