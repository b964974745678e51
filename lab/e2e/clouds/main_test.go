// Package clouds_test runs the same scenarios on labcloud and on a real OpenStack, whose servers are machines of the
// lab too. `make e2e CLOUD=openstack` and `make release-check` run it; `make test` skips it, since it takes long.
package clouds_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/lab/machine"
	"github.com/eiffel-hpc/eiffel/lab/openstack"
)

// cloudVariable names the cloud: "labcloud" or "openstack". The lab has this name too.
const cloudVariable = "EIFFEL_E2E_CLOUD"

var (
	lab harness.Lab
	// real is nil on labcloud.
	real *openstack.Cloud
)

func TestMain(m *testing.M) {
	openstack.KeepIfAsked()
	cfg := cluster.Config{
		Gateway: netip.MustParsePrefix("10.73.0.1/24"),
		Groups:  []cluster.NodeGroup{cluster.Group("standard", "node", 1, 3)},
	}
	switch cfg.Name = os.Getenv(cloudVariable); cfg.Name {
	case "":
		os.Exit(m.Run()) // each test is skipped
	case "labcloud":
	case "openstack":
		cfg.Gateway = netip.MustParsePrefix("10.73.1.1/24")
		cfg.OtherCloud = func(ctx context.Context, c labcloud.Config, h *machine.Host) (_ cluster.Cloud, err error) {
			if real, err = openstack.New(ctx, c, h); err != nil {
				return nil, err
			}
			// Nova changes the zone of a host without servers only.
			_, err = real.AddHost(ctx, openstack.FirstHost, cluster.ZoneUsual)
			return real, err
		}
	default:
		fmt.Fprintf(os.Stderr, "%s=%s: want labcloud or openstack\n", cloudVariable, cfg.Name)
		os.Exit(1)
	}
	os.Exit(lab.Main(m, cfg, func(d *cluster.Declaration) {
		harness.DeclareABadImage(d)
		d.Slurm.Extra["MinJobAge"] = "86400" // a storm checks its jobs at its end
	}))
}

// scenario gives a test its words in docs/how-it-works/tested.md.
func scenario(t *testing.T, words string) {
	t.Helper()
	if os.Getenv(cloudVariable) == "" {
		t.Skip(`it runs on clouds that take minutes to start: only "make e2e" and "make release-check" do`)
	}
	t.Attr("scenario", words)
}
