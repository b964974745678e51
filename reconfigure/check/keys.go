package check

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// AuthorizedKeys is the file with the keys by which Slurm and the nodes log in to the control host.
type AuthorizedKeys struct {
	Path  string
	Lines []string
}

// key is a line of this cluster: the control node's, or that of a node for its own reboot. The comments are those
// that the role slurm_scripts writes.
type key struct {
	node    string // empty: Slurm's key on the control node
	options []string
}

// ofDirectory finds the cluster directory in a line's command, as it is quoted there.
var ofDirectory = regexp.MustCompile(` --dir (.*) gate --role `)

// plainWord matches words that a POSIX shell does not change.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// Foreign reports whether a line of authorized_keys belongs to another cluster directory: two clusters with the same
// name may share the file. Lines of the role slurm_scripts have the directory in their command; other lines are not
// foreign.
func Foreign(line, directory string) bool {
	found := ofDirectory.FindStringSubmatch(line)
	if !plainWord.MatchString(directory) {
		directory = "'" + strings.ReplaceAll(directory, "'", `'"'"'`) + "'" // as Ansible's filter quote
	}
	return found != nil && found[1] != strings.ReplaceAll(directory, `"`, `\"`)
}

// keysOf returns the lines of this cluster.
func keysOf(cluster, directory string, lines []string) (keys []key) {
	for _, line := range lines {
		if Foreign(line, directory) {
			continue
		}
		_, comment, options, _, err := ssh.ParseAuthorizedKey([]byte(line))
		if err != nil {
			continue // sshd ignores it too
		}
		if comment == "slurm@"+cluster {
			keys = append(keys, key{"", options})
		} else if node, ok := strings.CutPrefix(comment, "reboot@"+cluster+"/"); ok {
			keys = append(keys, key{node, options})
		}
	}
	return keys
}

func (k key) has(option string) bool {
	return slices.ContainsFunc(k.options, func(o string) bool {
		name, _, _ := strings.Cut(o, "=")
		return strings.EqualFold(name, option)
	})
}

// gated reports whether the key's command is the gate, in the form of the role slurm_scripts.
func (k key) gated() bool {
	return slices.ContainsFunc(k.options, func(o string) bool {
		return strings.HasPrefix(strings.ToLower(o), "command=") && strings.Contains(o, " gate --role ")
	})
}

// authorizedKeys checks that each key of the cluster may only call the gate, and only from given addresses.
func authorizedKeys(facts Facts) (found []Finding) {
	if facts.AuthorizedKeys == nil {
		return nil
	}
	path, keys := facts.AuthorizedKeys.Path, keysOf(
		facts.Cluster.Name, facts.Cluster.Settings.Directory, facts.AuthorizedKeys.Lines)
	var shells, others, open, anywhere, gone []string
	for _, k := range keys {
		name := k.node
		if name == "" {
			name = facts.Cluster.Control.Name
		}
		switch {
		case !k.has("command"):
			shells = append(shells, name)
		case !k.gated():
			others = append(others, name)
		}
		if !k.has("from") {
			anywhere = append(anywhere, name)
		}
		if !k.has("restrict") {
			open = append(open, name)
		}
		if k.node != "" && !facts.Cluster.Nodes().Contains(k.node) {
			gone = append(gone, name)
		}
	}
	for _, problem := range []struct {
		nodes    []string
		severity Severity
		what     string
		why      string
		change   string
	}{
		{
			shells, Error, "has no command=",
			"root of that node gets a shell on the control host, with the cloud's credentials",
			"reconfigure deploy",
		},
		{
			others, Error, "has another command than reconfigure gate",
			"only the gate checks what the key asks for, and how often", "reconfigure deploy",
		},
		{
			anywhere, Warning, "has no from=", "a stolen key can be used from anywhere", "reconfigure deploy",
		},
		{
			open, Error, "has no restrict", "the key may forward ports and bypass the command",
			"reconfigure deploy",
		},
		{
			gone, Warning, "belongs to a node that no group declares", "a key that is no longer needed is only a risk",
			"remove its line from " + path,
		},
	} {
		if len(problem.nodes) > 0 {
			found = append(found, Finding{
				Check: "keys", Severity: problem.severity,
				What: fmt.Sprintf(
					"the line in %s for the key of %s %s",
					path,
					nodeset.Of(problem.nodes...),
					problem.what,
				),
				Why:    problem.why,
				Change: problem.change,
			})
		}
	}
	_, deployed := facts.Instances[facts.Cluster.Control.Name]
	if deployed && !slices.ContainsFunc(keys, func(k key) bool { return k.node == "" }) {
		found = append(found, Finding{
			Check: "keys", Severity: Error,
			What:   fmt.Sprintf("%s has no key for slurmctld", path),
			Why:    "Slurm cannot ask for nodes, so none is made",
			Change: "reconfigure deploy",
		})
	}
	return found
}

// hostKeys checks that the host keys of all instances are known, and that the tool learns them safely.
func hostKeys(facts Facts) (found []Finding) {
	var unknown []string
	for node, instance := range facts.Instances {
		if facts.HostKeys != nil && instance.Address != "" && !facts.HostKeys[instance.Address] {
			unknown = append(unknown, node)
		}
	}
	if len(unknown) > 0 {
		found = append(found, Finding{
			Check: "host keys", Severity: Warning,
			What:   fmt.Sprintf("the host keys of %s are unknown", nodeset.Of(unknown...)),
			Why:    "Ansible and Slurm's commands cannot log in there, since every connection is checked",
			Change: "reconfigure deploy, which reads them from the console logs",
		})
	}
	if facts.Cluster.Settings.HostKeys == reconfigure.HostKeysAcceptNew {
		found = append(found, Finding{
			Check: "host keys", Severity: Warning,
			What:   "the first key that answers at a new instance's address is taken",
			Why:    "any machine that answers there first gets the munge key",
			Change: "reconfigure: {host_keys: console}, if the cloud provides console logs",
		})
	}
	return found
}
