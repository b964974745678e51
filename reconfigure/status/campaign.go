package status

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// Campaign is the newest campaign.
type Campaign struct {
	reconfigure.Campaign
	Outdated nodeset.NodeSet `json:"outdated"` // the nodes that were outdated when it began
}

// NewCampaign returns a campaign for a report.
func NewCampaign(c reconfigure.Campaign) Campaign { return Campaign{c, formerNodes(c)} }

func formerNodes(c reconfigure.Campaign) nodeset.NodeSet {
	var all nodeset.NodeSet
	for _, images := range c.Former {
		for _, nodes := range images {
			all = all.Union(nodes)
		}
	}
	return all
}

// String is the same for people.
func (c Campaign) String() string { return strings.Join(c.Words(time.Now()), "\n") }

func (c Campaign) Words(now time.Time) []string {
	head := fmt.Sprintf("Campaign %s over %s is %s", c.ID, strings.Join(c.Groups, ", "), c.State)
	if c.Rollback != 0 {
		head += fmt.Sprintf(" (the rollback of campaign %s)", c.Rollback)
	}
	if c.Why != "" {
		head += ": " + text.OneLine(c.Why)
	}
	since := "started " + text.Ago(now, c.Started) + " ago"
	if c.Caller != "" {
		since += " by " + text.OneLine(c.Caller)
	}
	lines := []string{head + ".", fmt.Sprintf(
		"It was %s; %d nodes were outdated then, %d are updated, %d are in progress, %d failed.",
		since, c.Outdated.Len(), c.Done.Len(), len(c.Open), len(c.Failed))}
	for _, k := range c.Canaries {
		line := fmt.Sprintf("Canary %s of %s: %s", k.Node, k.Group, k.Phase)
		if k.Why != "" {
			line += ": " + text.OneLine(k.Why)
		}
		lines = append(lines, line+".")
	}
	if len(c.Open) > 0 {
		lines = append(lines, fmt.Sprintf("In progress: %s.", nodeset.Collect(maps.Keys(c.Open))))
	}
	for _, node := range nodeset.Collect(maps.Keys(c.Failed)).Names() {
		lines = append(lines, fmt.Sprintf("Failed: %s: %s.", node, text.OneLine(c.Failed[node])))
	}
	return append(lines, c.advice()...)
}

// CampaignError is the error of a campaign that has ended, and in which nodes failed.
type CampaignError struct {
	ID     reconfigure.CampaignID
	Failed nodeset.NodeSet
}

func (e *CampaignError) Error() string {
	return fmt.Sprintf("campaign %s: not updated: %s", e.ID, e.Failed)
}

// Problem returns why the campaign has not updated all of its nodes, or nil: a *CampaignError if it has ended,
// another error if it is paused or was aborted.
func (c Campaign) Problem() error {
	switch {
	case c.State != reconfigure.CampaignDone:
		return fmt.Errorf("campaign %s is %s", c.ID, c.State)
	case len(c.Failed) > 0:
		return &CampaignError{c.ID, nodeset.Collect(maps.Keys(c.Failed))}
	}
	return nil
}

// advice says what an administrator can do.
func (c Campaign) advice() []string {
	if c.State != reconfigure.CampaignPaused {
		return nil
	}
	return []string{"`reconfigure campaign continue` continues and retries what failed; `reconfigure campaign abort` " +
		"ends it; `reconfigure update --rollback` returns to the previous image."}
}

// CampaignPreview is what a dry run of a campaign prints.
type CampaignPreview struct {
	Declaration []fmt.Stringer             `json:"declaration,omitempty"` // changes to all.yml
	Groups      []string                   `json:"groups"`
	Limits      reconfigure.CampaignLimits `json:"limits"`
	Canary      bool                       `json:"canary"`
	Nodes       nodeset.NodeSet            `json:"nodes"` // the outdated nodes
	Aborts      reconfigure.CampaignID     `json:"aborts,omitempty"`
}

// String is the same for people.
func (p CampaignPreview) String() string {
	var b strings.Builder
	for _, change := range p.Declaration {
		fmt.Fprintln(&b, change)
	}
	if p.Aborts != 0 {
		fmt.Fprintf(&b, "campaign %s is aborted\n", p.Aborts)
	}
	if p.Nodes.Empty() {
		b.WriteString("nothing to do: no node is outdated")
		return b.String()
	}
	fmt.Fprintf(&b, "%s of %s would be updated: %s\n", text.Count(p.Nodes.Len(), "outdated node"),
		strings.Join(p.Groups, ", "), p.Nodes)
	fmt.Fprintf(&b, "at most %d at a time, and none while Slurm cannot use %s of the groups", p.Limits.Batch,
		text.Count(p.Limits.MaxUnavailable, "node"))
	if p.Canary {
		b.WriteString("\nfirst one node of each group, as a canary")
	}
	return b.String()
}
