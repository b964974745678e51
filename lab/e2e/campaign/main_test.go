// Package campaign_test tests on a lab a campaign: its canary, its test job, kills, and the way back.
package campaign_test

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
		Name: "campaign", Gateway: netip.MustParsePrefix("10.71.0.1/24"),
		Groups: []cluster.NodeGroup{cluster.Group("standard", "node", 5, 6)},
	}, func(d *cluster.Declaration) {
		// The second image is a bad one until a test says otherwise.
		d.Reconfigure["canary_job"] = "hostname; ! grep -q " + cluster.ImageV2 + " /etc/image-release"
		d.Reconfigure["canary_minutes"] = 1
	}))
}
