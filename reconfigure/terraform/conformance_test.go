package terraform

import (
	"testing"

	"github.com/hashicorp/terraform-exec/tfexec"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation/operationtest"
)

// TestDriverIsAProvisioner tests real Terraform with the suite of the contract on which operations rely.
func TestDriverIsAProvisioner(t *testing.T) {
	t.Parallel()
	operationtest.TestProvisioner(t, func(t *testing.T, late bool) operationtest.ProvisionerSetup {
		c := newCluster(t, nil)
		if late {
			c = newLagging(t)
		}
		d := c.open()
		return operationtest.ProvisionerSetup{
			Provisioner: d, Control: control, Nodes: []string{"node01", "node02", "node03"},
			Spec: func(node string, version int) reconfigure.Spec {
				group, image := "standard", map[int]string{1: imageV1, 2: imageV2}[version]
				if node == control {
					group = reconfigure.ControlGroup
				}
				return c.spec(group, image)
			},
			Servers: c.allServers,
			Forget: func(node string) {
				c.must(d.run(func(tf *tfexec.Terraform) error {
					return tf.StateRm(c.Context(),
						instance(instanceBlock, node))
				}))
			},
			FailCreate: func(node string) {
				_, err := c.cloud.Faults().Add(labcloud.Fault{Kind: labcloud.NoValidHost, Server: node})
				c.must(err)
			},
			Vanish: c.removeServer,
			Stop:   c.stopServer,
			Rebuild: func(node string, version int) {
				c.rebuildServer(node, map[int]string{1: imageV1, 2: imageV2}[version])
			},
			Stray: func() { c.declare("cluster_name: eiffel", "cluster_name: tower") },
		}
	})
}

// allServers returns all of the cloud's servers, including those in ERROR.
func (c *cluster) allServers() map[string]reconfigure.Server {
	c.Helper()
	ports := c.ports()
	found := map[string]reconfigure.Server{}
	for node, s := range c.servers() {
		server := reconfigure.Server{ID: s.ID, Node: node, Status: reconfigure.ServerStatus(s.Status), ImageID: s.Image}
		if len(s.Addresses) > 0 {
			server.Address = s.Addresses[0].String()
		}
		if len(ports[node]) > 0 {
			server.PortID = ports[node][0]
		}
		found[node] = server
	}
	return found
}
