package storm

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
	"github.com/eiffel-hpc/eiffel/reconfigure/spare"
)

// kept is what a worker has told Slurm about spare nodes.
type kept struct {
	count  int // declared
	nodes  nodeset.NodeSet
	asked  map[string]time.Time // when a node was last powered up without a job
	failed map[string]time.Time // the last failure of which that call knew
}

// keepSpare powers up the spare nodes that are missing, as package worker does, and has Slurm keep those that are
// there.
func (s *storm) keepSpare() {
	if s.spares == nil || s.away {
		return
	}
	ctx := context.Background()
	waiting, _ := s.book.Pending(ctx)
	busy, decides := spare.Busy(waiting)
	states, err := s.world.States(ctx, nodeset.NodeSet{})
	if !decides || err != nil {
		return
	}
	moves, _ := s.book.LastMoves(ctx)
	f := spare.Facts{Now: time.Now(), States: states, Busy: busy, Failed: spare.Failed(moves)}
	f.Health, _ = s.book.Health(ctx)
	d := spare.Decide(s.cluster(), f)
	s.spares.nodes = d.Keep
	if d.Keep.Len() > s.spares.count {
		s.complain("Slurm keeps %s, and the group declares %d", d.Keep, s.spares.count)
	}
	for node := range d.Up.All() {
		failure, asked := f.Failed[node], s.spares.asked[node]
		if failure.After(s.spares.failed[node]) && time.Since(asked) < time.Hour {
			s.complain("%s is powered up without a job %s after such a power up has failed", node, time.Since(asked))
		}
		s.spares.asked[node], s.spares.failed[node] = time.Now(), failure
	}
	if !d.Up.Empty() {
		s.world.PowersUpIdle(d.Up.Names()...)
		s.call(ask(reconfigure.Resume, d.Up.Names()...))
	}
}

// unkept returns the nodes that Slurm may suspend.
func (s *storm) unkept(nodes []string) []string {
	return slices.DeleteFunc(nodes, func(node string) bool { return s.spares != nil && s.spares.nodes.Contains(node) })
}

// spared waits until the group has its spare nodes, as soon as no node rests after a failure. SuspendTime ends for the
// other idle nodes. Those that an administrator has taken out of use do not count.
func (s *storm) spared() {
	cluster := s.cluster()
	clouds := cluster.Nodes().Difference(cluster.Persistent())
	var ready, usable []string
	for range 4 * 6 {
		s.pass(10 * time.Minute)
		s.end(step{nodes: clouds.Names()})
		ready, usable = nil, nil
		for node := range clouds.All() {
			switch state := s.world.Node(node).State; {
			case state == "IDLE+CLOUD":
				ready, usable = append(ready, node), append(usable, node)
			case !strings.Contains(state, "DRAIN") && !strings.Contains(state, "DOWN+CLOUD") &&
				!strings.Contains(state, "NOT_RESPONDING"):
				usable = append(usable, node)
			}
		}
		if len(ready) == min(s.spares.count, len(usable)) {
			return
		}
		s.giveUp(step{nodes: ready})
	}
	s.complain("%v are idle, of %v, and the group declares %d spare nodes", ready, usable, s.spares.count)
}

// TestStormOfSpareNodes runs storms in which the group keeps spare nodes: none is powered up again and again after a
// failure, there are never too many, jobs take them, and they are there when all is quiet.
func TestStormOfSpareNodes(t *testing.T) {
	kinds := slices.DeleteFunc(slices.Sorted(maps.Keys(deeds())), func(kind string) bool { return kind == "declare" })
	kinds = append(kinds, slices.Repeat([]string{"time passes", "jobs start on", "jobs end on", "node fault", "kill now",
		"Slurm gives up", "jobs need"}, 3)...)
	spares := func(s *storm) {
		s.spares = &kept{count: 2, asked: map[string]time.Time{}, failed: map[string]time.Time{}}
	}
	faults := append(nodeFaults(), simulate.NoValidHost, simulate.Unhealthy, simulate.PlaybookFails)
	blowWith(t, spares, func(t *rapid.T) []step { return drawStepsOf(t, kinds, faults) })
}
