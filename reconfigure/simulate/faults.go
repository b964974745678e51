package simulate

import (
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Fault is a failure that occurs in real clusters. It lasts until it is cleared. For actions that take forever, see
// Takes.
type Fault string

// The faults of single nodes.
const (
	NoValidHost Fault = "no valid host"  // the instance ends in ERROR; the cloud has the reason
	NoFirst     Fault = "no first room"  // as NoValidHost, for what the group declares first; its fallbacks have room
	NoQuota     Fault = "quota exceeded" // a port is made, but no instance
	Unreadable  Fault = "cannot be read" // the cloud does not answer for it, so it cannot be planned
	NoPort      Fault = "no more ports"  // no port, and no instance of the run: Terraform makes all ports first
	LostCreate  Fault = "lost create"    // the instance is made, but the answer is lost: the state has only its port
	LostPoll    Fault = "lost poll"      // the instance is made, but Terraform cannot see it, and taints it
	LateFailure Fault = "late failure"   // the instance is ACTIVE, but Terraform fails, and taints it
	NotReached  Fault = "not reached"    // Terraform changes the node after all others
	// as NotReached, but Terraform begins the change before it asks the cloud
	NotSent        Fault = "not sent"
	NotProven      Fault = "not proven"       // Terraform would change the instance that it should adopt
	NeverAside     Fault = "never aside"      // the cloud sets the instance not aside
	NeverRemoved   Fault = "never removed"    // the cloud refuses to delete the instance
	NotListed      Fault = "not listed"       // the cloud's list omits its instances; by id, the cloud finds them
	OtherImage     Fault = "other image"      // changed by hand: Terraform would rebuild it too
	OtherTags      Fault = "other tags"       // Terraform would also update the instance in place
	StopFails      Fault = "stop fails"       // the cloud refuses to stop it
	StartFails     Fault = "start fails"      // the cloud refuses to start it
	RebootFails    Fault = "reboot fails"     // the cloud rejects it
	NoImage        Fault = "no image"         // the cloud refuses to create an image of it
	ImageLost      Fault = "image lost"       // the image of it disappears in the cloud instead of becoming active
	NotActive      Fault = "not active"       // the cloud shows the instance as stopped
	NoSSH          Fault = "no SSH"           // it never answers
	Lemon          Fault = "lemon"            // its next instance never answers, but the one after that does
	PlaybookFails  Fault = "playbook fails"   // a task fails on it
	Unhealthy      Fault = "unhealthy"        // a health check of its group fails
	NeverRegisters Fault = "never registers"  // slurmd does not register
	RegistersLate  Fault = "registers late"   // slurmd registers seconds after Slurm was told that the node is DOWN
	StartsByItself Fault = "starts by itself" // the image starts slurmd: it registers before the playbooks run
	NoSlurmd       Fault = "no slurmd"        // slurmd cannot be started without the playbooks
	SlurmRefuses   Fault = "Slurm refuses"    // slurmctld refuses to change the node's state
)

// The faults of the whole cluster.
const (
	StateLocked Fault = "state locked" // Terraform neither previews nor applies
	LostAnswer  Fault = "lost answer"  // Terraform does everything, but its answer is lost
	Killed      Fault = "killed"       // Terraform is killed after the first change
	CloudSilent Fault = "cloud silent" // the cloud does not answer
	// Ansible ends after the first node, as if the control node did not answer
	RunBreaks      Fault = "run breaks"
	BrokenPlaybook Fault = "broken playbook" // Ansible cannot read the playbook
	SlurmSilent    Fault = "Slurm silent"    // slurmctld does not answer
	NoComments     Fault = "no comments"     // slurmctld refuses comments
	LimitsHidden   Fault = "limits hidden"   // the cloud does not report the quota
	JournalFull    Fault = "journal full"    // no event can be recorded
)

// Order starts a fault.
func (w *World) Order(f Fault, nodes ...string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.orders.faults[f] = w.orders.faults[f].Union(nodeset.Of(nodes...))
}

// Clear ends a fault.
func (w *World) Clear(f Fault) {
	w.lock.Lock()
	defer w.lock.Unlock()
	delete(w.orders.faults, f)
	for _, s := range w.cloud.servers {
		s.lemon = s.lemon && f != Lemon
	}
}

func (w *World) struck(f Fault, node string) bool { return w.orders.faults[f].Contains(node) }

func (w *World) ordered(f Fault) bool { _, ok := w.orders.faults[f]; return ok }

// portInUse is the cloud's error for a second instance with the same port.
const portInUse Fault = "port is in use"

// TerraformOnError is Terraform's complete error for an instance that ends in ERROR.
const TerraformOnError = "unexpected state ERROR"

// failure is a fault as an error.
type failure struct{ Fault }

// stateLocked returns the error of a state that another process has locked.
func stateLocked() error { return reconfigure.Classify(reconfigure.ClassLocked, failure{StateLocked}) }

func (f failure) Error() string { return string(f.Fault) }
