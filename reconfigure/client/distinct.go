package client

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
)

// Distinct returns an error if the cluster does not exist yet and the project has another cluster with its name, or
// leftovers of one. A cloud that does not answer is not an error here: the deploy reports it.
func Distinct(ctx context.Context, s site.Site) error {
	return s.IfJournal(ctx, func(log *journal.Journal) error {
		told, _, err := s.NodeMap(log).Read(ctx)
		if err != nil || told[s.Cluster.Control.Name].HasInstance() {
			return err
		}
		adapters := s.Adapters(log, slog.New(slog.DiscardHandler))
		defer adapters.Close()
		cloud, err := adapters.Cloud(ctx)
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

// namesakes returns the error for instances of other clusters with the same name.
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
	return fmt.Errorf("this cluster has no instances yet, but the project already has instances with the name %s, %s. "+
		"If they belong to another cluster, choose another cluster_name in all.yml. If they belong to this "+
		"cluster, restore its journal and Terraform's state, or remove them by `%sID`",
		name, strings.Join(clusters, "; "), remove)
}
