package snapshot

import (
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Fresh returns when the disk of a node's instance was made from its image; zero if unknown. The cloud knows when an
// instance was made, and the journal when it was rebuilt. For a node that is stopped while idle, only the cloud's
// time counts: for the journal, each start is a new life.
func (s Snapshot) Fresh(c reconfigure.Cluster, node string) time.Time {
	own, there := s.Own(node)
	if !there || own.Created.IsZero() {
		return time.Time{}
	}
	group, _ := c.GroupOf(node)
	life := s.Lives[node]
	stops := group.WhenIdle.Power() != "" && !Always(c, node)
	if !stops && life.Instance == own.ID {
		return life.Made
	}
	return own.Created
}

// Aged reports whether a node's instance is known to be older than the maximum of its group.
func (s Snapshot) Aged(c reconfigure.Cluster, node string) bool {
	group, declared := c.GroupOf(node)
	fresh := s.Fresh(c, node)
	return declared && group.MaxAge > 0 && !fresh.IsZero() && s.Time.Sub(fresh) > group.MaxAge
}

// readsLives reports whether a group of the cluster has a maximum age, or an interval of its health checks.
func readsLives(c reconfigure.Cluster) bool {
	for _, g := range c.Groups {
		if g.MaxAge > 0 || g.HealthInterval > 0 {
			return true
		}
	}
	return false
}

// byNode returns the lives that have not ended, by node.
func byNode(lives []reconfigure.Life) map[string]reconfigure.Life {
	open := map[string]reconfigure.Life{}
	for _, l := range lives {
		if !l.Ended() {
			open[l.Node] = l // the last life counts
		}
	}
	return open
}
