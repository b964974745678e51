package openstack

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// writeTested writes docs/tested.md: which services the checks ran on, when, and with what outcome.
func writeTested(t *testing.T, passed bool) {
	t.Helper()
	outcome := "failed"
	if passed {
		outcome = "passed"
	}
	var text strings.Builder
	fmt.Fprint(&text, "# What was tested on a real OpenStack\n\n`make release-check` writes this page.\n\n"+
		"| part | version | scenario | date | outcome |\n|---|---|---|---|---|\n")
	for _, part := range []struct{ name, packaged string }{
		{"Keystone", "keystone"}, {"Placement", "placement-api"}, {"Glance", "glance-api"},
		{"Neutron", "neutron-server"}, {"Nova, with its fake driver", "nova-api"},
	} {
		version, err := exec.Command("dpkg-query", "--show", "--showformat=${Version}", part.packaged).Output()
		check(t, err)
		fmt.Fprintf(&text, "| %s | Debian's %s | the checks of `lab/cloudtest`, which labcloud passes too | %s | %s |\n",
			part.name, version, time.Now().UTC().Format(time.DateOnly), outcome)
	}
	check(t, os.WriteFile("../../docs/tested.md", []byte(text.String()), 0o644))
}
