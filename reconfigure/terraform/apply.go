package terraform

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/terraform-exec/tfexec"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Apply stores the map of nodes, then applies a preview. The failures are those of single nodes; the other nodes
// succeeded. Another goroutine passes the progress messages to watch; it passes the last one before Apply returns. An
// error means that there are no results by node: either nothing was changed (a *LockedError, for example, or
// reconfigure.ClassRefused if the disk has too little room for the state), or it is unknown what was changed
// (reconfigure.ClassUnknown).
//
// When interrupt is closed, Terraform gets one SIGINT and ends within a fraction of a second. Before that, it completes
// the changes of shared resources, and waits at most ten seconds for a port or a resource of the site that is being
// made. So it is not interrupted if a shared resource comes after the instances. If it is closed before Apply is called,
// Terraform is not started. An interrupted change has a failure that is a reconfigure.ErrInterrupted: a server that
// was requested by then is in the state, tainted, until Adopt untaints it; the resource of an interrupted removal is
// still in the state, and the next plan completes it. If the change was not begun, the failure is also a
// reconfigure.ErrUntried. Unlike an interrupt, a cancelled ctx gives no results by node. A nil channel never interrupts.
//
// A preview can be applied once; a retry needs a new preview. While Nova deletes an instance in ERROR or BUILD, the
// provider ends its wait with an error: the removal then fails with reconfigure.ClassUnknown, and a later retry
// succeeds.
func (d *Driver) Apply(ctx context.Context, p reconfigure.Preview, watch func(node, message string),
	interrupt <-chan struct{}) (
	reconfigure.Failures, error,
) {
	if writes(p) {
		if err := d.room(); err != nil {
			return nil, reconfigure.Classify(reconfigure.ClassRefused, fmt.Errorf("terraform apply: %w", err))
		}
	}
	if err := d.keep(ctx, p.Plan); err != nil {
		return nil, err
	}
	failures, err := d.applyPreview(ctx, p, watch, interrupt)
	if err != nil || !p.Plan.Shared {
		return failures, err
	}
	if portless := failedPorts(p.Plan, failures); len(portless) > 0 { // the instances may not be made yet
		notePorts(portless, watch)
	} else if problem := d.makePorts(ctx, p.Plan, watch); problem != nil {
		watch("", problem.Error()) // the instances have succeeded
	}
	return failures, nil
}

// failedPorts returns the failures of the kept ports that a plan makes together with the instances, without those that
// were interrupted.
func failedPorts(p reconfigure.Plan, failures reconfigure.Failures) reconfigure.Failures {
	kept := portOnly(p.Desired).Difference(p.Nodes())
	portless := reconfigure.Failures{}
	for node, err := range failures {
		if kept.Contains(node) && !errors.Is(err, reconfigure.ErrInterrupted) {
			portless[node] = err
		}
	}
	return portless
}

// applyPreview is Apply after the map of nodes is stored.
func (d *Driver) applyPreview(ctx context.Context, p reconfigure.Preview, watch func(node, message string),
	interrupt <-chan struct{}) (
	reconfigure.Failures, error,
) {
	if p.File == "" {
		return nil, nil
	}
	defer os.RemoveAll(filepath.Dir(p.File)) //nolint:errcheck // the next sweep tries again
	if !writes(p) {
		return nil, nil
	}
	select {
	case <-interrupt:
		return judge(ctx, p.Changes, &stream{class: d.cfg.Module.Class}, true, reconfigure.ErrInterrupted)
	default:
	}
	said, interrupted, err := d.applySaved(ctx, p, watch, interrupt)
	if err == nil {
		return nil, nil
	}
	return judge(ctx, p.Changes, said, interrupted, err)
}

// writes reports whether an apply changes Terraform's state.
func writes(p reconfigure.Preview) bool { return p.File != "" && (len(p.Changes) > 0 || p.Behind) }

// applySaved runs Terraform on a saved plan. It returns Terraform's events, and whether Terraform was interrupted.
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
	said = &stream{class: d.cfg.Module.Class, on: func(e event) {
		interrupter.hear(e)
		if message := progress(e); message != "" {
			messages.send(nodes[e.Hook.Resource.Address], message)
		}
	}}
	ended := make(chan struct{})
	defer close(ended)
	go interrupter.attend(interrupt, ended)
	changed := p.Plan.Provisioned().Len()
	if p.Plan.KeptPorts {
		changed += portOnly(p.Plan.Desired).Len()
	}
	err = d.writing(func(tf *tfexec.Terraform) error {
		options := []tfexec.ApplyOption{
			tfexec.DirOrPlan(p.File),
			tfexec.LockTimeout(seconds(d.cfg.LockTimeout)),
			tfexec.Parallelism(min(parallelism(changed), d.cfg.Parallelism)),
		}
		if d.tofu { // OpenTofu compares the variables with the plan's; Terraform accepts none with a saved plan
			options = append(options, tfexec.VarFile(filepath.Join(filepath.Dir(p.File), variablesFile)))
		}
		return tf.ApplyJSON(command, said, options...)
	})
	return said, interrupter.wasSent(), err
}

// judge returns the results by node of an apply that failed.
func judge(ctx context.Context, changes []reconfigure.ResourceChange, said *stream, interrupted bool, err error) (
	reconfigure.Failures, error,
) {
	if wasKilled(ctx, err) {
		err = fmt.Errorf("terraform apply: %w; resources that it was making may exist and be missing in its state: %w",
			errKilled, err)
		return nil, reconfigure.Classify(reconfigure.ClassUnknown, err)
	}
	if ctx.Err() == nil && interrupted {
		if failures, all := said.class.cutOff(changes, said.events); all {
			return failures, nil
		}
		err = fmt.Errorf("terraform apply: %w: %w", reconfigure.ErrInterrupted, said.explain(ctx, err))
		return nil, reconfigure.Classify(reconfigure.ClassUnknown, err)
	}
	explained := said.explain(ctx, err)
	if ctx.Err() == nil && begun(said.events) {
		if failures, all := said.class.verdicts(changes, said.events); all {
			return failures, nil
		}
	}
	if begun(said.events) && reconfigure.ClassOf(explained) == reconfigure.ClassOther {
		explained = reconfigure.Classify(reconfigure.ClassUnknown, explained)
	}
	return nil, fmt.Errorf("terraform apply: %w", explained)
}

func begun(events []event) bool {
	return slices.ContainsFunc(events, func(e event) bool { return e.Type == applyStart })
}
