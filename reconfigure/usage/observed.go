package usage

import (
	"maps"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Vanished returns the open runs that Slurm no longer has: they have ended in an unknown way. Their end is set to
// now.
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

// foundAfter is the minimum age of an instance that counts as found: a younger one may belong to an operation, which
// will record it.
const foundAfter = time.Hour

// Observed compares the open lives with the cloud's list of servers at a time. It returns the lives that changed:
// instances that others removed, and instances that exist without a recorded life. If a node has several servers, the
// oldest counts.
func Observed(known []reconfigure.Life, servers map[string][]reconfigure.Server, at time.Time) []reconfigure.Life {
	var lives []reconfigure.Life
	recorded := map[string]bool{} // the nodes with an open life
	for _, l := range known {
		recorded[l.Node] = true
		is := func(s reconfigure.Server) bool { return s.ID == l.Instance }
		if !slices.ContainsFunc(servers[l.Node], is) && l.Made.Before(at) {
			lives = append(lives, reconfigure.Life{Node: l.Node, Removed: at})
		}
	}
	for _, node := range slices.Sorted(maps.Keys(servers)) {
		for _, s := range servers[node] {
			if !recorded[node] && s.Active() && !s.Created.IsZero() && s.Created.Before(at.Add(-foundAfter)) {
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
