// Package check finds what makes a site unsafe, slow or broken before jobs are affected. Each check is a pure
// function of Facts, which the caller gathers. An unknown fact is left out, and no check draws a conclusion from its
// absence.
package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// Severity is the importance of a finding.
type Severity string

// The severities. Error: jobs, credentials or nodes are in danger, or nothing will work. Warning: something will fail
// at times, or will be slow. Note: administrators should know it.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Note    Severity = "note"
)

// order sorts severities, the worst first.
var order = map[Severity]int{Error: 0, Warning: 1, Note: 2}

// Finding is one problem of a site.
type Finding struct {
	Check    string   `json:"check"` // the kind of check: files, keys, slurm, …
	Severity Severity `json:"severity"`
	What     string   `json:"what"`
	Why      string   `json:"why"`    // why it matters
	Change   string   `json:"change"` // the line to change, or the command
}

// Unreachable is a source of facts that did not answer. What depends on it was not checked.
type Unreachable struct {
	Source string `json:"source"`
	Reason string `json:"reason"`
}

// Facts has the facts about a site. The zero value of a field means that it is unknown.
type Facts struct {
	Cluster  reconfigure.Cluster
	Provider reconfigure.Provider
	UID      int // the owner of the cluster directory, who should own all files

	ControlHost    *ControlHost
	Files          []File
	FileSystems    []FileSystem
	AuthorizedKeys *AuthorizedKeys
	HostKeys       map[string]bool                 // the addresses with a known host key
	Instances      map[string]reconfigure.Instance // by node, as Terraform's state has them

	Slurm    map[string]string // slurmctld's settings, as `scontrol show config` prints them
	Times    *Times            // measured, from the journal's events
	Versions map[Program]string
	Exports  string  // the options of the NFS exports (exports(5))
	GresConf *string // the playbooks' variable slurm_gres_conf

	Measured map[string]reconfigure.Measured // the hardware of a node of each group, by the group's name

	SiteFiles string // the problems of ansible/files/site; empty: none

	Login   string                   // why the login to the cloud fails; empty: it works, or is unknown
	Clocks  map[string]time.Duration // how far each host's clock is ahead of the control host's, by host
	Sources map[reconfigure.Source]reconfigure.Resolved
	Room    *reconfigure.Room
	Servers []Server // of the whole project

	Unreachable []Unreachable
}

// Report has the findings of all checks.
type Report struct {
	Cluster     string        `json:"cluster"`
	Findings    []Finding     `json:"findings"`    // the worst first
	Unreachable []Unreachable `json:"unreachable"` // the sources whose facts were not checked
}

// checks returns all checks.
func checks() []func(Facts) []Finding {
	return []func(Facts) []Finding{
		files, siteFiles, controlHost, disks, authorizedKeys, hostKeys, slurmSettings, hardware, fallbacks, gpus, deadlines, versions, exports, clocks,
		login, sources, quota, names, partitions, firewall,
	}
}

// Run returns the findings of all checks.
func Run(facts Facts) Report {
	report := Report{Cluster: facts.Cluster.Name, Findings: []Finding{}, Unreachable: []Unreachable{}}
	for _, check := range checks() {
		report.Findings = append(report.Findings, check(facts)...)
	}
	Sort(report.Findings)
	for _, u := range facts.Unreachable {
		if u.Reason != facts.Login { // which is a finding already
			report.Unreachable = append(report.Unreachable, u)
		}
	}
	return report
}

// Sort puts the findings into the order of a Report: the severe ones first, else as they are.
func Sort(findings []Finding) {
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Compare(order[a.Severity], order[b.Severity])
	})
}

// Worst returns the severity of the worst finding; empty if there is none. A source that did not answer counts as a
// warning.
func (r Report) Worst() Severity {
	switch {
	case len(r.Findings) > 0 && r.Findings[0].Severity == Error:
		return Error
	case len(r.Unreachable) > 0:
		return Warning
	case len(r.Findings) > 0:
		return r.Findings[0].Severity
	}
	return ""
}

// FoundError means that errors or warnings were found, or that a source did not answer.
type FoundError struct{ Report Report }

func (e *FoundError) Error() string {
	count := map[Severity]int{}
	for _, f := range e.Report.Findings {
		count[f.Severity]++
	}
	return fmt.Sprintf("%s, %s, %s that did not answer", text.Count(count[Error], "error"),
		text.Count(count[Warning], "warning"), text.Count(len(e.Report.Unreachable), "source"))
}

// Err returns a *FoundError; nil if there are only notes.
func (r Report) Err() error {
	if worst := r.Worst(); worst == Error || worst == Warning {
		return &FoundError{r}
	}
	return nil
}
