// Package campaign_test tests on a lab a campaign: its canary, its test job, kills, and the way back. It is over five
// nodes, and with EIFFEL_RELEASE_CHECK=1 over twenty, which takes minutes more.
package campaign_test

import (
	"net/netip"
	"os"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
)

var lab harness.Lab

// large reports whether the campaign is over twenty nodes.
func large() bool { return os.Getenv("EIFFEL_RELEASE_CHECK") != "" }

// size is how many nodes the campaign is over, and batch how many of them it updates at a time.
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
