// Package resize_test tests on a lab how node groups are resized, and how many nodes are replaced at once.
package resize_test

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
		Name: "resize", Gateway: netip.MustParsePrefix("10.64.0.1/24"),
		Groups: []cluster.NodeGroup{cluster.Group("standard", "node", 2, 6), cluster.Group("burst", "b", 0, 2),
			cluster.Group("wide", "w", 0, 16)},
		Partitions: []cluster.Partition{
			{Name: "main", Groups: []string{"standard", "burst"}, Default: true},
			{Name: "burst", Groups: []string{"burst"}},
			{Name: "wide", Groups: []string{"wide"}},
		},
	}, nil))
}
