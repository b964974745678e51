// Package status has the output of the commands: the report of all nodes, the findings of reconcile, the preview of a
// request, its progress and its outcome. Each is data, with JSON tags that docs/reference/status.md and the related
// pages describe, and with views for people. The package asks no source and changes nothing.
package status

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/reconcile"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// Report is what `status` prints. docs/reference/status.md describes each field.
type Report struct {
	Cluster     string                 `json:"cluster"`
	Leader      string                 `json:"leader"`          // the worker that holds the lease; empty: none
	Pause       *reconfigure.Pause     `json:"pause,omitempty"` // nil: no pause
	Requests    []Request              `json:"requests"`
	Campaign    *Campaign              `json:"campaign,omitempty"` // the campaign that has not ended
	Unreachable []snapshot.Unreachable `json:"unreachable"`
	Reconcile   *Look                  `json:"reconcile,omitempty"` // the worker's last comparison
	Refused     []RefusedCall          `json:"refused"`             // the calls that the gate refused lately
	Groups      []Group                `json:"groups"`
	Limits      []Limit                `json:"limits,omitempty"`
	Nodes       []Node                 `json:"nodes"`

	unfolded bool // nodes that are powered down have a line each, too
}

// Node is one node of the report.
type Node struct {
	Node     string   `json:"node"`
	Group    string   `json:"group"` // empty if only the cloud knows the instance
	Kind     Kind     `json:"kind"`
	Slurm    []string `json:"slurm"` // base state and flags; empty if unknown
	Reason   string   `json:"reason,omitempty"`
	Instance string   `json:"instance,omitempty"` // Nova's status, or MISSING
	// the instance was stopped while idle, until it is needed
	Stopped       bool               `json:"stopped,omitempty"`
	Fault         string             `json:"fault,omitempty"` // of an instance in ERROR, in Nova's words
	Created       time.Time          `json:"created,omitzero"`
	Address       string             `json:"address,omitempty"`
	Image         string             `json:"image,omitempty"` // the instance's image, if a group declares it
	ImageID       string             `json:"image_id,omitempty"`
	WantedImage   string             `json:"wanted_image,omitempty"`    // as declared
	WantedImageID string             `json:"wanted_image_id,omitempty"` // the current id of the name
	Outdated      []snapshot.Drift   `json:"outdated"`
	Doing         *Activity          `json:"doing,omitempty"`
	Last          *reconfigure.Event `json:"last,omitempty"`

	state reconfigure.NodeState
}

// Limit is the number of nodes of some groups, and their maximum.
type Limit struct {
	Groups []string `json:"groups"`
	Max    int      `json:"max"`
	Nodes  int      `json:"nodes"` // the nodes with an instance, also a stopped one
}

// limits returns the declared limits; none if the number of nodes is unknown.
func limits(c reconfigure.Cluster, seen snapshot.Snapshot) (all []Limit) {
	for _, l := range c.Limits {
		if seen.Asked(snapshot.Terraform) {
			all = append(all, Limit{l.Groups, l.Max, seen.Existing(c, l).Len()})
		}
	}
	return all
}

// missing replaces Nova's status if the cloud does not have an instance that is in Terraform's state.
const missing = "MISSING"

// Kind is how a node is declared.
type Kind string

// The kinds.
const (
	KindControl    Kind = "control"
	KindPersistent Kind = "persistent"
	KindCloud      Kind = "cloud"
	KindUndeclared Kind = "undeclared" // there is an instance, but all.yml has no such node
)

// Journal is the data that was read from the journal. The zero value is for a cluster without a journal.
type Journal struct {
	Time    time.Time                     // the time of the read
	Leader  string                        // the worker that holds the lease; empty: none
	Since   time.Time                     // when it acquired the lease
	Pause   *reconfigure.Pause            // nil: no pause
	Last    map[string]reconfigure.Event  // the last event of each node
	Health  map[string]reconfigure.Health // of the node groups with failures
	Pending []Request
	Keys    []reconfigure.KeyUse // the use of the keys that the gate admits
	// Campaign is the newest one; nil: there was none.
	Campaign *reconfigure.Campaign
}

// Reader reads the journal for reports.
type Reader interface {
	HolderSince(ctx context.Context) (holder string, acquired time.Time)
	LastMoves(ctx context.Context) (map[string]reconfigure.Event, error)
	Health(ctx context.Context) (map[string]reconfigure.Health, error)
	Paused(ctx context.Context) (reconfigure.Pause, bool, error)
	Pending(ctx context.Context) ([]reconfigure.Request, error)
	KeyUses(ctx context.Context) ([]reconfigure.KeyUse, error)
	Campaign(ctx context.Context) (reconfigure.Campaign, bool, error)
	// EventsOf returns the events of the plans of each request, oldest first.
	EventsOf(ctx context.Context, ids ...reconfigure.RequestID) (map[reconfigure.RequestID][]reconfigure.Event, error)
}

// Read reads the journal with a fixed number of queries, independent of the number of requests.
func Read(ctx context.Context, r Reader) (Journal, error) {
	j := Journal{Time: time.Now()}
	var err error
	j.Leader, j.Since = r.HolderSince(ctx)
	if j.Last, err = r.LastMoves(ctx); err != nil {
		return j, err
	}
	if j.Health, err = r.Health(ctx); err != nil {
		return j, err
	}
	if pause, paused, err := r.Paused(ctx); err != nil {
		return j, err
	} else if paused {
		j.Pause = &pause
	}
	if j.Keys, err = r.KeyUses(ctx); err != nil {
		return j, err
	}
	if c, there, err := r.Campaign(ctx); err != nil {
		return j, err
	} else if there {
		j.Campaign = &c
	}
	requests, err := r.Pending(ctx)
	if err != nil {
		return j, err
	}
	ids := make([]reconfigure.RequestID, len(requests))
	for i, request := range requests {
		ids[i] = request.ID
	}
	events, err := r.EventsOf(ctx, ids...)
	for _, request := range requests {
		j.Pending = append(j.Pending, NewRequest(request, events[request.ID]))
	}
	return j, err
}

// Requests returns the pending requests with their states.
func (j Journal) Requests() []Request {
	requests := append([]Request{}, j.Pending...) // an empty list in JSON, not null
	for i := range requests {
		requests[i].State, requests[i].since = requests[i].state(j.Leader != "", j.Since), j.Since
	}
	return requests
}

// New makes the report from the declaration, the snapshot, the journal and the worker's last comparison.
func New(c reconfigure.Cluster, seen snapshot.Snapshot, j Journal, last reconcile.Look) Report {
	v := viewer{c, seen, seen.ImageNames(c)}
	r := Report{
		Cluster: c.Name, Leader: j.Leader, Pause: j.Pause, Requests: j.Requests(),
		Unreachable: unreachable(seen.Unreachable()),
		Reconcile:   newLook(last, c.Settings.Reconcile, j.Time), Nodes: v.declared(),
		Refused: refusedCalls(j.Keys), Limits: limits(c, seen),
	}
	if j.Campaign != nil && !j.Campaign.Ends() {
		campaign := NewCampaign(*j.Campaign)
		r.Campaign = &campaign
	}
	for name := range seen.Undeclared(c).All() {
		r.Nodes = append(r.Nodes, v.node(name, seen.Desired[name].Group, KindUndeclared, reconfigure.Source{}))
	}
	doing := activities(r.Requests)
	for i := range r.Nodes {
		n := &r.Nodes[i]
		if e, ok := j.Last[n.Node]; ok {
			n.Last = &e
		}
		if a, ok := doing[n.Node]; ok {
			n.Doing = &a
		}
	}
	r.Groups = summarize(r.Nodes, seen)
	for i := range r.Groups {
		g := &r.Groups[i]
		g.addHealth(j.Health[g.Group], c, j.Time)
	}
	return r
}

// unreachable returns the sources that do not answer, each reason on one line.
func unreachable(all []snapshot.Unreachable) []snapshot.Unreachable {
	all = append([]snapshot.Unreachable{}, all...)
	for i := range all {
		all[i].Reason = text.OneLine(all[i].Reason)
	}
	return all
}

// Names returns the nodes that have a row.
func (r Report) Names() nodeset.NodeSet {
	names := make([]string, len(r.Nodes))
	for i, n := range r.Nodes {
		names[i] = n.Node
	}
	return nodeset.Of(names...)
}

// viewer makes rows.
type viewer struct {
	cluster    reconfigure.Cluster
	seen       snapshot.Snapshot
	imageNames map[string]string
}

// declared returns the rows of the declared nodes, with or without an instance.
func (v viewer) declared() []Node {
	var nodes []Node
	if !v.cluster.Attached() {
		nodes = append(nodes,
			v.node(v.cluster.Control.Name, reconfigure.ControlGroup, KindControl, v.cluster.Control.Source))
	}
	for _, g := range v.cluster.Groups {
		persistent := g.Persistent()
		for name := range g.Nodes().All() {
			kind := KindCloud
			if persistent.Contains(name) {
				kind = KindPersistent
			}
			nodes = append(nodes, v.node(name, g.Name, kind, g.Source))
		}
	}
	return nodes
}

// node returns the row of a node with this declared source.
func (v viewer) node(name, group string, kind Kind, declared reconfigure.Source) Node {
	state, instance, servers := v.seen.States[name], v.seen.Instances[name], v.seen.Servers[name]
	n := Node{
		Node: name, Group: group, Kind: kind, Slurm: state.Words(), Reason: reasonOf(state), state: state,
		Address: instance.Address, WantedImage: declared.Image, WantedImageID: v.seen.Sources[declared].ImageID,
		Outdated: append([]snapshot.Drift{}, v.seen.Drift(v.cluster, name)...), Stopped: v.seen.Rests(v.cluster, name),
	}
	if instance.ID != "" {
		n.ImageID = v.seen.Desired[name].ImageID
	}
	if slices.Contains(n.Outdated, snapshot.DriftLost) && servers == nil {
		n.Instance = missing
	}
	for _, server := range servers {
		n.Fault = cmp.Or(server.Fault.Words, n.Fault)
		if n.Instance != "" {
			n.Instance += "," // show each of several instances of one name
		}
		n.Instance += string(server.Status)
		n.Created = server.Created
		n.ImageID = cmp.Or(server.ImageID, n.ImageID)
		n.Address = cmp.Or(n.Address, server.Address)
	}
	n.Image = v.imageNames[n.ImageID]
	if n.ImageID != "" && n.ImageID == n.WantedImageID {
		n.Image = declared.Image // a group may use another name for the same image
	}
	return n
}

// idle reports whether a cloud node needs no row of its own: it is powered down, without activity and without a
// problem.
func (n Node) idle() bool {
	unused := len(n.Slurm) == 0 || n.state.PoweredDown()
	return n.Kind == KindCloud && n.Instance == "" && n.Address == "" && unused && len(n.Outdated) == 0 &&
		n.Doing == nil &&
		n.why() == ""
}

// reasonOf returns the reason for the state of a node. Slurm keeps the reason of a drain that has ended if power saving
// has powered down the node since.
func reasonOf(s reconfigure.NodeState) string {
	const gone = reconfigure.NodePoweredDown | reconfigure.NodePoweringDown
	if s.HasAny(gone) && !s.HasAny(reconfigure.NodeDown|reconfigure.NodeDrain|reconfigure.NodeFail) {
		return ""
	}
	return s.Reason
}

// why returns Slurm's reason or, if it has none, the reason why the node failed last.
func (n Node) why() string {
	if n.Reason == "" && n.failing() {
		return text.OneLine(n.Last.Message)
	}
	return text.OneLine(n.Reason)
}

// lastWords returns the last activity at a node.
func (n Node) lastWords(now time.Time) string {
	if n.Last == nil {
		return ""
	}
	return string(n.Last.Phase) + " " + string(n.Last.Level) + " " + text.Ago(now, n.Last.Time) + " ago"
}

// imageWords returns the image of a node, and the declared one if it differs.
func (n Node) imageWords() string {
	is := cmp.Or(n.Image, shortID(n.ImageID))
	if slices.Contains(n.Outdated, snapshot.DriftImage) {
		return is + " → " + shortID(n.WantedImage)
	}
	return is
}

// shortID shortens a UUID; it returns other texts unchanged.
func shortID(id string) string {
	if len(id) == 36 && strings.Count(id, "-") == 4 {
		return id[:8] + "…"
	}
	return id
}

// Look is the worker's last comparison of the sources.
type Look struct {
	Time        time.Time              `json:"time"`
	Overdue     bool                   `json:"overdue"` // no worker has compared for some time
	Findings    []Finding              `json:"findings"`
	Unreachable []snapshot.Unreachable `json:"unreachable"`
}

// newLook returns the worker's last comparison; nil if workers do not compare, or none has yet.
func newLook(l reconcile.Look, every time.Duration, now time.Time) *Look {
	if every == 0 || l.Time.IsZero() {
		return nil
	}
	return &Look{
		Time: l.Time, Overdue: now.Sub(l.Time) > reconcile.StaleAfter*every,
		Findings: newFindings(l.Findings), Unreachable: unreachable(l.Unreachable),
	}
}

// words returns the same for people.
func (l Look) words(now time.Time) string {
	said := "The worker compared the sources " + text.Ago(now, l.Time) + " ago"
	if l.Overdue {
		said += ", and not since then (`reconfigure worker` does)"
	}
	groups := text.GroupNodes(l.Findings, func(f Finding) (string, reconcile.Kind) { return f.Node, f.Kind })
	switch {
	case len(l.Unreachable) > 0:
		return said + ": not all of them answered."
	case len(groups) == 0:
		return said + ": they agreed."
	}
	found := make([]string, len(groups))
	for i, g := range groups {
		found[i] = g.First.Kind.Words() + " " + list(g.Nodes, false)
	}
	return said + ": " + strings.Join(found, ", ") + "; `reconfigure reconcile` has more."
}

// keys returns the sorted keys of a map.
func keys[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }
