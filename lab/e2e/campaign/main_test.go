// Package campaign_test tests a campaign on a lab: its canary, its test job, kills, and the return to the old image. It
// has five nodes, and with EIFFEL_RELEASE_CHECK=1 twenty, which takes minutes longer.
package campaign_test

import (
	"net/netip"
	"os"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
)

var lab harness.Lab

// large reports whether the campaign has twenty nodes.
func large() bool { return os.Getenv("EIFFEL_RELEASE_CHECK") != "" }

// size is the number of the campaign's nodes; batch is the number of nodes that it updates at a time.
func size() (nodes, batch int) {
	if large() {
		return 20, 4
	}
	return 5, 2
}

func group() cluster.NodeGroup {
	n, _ := size()
	return cluster.Group("standard", "node", n, n+1)
}

func TestMain(m *testing.M) {
	os.Exit(lab.Main(m, cluster.Config{
		Name: "campaign", Gateway: netip.MustParsePrefix("10.71.0.1/24"),
		Groups: []cluster.NodeGroup{group()},
	}, harness.DeclareABadImage))
}
