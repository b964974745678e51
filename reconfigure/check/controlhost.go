package check

import (
	"fmt"
	"strings"
)

// ControlHost is what this host has of the declared control_host.
type ControlHost struct {
	NoUser    bool   // this host has no user control_host.user
	UID       int    // of that user
	Directory string // the cluster directory if it is not control_host.directory; else empty
	Elsewhere bool   // no declared control host has an address of this host
}

// controlHost compares control_host with this host: Slurm's scripts call what is declared.
func controlHost(facts Facts) (found []Finding) {
	if facts.ControlHost == nil {
		return nil
	}
	const (
		called = "Slurm's scripts log in here as that user to resume nodes, and it must own the cluster directory"
		change = " of control_host in all.yml; then reconfigure deploy"
	)
	add := func(severity Severity, what, why, change string) {
		found = append(found, Finding{Check: "control host", Severity: severity, What: what, Why: why, Change: change})
	}
	host, declared := facts.ControlHost, facts.Cluster.Settings
	switch {
	case host.NoUser:
		add(Error, fmt.Sprintf("this host has no user %s, which is control_host.user", declared.ControlUser), called,
			"user:"+change)
	case host.UID != facts.UID:
		add(Error, fmt.Sprintf("control_host.user %s has uid %d, and the cluster directory belongs to uid %d",
			declared.ControlUser, host.UID, facts.UID), called, "user:"+change)
	}
	if host.Directory != "" {
		add(Error, fmt.Sprintf("control_host.directory is %s, and this cluster directory is %s", declared.Directory,
			host.Directory), "Slurm's scripts start reconfigure for the declared directory",
			"directory: "+host.Directory+change)
	}
	if host.Elsewhere {
		add(Warning, fmt.Sprintf("this host does not have the address %s, which control_host declares",
			strings.Join(declared.ControlHosts, ", ")),
			"Slurm's scripts call that address; without a translation of addresses, the calls do not come here",
			"address:"+change+", which tries the call")
	}
	return found
}
