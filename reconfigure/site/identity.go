package site

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

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
	desired, _, err := a.site.NodeMap(a.log).Read(ctx)
	if err != nil || len(desired) == 0 {
		return nil, nil, err
	}
	err = a.eachShard(ctx, reconfigure.Shards(desired), func(d Driver) (func(), error) {
		some, more, err := d.Owned(ctx)
		return func() { servers, ports = append(servers, some...), append(ports, more...) }, err
	})
	return servers, ports, err
}

// Distinct is an error where the cluster is not there yet, and the project has another one of its name, or what is left
// of one. A cloud that does not answer is no error: the deploy finds that itself.
func (s Site) Distinct(ctx context.Context) error {
	return s.IfJournal(ctx, func(log *journal.Journal) error {
		told, _, err := s.NodeMap(log).Read(ctx)
		if err != nil || told[s.Cluster.Control.Name].HasInstance() {
			return err
		}
		cloud, err := s.cloud(ctx, log)
		if err != nil {
			return nil //nolint:nilerr // see above
		}
		others, err := cloud.Namesakes(ctx)
		if err != nil {
			return nil //nolint:nilerr // see above
		}
		return namesakes(s.Cluster.Name, others, s.Provider.Commands.Remove)
	})
}

// namesakes is the error for instances of other clusters of a name.
func namesakes(name string, others map[string][]reconfigure.Server, remove string) error {
	if len(others) == 0 {
		return nil
	}
	var clusters []string
	for _, id := range slices.Sorted(maps.Keys(others)) {
		const most = 5
		var instances []string
		for _, server := range others[id][:min(most, len(others[id]))] {
			instances = append(instances, server.Node+" ("+server.ID+")")
		}
		if more := len(others[id]) - most; more > 0 {
			instances = append(instances, fmt.Sprintf("and %d more", more))
		}
		whose := "cluster " + id
		if id == "" {
			whose = "a cluster without an id"
		}
		clusters = append(clusters, "of "+whose+": "+strings.Join(instances, ", "))
	}
	return fmt.Errorf("this cluster has no instances yet, but the project has instances of the name %s already, %s. "+
		"Where they are another cluster's, choose another cluster_name in group_vars/all.yml. Where they are this "+
		"cluster's, restore its journal and Terraform's state, or remove them by `%sID`",
		name, strings.Join(clusters, "; "), remove)
}
