package usage

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// Filter selects jobs. Each non-zero field must match.
type Filter struct {
	Since    time.Time       // the job had not ended by then
	IDs      []int64         // its number is in the list
	Nodes    nodeset.NodeSet // it has, or had, one of these nodes
	Instance string          // this instance served it, or was made for it
}

// ParseFilter reads the arguments of a caller: numbers of jobs, a hostlist, the id of an instance, and how long ago
// the time begins. The default is one day, or all known time if a job or an instance is named.
func ParseFilter(now time.Time, jobs []string, nodes, instance, since string) (Filter, error) {
	f := Filter{Instance: instance}
	for _, job := range jobs {
		id, err := strconv.ParseInt(job, 10, 64)
		if err != nil || id <= 0 {
			return f, fmt.Errorf("%q is not a job number", job)
		}
		f.IDs = append(f.IDs, id)
	}
	var err error
	if nodes != "" {
		if f.Nodes, err = nodeset.Parse(nodes); err != nil {
			return f, err
		}
	}
	switch {
	case since == "" && (len(f.IDs) > 0 || instance != ""):
		return f, nil
	case since == "":
		since = "1d"
	}
	f.Since, err = Since(now, since)
	return f, err
}

// Since returns the time that is a duration, as in 30d or 12h, before now. The duration must be more than 0.
func Since(now time.Time, since string) (time.Time, error) {
	length, err := text.ParseDuration(since)
	if err == nil && length == 0 {
		err = errors.New("the time must be more than 0")
	}
	return now.Add(-length), err
}

// Select returns the jobs that match; an empty list, not nil, if none does.
func (f Filter) Select(jobs []Job) []Job {
	return slices.DeleteFunc(append([]Job{}, jobs...), func(j Job) bool {
		nodes := j.Nodes
		its := f.Instance == ""
		for _, l := range j.Instances {
			nodes = nodes.Union(nodeset.Of(l.Node))
			its = its || l.Instance == f.Instance
		}
		return !its || !f.fits(j, nodes)
	})
}

// fits reports whether a job that has or had these nodes matches, apart from its instances.
func (f Filter) fits(j Job, nodes nodeset.NodeSet) bool {
	return (len(f.IDs) == 0 || slices.Contains(f.IDs, j.ID)) && (j.last().IsZero() || !j.last().Before(f.Since)) &&
		(f.Nodes.Empty() || !f.Nodes.Intersect(nodes).Empty())
}

// Candidates returns the jobs from which Select selects. It needs no events and no outcomes.
func (f Filter) Candidates(facts Facts) Candidates {
	var lives []reconfigure.Life // the lives of the instance
	for _, l := range facts.Lives {
		if l.Instance == f.Instance {
			lives = append(lives, l)
		}
	}
	return Candidates{slices.DeleteFunc(claims(facts), func(c claim) bool {
		j, nodes := c.job(), c.nodes()
		its := f.Instance == "" || slices.ContainsFunc(lives, func(l reconfigure.Life) bool {
			return nodes.Contains(l.Node) && (!l.Made.After(j.until(facts.Now)) || j.ranOn(l) || j.MadeFor(l, facts.Now))
		})
		return !its || !f.fits(j, nodes)
	})}
}
