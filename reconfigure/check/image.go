package check

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/go-version"
)

// NodeFacts has the facts about a node.
type NodeFacts struct {
	Image, Node string
	// Versions is what each program of a node prints about its version; empty if it is not installed. A program that
	// is missing in the map was not checked.
	Versions map[string]string
	NFS      bool   // the cluster has shared folders
	Control  string // version of slurmctld; empty if unknown
	Err      error  // why the node could not be queried
}

// The programs that NodeScript looks for.
const (
	partMunge  = "munge"
	partSlurmd = "slurmd"
	partPython = "python3"
	partSSHD   = "sshd"
	partSudo   = "sudo"
	partCloud  = "cloud-init"
	partNFS    = "nfs"
)

// NodeScript is a POSIX shell script that prints the versions of the programs on a node, for ParseVersions.
const NodeScript = `PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
version() {
	name=$1 program=$2
	shift 2
	if command -v "$program" >/dev/null; then
		printf '%s=%s\n' "$name" "$("$@" 2>&1 </dev/null | head -n 1)"
	else
		printf '%s=\n' "$name"
	fi
}
version munge munged munged --version
version slurmd slurmd slurmd -V
version python3 python3 python3 --version
version sshd sshd ssh -V
version sudo sudo sudo -V
version cloud-init cloud-init cloud-init --version
version nfs mount.nfs mount.nfs -V
`

// ParseVersions reads what NodeScript prints.
func ParseVersions(output string) map[string]string {
	versions := map[string]string{}
	for line := range strings.Lines(output) {
		if name, said, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			versions[name] = said
		}
	}
	return versions
}

// ImageReport has the findings for an image, from a node that was made of it.
type ImageReport struct {
	Image    string            `json:"image"`
	Node     string            `json:"node"`
	Versions map[string]string `json:"versions"`
	Report
}

// Image checks whether the image of a node has what a node needs.
func Image(facts NodeFacts) ImageReport {
	r := ImageReport{Image: facts.Image, Node: facts.Node, Versions: facts.Versions, Report: Report{Findings: []Finding{}}}
	if facts.Err != nil {
		r.Unreachable = []Unreachable{{Source: "node " + facts.Node, Reason: facts.Err.Error()}}
		return r
	}
	for _, check := range []func(NodeFacts) []Finding{parts, slurmd, python} {
		r.Findings = append(r.Findings, check(facts)...)
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Compare(order[a.Severity], order[b.Severity])
	})
	return r
}

// lacks reports whether a program was checked and is not installed.
func (f NodeFacts) lacks(part string) bool {
	said, asked := f.Versions[part]
	return asked && said == ""
}

// parts checks that the programs are installed.
func parts(facts NodeFacts) (found []Finding) {
	for _, need := range []struct {
		part, why string
		severity  Severity
	}{
		{partMunge, "without munge no daemon of Slurm trusts the node", Error},
		{partSlurmd, "without slurmd the node never registers", Error},
		{partPython, "Ansible runs its modules with /usr/bin/python3", Error},
		{partSSHD, "Ansible logs in by SSH", Error},
		{partSudo, "the login user becomes root by sudo", Error},
		{partCloud, "cloud-init gives a new instance its name, its host keys and the login user's key", Warning},
		{partNFS, "nfs_shares declares folders that are mounted by NFS", Error},
	} {
		if !facts.lacks(need.part) || need.part == partNFS && !facts.NFS {
			continue
		}
		severity := need.severity
		installs := need.part == partMunge || need.part == partSlurmd || need.part == partNFS
		if installs && severity == Error {
			severity = Warning
			need.why += "; the playbooks install it on each new node, which takes most of its time and needs a network"
		}
		found = append(found, Finding{
			Check: "image", Severity: severity, What: fmt.Sprintf("%s is not installed", need.part), Why: need.why,
			Change: "install it on a node, and make a new image: reconfigure image create " + facts.Node,
		})
	}
	return found
}

// versionIn finds a version in what a program prints.
var versionIn = regexp.MustCompile(`\d+\.\d+(\.\d+)?`)

// slurmd checks slurmd's version against slurmctld's. A slurmd may be older than slurmctld, by two releases (from
// 24.11 on three), and never newer (Slurm's Upgrade Guide, "Release Compatibility").
func slurmd(facts NodeFacts) []Finding {
	is, err := version.NewVersion(versionIn.FindString(facts.Versions[partSlurmd]))
	control, unknown := version.NewVersion(versionIn.FindString(facts.Control))
	if err != nil || unknown != nil || is.Equal(control) {
		return nil
	}
	finding := Finding{
		Check: "image", Severity: Warning,
		What:   fmt.Sprintf("slurmd is %s, and slurmctld %s", is.Original(), control.Original()),
		Why:    "the releases differ, which Slurm supports only during an upgrade",
		Change: "install slurmctld's release of slurmd in the image",
	}
	switch behind := release(control) - release(is); {
	case is.GreaterThan(control) && release(is) > release(control):
		finding.Severity, finding.Why = Error, "a slurmd that is newer than slurmctld cannot register"
	case behind > 3, behind > 2 && control.LessThan(version.Must(version.NewVersion("24.11"))):
		finding.Severity, finding.Why = Error, "slurmctld does not accept such an old slurmd"
	case behind == 0:
		finding.Severity, finding.Why = Note, "both are of the same release, so it works"
	}
	return []Finding{finding}
}

// release numbers Slurm's releases, whose names are years and months. From 24.05 on there are two a year.
func release(v *version.Version) int {
	known := []string{"19.05", "20.02", "20.11", "21.08", "22.05", "23.02", "23.11", "24.05", "24.11"}
	s := v.Segments()
	name := fmt.Sprintf("%02d.%02d", s[0], s[1])
	if i := slices.Index(known, name); i >= 0 {
		return i
	}
	if s[0] < 25 {
		return 0
	}
	return len(known) + 2*(s[0]-25) + s[1]/8
}

// python checks the version that Ansible needs on nodes.
func python(facts NodeFacts) []Finding {
	is := strings.Split(versionIn.FindString(facts.Versions[partPython]), ".")
	if len(is) < 2 || is[0] != "3" {
		return nil
	}
	if minor, err := strconv.Atoi(is[1]); err != nil || minor >= 8 {
		return nil
	}
	return []Finding{{
		Check: "image", Severity: Warning, What: "python3 is " + strings.Join(is, "."),
		Why:    "ansible-core 2.17 and later need 3.7 or 3.8 on the nodes",
		Change: "install a newer Python in the image, or keep an older ansible-core on the control host",
	}}
}

// Write writes the report for people: the versions, then what was found.
func (r ImageReport) Write(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "image %s, as found on node %s\n", r.Image, r.Node); err != nil {
		return err
	}
	for _, part := range []string{partMunge, partSlurmd, partPython, partSSHD, partSudo, partCloud, partNFS} {
		if said, asked := r.Versions[part]; asked {
			if _, err := fmt.Fprintf(w, "  %-10s  %s\n", part, cmp.Or(said, "not installed")); err != nil {
				return err
			}
		}
	}
	return r.Report.Write(w)
}

// ImageReports has the reports on several images.
type ImageReports []ImageReport

// Write writes the reports for people.
func (all ImageReports) Write(w io.Writer) error {
	for _, r := range all {
		if err := r.Write(w); err != nil {
			return err
		}
	}
	return nil
}

// Err returns a *FoundError of all reports; nil if there are only notes.
func (all ImageReports) Err() error {
	var together Report
	for _, r := range all {
		together.Findings = append(together.Findings, r.Findings...)
		together.Unreachable = append(together.Unreachable, r.Unreachable...)
	}
	slices.SortStableFunc(together.Findings, func(a, b Finding) int {
		return cmp.Compare(order[a.Severity], order[b.Severity])
	})
	return together.Err()
}
