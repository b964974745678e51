// Package grow_test tests on a lab that nodes are created for jobs and removed afterwards, with real slurmctld and
// slurmd, SSH, Terraform with its provider, and Ansible.
package grow_test

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
		Name: "grow", Gateway: netip.MustParsePrefix("10.62.0.1/24"),
		Groups: []cluster.NodeGroup{cluster.Group("standard", "node", 2, 6), cluster.Group("burst", "b", 0, 2)},
	}, func(d *cluster.Declaration) {
		d.NodeGroups[1].Fallbacks = []string{cluster.FlavorLarge}
		d.Slurm.ControllerParameters = []string{"power_save_interval=2"} // as a site that sets its own
	}))
}
