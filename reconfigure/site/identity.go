package site

import (
	"context"
	"log/slog"

	"github.com/google/uuid"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
)

// identify gives the cluster its id, once: that which the file of the map of nodes has from a former journal, else a
// new one.
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

// identity is what the cloud knows the cluster by, for who may not write.
func (s Site) identity(ctx context.Context, log *journal.Journal) (identity reconfigure.Identity, err error) {
	if log != nil {
		if identity, err = log.Identity(ctx); err != nil || identity.ID != "" {
			return identity, err
		}
	}
	identity.ID, err = s.NodeMap(log).ClusterID(ctx)
	return identity, err
}

// Mark gives the cluster's id to the instances and ports in Terraform's states that an earlier version has made, once.
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
			logger.WarnContext(ctx, "an instance has the name of this cluster and no cluster's id, and Terraform does "+
				"not know it: it is another cluster's, or left over, and is left alone from now on",
				"instance", server.Node, "id", server.ID)
		}
	}
	return log.KeepMarked(ctx)
}

// owned is the ids of all instances and ports of nodes in Terraform's states.
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
