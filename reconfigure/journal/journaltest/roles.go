package journaltest

import (
	"context"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/campaign"
	"github.com/eiffel-hpc/eiffel/reconfigure/controller"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation/operationtest"
	"github.com/eiffel-hpc/eiffel/reconfigure/ssh"
)

// Journal is a journal that one process has open, with all methods that its users need. The methods are documented at
// journal.Journal.
type Journal interface {
	controller.Journal
	campaign.Journal
	operation.SumStore
	operationtest.HealthStore
	ssh.Keeper
	Callers
	Holders
	Events
	Nodes
	Usage
	History
}

// History has the methods that show what happened since a time.
type History interface {
	RequestsSince(ctx context.Context, since time.Time) ([]reconfigure.Request, error)
	OutcomesOf(ctx context.Context, ids ...reconfigure.RequestID) (map[reconfigure.RequestID]reconfigure.Outcome, error)
	EventsAfter(ctx context.Context, after int64, since time.Time, limit int) ([]reconfigure.Event, error)
	RequestsOf(ctx context.Context, plans ...int64) (map[int64][]reconfigure.RequestID, error)
}

// Callers has the methods for commands: they submit, follow and cancel requests, and pause the worker.
type Callers interface {
	Submit(ctx context.Context, r reconfigure.Request) (reconfigure.Request, error)
	Cancel(ctx context.Context, id reconfigure.RequestID) error
	Requests(ctx context.Context, limit int) ([]reconfigure.Request, error)
	Request(ctx context.Context, id reconfigure.RequestID) (reconfigure.Request, bool, error)
	Pause(ctx context.Context, reason, by string) error
	Continue(ctx context.Context) error
	StartCampaign(ctx context.Context, c reconfigure.Campaign) (reconfigure.Campaign, error)
}

// Holders has the methods that show who holds the lease.
type Holders interface {
	Holder(ctx context.Context) string
	HolderSince(ctx context.Context) (string, time.Time)
}

// Events has the methods that record events and show them.
type Events interface {
	Record(ctx context.Context, events ...reconfigure.Event) error
	Events(ctx context.Context, id reconfigure.RequestID, after int64) ([]reconfigure.Event, error)
	EventsOf(ctx context.Context, ids ...reconfigure.RequestID) (map[reconfigure.RequestID][]reconfigure.Event, error)
	LastMoves(ctx context.Context) (map[string]reconfigure.Event, error)
	Keep(ctx context.Context, evidence ...reconfigure.Evidence) error
	Evidence(ctx context.Context, nodes nodeset.NodeSet) ([]reconfigure.Evidence, error)
	EvidenceOf(ctx context.Context, r reconfigure.Request) ([]reconfigure.Evidence, error)
	Prune(ctx context.Context, before time.Time) error
}

// Nodes has the methods for data that all control hosts share: the map of nodes, the cluster's id and the declaration.
type Nodes interface {
	Nodes(ctx context.Context) (map[string]reconfigure.Spec, bool, error)
	KeepNodes(ctx context.Context, shard string, nodes map[string]reconfigure.Spec) error
	AdoptNodes(ctx context.Context, nodes map[string]reconfigure.Spec) error
	Identity(ctx context.Context) (reconfigure.Identity, error)
	AdoptIdentity(ctx context.Context, id string) error
	KeepMarked(ctx context.Context) error
	Declare(ctx context.Context, d reconfigure.Declaration) (reconfigure.Declaration, error)
}

// Usage has the methods for the lives of instances and the runs of jobs.
type Usage interface {
	Lives(ctx context.Context, since time.Time) ([]reconfigure.Life, error)
	KeepJobRuns(ctx context.Context, position int64, runs ...reconfigure.JobRun) error
	JobPosition(ctx context.Context) (int64, error)
	JobRuns(ctx context.Context, since time.Time, jobs ...int64) ([]reconfigure.JobRun, error)
	RequestsFor(ctx context.Context, jobs ...int64) ([]reconfigure.Request, error)
	LivesOf(ctx context.Context, f reconfigure.LifeFilter) ([]reconfigure.Life, error)
	FailuresOf(ctx context.Context, since, until time.Time, nodes ...string) ([]reconfigure.Event, error)
	NodesWithLives(ctx context.Context, since, until time.Time) ([]string, error)
	RunsBetween(ctx context.Context, since, until time.Time, limit int) (runs []reconfigure.JobRun, all bool, err error)
	Pulse(ctx context.Context) (string, error)
}
