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

var lab harness.Lab

func TestMain(m *testing.M) {
	installed, err := tools.FindSystemd("../../..")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	base := installed.Systemd
	if os.Getenv("EIFFEL_LAB_RELEASE") == "trixie" {
		base = installed.Trixie
	}
	os.Exit(lab.Main(m, cluster.Config{
		Name: "systemd", Gateway: netip.MustParsePrefix("10.67.0.1/24"), Systemd: base,
		Groups: []cluster.NodeGroup{cluster.Group("standard", "node", 1, 2)},
	}, nil))
}
