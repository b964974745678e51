package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/adopt"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/recovery"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
	"github.com/eiffel-hpc/eiffel/reconfigure/terraform"
)

// The callers of the pauses that Adopt and Release begin.
const (
	adopter  = "reconfigure adopt"
	releaser = "reconfigure release"
)

// HandedOver is the result of Adopt and Release.
type HandedOver struct {
	Nodes   string    `json:"nodes"` // that were adopted or released
	Refused []Refused `json:"refused"`
	// NoHostKey are the adopted nodes whose host keys could not be learned, and why. They are learned when needed.
	NoHostKey []Refused `json:"no_host_key"`
	released  bool
}

// Refused is a node and the reason.
type Refused struct {
	Node   string `json:"node"`
	Reason string `json:"reason"`
}

func refusals(failures reconfigure.Failures) []Refused {
	all := []Refused{}
	for _, node := range slices.Sorted(maps.Keys(failures)) {
		all = append(all, Refused{node, failures[node].Error()})
	}
	return all
}

// ErrNotAll is the error of an adoption or a release of which some nodes were refused.
var ErrNotAll = errors.New("some nodes were refused: see above")

// Err returns an error if nodes were refused: ErrNotAll if others were not.
func (h HandedOver) Err() error {
	switch {
	case len(h.Refused) == 0:
		return nil
	case h.Nodes == "":
		return errors.New("all nodes were refused: see above")
	}
	return ErrNotAll
}

// String describes the result for people.
func (h HandedOver) String() string {
	var b strings.Builder
	word := "adopted"
	if h.released {
		word = "released"
	}
	if h.Nodes != "" {
		fmt.Fprintf(&b, "%s: %s\n", word, h.Nodes)
	}
	for _, r := range h.Refused {
		fmt.Fprintf(&b, "not %s: %s: %s\n", word, r.Node, r.Reason)
	}
	for _, r := range h.NoHostKey {
		fmt.Fprintf(&b, "the host key of %s is not known yet: %s\n", r.Node, r.Reason)
	}
	switch {
	case h.Nodes == "":
	case h.released:
		b.WriteString("Next: declare the nodes no longer, and run `reconfigure attach` or `reconfigure deploy`: until then " +
			"Slurm may ask for other instances of them.\n")
	default:
		b.WriteString("Next: if another Terraform made the servers, let it forget each of them and its port: " +
			"terraform state rm ADDRESS\n")
	}
	return b.String()
}

// Adopt makes servers that somebody else has made the instances of nodes, as they are: nothing is restarted or
// configured. A plan of Terraform without a change proves each; the others are as before, and in the result with the
// differences. A pause holds while it acts, and stays if it is killed or fails: it may then be repeated.
func Adopt(ctx context.Context, a *site.Adapters, nodes nodeset.NodeSet) (done HandedOver, err error) {
	h := &handOver{Adapters: a, nodes: nodes, by: adopter}
	return done, h.do(ctx, func(ctx context.Context) (err error) {
		candidates, err := h.cloud.Candidates(ctx, nodes)
		if err != nil {
			return err
		}
		h.facts.Candidates = candidates
		chosen, refused := adopt.Choose(h.facts, nodes)
		if err := h.paused(ctx, nodeset.Collect(maps.Keys(chosen)), func() error {
			return h.takeIn(ctx, chosen, refused)
		}); err != nil {
			return err
		}
		done.Nodes, done.Refused = nodeset.Collect(maps.Keys(chosen)).String(), refusals(refused)
		done.NoHostKey, err = h.learnHostKeys(ctx, chosen)
		return err
	})
}

// Release is the way back: the instances of nodes are no longer the cluster's, and go on as they are. It may be
// repeated, as Adopt.
func Release(ctx context.Context, a *site.Adapters, nodes nodeset.NodeSet) (done HandedOver, err error) {
	h := &handOver{Adapters: a, nodes: nodes, by: releaser}
	done.released, done.NoHostKey = true, []Refused{}
	return done, h.do(ctx, func(ctx context.Context) error {
		ours, _, err := a.InCloud(ctx)
		if err != nil {
			return err
		}
		chosen, refused := adopt.Releasable(h.facts, nodes, ours)
		released := nodeset.Collect(maps.Keys(chosen))
		done.Nodes, done.Refused = released.String(), refusals(refused)
		return h.paused(ctx, released, func() error {
			return h.giveUp(ctx, released, func(node string) []string { return []string{chosen[node].ID} })
		})
	})
}

// handOver is one call of Adopt or Release.
type handOver struct {
	*site.Adapters
	nodes nodeset.NodeSet
	by    string
	cloud site.Takeover
	facts adopt.Facts
}

// reason returns that of the pause for nodes. After a kill all of them must be in the next call, and no others.
func (h *handOver) reason(nodes nodeset.NodeSet) string {
	return fmt.Sprintf("`%s %s` is in progress; if it was interrupted, repeat it", h.by, nodes)
}

// do calls act while this process has the lease, with the facts.
func (h *handOver) do(ctx context.Context, act func(context.Context) error) error {
	return leased(ctx, h.Adapters, func(ctx context.Context) error {
		s, log := h.Site, h.Journal
		if err := errors.Join(s.PutRootModule(ctx), s.Adopt(ctx, log)); err != nil {
			return err
		}
		pause, paused, err := log.Paused(ctx)
		if err != nil {
			return err
		}
		begun := paused && pause.By == h.by && pause.Reason == h.reason(h.nodes)
		switch {
		case begun || !paused:
		case pause.By == adopter || pause.By == releaser:
			return refuse("%s", pause.Reason)
		default:
			return refuse("%s has paused the cluster (%s): end that by `reconfigure continue` first", pause.By, pause.Reason)
		}
		identity, err := log.Identity(ctx)
		if err != nil {
			return err
		}
		desired, _, err := log.Nodes(ctx)
		if err != nil {
			return err
		}
		cloud, err := h.Cloud(ctx)
		if err != nil {
			return err
		}
		takeover, ok := cloud.(site.Takeover)
		if !ok {
			return refuse("it is not possible with provider %s", s.Provider.Name)
		}
		h.cloud = takeover
		h.facts = adopt.Facts{Cluster: s.Cluster, ID: identity.ID, Desired: desired, Again: begun}
		return act(ctx)
	})
}

// paused calls do, for nodes, during a pause, which stays after an error.
func (h *handOver) paused(ctx context.Context, nodes nodeset.NodeSet, do func() error) error {
	if h.facts.Again {
		nodes = h.nodes
	}
	if nodes.Empty() {
		return nil
	}
	if err := h.Journal.Pause(ctx, h.reason(nodes), h.by); err != nil {
		return err
	}
	if err := do(); err != nil {
		return fmt.Errorf("%w. The cluster is paused: %s", err, h.reason(nodes))
	}
	return h.Journal.Continue(ctx)
}

// takeIn claims servers and imports them into the state. A node for which Terraform has changes moves from chosen to
// refused, and is given up.
func (h *handOver) takeIn(
	ctx context.Context, chosen map[string]reconfigure.Candidate, refused reconfigure.Failures,
) error {
	taken := nodeset.Collect(maps.Keys(chosen)) // perhaps by a call that was killed
	if h.facts.Again {
		taken = h.nodes
	}
	drop := func(node string, why error) {
		refused[node] = why
		delete(chosen, node)
	}
	for _, node := range slices.Sorted(maps.Keys(chosen)) {
		group, _ := h.Site.Cluster.GroupOf(node)
		if err := h.cloud.Claim(ctx, chosen[node].ID, node, group.Name); err != nil {
			drop(node, err)
		}
	}
	facts := recovery.Facts{Cluster: h.Site.Cluster, Commands: h.Site.Provider.Commands}
	var err error
	if facts.Servers, facts.Ports, err = h.InCloud(ctx); err != nil {
		return err
	}
	found := recovery.Compute(facts)
	desired := map[string]reconfigure.Spec{}
	maps.Copy(desired, h.facts.Desired)
	shards := map[string]bool{}
	for _, node := range slices.Collect(maps.Keys(chosen)) {
		spec, ok := found.Nodes[node]
		if !ok {
			drop(node, errors.New("the cloud has changed it meanwhile: repeat the command"))
			continue
		}
		desired[node], shards[spec.Shard] = spec, true
	}
	h.facts.Desired = desired
	for _, shard := range slices.Sorted(maps.Keys(shards)) {
		done, err := h.ImportNodes(ctx, shard, desired, terraform.Existing{Servers: found.Servers, Ports: found.Ports})
		if err != nil {
			return err
		}
		for node, why := range done.Failures {
			if _, ok := chosen[node]; ok {
				drop(node, why)
			}
		}
	}
	return h.giveUp(ctx, taken.Intersect(nodeset.Collect(maps.Keys(refused))), func(node string) []string {
		var ids []string
		for _, c := range h.facts.Candidates[node] {
			ids = append(ids, c.ID)
		}
		return ids
	})
}

// giveUp removes nodes from Terraform's states and from the map of nodes, and then the marks of their servers: a server
// without marks that Terraform knows could be removed.
func (h *handOver) giveUp(ctx context.Context, nodes nodeset.NodeSet, servers func(node string) []string) error {
	rest := maps.Clone(h.facts.Desired)
	byShard := map[string][]string{}
	for node := range nodes.All() {
		if spec, known := rest[node]; known {
			byShard[spec.Shard] = append(byShard[spec.Shard], node)
			delete(rest, node)
		}
	}
	for _, shard := range slices.Sorted(maps.Keys(byShard)) {
		if err := h.ForgetNodes(ctx, shard, rest, nodeset.Of(byShard[shard]...)); err != nil {
			return err
		}
	}
	for node := range nodes.All() {
		for _, id := range servers(node) {
			if err := h.cloud.Disclaim(ctx, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// learnHostKeys learns the host keys of the adopted nodes.
func (h *handOver) learnHostKeys(ctx context.Context, chosen map[string]reconfigure.Candidate) ([]Refused, error) {
	var all []reconfigure.Instance
	for node, c := range chosen {
		all = append(all, reconfigure.Instance{
			Node: node, ID: c.ID, Address: c.Address, Made: h.facts.Desired[node],
		})
	}
	failed, err := h.LearnHostKeys(ctx, all)
	return refusals(failed), err
}
