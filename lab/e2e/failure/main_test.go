// Package failure_test tests failures of nodes on a lab, one of each class.
package failure_test

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
		Name: "failure", Gateway: netip.MustParsePrefix("10.65.0.1/24"),
		Groups: []cluster.NodeGroup{
			cluster.Group("standard", "node", 1, 2), cluster.Group("wide", "w", 0, 13),
			cluster.Group("imageless", "i", 0, 1), cluster.Group("flavorless", "f", 0, 1),
		},
	}, func(d *cluster.Declaration) {
		// The jobs wait until all nodes have failed.
		d.Slurm.ResumeTimeout = 900
		d.Reconfigure["retries"] = 0 // each failure is final
	}))
}
