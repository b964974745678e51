package terraform

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/hashicorp/terraform-exec/tfexec"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Apply has the map of nodes kept, then carries out just what was previewed. The failures are those of single nodes;
// the other nodes are fine. Watch hears how it goes, in a goroutine of its own, and has heard everything when Apply
// returns. An error means that there are no verdicts: before the first change it says why there was none (a
// *LockedError, say), after it what happened is unknown until somebody looks.
//
// When interrupt is closed, Terraform gets one SIGINT and ends within a fraction of a second; a port or a resource of
// the site's that is being made is waited for, ten seconds at most. Where it is closed before Apply is called,
// Terraform is not started. What was cut off has a failure that is a reconfigure.ErrInterrupted: a server that was
// asked for by then is in the state, tainted, until Adopt takes it back; a removal is in the state too, and the next
// plan for it completes it. A change that was not begun is a reconfigure.ErrUntried as well. Where what no single
// node owns was cut off, the error is a reconfigure.ErrInterrupted. An interrupt is no cancelled ctx: after that one
// there are no verdicts. A nil channel never interrupts.
//
// A preview can be applied once, failed or not; another attempt needs another preview. While Nova deletes an instance in ERROR or BUILD the provider gives up
// on its state: such a removal has reconfigure.ClassUnknown, and succeeds when it is tried again later.
func (d *Driver) Apply(ctx context.Context, p reconfigure.Preview, watch func(node, message string), interrupt <-chan struct{}) (
	reconfigure.Failures, error,
) {
	if err := d.keep(ctx, p.Plan); err != nil {
		return nil, err
	}
	failures, err := d.applyPreview(ctx, p, watch, interrupt)
	if err == nil && p.Plan.Shared {
		if problem := d.makePorts(ctx, p.Plan, watch); problem != nil {
			watch("", problem.Error()) // the nodes' instances are what was asked for
		}
	}
	return failures, err
}

// applyPreview is Apply after the map of nodes was kept.
func (d *Driver) applyPreview(ctx context.Context, p reconfigure.Preview, watch func(node, message string), interrupt <-chan struct{}) (
	reconfigure.Failures, error,
) {
	if p.File == "" {
		return nil, nil
	}
	defer os.RemoveAll(filepath.Dir(p.File)) //nolint:errcheck // the next sweep tries again
	if len(p.Changes) == 0 {
		return nil, nil
	}
	select {
	case <-interrupt:
		return judge(ctx, p.Changes, &stream{}, true, reconfigure.ErrInterrupted)
	default:
	}
	said, interrupted, err := d.applySaved(ctx, p, watch, interrupt)
	if err == nil {
		return nil, nil
	}
	return judge(ctx, p.Changes, said, interrupted, err)
}

// applySaved runs Terraform on a saved plan. It returns what Terraform said, and whether it was interrupted.
func (d *Driver) applySaved(
	ctx context.Context, p reconfigure.Preview, watch func(node, message string), interrupt <-chan struct{},
) (said *stream, interrupted bool, err error) {
	nodes := map[string]string{}
	for _, c := range p.Changes {
		nodes[c.Address] = c.Node
	}
	messages := newRelay(watch)
	defer messages.close()
	command, stop := context.WithCancel(ctx)
	defer stop()
	interrupter := newInterrupter(p.Changes, stop)
	said = &stream{on: func(e event) {
		interrupter.hear(e)
		if message := progress(e); message != "" {
			messages.send(nodes[e.Hook.Resource.Address], message)
		}
	}}
	ended := make(chan struct{})
	defer close(ended)
	go interrupter.attend(interrupt, ended)
	changed := p.Plan.Nodes(reconfigure.Create, reconfigure.Replace, reconfigure.Remove).Len()
	err = d.run(func(tf *tfexec.Terraform) error {
		return tf.ApplyJSON(command, said,
			tfexec.DirOrPlan(p.File),
			tfexec.LockTimeout(seconds(d.cfg.LockTimeout)),
			tfexec.Parallelism(min(parallelism(changed), d.cfg.Parallelism)))
	})
	return said, interrupter.wasSent(), err
}

// judge decides what an apply that did not end well means for each node.
func judge(ctx context.Context, changes []reconfigure.ResourceChange, said *stream, interrupted bool, err error) (
	reconfigure.Failures, error,
) {
	var ended *exec.ExitError
	if ctx.Err() == nil && errors.As(err, &ended) && !ended.Exited() {
		err = fmt.Errorf("terraform apply: %w: %w", errKilled, err)
		return nil, reconfigure.Classify(reconfigure.ClassUnknown, err)
	}
	if ctx.Err() == nil && interrupted {
		if failures, all := cutOff(changes, said.events); all {
			return failures, nil
		}
		err = fmt.Errorf("terraform apply: %w: %w", reconfigure.ErrInterrupted, said.explain(ctx, err))
		return nil, reconfigure.Classify(reconfigure.ClassUnknown, err)
	}
	explained := said.explain(ctx, err)
	if ctx.Err() == nil && begun(said.events) {
		if failures, all := verdicts(changes, said.events); all {
			return failures, nil
		}
	}
	if begun(said.events) && reconfigure.ClassOf(explained) == reconfigure.ClassOther {
		explained = reconfigure.Classify(reconfigure.ClassUnknown, explained)
	}
	return nil, fmt.Errorf("terraform apply: %w", explained)
}

// begun reports whether any change was tried.
func begun(events []event) bool {
	return slices.ContainsFunc(events, func(e event) bool { return e.Type == applyStart })
}
