package reconfigure

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// CampaignID is the number of a campaign in its journal, from 1. Zero is none.
type CampaignID int64

func (id CampaignID) String() string { return strconv.FormatInt(int64(id), 10) }

// CampaignState is how far a campaign is.
type CampaignState string

// The states.
const (
	CampaignCanary  CampaignState = "canary"  // a first node of each group is updated and tested
	CampaignRunning CampaignState = "running" // the other nodes are updated
	CampaignPaused  CampaignState = "paused"  // no further node is begun; those that are begun go on
	CampaignAborted CampaignState = "aborted" // no further node is begun, permanently
	CampaignDone    CampaignState = "done"    // nothing is left to do
)

// Campaign is an update of all outdated nodes of some node groups, a few at a time, by requests for one node each.
type Campaign struct {
	ID     CampaignID    `json:"id"`
	State  CampaignState `json:"state"`
	Why    string        `json:"why,omitempty"` // the reason of a pause, else what the campaign waits for
	Groups []string      `json:"groups"`
	CampaignLimits
	Canary bool `json:"canary"`
	// Targets is what the groups declared when the campaign began. With another declaration it pauses.
	Targets map[string]Spec `json:"targets"`
	// Former has the nodes of each former image, by group and by the image's id.
	Former map[string]map[string]nodeset.NodeSet `json:"former"`
	// Rollback is the campaign that this one rolls back; zero: none.
	Rollback CampaignID `json:"rollback,omitempty"`
	Reason   string     `json:"reason,omitempty"`
	Caller   string     `json:"caller,omitempty"`
	Started  time.Time  `json:"started"`
	Ended    time.Time  `json:"ended,omitzero"`

	Canaries []Canary `json:"canaries,omitempty"` // the last one is in progress unless it has passed or failed
	// Reserved is the reservation in Slurm that keeps the canary free for its test; empty: none.
	Reserved string `json:"reserved,omitempty"`
	// Attempts is the number of canaries so far, so that each has its own reservation.
	Attempts int `json:"attempts,omitempty"`
	// Open has the requests without a recorded outcome, by node.
	Open map[string]RequestID `json:"open,omitempty"`
	Done nodeset.NodeSet      `json:"done"`
	// Failed has the reasons of failed nodes since the campaign was started or continued.
	Failed map[string]string `json:"failed,omitempty"`
	// Again has the nodes that failed before the campaign was continued: they are retried.
	Again nodeset.NodeSet `json:"again"`
	// Postponed counts how often the jobs of a node did not end within the drain timeout.
	Postponed map[string]int `json:"postponed,omitempty"`
}

// CampaignLimits are the limits of a campaign.
type CampaignLimits struct {
	Batch           int           `json:"batch"`             // nodes with a request of the campaign
	MaxUnavailable  int           `json:"max_unavailable"`   // nodes of the groups that Slurm cannot use, for any reason
	PauseOnFailures int           `json:"pause_on_failures"` // the number of failed nodes at which it pauses
	DrainTimeout    time.Duration `json:"drain_timeout"`     // for the jobs of one node
}

// CanaryPhase is the step of a canary.
type CanaryPhase string

// The phases, in order.
const (
	CanaryReserve CanaryPhase = "reserve" // Slurm reserves the node for the test
	CanaryUpdate  CanaryPhase = "update"
	CanaryTest    CanaryPhase = "test"
	CanaryPassed  CanaryPhase = "passed"
	CanaryFailed  CanaryPhase = "failed"
)

// Canary is the first node of a group that a campaign updates.
type Canary struct {
	Group string      `json:"group"`
	Node  string      `json:"node"`
	Phase CanaryPhase `json:"phase"`
	Why   string      `json:"why,omitempty"`  // why it failed
	Since time.Time   `json:"since,omitzero"` // when its test began
}

var (
	// ErrCampaign means that a campaign cannot be started while another one has not ended.
	ErrCampaign = errors.New("another campaign has not ended")
	// ErrNoCampaign means that there is no campaign with that number.
	ErrNoCampaign = errors.New("there is no such campaign")
)

// Active reports whether the campaign may begin further nodes.
func (c Campaign) Active() bool { return c.State == CampaignCanary || c.State == CampaignRunning }

// Ends reports whether the campaign has ended, so that another one may be started.
func (c Campaign) Ends() bool { return c.State == CampaignAborted || c.State == CampaignDone }

// Under returns the canary in progress; false if there is none.
func (c Campaign) Under() (Canary, bool) {
	if len(c.Canaries) == 0 {
		return Canary{}, false
	}
	last := c.Canaries[len(c.Canaries)-1]
	return last, last.Phase != CanaryPassed && last.Phase != CanaryFailed
}

// Passed reports whether nodes of a group may follow the canary.
func (c Campaign) Passed(group string) bool {
	return !c.Canary || slices.ContainsFunc(c.Canaries, func(k Canary) bool {
		return k.Group == group && k.Phase == CanaryPassed
	})
}

// Clone returns a copy that shares nothing with c.
func (c Campaign) Clone() Campaign {
	c.Groups, c.Canaries = slices.Clone(c.Groups), slices.Clone(c.Canaries)
	c.Targets, c.Open = maps.Clone(c.Targets), maps.Clone(c.Open)
	c.Failed, c.Postponed = maps.Clone(c.Failed), maps.Clone(c.Postponed)
	c.Former = maps.Clone(c.Former)
	for group := range c.Former {
		c.Former[group] = maps.Clone(c.Former[group])
	}
	return c
}

// Submitted returns the campaign with a request that was submitted for it.
func (c Campaign) Submitted(r Request) Campaign {
	c = c.Clone()
	if c.Open == nil {
		c.Open = map[string]RequestID{}
	}
	for node := range r.Nodes.All() {
		c.Open[node] = r.ID
	}
	return c
}
