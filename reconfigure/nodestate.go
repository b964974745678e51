package reconfigure

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// NodeFlags is a set of the states and flags that Slurm gives a node (sinfo(1), NODE STATE CODES; slurm.h,
// NODE_STATE_*). A node has one base state, except that Slurm lists COMPLETING beside it as a flag, and any number of
// flags.
type NodeFlags uint64

// The base states, then the flags, in the order in which scontrol shows them.
const (
	NodeUnknown NodeFlags = 1 << iota
	NodeDown
	NodeIdle
	NodeAllocated
	NodeError
	NodeMixed
	NodeFuture
	NodeInvalid
	NodeBlocked
	NodeCloud
	NodeCompleting
	NodeDrain
	NodeDynamicFuture
	NodeDynamicNorm
	NodeExternal
	NodeInvalidReg // slurmd registered with less than slurm.conf declares
	NodeFail
	NodeMaintenance
	NodePowerDown // Slurm will power it down
	NodePowerUp   // Slurm will power it up
	NodePerfCounters
	NodePoweredDown
	NodeRebootCanceled
	NodeRebootRequested // Slurm reboots it when its jobs have ended
	NodeRebootIssued    // RebootProgram was called
	NodeReserved
	NodeResume
	NodeNotResponding
	NodeUndrain
	NodePowerDrain
	NodePoweringDown // SuspendProgram was called, or is about to be
	NodePoweringUp   // ResumeProgram was called, or is about to be
	NodePlanned
)

// nodeFlagWords are Slurm's words for the flags, by bit number.
var nodeFlagWords = [...]string{
	"UNKNOWN", "DOWN", "IDLE", "ALLOCATED", "ERROR", "MIXED", "FUTURE", "INVALID",
	"BLOCKED", "CLOUD", "COMPLETING", "DRAIN", "DYNAMIC_FUTURE", "DYNAMIC_NORM", "EXTERNAL", "INVALID_REG", "FAIL",
	"MAINTENANCE", "POWER_DOWN", "POWER_UP", "PERFCTRS", "POWERED_DOWN", "REBOOT_CANCELED", "REBOOT_REQUESTED",
	"REBOOT_ISSUED", "RESERVED", "RESUME", "NOT_RESPONDING", "UNDRAIN", "POWER_DRAIN", "POWERING_DOWN", "POWERING_UP",
	"PLANNED",
}

// NodeFlagWords returns all words that ParseNodeFlags knows.
func NodeFlagWords() []string { return append([]string(nil), nodeFlagWords[:]...) }

// ParseNodeFlags reads Slurm's words, in upper or lower case. Unknown words, of a later release for
// example, are returned in upper case, in their order.
func ParseNodeFlags(words ...string) (flags NodeFlags, unknown []string) {
	for _, word := range words {
		flag := nodeFlag(word)
		if flags |= flag; flag == 0 && word != "" {
			unknown = append(unknown, strings.ToUpper(word))
		}
	}
	return flags, unknown
}

func nodeFlag(word string) NodeFlags {
	for bit, known := range nodeFlagWords {
		if strings.EqualFold(word, known) {
			return 1 << bit
		}
	}
	return 0
}

// Words returns the flags in Slurm's words: the base state, then the flags.
func (f NodeFlags) Words() []string {
	words := make([]string, 0, 4)
	for bit, word := range nodeFlagWords {
		if f&(1<<bit) != 0 {
			words = append(words, word)
		}
	}
	return words
}

// String returns the flags in Slurm's form: IDLE+CLOUD+POWERED_DOWN.
func (f NodeFlags) String() string { return strings.Join(f.Words(), "+") }

// NodeState is the state of a node in Slurm (sinfo(1), NODE STATE CODES). The zero value is a node that Slurm does not
// know. Decisions about a node's state use the predicates below.
type NodeState struct {
	Node  string
	Flags NodeFlags
	// Other has unknown words. They are shown, and have no effect.
	Other  []string
	Reason string // the reason of a drain, or of DOWN
	// Address is where slurmctld reaches the node: an IP address or a host name (slurm.conf(5), NodeAddr).
	Address string
	// IdleSince is when the last job on an idle node ended, or when the node came up; zero: not known.
	IdleSince time.Time
	Boot      time.Time // boot time, as slurmd reported it; zero: slurmd never registered
	Busy      bool      // it has a job: running, completing or suspended, or waiting for the node to power up
	// Returns reports whether Slurm uses the node again after the pending reboot (scontrol(1), reboot, nextstate).
	Returns bool
}

// Equal reports whether both states are the same.
func (s NodeState) Equal(t NodeState) bool {
	return s.Node == t.Node && s.Flags == t.Flags && slices.Equal(s.Other, t.Other) && s.Reason == t.Reason &&
		s.Address == t.Address && s.Boot.Equal(t.Boot) && s.IdleSince.Equal(t.IdleSince) && s.Busy == t.Busy &&
		s.Returns == t.Returns
}

// SlurmNode returns the state of a node from Slurm's words for its state and flags.
func SlurmNode(node string, words ...string) NodeState {
	s := NodeState{Node: node}
	s.Flags, s.Other = ParseNodeFlags(words...)
	return s
}

// Words returns the node's state and flags in Slurm's words, the base state first.
func (s NodeState) Words() []string { return append(s.Flags.Words(), s.Other...) }

// String returns the node's state and flags in Slurm's form: IDLE+CLOUD+POWERED_DOWN. It is empty for a node that Slurm
// does not know.
func (s NodeState) String() string { return strings.Join(s.Words(), "+") }

// Has reports whether the node has all of the flags.
func (s NodeState) Has(flags NodeFlags) bool { return s.Flags&flags == flags }

// HasAny reports whether the node has any of the flags.
func (s NodeState) HasAny(flags NodeFlags) bool { return s.Flags&flags != 0 }

// ReasonPrefix is the prefix of the reasons that this tool sets. A node with another reason was drained or set DOWN by
// an administrator or by Slurm.
const ReasonPrefix = "reconfigure:"

// Ours reports whether this tool has drained the node, or has set it DOWN. Another's drain to whose reason this tool
// has added is not ours.
func (s NodeState) Ours() bool {
	return strings.HasPrefix(s.Reason, ReasonPrefix) && s.OthersReason() == ""
}

// othersDrain precedes the reason of another user in a reason of this tool.
const othersDrain = "drained by somebody else: "

// OthersReason returns another user's reason, without this tool's addition; empty if the reason is this tool's.
func (s NodeState) OthersReason() string {
	ours, ok := strings.CutPrefix(s.Reason, ReasonPrefix)
	if !ok {
		return s.Reason
	}
	ours = strings.TrimPrefix(strings.TrimSpace(ours), ImageReason+"; ")
	if others, ok := strings.CutPrefix(ours, othersDrain); ok {
		return others
	}
	return ""
}

// KeptReason returns this tool's reason for another's drain that stays.
func (s NodeState) KeptReason() string { return othersDrain + cmp.Or(s.OthersReason(), "no reason") }

// AgedReason is this tool's reason for draining a cloud node whose instance is older than its group's max_age. Slurm
// powers the node down when its jobs have ended.
const AgedReason = "its instance is older than max_age"

// Retires reports whether this tool has drained the node for its age.
func (s NodeState) Retires() bool { return s.Drained() && s.Reason == ReasonPrefix+" "+AgedReason }

// The purposes for which this tool drains nodes until their jobs have ended. The request undrains them.
const (
	PurposeUpdate = "update"
	PurposeShrink = "shrink"
	PurposeImage  = "image"
	PurposeHealth = "health check"
)

// Withheld reports whether this tool has drained the node for a request that has not changed it yet: the request
// waits for the node's jobs, or it is a reboot by Slurm that no control host accepted (slurmscripts/hand_over.sh.j2).
// It is false for the drain of a node that failed.
func (s NodeState) Withheld() bool {
	why, ours := strings.CutPrefix(s.Reason, ReasonPrefix+" ")
	waits := why == PurposeUpdate || why == PurposeShrink || why == PurposeImage ||
		why == PurposeHealth
	return s.Drained() && ours && (waits || strings.HasPrefix(why, "control host "))
}

// Checked reports whether this tool has drained the node for its health check, or since it did not pass it.
func (s NodeState) Checked() bool {
	why, ours := strings.CutPrefix(s.Reason, ReasonPrefix+" ")
	return s.Drained() && ours && (why == PurposeHealth || ClassIn(why) == ClassUnhealthy)
}

// Cloud reports whether the node is a cloud node: power saving resumes and suspends it (slurm.conf(5), State=CLOUD).
func (s NodeState) Cloud() bool { return s.Has(NodeCloud) }

// Down reports whether the node is DOWN.
func (s NodeState) Down() bool { return s.Has(NodeDown) }

// Drained reports whether the node is drained, or draining while jobs still run on it.
func (s NodeState) Drained() bool { return s.Has(NodeDrain) }

// Misfit reports whether slurmd registered with less than slurm.conf declares for the node. Slurm drains such a node;
// the drain stays when slurmd registers with enough (slurmctld, validate_node_specs).
func (s NodeState) Misfit() bool {
	reason := s.OthersReason()
	words := strings.HasPrefix(reason, "Low ") || strings.HasPrefix(reason, "gres/")
	return s.Has(NodeInvalidReg) || s.Drained() && words
}

// ForeignDrain reports whether an administrator has drained the node, or Slurm because of a fault. The tool does not
// change such a drain and its reason. A drain by Slurm for a reboot does not count.
func (s NodeState) ForeignDrain() bool {
	return s.Drained() && !s.Ours() && !s.HasAny(NodeRebootIssued|NodeRebootRequested)
}

// Rebooting reports whether Slurm has called RebootProgram for the node, and waits for the boot.
func (s NodeState) Rebooting() bool { return s.Has(NodeRebootIssued) }

// PoweringUp reports whether Slurm waits for the node to come up, or is about to call ResumeProgram for it.
func (s NodeState) PoweringUp() bool { return s.HasAny(NodePoweringUp | NodePowerUp) }

// PoweringDown reports whether Slurm waits for the node to go down, or will call SuspendProgram for it.
func (s NodeState) PoweringDown() bool { return s.HasAny(NodePoweringDown | NodePowerDown) }

// PoweredDown reports whether Slurm has powered the node down.
func (s NodeState) PoweredDown() bool { return s.Has(NodePoweredDown) }

// GivenUp reports whether Slurm has called SuspendProgram for the node and has not begun to use it again.
func (s NodeState) GivenUp() bool {
	return s.HasAny(NodePoweredDown|NodePoweringDown) && !s.PoweringUp() && !s.Running()
}

// Up reports whether the node is up for Slurm, even if its slurmd does not answer.
func (s NodeState) Up() bool {
	return s.HasAny(NodeIdle|NodeMixed|NodeAllocated|NodeCompleting) &&
		!s.HasAny(NodeDown|NodePoweredDown|NodePoweringDown|NodePoweringUp|NodePowerUp)
}

// Registered reports whether slurmd has registered and answers, and no power down or reboot is due.
func (s NodeState) Registered() bool {
	return s.Up() && !s.HasAny(NodePowerDown|NodeNotResponding|NodeRebootIssued)
}

// Ready reports whether slurmd has registered with at least what slurm.conf declares for the node, so that jobs can run
// there when it is not drained.
func (s NodeState) Ready() bool { return s.Registered() && !s.Has(NodeInvalidReg) }

// Usable reports whether Slurm may start a job on the node at any moment.
func (s NodeState) Usable() bool { return s.Ready() && !s.HasAny(NodeDrain|NodeFail) }

// Running reports whether a job on the node would be lost with its instance. A job that waits for the node to power
// up has not started there yet.
func (s NodeState) Running() bool {
	return s.Busy && !s.HasAny(NodePoweringUp|NodePowerUp|NodePoweredDown|NodePoweringDown)
}

// GivenToJob reports whether Slurm has given the node to a job that runs there or waits for it to power up.
func (s NodeState) GivenToJob() bool { return s.Busy || s.PoweringUp() }
