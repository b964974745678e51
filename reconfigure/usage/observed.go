package usage

import (
	"maps"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Vanished returns the runs that have not ended by what is known and that Slurm does not have any more: they ended, and
// nobody knows how. Their end is that of now.
func Vanished(open, has []reconfigure.JobRun, now time.Time) (gone []reconfigure.JobRun) {
	type key struct{ id, submitted int64 }
	there := map[key]bool{}
	for _, r := range has {
		there[key{r.ID, r.Submitted.Unix()}] = true
	}
	for _, r := range open {
		if r.Ended.IsZero() && !there[key{r.ID, r.Submitted.Unix()}] {
			r.State, r.Ended = StateUnknown, now
			gone = append(gone, r)
		}
	}
	return gone
}

// foundAfter is how old an instance must be before it counts as found: one that is younger may be that of an operation,
// which records it.
const foundAfter = time.Hour

// Observed returns what the cloud's list of servers, of this time, says beyond the known lives that have not ended:
// instances that were removed by others, and such that were there before their lives were recorded. Of several servers
// of one node the oldest counts.
func Observed(known []reconfigure.Life, servers map[string][]reconfigure.Server, at time.Time) []reconfigure.Life {
	var lives []reconfigure.Life
	recorded := map[string]bool{} // nodes
	for _, l := range known {
		recorded[l.Node] = true
		is := func(s reconfigure.Server) bool { return s.ID == l.Instance }
		if !slices.ContainsFunc(servers[l.Node], is) && l.Made.Before(at) {
			lives = append(lives, reconfigure.Life{Node: l.Node, Removed: at})
		}
	}
	for _, node := range slices.Sorted(maps.Keys(servers)) {
		for _, s := range servers[node] {
			if !recorded[node] && !s.Created.IsZero() && s.Created.Before(at.Add(-foundAfter)) {
				recorded[node] = true
				lives = append(lives, reconfigure.Life{
					Node: node, Instance: s.ID, Group: s.Group, ImageID: s.ImageID, FlavorID: s.FlavorID, Host: s.Host,
					Made: s.Created,
				})
			}
		}
	}
	return lives
}
