package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
)

// sight is what the cloud, Terraform and Slurm say, as far as they answer.
type sight struct {
	servers   map[string][]reconfigure.Server
	sources   map[reconfigure.Source]reconfigure.Resolved
	desired   map[string]reconfigure.Spec
	instances map[string]reconfigure.Instance
	states    map[string]reconfigure.NodeState
	silent    []silence
}

// silence is one who does not answer.
type silence struct {
	Who    party  `json:"who"`
	Reason string `json:"reason"`
}

// party is one who knows of the nodes.
type party string

const (
	partyCloud     party = "cloud"
	partyTerraform party = "terraform"
	partySlurm     party = "slurm"
)

// hear is how long the parties are listened to. Slurm's tools take up to a minute to give up, which nobody wants to wait for.
const hear = 20 * time.Second

// look asks all parties at once.
func (s site) look(ctx context.Context, log *journal.Journal, logger *slog.Logger) sight {
	ctx, cancel := context.WithTimeout(ctx, hear)
	defer cancel()
	var (
		seen                    sight
		wait                    sync.WaitGroup
		cloud, terraform, slurm error
	)
	wait.Go(func() { cloud = s.askCloud(ctx, &seen) })
	wait.Go(func() {
		terraform = s.askTerraform(ctx, log, logger, &seen)
		slurm = s.askSlurm(ctx, log, terraform, &seen) // Terraform knows where it is
	})
	wait.Wait()
	for _, answer := range []struct {
		who party
		err error
	}{{partyCloud, cloud}, {partyTerraform, terraform}, {partySlurm, slurm}} {
		if answer.err != nil {
			seen.silent = append(seen.silent, silence{answer.who, oneLine(answer.err.Error())})
		}
	}
	return seen
}

func (s site) askCloud(ctx context.Context, seen *sight) error {
	cloud, err := s.cloud(ctx)
	if err != nil {
		return err
	}
	if seen.servers, err = cloud.Servers(ctx); err != nil {
		return err
	}
	seen.sources = map[reconfigure.Source]reconfigure.Resolved{}
	for _, source := range sourcesOf(s.cluster) {
		seen.sources[source] = cloud.Resolve(ctx, source)
	}
	return nil
}

func (s site) askTerraform(ctx context.Context, log *journal.Journal, logger *slog.Logger, seen *sight) error {
	driver, err := s.terraform(ctx, log, logger)
	if err != nil {
		return err
	}
	if seen.desired, err = driver.Desired(ctx); err != nil {
		return err
	}
	seen.instances, err = driver.Instances(ctx)
	return err
}

func (s site) askSlurm(ctx context.Context, log *journal.Journal, terraform error, seen *sight) error {
	control, there := seen.instances[s.cluster.Control.Name]
	switch {
	case terraform != nil:
		return errors.New("not asked, since Terraform does not say where the control node is")
	case !there || control.Address == "":
		return fmt.Errorf("there is no control node yet: `reconfigure deploy` makes it")
	}
	err := s.knownHosts(log).Refresh(ctx)
	if err != nil {
		return err
	}
	seen.states, err = s.scheduler(control).States(ctx)
	return err
}

// sourcesOf is what the nodes are declared to be made of.
func sourcesOf(c reconfigure.Cluster) []reconfigure.Source {
	sources := []reconfigure.Source{c.Control.Source}
	for _, g := range c.Groups {
		sources = append(sources, g.Source)
	}
	return sources
}

// past is what the journal knows.
type past struct {
	at      time.Time                     // when it was asked
	leader  string                        // who is at work; empty: nobody
	since   time.Time                     // when that began
	pause   *reconfigure.Pause            // while nothing is to be begun
	last    map[string]reconfigure.Event  // how far each node has come
	fares   map[string]reconfigure.Health // how the node groups fare that do not fare well
	pending []pendingRequest
}

func recall(ctx context.Context, log *journal.Journal) (past, error) {
	p := past{at: time.Now()}
	var err error
	p.leader, p.since = log.Reign(ctx)
	if p.last, err = log.LastMoves(ctx); err != nil {
		return p, err
	}
	if p.fares, err = log.Health(ctx); err != nil {
		return p, err
	}
	if pause, paused, err := log.Paused(ctx); err != nil {
		return p, err
	} else if paused {
		p.pause = &pause
	}
	requests, err := log.Pending(ctx)
	if err != nil {
		return p, err
	}
	for _, r := range requests {
		events, err := log.Events(ctx, r.ID, 0)
		if err != nil {
			return p, err
		}
		p.pending = append(p.pending, newPendingRequest(r, events))
	}
	return p, nil
}
