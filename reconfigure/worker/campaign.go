package worker

import (
	"context"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/campaign"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/slurm"
)

var (
	_ campaign.Tester  = (*slurm.Client)(nil)
	_ campaign.Journal = (*journal.Journal)(nil)
)

// campaigns returns the function with which a worker advances campaigns.
func (o *opener) campaigns() func(context.Context) (time.Duration, bool) {
	runner := campaign.Runner{Journal: o.log, Open: func(ctx context.Context) (campaign.Site, error) {
		opened, err := o.open(ctx)
		if err != nil {
			return campaign.Site{}, err
		}
		return campaign.Site{
			Cluster: opened.Cluster, Observe: opened.Observe,
			Tester: func(control reconfigure.Instance) campaign.Tester {
				o.lock.Lock()
				defer o.lock.Unlock()
				return o.last.Scheduler(control)
			},
		}, nil
	}}
	return runner.Advance(o.logger)
}
