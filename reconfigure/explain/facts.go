package explain

import (
	"context"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
	"github.com/eiffel-hpc/eiffel/reconfigure/usage"
)

// Facts is what a story is computed from.
type Facts struct {
	Now     time.Time
	Cluster reconfigure.Cluster // the zero value: all.yml cannot be read
	Seen    snapshot.Snapshot   // the zero value: the sources were not asked
	Journal

	byNode map[string][]reconfigure.Life // the lives; set by New
}

// Journal is the data of the journal that concerns a subject.
type Journal struct {
	Worker      string // that holds the lease; empty: none
	WorkerSince time.Time
	Pause       *reconfigure.Pause
	Health      map[string]reconfigure.Health
	Pending     []reconfigure.Request // all requests without an outcome, oldest first
	Requests    []reconfigure.Request // those of the subject, oldest first
	Outcomes    map[reconfigure.RequestID]reconfigure.Outcome
	Events      map[reconfigure.RequestID][]reconfigure.Event
	Evidence    []reconfigure.Evidence
	Lives       []reconfigure.Life   // of all nodes, in the order in which they were made
	Runs        []reconfigure.JobRun // of the subject, and of the jobs that Others names
	// Others has the newest resumes that are not the subject's, oldest first, and OthersEvents their events: their times
	// show what is usual.
	Others       []reconfigure.Request
	OthersEvents map[reconfigure.RequestID][]reconfigure.Event
}

// Reader reads the journal.
type Reader interface {
	HolderSince(ctx context.Context) (holder string, acquired time.Time)
	Paused(ctx context.Context) (reconfigure.Pause, bool, error)
	Health(ctx context.Context) (map[string]reconfigure.Health, error)
	Pending(ctx context.Context) ([]reconfigure.Request, error)
	Request(ctx context.Context, id reconfigure.RequestID) (reconfigure.Request, bool, error)
	Requests(ctx context.Context, limit int) ([]reconfigure.Request, error)
	RequestsSince(ctx context.Context, since time.Time) ([]reconfigure.Request, error)
	RequestsFor(ctx context.Context, jobs ...int64) ([]reconfigure.Request, error)
	OutcomesOf(ctx context.Context, ids ...reconfigure.RequestID) (map[reconfigure.RequestID]reconfigure.Outcome, error)
	EventsOf(ctx context.Context, ids ...reconfigure.RequestID) (map[reconfigure.RequestID][]reconfigure.Event, error)
	Evidence(ctx context.Context, nodes nodeset.NodeSet) ([]reconfigure.Evidence, error)
	EvidenceOf(ctx context.Context, r reconfigure.Request) ([]reconfigure.Evidence, error)
	Lives(ctx context.Context, since time.Time) ([]reconfigure.Life, error)
	JobRuns(ctx context.Context, since time.Time, jobs ...int64) ([]reconfigure.JobRun, error)
}

// compared is the maximum number of requests whose times show what is usual.
const compared = 200

// Read reads the data of a subject since a time. The requests and the instances of a job, and those of a request, are
// read from their beginning on.
func Read(ctx context.Context, r Reader, s Subject, since time.Time) (Journal, error) {
	var j Journal
	j.Worker, j.WorkerSince = r.HolderSince(ctx)
	pause, paused, err := r.Paused(ctx)
	if err != nil {
		return j, err
	}
	if paused {
		j.Pause = &pause
	}
	if j.Health, err = r.Health(ctx); err != nil {
		return j, err
	}
	if j.Pending, err = r.Pending(ctx); err != nil {
		return j, err
	}
	if j.Requests, err = requestsOf(ctx, r, s, since); err != nil {
		return j, err
	}
	ids := make([]reconfigure.RequestID, len(j.Requests))
	for i, one := range j.Requests {
		ids[i] = one.ID
		if one.Submitted.Before(since) {
			since = one.Submitted
		}
	}
	if j.Outcomes, err = r.OutcomesOf(ctx, ids...); err != nil {
		return j, err
	}
	if j.Events, err = r.EventsOf(ctx, ids...); err != nil {
		return j, err
	}
	if err := j.readEvidence(ctx, r, s); err != nil {
		return j, err
	}
	if err := j.readOthers(ctx, r); err != nil {
		return j, err
	}
	return j, j.readUsage(ctx, r, s, since)
}

// requestsOf returns the requests of a subject, oldest first.
func requestsOf(ctx context.Context, r Reader, s Subject, since time.Time) ([]reconfigure.Request, error) {
	switch {
	case s.Job != 0:
		return r.RequestsFor(ctx, s.Job)
	case s.Request != 0:
		one, there, err := r.Request(ctx, s.Request)
		if err != nil || !there {
			return nil, err
		}
		return []reconfigure.Request{one}, nil
	}
	all, err := r.RequestsSince(ctx, since)
	var its []reconfigure.Request
	for _, one := range all {
		if one.Nodes.Empty() || one.Nodes.Contains(s.Node) {
			its = append(its, one)
		}
	}
	return its, err
}

func (j *Journal) readEvidence(ctx context.Context, r Reader, s Subject) (err error) {
	if s.Node != "" {
		j.Evidence, err = r.Evidence(ctx, nodeset.Of(s.Node))
		return err
	}
	for _, one := range j.Requests {
		kept, err := r.EvidenceOf(ctx, one)
		if err != nil {
			return err
		}
		j.Evidence = append(j.Evidence, kept...)
	}
	return nil
}

// readOthers reads the newest resumes of other subjects.
func (j *Journal) readOthers(ctx context.Context, r Reader) error {
	newest, err := r.Requests(ctx, compared)
	if err != nil {
		return err
	}
	var ids []reconfigure.RequestID
	for _, one := range slices.Backward(newest) {
		own := slices.ContainsFunc(j.Requests, func(q reconfigure.Request) bool { return q.ID == one.ID })
		if one.Mode == reconfigure.Resume && !own {
			j.Others, ids = append(j.Others, one), append(ids, one.ID)
		}
	}
	j.OthersEvents, err = r.EventsOf(ctx, ids...)
	return err
}

// readUsage reads the instances since a time, and the runs of jobs.
func (j *Journal) readUsage(ctx context.Context, r Reader, s Subject, since time.Time) (err error) {
	var jobs []int64
	if s.Job != 0 {
		jobs = append(jobs, s.Job)
	}
	for _, one := range j.Others {
		for _, job := range one.Jobs {
			jobs = append(jobs, job.ID)
		}
	}
	if len(jobs) > 0 {
		if j.Runs, err = r.JobRuns(ctx, time.Unix(0, 0), jobs...); err != nil {
			return err
		}
	}
	for _, run := range j.Runs {
		if run.ID == s.Job && run.Submitted.Before(since) {
			since = run.Submitted
		}
	}
	j.Lives, err = r.Lives(ctx, since)
	return err
}

// usageFacts returns the facts for the jobs that keep selects.
func (f Facts) usageFacts(requests []reconfigure.Request, keep func(reconfigure.JobRun) bool) usage.Facts {
	u := usage.Facts{
		Now: f.Now, Lives: f.Lives, Requests: requests, Events: f.Events, Outcomes: f.Outcomes,
	}
	for _, run := range f.Runs {
		if keep(run) {
			u.Runs = append(u.Runs, run)
		}
	}
	return u
}

// typical returns how long each part took for the nodes of a group, and for the jobs that waited for them.
func (f Facts) typical(group string) map[usage.Part]usage.Typical {
	took := map[usage.Part][]time.Duration{}
	add := func(p usage.Part, from, to time.Time) {
		if !from.IsZero() && !to.IsZero() {
			took[p] = append(took[p], max(to.Sub(from), 0))
		}
	}
	own := f.Requests
	f.Events = f.OthersEvents
	for _, r := range f.Others {
		f.Requests = []reconfigure.Request{r}
		plans := f.requestsByPlan()
		for node, events := range f.eventsByNode() {
			if node == "" || f.groupOf(node) != group {
				continue
			}
			m := marksOf(f.nodeSteps(node, events, plans))
			add(usage.PartQueue, r.Submitted, m.planned)
			add(usage.PartCloud, m.attempt, m.made)
			add(usage.PartBoot, m.made, m.booted)
			add(usage.PartAnsible, m.booted, m.configured)
			add(usage.PartRegister, m.configured, m.registered)
		}
	}
	f.Requests = f.Others
	named := map[int64]bool{}
	for _, r := range own {
		for _, job := range r.Jobs {
			named[job.ID] = true
		}
	}
	for _, j := range usage.Jobs(f.usageFacts(f.Others, func(r reconfigure.JobRun) bool { return !named[r.ID] })) {
		if node, m := f.slowest(j); node != "" && f.groupOf(node) == group {
			add(usage.PartSlurm, j.Submitted, j.Asked)
			add(usage.PartLaunch, m.registered, j.Started)
		}
	}
	typical := make(map[usage.Part]usage.Typical, len(took))
	for p, all := range took {
		typical[p] = usage.TypicalOf(all)
	}
	return typical
}

// groupOf returns the group of a node, from the declaration or its last instance.
func (f Facts) groupOf(node string) string {
	if g, ok := f.Cluster.GroupOf(node); ok {
		return g.Name
	}
	if node != "" && node == f.Cluster.Control.Name {
		return reconfigure.ControlGroup
	}
	if lives := f.byNode[node]; len(lives) > 0 {
		return lives[len(lives)-1].Group
	}
	return ""
}
