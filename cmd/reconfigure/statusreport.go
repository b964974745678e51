package main

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// statusReport is what `status` prints. docs/status.md describes each field.
type statusReport struct {
	Cluster   string             `json:"cluster"`
	Leader    string             `json:"leader"`          // the worker at work; empty: none
	Pause     *reconfigure.Pause `json:"pause,omitempty"` // while nothing is begun
	Requests  []pendingRequest   `json:"requests"`
	Silent    []silence          `json:"silent"`
	Reconcile *lookReport        `json:"reconcile,omitempty"` // the worker's last look at what differs
	Groups    []groupSummary     `json:"groups"`
	Nodes     []statusNode       `json:"nodes"`

	unfolded bool // nodes that are powered down have a line each, too
}

type statusNode struct {
	Node          string             `json:"node"`
	Group         string             `json:"group"` // empty where only the cloud knows the instance
	Kind          nodeKind           `json:"kind"`
	Slurm         []string           `json:"slurm"` // base state and flags; empty where Slurm does not know the node, or is silent
	Reason        string             `json:"reason,omitempty"`
	Instance      string             `json:"instance,omitempty"` // Nova's status, or missing
	Created       time.Time          `json:"created,omitzero"`
	Address       string             `json:"address,omitempty"`
	Image         string             `json:"image,omitempty"` // of the instance, where it is one that is declared for some group
	ImageID       string             `json:"image_id,omitempty"`
	WantedImage   string             `json:"wanted_image,omitempty"`    // as declared
	WantedImageID string             `json:"wanted_image_id,omitempty"` // what that means now
	Outdated      []drift            `json:"outdated"`
	Doing         *activity          `json:"doing,omitempty"`
	Last          *reconfigure.Event `json:"last,omitempty"`

	state reconfigure.NodeState
}

// missing stands in the place of Nova's status where Terraform has an instance that the cloud has not.
const missing = "MISSING"

type nodeKind string

const (
	kindControl    nodeKind = "control"
	kindPersistent nodeKind = "persistent"
	kindCloud      nodeKind = "cloud"
	kindUndeclared nodeKind = "undeclared" // there is an instance, but group_vars/all.yml has no such node
)

// drift is a way in which a node is not what is declared.
type drift string

const (
	driftImage      drift = "image" // it is made of another one
	driftFlavor     drift = "flavor"
	driftNetwork    drift = "network"
	driftGroup      drift = "group"      // it was made for another one
	driftMissing    drift = "missing"    // a persistent node without an instance
	driftTainted    drift = "tainted"    // its instance was not made to the end
	driftLost       drift = "lost"       // Terraform has an instance that the cloud has not
	driftDoubled    drift = "doubled"    // the cloud has several instances of its name
	driftUndeclared drift = "undeclared" // there is an instance, but nobody declares the node
)

// report puts together what is declared, what the parties say and what the journal knows.
func (v sight) report(c reconfigure.Cluster, p past) statusReport {
	r := statusReport{Cluster: c.Name, Leader: p.leader, Pause: p.pause, Requests: p.standings(), Silent: append([]silence{}, v.silent...), Nodes: v.declared(c)}
	r.Nodes = append(r.Nodes, v.undeclared(c)...)
	doing := activities(r.Requests)
	for i := range r.Nodes {
		n := &r.Nodes[i]
		if e, ok := p.last[n.Node]; ok {
			n.Last = &e
		}
		if a, ok := doing[n.Node]; ok {
			n.Doing = &a
		}
	}
	r.Groups = summarize(r.Nodes, r.Silent)
	for i := range r.Groups {
		g := &r.Groups[i]
		g.fare(p.fares[g.Group], c, p.at)
	}
	return r
}

// names is the nodes that have a row.
func (r statusReport) names() nodeset.NodeSet {
	names := make([]string, len(r.Nodes))
	for i, n := range r.Nodes {
		names[i] = n.Node
	}
	return nodeset.Of(names...)
}

// declared is the nodes that are declared, with or without an instance.
func (v sight) declared(c reconfigure.Cluster) []statusNode {
	names := v.imageNames(c)
	nodes := []statusNode{v.node(c.Control.Name, reconfigure.ControlGroup, kindControl, c.Control.Source, names)}
	for _, g := range c.Groups {
		persistent := g.Persistent()
		for name := range g.Nodes().All() {
			kind := kindCloud
			if persistent.Contains(name) {
				kind = kindPersistent
			}
			nodes = append(nodes, v.node(name, g.Name, kind, g.Source, names))
		}
	}
	return nodes
}

// undeclared is the nodes that have an instance, or a part of one, and that nobody declares any more.
func (v sight) undeclared(c reconfigure.Cluster) []statusNode {
	var found []string
	for name := range v.instances {
		found = append(found, name)
	}
	for name := range v.servers {
		found = append(found, name)
	}
	var nodes []statusNode
	names := v.imageNames(c)
	for name := range nodeset.Of(found...).Difference(c.Nodes().Union(nodeset.Of(c.Control.Name))).All() {
		nodes = append(nodes, v.node(name, v.desired[name].Group, kindUndeclared, reconfigure.Source{}, names))
	}
	return nodes
}

// imageNames is what the ids of the declared images are called.
func (v sight) imageNames(c reconfigure.Cluster) map[string]string {
	names := map[string]string{}
	for _, source := range sourcesOf(c) {
		if id := v.sources[source].ImageID; id != "" {
			names[id] = source.Image
		}
	}
	return names
}

// node is what the parties say of a node that is declared to be made of the source.
func (v sight) node(name, group string, kind nodeKind, source reconfigure.Source, imageNames map[string]string) statusNode {
	state, instance, servers := v.states[name], v.instances[name], v.servers[name]
	n := statusNode{
		Node: name, Group: group, Kind: kind, Slurm: state.Words(), Reason: reasonOf(state), state: state,
		Address: instance.Address, WantedImage: source.Image, WantedImageID: v.sources[source].ImageID,
	}
	known := instance.ID != ""
	if known {
		n.ImageID = v.desired[name].ImageID
	}
	if known && v.servers != nil && servers == nil {
		n.Instance = missing
	}
	for _, server := range servers {
		if n.Instance != "" {
			n.Instance += "," // two instances of one name are trouble: show both
		}
		n.Instance += server.Status
		n.Created = server.Created
		n.ImageID = cmp.Or(server.ImageID, n.ImageID)
		n.Address = cmp.Or(n.Address, server.Address)
	}
	n.Image = imageNames[n.ImageID]
	if n.ImageID != "" && n.ImageID == n.WantedImageID {
		n.Image = source.Image // a group may have another name for the same image
	}
	n.Outdated = append([]drift{}, v.drifts(n, v.sources[source], instance, servers)...)
	return n
}

// drifts says in what a node is not what is declared, as far as those answer who know.
func (v sight) drifts(n statusNode, wanted reconfigure.Resolved, instance reconfigure.Instance, servers []reconfigure.Server) []drift {
	is, made := v.desired[n.Node]
	made = made && instance.ID != ""
	differs := func(is, wanted string) bool { return is != "" && wanted != "" && is != wanted }
	var all []drift
	for _, d := range []struct {
		drift drift
		so    bool
	}{
		{driftImage, differs(n.ImageID, n.WantedImageID)},
		{driftFlavor, made && differs(is.FlavorID, wanted.FlavorID)},
		{driftNetwork, made && differs(is.NetworkID, wanted.NetworkID)},
		{driftGroup, made && is.Group != n.Group},
		{driftMissing, v.instances != nil && instance.Node == "" && len(servers) == 0 && (n.Kind == kindPersistent || n.Kind == kindControl)},
		{driftTainted, instance.Tainted},
		{driftLost, n.Instance == missing},
		{driftDoubled, len(servers) > 1},
		{driftUndeclared, n.Kind == kindUndeclared},
	} {
		if d.so {
			all = append(all, d.drift)
		}
	}
	return all
}

// powersDown tells of a cloud node that nobody has anything to say of.
func (n statusNode) powersDown() bool {
	idle := len(n.Slurm) == 0 || n.state.PoweredDown()
	return n.Kind == kindCloud && n.Instance == "" && n.Address == "" && idle && len(n.Outdated) == 0 && n.Doing == nil && n.why() == ""
}

// reasonOf is the reason for the state that a node has. Slurm keeps the text of a drain that is over when power saving has taken the node meanwhile.
func reasonOf(s reconfigure.NodeState) string {
	const gone = reconfigure.NodePoweredDown | reconfigure.NodePoweringDown
	if s.HasAny(gone) && !s.HasAny(reconfigure.NodeDown|reconfigure.NodeDrain|reconfigure.NodeFail) {
		return ""
	}
	return s.Reason
}

// why is Slurm's reason; where it has none, the reason why the node failed last.
func (n statusNode) why() string {
	if n.Reason == "" && n.failing() {
		return oneLine(n.Last.Message)
	}
	return oneLine(n.Reason)
}

// lastWords is what the tool did last with a node.
func (n statusNode) lastWords(now time.Time) string {
	if n.Last == nil {
		return ""
	}
	return string(n.Last.Phase) + " " + string(n.Last.Level) + " " + ago(now, n.Last.Time) + " ago"
}

// imageWords is the image that a node is made of, and the one that it is to be made of where that is another one.
func (n statusNode) imageWords() string {
	is := cmp.Or(n.Image, shortID(n.ImageID))
	if slices.Contains(n.Outdated, driftImage) {
		return is + " → " + shortID(n.WantedImage)
	}
	return is
}

// shortID is enough of a UUID to tell it from others; what is none stays as it is.
func shortID(text string) string {
	if len(text) == 36 && strings.Count(text, "-") == 4 {
		return text[:8] + "…"
	}
	return text
}
