package worker

import (
	"context"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
	"github.com/eiffel-hpc/eiffel/reconfigure/slurm"
	"github.com/eiffel-hpc/eiffel/reconfigure/spare"
)

// spareEvery is the interval at which a worker looks for missing spare nodes. It asks only Slurm and the journal.
const spareEvery = 30 * time.Second

// keepSpare asks Slurm to power up the spare nodes that are missing, and to suspend none that is there.
func (r comparer) keepSpare(ctx context.Context, s site.Site) error {
	adapters := s.Adapters(r.log, r.out)
	defer adapters.Close()
	facts, client, err := r.spareFacts(ctx, s.Cluster, adapters)
	if err != nil || client == nil {
		return err
	}
	d := spare.Decide(s.Cluster, facts)
	settings, err := client.Settings(ctx)
	if err != nil {
		return err
	}
	is, changes := settings.Exceptions()
	if want := spare.Exceptions(s.Cluster, is, d.Keep); changes && want != is {
		r.out.InfoContext(ctx, "Slurm is told which nodes to keep", "SuspendExcNodes", want, "by", "spare")
		if err := client.SetExceptions(ctx, want); err != nil {
			return err
		}
	}
	if !changes && !d.Over.Empty() {
		r.out.InfoContext(ctx, "idle nodes are powered down: spare_hours are over", "nodes", d.Over.String(), "by", "spare")
		if err := client.PowerDownIdle(ctx, d.Over); err != nil {
			return err
		}
	}
	if d.Up.Empty() {
		return nil
	}
	r.out.InfoContext(ctx, "spare nodes are powered up", "nodes", d.Up.String(), "by", "spare")
	return client.PowerUp(ctx, d.Up)
}

// spareFacts asks Slurm and the journal. The client is nil if a request is for the whole cluster.
func (r comparer) spareFacts(
	ctx context.Context, c reconfigure.Cluster, adapters *site.Adapters,
) (f spare.Facts, client *slurm.Client, err error) {
	requests, err := r.log.Pending(ctx)
	if err != nil {
		return f, nil, err
	}
	var decides bool
	if f.Busy, decides = spare.Busy(requests); !decides {
		return f, nil, nil
	}
	observer := adapters.Observer()
	state, err := observer.State(ctx, nodeset.Of(c.Control.Name))
	if err != nil {
		return f, nil, err
	}
	control, deployed := state.Instances[c.Control.Name]
	if !deployed {
		return f, nil, nil
	}
	var stopped []string
	for node, spec := range state.Desired {
		if spec.Stopped() {
			stopped = append(stopped, node)
		}
	}
	f.Stopped = nodeset.Of(stopped...)
	if f.States, err = observer.States(ctx, control, c.Nodes()); err != nil {
		return f, nil, err
	}
	moves, err := r.log.LastMoves(ctx)
	if err != nil {
		return f, nil, err
	}
	f.Failed = spare.Failed(moves)
	f.Health, err = r.log.Health(ctx)
	f.Now = time.Now()
	return f, adapters.Scheduler(control), err
}
