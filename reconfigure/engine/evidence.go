package engine

import (
	"context"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// testify keeps what can be known of nodes that failed: what the task has printed that did, and the console logs of the instances, which may be gone soon. That it
// cannot be had, or kept, fails nothing.
func (b *batch) testify(ctx context.Context, failures reconfigure.Failures) {
	const patience = 30 * time.Second // for all of them: the others of the batch wait meanwhile
	ctx = context.WithoutCancel(ctx)
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	lost := each(b.started(failures.Nodes()), func(node string) error {
		evidence := b.printed(node, failures[node])
		log, err := b.Cloud.Console(asking, b.instances[node].ID, 0)
		if err == nil && log != "" {
			evidence = append(evidence, b.evidence(node, reconfigure.WitnessConsole, log))
		}
		if len(evidence) > 0 {
			_ = b.Recorder.Keep(ctx, evidence...)
		}
		return err
	})
	for node, err := range lost {
		b.note(ctx, node, "its console log cannot be had: "+err.Error())
	}
}

// started is those of the nodes that there is an instance of, which was to come up.
func (b *batch) started(nodes nodeset.NodeSet) nodeset.NodeSet {
	coming := b.plan.Nodes(reconfigure.Create, reconfigure.Replace, reconfigure.Reboot, reconfigure.Configure)
	return nodes.Intersect(coming).Where(func(node string) bool { return b.instances[node].ID != "" })
}

// printed is what a program has printed of a node's failure, if anything.
func (b *batch) printed(node string, err error) []reconfigure.Evidence {
	output := reconfigure.OutputOf(err)
	if output == "" {
		return nil
	}
	return []reconfigure.Evidence{b.evidence(node, reconfigure.WitnessTask, output)}
}

func (b *batch) evidence(node string, kind reconfigure.Witness, text string) reconfigure.Evidence {
	return reconfigure.Evidence{Time: time.Now(), Batch: b.number, Node: node, Phase: b.phase, Kind: kind, Text: reconfigure.Tail(text, reconfigure.EvidenceLimit)}
}
