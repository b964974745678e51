package terraform

import (
	"context"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine/enginetest"
)

// provisioner is a driver that nobody interrupts.
type provisioner struct{ *Driver }

func (p provisioner) Apply(ctx context.Context, preview reconfigure.Preview, watch engine.Watch) (reconfigure.Failures, error) {
	return p.Driver.Apply(ctx, preview, watch, nil)
}

// TestDriverIsAProvisioner holds real Terraform to the contract that the engine's tests rely on.
func TestDriverIsAProvisioner(t *testing.T) {
	t.Parallel()
	enginetest.Provisioner(t, func(t *testing.T) enginetest.ProvisionerHarness {
		c := newCluster(t, nil)
		return enginetest.ProvisionerHarness{
			Provisioner: provisioner{c.open()}, Control: control, Nodes: []string{"node01", "node02", "node03"},
			Spec: func(node string, version int) reconfigure.Spec {
				group, image := "standard", map[int]string{1: imageV1, 2: imageV2}[version]
				if node == control {
					group = reconfigure.ControlGroup
				}
				return c.spec(group, image)
			},
			Servers: func() map[string]string {
				ids := map[string]string{}
				for name, s := range c.servers() {
					ids[name] = s.ID
				}
				return ids
			},
			FailCreate: func(node string) {
				_, err := c.cloud.Faults().Add(labcloud.Fault{Kind: labcloud.NoValidHost, Server: node})
				c.must(err)
			},
			Vanish: c.removeServer,
			Stray:  func() { c.declare("cluster_name: eiffel", "cluster_name: tower") },
		}
	})
}
