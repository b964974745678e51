package simulate

import "github.com/eiffel-hpc/eiffel/reconfigure/nodeset"

// Fault is what really goes wrong. It stays until it is cleared. What takes for ever is said by Takes.
type Fault string

// The faults of single nodes.
const (
	NoValidHost    Fault = "no valid host"    // the instance is made, but ends in ERROR; the cloud says why
	NoQuota        Fault = "quota exceeded"   // a port is made, but no instance
	Unreadable     Fault = "cannot be read"   // the cloud does not say what the instance is: nothing can be planned for it
	NoPort         Fault = "no more ports"    // none is made, and no instance of the same apply: Terraform makes all ports first
	LostCreate     Fault = "lost create"      // the instance is made, but the answer is lost: Terraform knows its port alone
	LostPoll       Fault = "lost poll"        // the instance is made, and Terraform cannot see it: it has it as half made
	LateFailure    Fault = "late failure"     // the instance is ACTIVE, and Terraform fails nevertheless: it has it as half made
	NotProven      Fault = "not proven"       // Terraform would change what it is to adopt
	NeverRemoved   Fault = "never removed"    // the cloud refuses to delete the instance
	OtherImage     Fault = "other image"      // somebody changed what the instance is made of: Terraform would rebuild it too
	RebootFails    Fault = "reboot fails"     // the cloud refuses
	NotActive      Fault = "not active"       // the cloud has the instance as stopped
	NoSSH          Fault = "no SSH"           // it never answers
	Lemon          Fault = "lemon"            // the next instance of it never answers; but the one after that does
	PlaybookFails  Fault = "playbook fails"   // a task fails on it
	NeverRegisters Fault = "never registers"  // slurmd does not come
	StartsByItself Fault = "starts by itself" // the image has slurmd set up: it registers before any playbook ran
	SlurmRefuses   Fault = "Slurm refuses"    // to change its state
)

// The faults that are ordered without nodes.
const (
	StateLocked    Fault = "state locked"    // Terraform neither previews nor applies
	LostAnswer     Fault = "lost answer"     // Terraform does all of it, but its answer is lost
	Killed         Fault = "killed"          // Terraform is killed after the first change
	CloudSilent    Fault = "cloud silent"    // the cloud does not answer
	BrokenPlaybook Fault = "broken playbook" // Ansible cannot read it
	SlurmSilent    Fault = "Slurm silent"    // slurmctld does not answer
	NoComments     Fault = "no comments"     // slurmctld does not take any
	LimitsHidden   Fault = "limits hidden"   // the cloud does not say how much room there is
	JournalFull    Fault = "journal full"    // nothing can be recorded
)

// Order has something go wrong from now on.
func (w *World) Order(f Fault, nodes ...string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.faults[f] = w.faults[f].Union(nodeset.Of(nodes...))
}

// Clear ends a fault.
func (w *World) Clear(f Fault) {
	w.lock.Lock()
	defer w.lock.Unlock()
	delete(w.faults, f)
	for _, s := range w.servers {
		s.lemon = s.lemon && f != Lemon
	}
}

func (w *World) struck(f Fault, node string) bool { return w.faults[f].Contains(node) }

func (w *World) ordered(f Fault) bool { _, ok := w.faults[f]; return ok }

// portInUse is what the cloud says to a second instance for a port.
const portInUse Fault = "port is in use"

// TerraformOnError is all that Terraform says of an instance that ends in ERROR.
const TerraformOnError = "unexpected state ERROR"

// failure is a fault as an error.
type failure struct{ Fault }

func (f failure) Error() string { return string(f.Fault) }
