// Package security_test tests on a lab what must be impossible for users, for root on a node, for the thief of a key,
// and for Terraform without a request. It also tests as which user programs run on the control host, and where secrets
// are.
package security_test

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
		Name: "security", Gateway: netip.MustParsePrefix("10.75.0.1/24"),
		Groups: []cluster.NodeGroup{cluster.Group("standard", "node", 2, 6)},
	}, nil))
}
