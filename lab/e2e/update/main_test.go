// Package update_test tests on a lab the reboot, rebuild and replacement of nodes, for administrators and for Slurm.
package update_test

import (
	"net/netip"
	"os"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
)

var lab harness.Lab

func TestMain(m *testing.M) {
	os.Exit(lab.Main(m, cluster.Config{
		Name: "update", Gateway: netip.MustParsePrefix("10.63.0.1/24"),
		Groups: []cluster.NodeGroup{cluster.Group("standard", "node", 2, 4)},
	}, nil))
}
