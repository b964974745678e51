// Package notify decides what a site's command is told: failures of nodes, findings and paused campaigns, at most once
// a minute for each kind. It is pure; package worker reads the journal, and calls the command.
package notify

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/reconcile"
)

// The classes besides those of failures.
const (
	ClassFinding  = "finding"
	ClassCampaign = "campaign"
)

// Every is the minimum time between two notices of a kind.
const Every = time.Minute

// Notice is what the command gets: all occurrences of a kind since the last notice of it.
type Notice struct {
	Cluster string          `json:"cluster"`
	Class   string          `json:"class"` // the class of a failure, finding or campaign
	Kind    string          `json:"kind"`  // the class, or the name of a finding
	Count   int             `json:"count"`
	Nodes   nodeset.NodeSet `json:"nodes"`
	Since   time.Time       `json:"since"` // of the first occurrence
	Time    time.Time       `json:"time"`  // of the last one
	Text    string          `json:"text"`  // of the last one
}

// State is what is known between two looks, and over a restart of the worker.
type State struct {
	Event    int64                `json:"event"`             // the last event that was read
	Looked   time.Time            `json:"looked,omitzero"`   // the last comparison that was read
	Seen     map[string]int       `json:"seen,omitempty"`    // how many comparisons in a row had a finding
	Campaign string               `json:"campaign"`          // its number and state
	Waiting  map[string]Notice    `json:"waiting,omitempty"` // by kind
	Sent     map[string]time.Time `json:"sent,omitempty"`    // the last notice, or try, by kind
	Error    string               `json:"error,omitempty"`   // why the last call of the command failed
}

// Notifier collects what happened.
type Notifier struct {
	Cluster string
	Classes []string // that are wanted; empty: all
	State   State
}

// Event adds an event of the journal.
func (n *Notifier) Event(e reconfigure.Event) {
	n.State.Event = max(n.State.Event, e.ID)
	if e.Level == reconfigure.Failed && e.Node != "" {
		class := string(reconfigure.ClassIn(e.Message))
		n.add(class, class, e.Node, e.Time, e.Message)
	}
}

// Look adds a comparison. A finding counts from its second comparison on, and once until it is gone.
func (n *Notifier) Look(l reconcile.Look) {
	if !l.Time.After(n.State.Looked) {
		return
	}
	n.State.Looked = l.Time
	seen := map[string]int{}
	for _, f := range l.Findings {
		if f.Kind.Note() {
			continue
		}
		key := string(f.Kind) + " " + f.Node + " " + f.Server + f.Port
		if seen[key] = min(n.State.Seen[key]+1, 3); seen[key] == 2 {
			n.add(ClassFinding, string(f.Kind), f.Node, l.Time, f.Detail)
		}
	}
	n.State.Seen = seen
}

// Campaign adds the state of the newest campaign.
func (n *Notifier) Campaign(c reconfigure.Campaign, now time.Time) {
	is := c.ID.String() + " " + string(c.State)
	if is == n.State.Campaign {
		return
	}
	n.State.Campaign = is
	if c.State == reconfigure.CampaignPaused {
		n.add(ClassCampaign, string(c.State), "", now, "campaign "+c.ID.String()+" is paused: "+c.Why)
	}
}

func (n *Notifier) add(class, kind, node string, at time.Time, text string) {
	if len(n.Classes) > 0 && !slices.Contains(n.Classes, class) {
		return
	}
	key := class + " " + kind
	w, waits := n.State.Waiting[key]
	if !waits {
		w = Notice{Cluster: n.Cluster, Class: class, Kind: kind, Since: at}
	}
	w.Count, w.Time, w.Text = w.Count+1, at, text
	if node != "" {
		w.Nodes = w.Nodes.Union(nodeset.Of(node))
	}
	if n.State.Waiting == nil {
		n.State.Waiting = map[string]Notice{}
	}
	n.State.Waiting[key] = w
}

// Due returns the notices to send now, and counts them as tried. Failed puts one back.
func (n *Notifier) Due(now time.Time) (due []Notice) {
	for _, key := range slices.Sorted(maps.Keys(n.State.Waiting)) {
		if last := n.State.Sent[key]; now.Sub(last) < Every && !last.After(now) {
			continue
		}
		due = append(due, n.State.Waiting[key])
		delete(n.State.Waiting, key)
		if n.State.Sent == nil {
			n.State.Sent = map[string]time.Time{}
		}
		n.State.Sent[key] = now
	}
	return due
}

// Failed puts back a notice that the command did not take. It is due again after Every, with what came meanwhile.
func (n *Notifier) Failed(w Notice) {
	key := w.Class + " " + w.Kind
	if later, ok := n.State.Waiting[key]; ok {
		w.Count, w.Nodes = w.Count+later.Count, w.Nodes.Union(later.Nodes)
		w.Time, w.Text = later.Time, cmp.Or(later.Text, w.Text)
	}
	if n.State.Waiting == nil {
		n.State.Waiting = map[string]Notice{}
	}
	n.State.Waiting[key] = w
}
