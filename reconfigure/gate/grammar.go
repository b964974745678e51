package gate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Role says which calls a key may make.
type Role string

// The roles: Controller is the role of slurmctld's scripts on the control node, Node that of the RebootProgram of one
// node.
const (
	Controller Role = "controller"
	Node       Role = "node"
)

// Key is a key that was authorized for a role.
type Key struct {
	Role Role
	Node string // for the role Node: the only node that it may name
}

// Check returns an error if the options of a forced command contradict each other, or name an unknown role.
func (k Key) Check() error {
	switch {
	case k.Role == Controller && k.Node != "":
		return fmt.Errorf("the role %s has no node", Controller)
	case k.Role == Node:
		return nodeset.ValidName(k.Node)
	case k.Role != Controller:
		return fmt.Errorf("there is no role %q: there are %s and %s", k.Role, Controller, Node)
	}
	return nil
}

// Name returns the key's name in the journal and in the requests that it makes.
func (k Key) Name() string {
	if k.Role == Node {
		return "node " + k.Node
	}
	return "slurm"
}

// Verb is the first word of a call.
type Verb string

// The verbs. ResumeFail is a suspend of nodes that did not register in time (slurm.conf(5), ResumeFailProgram).
const (
	Resume     Verb = "resume"
	Suspend    Verb = "suspend"
	ResumeFail Verb = "resume-fail"
	Update     Verb = "update"
	Status     Verb = "status"
)

// The flags.
const (
	flagJobs = "--jobs" // of Resume: the resume file is on standard input
	flagJSON = "--json" // of Status
)

// Call is what a caller asks for. It has none of the caller's text: Arguments makes new text from it.
type Call struct {
	Verb  Verb
	Nodes nodeset.NodeSet // empty for Status: all nodes
	Flag  bool            // the verb's own flag is given
}

// MaxCommand is the length of the longest command, in bytes. sshd passes a command in an environment variable, for
// which Linux allows 128 KiB.
const MaxCommand = 100_000

// allowed has the characters that a word may have: those of hostlists, which suffice for verbs and flags.
const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.,[]-"

// Parse reads a command as callers send it:
//
//	command = ("resume" [" --jobs"] | "suspend" | "resume-fail" | "update") " " HOSTLIST
//	        | "status" [" --json"] [" " HOSTLIST]
//
// The flag may also be behind HOSTLIST. The role Node may only send "update NAME", with its own name. Everything else
// is an error. The error has the reason for administrators; the caller must not see it.
func Parse(k Key, command string) (Call, error) {
	switch {
	case command == "":
		return Call{}, fmt.Errorf("no command: a login, or a subsystem")
	case len(command) > MaxCommand:
		return Call{}, fmt.Errorf("a command of %d bytes", len(command))
	}
	words := strings.Split(command, " ")
	for _, word := range words {
		if word == "" || strings.ContainsFunc(word, foreign) {
			return Call{}, fmt.Errorf("an empty word, or a character that is not allowed")
		}
	}
	call := Call{Verb: Verb(words[0])}
	flag, needs, known := grammar(call.Verb)
	if !known {
		return Call{}, fmt.Errorf("an unknown verb")
	}
	words = words[1:]
	if i := slices.Index(words, flag); i >= 0 {
		call.Flag, words = true, slices.Delete(words, i, i+1)
	}
	if len(words) > 1 || needs && len(words) == 0 {
		return Call{}, fmt.Errorf("%d words where a hostlist is expected", len(words))
	}
	if len(words) == 1 {
		nodes, err := nodeset.Parse(words[0])
		if err != nil {
			return Call{}, fmt.Errorf("not a hostlist")
		}
		call.Nodes = nodes
	}
	return call, permit(k, call)
}

// foreign reports whether a character is not allowed.
func foreign(r rune) bool { return !strings.ContainsRune(allowed, r) }

// grammar returns the flag of a verb, whether it needs a hostlist, and whether there is such a verb.
func grammar(v Verb) (flag string, needsNodes, known bool) {
	switch v {
	case Resume:
		return flagJobs, true, true
	case Suspend, ResumeFail, Update:
		return "", true, true
	case Status:
		return flagJSON, false, true
	}
	return "", false, false
}

// permit returns an error if the key may not make the call.
func permit(k Key, call Call) error {
	switch {
	case k.Role == Controller:
		return nil
	case call.Verb != Update:
		return fmt.Errorf("a node may not %s", call.Verb)
	case !call.Nodes.Equal(nodeset.Of(k.Node)):
		return fmt.Errorf("a node may only update itself")
	}
	return nil
}

// Arguments returns the call as arguments of `reconfigure`.
func (c Call) Arguments() []string {
	arguments := []string{"--no-wait"}
	mode := reconfigure.Suspend
	switch c.Verb {
	case Resume:
		mode = reconfigure.Resume
		if c.Flag {
			arguments = append(arguments, "--resume-file", "-")
		}
	case Suspend:
	case ResumeFail:
		arguments = append(arguments, "--reason", "not registered within ResumeTimeout")
	case Update:
		mode = reconfigure.Update
		arguments = append(arguments, "--from-slurm")
	case Status:
		mode, arguments = "status", nil
		if c.Flag {
			arguments = append(arguments, "--json")
		}
	}
	arguments = append([]string{string(mode)}, arguments...)
	if !c.Nodes.Empty() {
		arguments = append(arguments, c.Nodes.String())
	}
	return arguments
}
