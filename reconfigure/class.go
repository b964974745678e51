package reconfigure

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
)

// Class is what kind of failure ended a node's way. What is to be done about it depends on the class alone; docs/failures.md says what.
type Class string

// The classes.
const (
	ClassQuota        Class = "quota"             // the project's quota is used up
	ClassCapacity     Class = "capacity"          // no host of the cloud has room
	ClassRateLimit    Class = "rate-limit"        // the cloud wants to be asked less often
	ClassCloud        Class = "cloud-unavailable" // it does not answer, or has a fault of its own; nothing was done
	ClassMissing      Class = "missing"           // the image, flavor or network is not there
	ClassBoot         Class = "boot-timeout"      // the instance did not come up in time
	ClassSSH          Class = "no-ssh"            // it came up, but cannot be logged in to
	ClassPlaybook     Class = "playbook"          // a task failed
	ClassUnregistered Class = "unregistered"      // its slurmd did not register in time
	ClassRefused      Class = "refused"           // the fence or the guard held it back; nothing was done
	ClassUnknown      Class = "unknown"           // it was asked for, and the answer was lost: it may or may not have been done
	ClassOther        Class = "other"
)

// NoRoom tells that asking again is of no use before something else has gone.
func (c Class) NoRoom() bool { return c == ClassQuota || c == ClassCapacity }

// Boots tells that the instance was made, and what is declared for it did not come up: a broken image, say, on which every other instance fails too.
func (c Class) Boots() bool {
	return c == ClassBoot || c == ClassSSH || c == ClassPlaybook || c == ClassUnregistered
}

// Passing tells that it may go better soon, without anybody doing anything about it.
func (c Class) Passing() bool { return c == ClassRateLimit || c == ClassCloud || c == ClassUnknown }

// ForOwner is the class in words for somebody who has a job, and knows nothing of clouds.
func (c Class) ForOwner() string {
	words := map[Class]string{
		ClassQuota:        "the cluster may not have more machines at the moment",
		ClassCapacity:     "the cloud has no room for more machines of this kind at the moment",
		ClassRateLimit:    "the cloud is too busy at the moment",
		ClassCloud:        "the cloud does not answer at the moment",
		ClassMissing:      "what the machine is to be made of is not there; the administrators must look at it",
		ClassBoot:         "the machine did not start in time",
		ClassSSH:          "the machine could not be reached",
		ClassPlaybook:     "the machine could not be set up",
		ClassUnregistered: "the machine was set up, but Slurm did not hear from it in time",
		ClassRefused:      "the administrators must look at a change first",
		ClassUnknown:      "the answer of the cloud was lost",
	}
	if said, ok := words[c]; ok {
		return said
	}
	return "something went wrong"
}

// Said is a reason with its class before it, which survives when the reason is cut short. Where the class says nothing, or the reason says it already, it is
// the reason alone.
func (c Class) Said(reason string) string {
	prefix := string(c) + ": "
	if c == "" || c == ClassOther || strings.HasPrefix(reason, prefix) {
		return reason
	}
	return prefix + reason
}

// Classify gives an error a class, in the place of one that it may have had; nil stays nil, and no class changes nothing. The text stays as it is, and what wraps
// the error keeps the class.
func Classify(c Class, err error) error {
	if err == nil || c == "" {
		return err
	}
	return &classified{err, c}
}

// ClassOf is an error's class: the outermost, where it was given several. A Refusal has its own.
func ClassOf(err error) Class {
	if refusal := (*Refusal)(nil); errors.As(err, &refusal) {
		return ClassRefused
	}
	if c := (*classified)(nil); errors.As(err, &c) {
		return c.class
	}
	return ClassOther
}

// ErrUntried is in the failure of a node whose turn did not come because another one failed. It says nothing of the node itself: without that other one it may be
// tried at once.
var ErrUntried = errors.New("its turn did not come")

// ErrGivenUp is in the failure of a node that is not made, or kept, since another node of its job did not come. It says nothing of the node itself.
var ErrGivenUp = errors.New("given up")

// ErrInterrupted is in the failure of a node whose change Terraform was asked to leave off. What it has asked of the cloud may
// come true all the same.
var ErrInterrupted = errors.New("interrupted")

type classified struct {
	error
	class Class
}

func (c *classified) Unwrap() error { return c.error }

// CloudClass is the class of a call to OpenStack that failed, by the status code, zero where it is not known, and what was said of the failure. Terraform's
// provider tells no code beside its text, so what the services and the client libraries say is looked at too; class_test.go has it as it was recorded.
//
// Throttling comes first: it is told in many ways, of which some speak of quotas or limits, and must never be taken for a lack of room. Nova tells a used up
// quota by 403, and did by 413 before its Juno release (2014), as it told throttling then; Neutron does by 409.
func CloudClass(code int, words string) Class {
	if code == 0 {
		code = codeIn(words)
	}
	class := FaultClass(words)
	switch {
	case code == 429:
		return ClassRateLimit
	case class != ClassOther:
		return class
	case code == 413:
		return ClassRateLimit
	case code == 502 || code == 504:
		return lost(words) // a gateway's word: the service behind it may have done it
	case code >= 500 || code == 408 || unreached.MatchString(words):
		return ClassCloud
	case cut.MatchString(words):
		return lost(words)
	}
	return ClassOther
}

// FaultClass is the class of what Nova says of an instance in ERROR. Its fault has a code too, but that is 500 for nearly all.
func FaultClass(words string) Class {
	switch {
	case throttled.MatchString(words):
		return ClassRateLimit
	case overQuota.MatchString(words):
		return ClassQuota
	case noRoom.MatchString(words):
		return ClassCapacity
	case notThere.MatchString(words):
		return ClassMissing
	case neverActive.MatchString(words):
		return ClassBoot
	}
	return ClassOther
}

// lost is the class of a call that may have been carried out: what only reads has done nothing.
func lost(words string) Class {
	if changes.MatchString(words) {
		return ClassUnknown
	}
	return ClassCloud
}

// What OpenStack, gophercloud of both major versions, and Go's HTTP client say.
var (
	throttled   = regexp.MustCompile(`(?i)too many requests|rate[- ]?limit`)
	overQuota   = regexp.MustCompile(`(?i)quota exceeded|quota_exceeded|overquota|is over a limit for|maximum number of ports exceeded`)
	noRoom      = regexp.MustCompile(`(?i)no valid host|exceeded maximum number of retries|insufficient compute resources|no more ip addresses available`)
	notThere    = regexp.MustCompile(`(?i)can not find requested image|(image|flavor|network) \S+ could not be found`)
	neverActive = regexp.MustCompile(`to become ready: context deadline exceeded|timeout while waiting for state to become 'ACTIVE'`)
	unreached   = regexp.MustCompile(`(?i)dial tcp|connection refused|no such host|no route to host|tls handshake timeout`)
	cut         = regexp.MustCompile(`(?i)\bEOF\b|connection reset|broken pipe|server closed idle connection|timeout awaiting response headers|client\.timeout exceeded|deadline exceeded`)
	changes     = regexp.MustCompile(`^Error (creating|updating|deleting|rebuilding|resizing) |\[(POST|PUT|PATCH|DELETE) |(Post|Put|Patch|Delete) "http`)
	codes       = regexp.MustCompile(`but got (\d{3}) instead|"code": ?(\d{3})\b`)
)

// codeIn finds the status code in a client library's error. For some codes the first major version of gophercloud has a sentence without a number.
func codeIn(words string) int {
	if found := codes.FindStringSubmatch(words); found != nil {
		code, _ := strconv.Atoi(found[1] + found[2]) // one of the two is empty
		return code
	}
	for sentence, code := range map[string]int{
		"Internal Server Error": 500,
		"Bad Gateway":           502,
		"The service is currently unable to handle the request due to a temporary overloading or maintenance": 503,
		"Gateway Timeout": 504,
		"The server timed out waiting for the request": 408,
	} {
		if strings.Contains(words, sentence) {
			return code
		}
	}
	return 0
}
