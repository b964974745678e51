package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/recovery"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
	"github.com/eiffel-hpc/eiffel/reconfigure/terraform"
)

// RecoveredSite is the result of Recover.
type RecoveredSite struct {
	Directory string `json:"directory"`
	Cluster   string `json:"cluster"`
	ClusterID string `json:"cluster_id"`
	// Nodes have an instance, and KeptPorts a kept port alone, in Terraform's states; a plan does not change them.
	Nodes     string          `json:"nodes"`
	KeptPorts string          `json:"kept_ports"`
	HostKeys  string          `json:"host_keys"` // nodes whose host keys are known
	Shared    []string        `json:"shared"`    // addresses of the shared resources in the states
	Rest      []string        `json:"rest"`      // what the next deploy changes of the shared resources
	Left      []recovery.Left `json:"left"`      // what could not be imported
}

// LeftBehindError is the error of a recovery that could not import everything.
type LeftBehindError struct{ Left int }

func (e *LeftBehindError) Error() string {
	return fmt.Sprintf("%d things could not be recovered: see the commands above, then recover again", e.Left)
}

// Recover rebuilds a cluster directory that has only the declaration and the cloud's credentials, from what the cloud
// has: a new journal, in which a pause has begun, the map of nodes, Terraform's states and the host keys. It makes and
// removes nothing in the cloud. asked is the cluster's id; empty: that of the only cluster with the declared name.
// After a kill, or when an administrator has done what Left says, it may be repeated until the pause ends. If the
// directory has a journal in use or states, the error is a *NotNowError.
func Recover(ctx context.Context, s site.Site, asked string, logger *slog.Logger) (done RecoveredSite, err error) {
	done = RecoveredSite{
		Directory: s.Dir, Cluster: s.Cluster.Name, Shared: []string{}, Rest: []string{}, Left: []recovery.Left{},
	}
	if err := s.Recoverable(); err != nil {
		return done, refuse("%v", err)
	}
	namesakes, err := s.Namesakes(ctx)
	if err != nil {
		return done, err
	}
	if done.ClusterID, err = recovery.ClusterID(s.Cluster.Name, namesakes, asked); err != nil {
		return done, refuse("%v", err)
	}
	err = s.WithJournal(ctx, func(log *journal.Journal) (err error) {
		release, ok, err := log.Acquire(ctx)
		if err != nil {
			return err
		} else if !ok {
			return workerRuns(s.Dir)
		}
		defer func() { err = errors.Join(err, release()) }()
		held, stop := log.WhileHeld(ctx)
		defer stop()
		if err := mayRecover(held, s, log, done.ClusterID); err != nil {
			return err
		}
		return recoverInto(held, s, log, logger, &done)
	})
	return done, err
}

// mayRecover returns a refusal if the journal or the directory has a cluster that no recovery has begun.
func mayRecover(ctx context.Context, s site.Site, log *journal.Journal, id string) error {
	pause, paused, err := log.Paused(ctx)
	if err != nil {
		return err
	}
	identity, err := log.Identity(ctx)
	if err != nil {
		return err
	}
	_, known, err := log.Nodes(ctx)
	if err != nil {
		return err
	}
	begun := paused && pause.By == journal.Recoverer
	switch {
	case identity.ID != "" && identity.ID != id:
		return refuse("%s is the journal of the cluster with the id %s, and the instances have the id %s: if a worker began "+
			"this journal after the old one was lost, move it away", log.Name(), identity.ID, id)
	case known && !begun:
		return refuse("%s knows the nodes of the cluster already: `reconfigure reconcile` shows what differs", log.Name())
	case begun:
		return nil
	}
	left, err := s.StatesLeft()
	if err != nil {
		return err
	}
	if left != "" {
		return refuse("%s exists: if only the journal is lost, `reconfigure deploy` goes on with the files that are there; "+
			"if they are not this cluster's, move them away", left)
	}
	return nil
}

// recoverInto carries out the steps. Each of them may be repeated.
func recoverInto(
	ctx context.Context, s site.Site, log *journal.Journal, logger *slog.Logger, done *RecoveredSite,
) error {
	if err := log.Recovering(ctx); err != nil {
		return err
	}
	if err := log.AdoptIdentity(ctx, done.ClusterID); err != nil {
		return err
	}
	// Instances without an id belong to another cluster of the same name, or to an early version.
	if err := log.KeepMarked(ctx); err != nil {
		return err
	}
	if err := errors.Join(s.Remember(), s.PutRootModule(ctx)); err != nil {
		return err
	}
	if err := s.Adopt(ctx, log); err != nil { // host keys that an administrator has added to the file
		return err
	}
	adapters := s.Adapters(log, logger)
	defer adapters.Close()
	facts := recovery.Facts{Cluster: s.Cluster, Commands: s.Provider.Commands}
	var err error
	if facts.Servers, facts.Ports, err = adapters.InCloud(ctx); err != nil {
		return err
	}
	found := recovery.Compute(facts)
	done.Left = append(done.Left, found.Left...)
	shards, err := s.ShardsOf(ctx, log, found.Nodes)
	if err != nil {
		return err
	}
	var imported nodeset.NodeSet
	for _, shard := range shards {
		state, err := adapters.RecoverShard(ctx, shard, found.Nodes,
			terraform.Existing{Servers: found.Servers, Ports: found.Ports})
		if err != nil {
			return err
		}
		imported = imported.Union(state.Nodes)
		done.Shared = append(done.Shared, state.Shared...)
		done.Rest = append(done.Rest, state.Rest...)
		for _, node := range slices.Sorted(maps.Keys(state.Failures)) {
			done.Left = append(done.Left, recovery.Left{
				What: node, Reason: state.Failures[node].Error() + "; correct it in the cloud, and recover again",
			})
		}
	}
	instances := imported.Where(func(node string) bool { return found.Nodes[node].HasInstance() })
	done.Nodes, done.KeptPorts = instances.String(), imported.Difference(instances).String()
	return learnHostKeys(ctx, adapters, instances, found, done)
}

// learnHostKeys learns the host keys of the imported instances that run.
func learnHostKeys(
	ctx context.Context, adapters *site.Adapters, nodes nodeset.NodeSet, found recovery.Found, done *RecoveredSite,
) error {
	var all []reconfigure.Instance
	for node := range nodes.All() {
		if s := found.Servers[node]; s.Active() {
			all = append(all, reconfigure.Instance{Node: node, ID: s.ID, Address: s.Address, Made: found.Nodes[node]})
		}
	}
	failed, err := adapters.LearnHostKeys(ctx, all)
	if err != nil {
		return err
	}
	var known []string
	for _, i := range all {
		if failed[i.Node] == nil {
			known = append(known, i.Node)
			continue
		}
		done.Left = append(done.Left, recovery.Left{
			What: "the host key of " + i.Node, Reason: failed[i.Node].Error() + "; compare the key's fingerprint with that on " +
				"the node, add it, and recover again",
			Command: fmt.Sprintf("ssh-keyscan %s >>%s", i.Address, adapters.Site.KnownHosts(nil).Path),
		})
	}
	done.HostKeys = nodeset.Of(known...).String()
	return nil
}

// Err returns a *LeftBehindError if something could not be imported.
func (r RecoveredSite) Err() error {
	if len(r.Left) > 0 {
		return &LeftBehindError{len(r.Left)}
	}
	return nil
}

// String describes the result for people.
func (r RecoveredSite) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s has the cluster %s with the id %s. A pause has begun.\n", r.Directory, r.Cluster, r.ClusterID)
	for _, line := range []struct{ what, value string }{
		{"instances", r.Nodes}, {"kept ports", r.KeptPorts}, {"host keys", r.HostKeys},
		{"shared resources", strings.Join(r.Shared, ", ")},
	} {
		if line.value != "" {
			fmt.Fprintf(&b, "%s: %s\n", line.what, line.value)
		}
	}
	for _, rest := range r.Rest {
		fmt.Fprintf(&b, "At the next deploy %s.\n", rest)
	}
	for _, left := range r.Left {
		fmt.Fprintf(&b, "Not recovered: %s: %s.\n", left.What, left.Reason)
		if left.Command != "" {
			fmt.Fprintf(&b, "    %s\n", left.Command)
		}
	}
	fmt.Fprintf(&b, "Next: make sure that no other host works for this cluster; `reconfigure --dir %s reconcile`, then "+
		"`reconfigure --dir %[1]s continue` and `reconfigure --dir %[1]s deploy`\n", r.Directory)
	return b.String()
}
