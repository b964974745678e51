package site

import (
	"context"
	"log/slog"

	"github.com/google/uuid"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
)

// identify sets the cluster's id, once: the id in the file of the map of nodes, from a former journal, else a new
// one.
func (s Site) identify(ctx context.Context, log *journal.Journal) error {
	id, err := s.NodeMap(log).ClusterID(ctx)
	if err != nil {
		return err
	}
	if id == "" {
		id = uuid.NewString()
	}
	return log.AdoptIdentity(ctx, id)
}

// identity returns the cluster's identity in the cloud, without writing it.
func (s Site) identity(ctx context.Context, log *journal.Journal) (identity reconfigure.Identity, err error) {
	if log != nil {
		if identity, err = log.Identity(ctx); err != nil || identity.ID != "" {
			return identity, err
		}
	}
	identity.ID, err = s.NodeMap(log).ClusterID(ctx)
	return identity, err
}

// Mark sets the cluster's id on the instances and ports in Terraform's states that an earlier version made. It does
// so once.
func (s Site) Mark(ctx context.Context, log *journal.Journal, logger *slog.Logger) error {
	identity, err := log.Identity(ctx)
	if err != nil || identity.Marked {
		return err
	}
	a := s.Adapters(log, logger)
	defer a.Close()
	servers, ports, err := a.owned(ctx)
	if err != nil {
		return err
	}
	if len(servers)+len(ports) > 0 {
		cloud, err := a.Cloud(ctx)
		if err != nil {
			return err
		}
		rest, err := cloud.Mark(ctx, servers, ports)
		if err != nil {
			return err
		}
		for _, server := range rest {
			logger.WarnContext(ctx, "an instance has the name of this cluster and no cluster id, and Terraform does "+
				"not know it: it belongs to another cluster or is a leftover, and will be ignored from now on",
				"instance", server.Node, "id", server.ID)
		}
	}
	return log.KeepMarked(ctx)
}

// owned returns the ids of all instances and ports of nodes in Terraform's states.
func (a *Adapters) owned(ctx context.Context) (servers, ports []string, err error) {
	desired, _, err := a.Site.NodeMap(a.Journal).Read(ctx)
	if err != nil || len(desired) == 0 {
		return nil, nil, err
	}
	err = a.eachShard(ctx, reconfigure.Shards(desired), func(d Driver) (func(), error) {
		some, more, err := d.Owned(ctx)
		return func() { servers, ports = append(servers, some...), append(ports, more...) }, err
	})
	return servers, ports, err
}
