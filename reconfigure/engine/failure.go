package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// byDefault gives the class of a stage to a failure that has none of its own. That the worker was to end is nobody's failure.
func byDefault(class reconfigure.Class, err error) error {
	if reconfigure.ClassOf(err) == reconfigure.ClassOther && !errors.Is(err, context.Canceled) {
		return reconfigure.Classify(class, err)
	}
	return err
}

// allByDefault is the same for each node.
func allByDefault(class reconfigure.Class, failures reconfigure.Failures) reconfigure.Failures {
	classed := reconfigure.Failures{}
	for node, err := range failures {
		classed[node] = byDefault(class, err)
	}
	return classed
}

// said is a failure as Slurm and the journal tell it.
func said(err error) string { return reconfigure.ClassOf(err).Said(err.Error()) }

// explained puts the cloud's own words before Terraform's, where it has any. Terraform says of an instance in ERROR no more than that, so the class is then that of
// the cloud's words.
func (b *batch) explained(ctx context.Context, failed reconfigure.Failures) reconfigure.Failures {
	if len(failed) == 0 {
		return nil
	}
	faults, err := b.Cloud.Faults(ctx)
	if err != nil {
		return failed // what Terraform says must do
	}
	for node, err := range failed {
		fault := faults[node]
		if fault == "" {
			continue
		}
		if reconfigure.ClassOf(err) == reconfigure.ClassOther {
			err = reconfigure.Classify(reconfigure.FaultClass(fault), err)
		}
		if !strings.Contains(err.Error(), fault) {
			err = fmt.Errorf("%s: %w", strings.TrimSuffix(fault, "."), err)
		}
		failed[node] = err
	}
	return failed
}

// tell tells Slurm of failures, and then those whose jobs it has put back into the queue for that. On a node that it has in use a job may run. It answers the
// nodes that Slurm was told of.
func (b *batch) tell(ctx context.Context, failures reconfigure.Failures) (told nodeset.NodeSet) {
	told = b.tellDown(ctx, failures)
	waited := reconfigure.Failures{}
	for node := range told.All() {
		waited[node] = failures[node]
	}
	b.tellOwners(ctx, waited)
	return told
}

// tellOwners tells those whose jobs wait for nodes that failed why: Slurm has requeued the jobs without a word to them. Jobs that fail alike are told together, as
// thousands may. That they are told is never worth a failure.
func (b *batch) tellOwners(ctx context.Context, failed reconfigure.Failures) {
	texts := notices(b.plan.Jobs, failed)
	if len(texts) == 0 {
		return
	}
	commenter := b.Commenter(b.instances[b.cluster.Control.Name])
	for _, text := range slices.Sorted(maps.Keys(texts)) {
		if err := commenter.Comment(ctx, texts[text], text); err != nil {
			b.note(ctx, "", "the owners of the jobs that wait could not be told: "+err.Error())
		}
	}
}

// notices is what the owners of jobs are told of the nodes that failed: by text, the jobs, in order. A job whose nodes failed in different ways is told of the first,
// by name.
func notices(jobs []reconfigure.Job, failed reconfigure.Failures) map[string][]int64 {
	texts := map[string][]int64{}
	told := map[int64]bool{}
	nodes := slices.Sorted(maps.Keys(failed))
	for _, job := range jobs {
		i := slices.IndexFunc(nodes, job.Nodes.Contains)
		if i < 0 || told[job.ID] {
			continue
		}
		told[job.ID] = true
		text := notice(failed[nodes[i]])
		texts[text] = append(texts[text], job.ID)
	}
	for _, ids := range texts {
		slices.Sort(ids)
	}
	return texts
}

// notice is one failure, for somebody who knows his job and nothing of the cloud. The details at the end are for whom he asks.
func notice(err error) string {
	return fmt.Sprintf("a node for this job did not come: %s. The job waits for its next turn. (%s)", reconfigure.ClassOf(err).ForOwner(), said(err))
}
