package reconfigure

import (
	"errors"
	"regexp"
	"slices"
	"strings"
)

// Class is the kind of failure of an operation. The reaction to a failure depends only on its class;
// docs/guides/failures.md describes it.
type Class string

// The classes.
const (
	ClassQuota     Class = "quota"      // the project's quota is exhausted
	ClassCapacity  Class = "capacity"   // no host of the cloud has room
	ClassRateLimit Class = "rate-limit" // the cloud limits the rate of requests
	// the cloud does not answer, or has an internal error; nothing was changed
	ClassCloud    Class = "cloud-unavailable"
	ClassMissing  Class = "missing"      // the image, flavor or network does not exist
	ClassBoot     Class = "boot-timeout" // the instance did not boot in time
	ClassSSH      Class = "no-ssh"       // the instance booted, but the login by SSH fails
	ClassPlaybook Class = "playbook"     // a task of the playbooks failed on the node
	// a run of the playbooks ended without a result for the node: the control node or the control host failed
	ClassAnsible      Class = "ansible-failed"
	ClassUnhealthy    Class = "unhealthy"    // a health check of its group failed on the node
	ClassUnregistered Class = "unregistered" // slurmd did not register in time
	// another process has locked Terraform's state for longer than the lock timeout; nothing was changed
	ClassLocked  Class = "state-locked"
	ClassRefused Class = "refused" // the fence or the guard refused the change; nothing was changed
	// the answer of the cloud was lost; the change may or may not have been made
	ClassUnknown Class = "unknown"
	ClassBusy    Class = "busy"  // the jobs on the node did not end in time; nothing was changed
	ClassOther   Class = "other" // any other failure
)

// Classes returns all classes.
func Classes() []Class {
	return []Class{
		ClassQuota, ClassCapacity, ClassRateLimit, ClassCloud, ClassMissing, ClassBoot, ClassSSH, ClassPlaybook,
		ClassAnsible, ClassUnhealthy, ClassUnregistered, ClassLocked, ClassRefused, ClassUnknown, ClassBusy, ClassOther,
	}
}

// NoRoom reports whether the quota or the cloud is full: a retry fails until another instance is removed.
func (c Class) NoRoom() bool { return c == ClassQuota || c == ClassCapacity }

// Boots reports whether the instance was made but did not become ready. The cause may be a broken image, so that all
// other instances of it fail too.
func (c Class) Boots() bool {
	return c == ClassBoot || c == ClassSSH || c == ClassPlaybook || c == ClassUnhealthy ||
		c == ClassUnregistered
}

// Passing reports whether the cause lies outside the node and may end at any time, so that a retry may succeed.
func (c Class) Passing() bool {
	return c == ClassRateLimit || c == ClassCloud || c == ClassUnknown || c == ClassAnsible
}

// ForOwner returns a description of the class for the owner of a job.
func (c Class) ForOwner() string {
	words := map[Class]string{
		ClassQuota:        "the cluster may not have more machines at the moment",
		ClassCapacity:     "the cloud has no room for more machines of this kind at the moment",
		ClassRateLimit:    "the cloud is too busy at the moment",
		ClassCloud:        "the cloud does not answer at the moment",
		ClassMissing:      "the image, flavor or network of the machine does not exist; an administrator must fix it",
		ClassBoot:         "the machine did not start in time",
		ClassSSH:          "the machine could not be reached",
		ClassPlaybook:     "the machine could not be set up",
		ClassAnsible:      "the cluster's own hosts could not set up the machine; an administrator must look at them",
		ClassUnhealthy:    "the machine did not pass its health check",
		ClassUnregistered: "the machine was set up, but it did not register with Slurm as declared",
		ClassLocked:       "something else is changing the cluster's machines at the moment",
		ClassRefused:      "an administrator must review a change first",
		ClassUnknown:      "the answer of the cloud was lost",
	}
	if said, ok := words[c]; ok {
		return said
	}
	return "something went wrong"
}

// Public returns an error's text without details for the cloud's administrators: the addresses of the API and of its
// caller. Every user of the cluster can read the reasons in Slurm.
func Public(words string) string {
	words = apiCall.ReplaceAllString(words, "the API")
	return nothing.ReplaceAllString(connection.ReplaceAllString(words, "$1"), "")
}

var (
	apiCall    = regexp.MustCompile(`\[[A-Z]+ https?://[^]]*\]|"?https?://[^\s"]+"?`)
	connection = regexp.MustCompile(
		`\b((?:dial|read|write) (?:tcp|udp)|lookup) (?:\[\S+?\]|[^\s:]+)(?::\d+)?(?:->\S+:\d+)?`)
	nothing = regexp.MustCompile(`[.:,;]?\s*(?:last error:\s*)?%!\w\(<nil>\)`) // what Go prints for a missing error
)

// Said returns a reason with its class as prefix, so that the class remains when the reason is truncated. It returns
// the unchanged reason for ClassOther, for no class, and if the reason already has the prefix.
func (c Class) Said(reason string) string {
	prefix := string(c) + ": "
	if c == "" || c == ClassOther || strings.HasPrefix(reason, prefix) {
		return reason
	}
	return prefix + reason
}

// ClassIn returns the class that Said has put before a reason; ClassOther if there is none.
func ClassIn(reason string) Class {
	word, _, found := strings.Cut(reason, ": ")
	if found && slices.Contains(Classes(), Class(word)) {
		return Class(word)
	}
	return ClassOther
}

// Classify returns err with a class, which replaces any class that err has. It does not change the text; errors that
// wrap the result also have the class. It returns err itself if err is nil or the class is empty.
func Classify(c Class, err error) error {
	if err == nil || c == "" {
		return err
	}
	return &classified{err, c}
}

// ClassOf returns the class of an error: the outermost one if there are several, ClassRefused for a Refusal, and
// ClassOther if there is none.
func ClassOf(err error) Class {
	if refusal := (*Refusal)(nil); errors.As(err, &refusal) {
		return ClassRefused
	}
	if c := (*classified)(nil); errors.As(err, &c) {
		return c.class
	}
	return ClassOther
}

type classified struct {
	error
	class Class
}

func (c *classified) Unwrap() error { return c.error }
