// Package systemd_test tests on a lab whose machines boot systemd what depends on it: units, control groups, and the
// boot of nodes. EIFFEL_LAB_RELEASE=trixie runs the same on Debian 13, with Slurm 24.11.
package systemd_test

import (
	"fmt"
	"net/netip"
	"os"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
	"github.com/eiffel-hpc/eiffel/lab/tools"
)

const trixie = "trixie"

// release returns Debian's release in the machines; "" is bookworm.
func release() string { return os.Getenv("EIFFEL_LAB_RELEASE") }

var lab harness.Lab

func TestMain(m *testing.M) {
	installed, err := tools.FindSystemd("../../..")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	base := map[string]string{"": installed.Systemd, trixie: installed.Trixie}[release()]
	if base == "" {
		fmt.Fprintf(os.Stderr, "EIFFEL_LAB_RELEASE is %q, and may be %q\n", release(), trixie)
		os.Exit(1)
	}
	name, gateway := "systemd", "10.67.0.1/24"
	if release() == trixie {
		name, gateway = trixie, "10.70.0.1/24"
	}
	os.Exit(lab.Main(m, cluster.Config{
		Name: name, Gateway: netip.MustParsePrefix(gateway), Systemd: base,
		Groups: []cluster.NodeGroup{cluster.Group("standard", "node", 1, 2)},
	}, nil))
}
