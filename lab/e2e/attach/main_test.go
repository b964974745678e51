// Package attach_test tests on a lab a cluster that the project's playbooks did not make. reconfigure attaches to it,
// and detaches again.
package attach_test

import (
	"net/netip"
	"os"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/existing"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
)

var lab existing.Lab

func TestMain(m *testing.M) {
	name, network := "attach", "10.83.0.1/24"
	if os.Getenv(harness.ReleaseVariable) == harness.Trixie {
		name, network = "attach-13", "10.84.0.1/24"
	}
	os.Exit(lab.Main(m, cluster.Config{Name: name, Gateway: netip.MustParsePrefix(network)}))
}
