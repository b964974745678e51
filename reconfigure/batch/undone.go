package batch

import (
	"fmt"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Undone finds the resumes that a later suspend undoes before anything was done for them, and by which. Such a resume need not begin, since in the end there are no
// instances either way. The suspend stays: whether there is an instance already, left over from an earlier failure, only a look at the world can tell, and where
// there is none it costs nothing.
//
// The other way round nothing is undone. Slurm resumes a node that it has suspended since a job needs it, and waits for a boot that is newer than its call
// (slurm.conf(5), ResumeTimeout); the instance of before has an older one, and whatever its last job has left on its disk.
//
// A resume is undone as a whole or not at all, by a suspend of all of its nodes that the same caller asks for: what Slurm needs for its jobs an administrator
// does not take back by accident. Whatever else names one of the nodes in between, or means the whole cluster, is to find them as it would have.
func Undone(waiting []reconfigure.Request) map[reconfigure.RequestID]reconfigure.RequestID {
	undone := map[reconfigure.RequestID]reconfigure.RequestID{}
	next := map[string]reconfigure.Request{} // of each node: the next request that is no resume
	for i := len(waiting) - 1; i >= 0; i-- {
		switch r := waiting[i]; {
		case whole(r.Mode):
			clear(next)
		case r.Mode != reconfigure.Resume:
			for node := range r.Open().All() {
				next[node] = r
			}
		case !r.Touched:
			if by, ok := undoes(next, r); ok {
				undone[r.ID] = by
			}
		}
	}
	return undone
}

// undoes is the suspend that comes next for every node of a resume; false where there is no such one.
func undoes(next map[string]reconfigure.Request, r reconfigure.Request) (by reconfigure.RequestID, ok bool) {
	for node := range r.Nodes.All() {
		s, named := next[node]
		if !named || s.Mode != reconfigure.Suspend || s.Caller != r.Caller || ok && s.ID != by {
			return 0, false
		}
		by, ok = s.ID, true
	}
	return by, ok
}

// undoing is the outcome of a request that another one undoes.
func undoing(id, by reconfigure.RequestID) reconfigure.Outcome {
	return reconfigure.Outcome{
		Request: id, Code: reconfigure.CodeCancelled,
		Error: fmt.Sprintf("request %s suspends its nodes again, and came before anything was done for this one", by),
	}
}
