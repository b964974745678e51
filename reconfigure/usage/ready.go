package usage

import (
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Ready returns how long instances took from the beginning of their operation to the registration of slurmd, by group,
// of those that registered since a time.
func Ready(lives []reconfigure.Life, since time.Time) map[string]Typical {
	took := map[string][]time.Duration{}
	for _, l := range lives {
		if !l.Planned.IsZero() && !l.Registered.IsZero() && !l.Registered.Before(since) {
			took[l.Group] = append(took[l.Group], max(0, l.Registered.Sub(l.Planned)))
		}
	}
	ready := make(map[string]Typical, len(took))
	for group, all := range took {
		ready[group] = TypicalOf(all)
	}
	return ready
}
