package simulate_test

import (
	"context"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/cloud/cloudtest"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation/operationtest"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

// declared returns a cluster with a control node and a group of one persistent node and three cloud nodes.
func declared() reconfigure.Cluster {
	source := reconfigure.Source{Image: "v1", Flavor: "small", Network: "cluster"}
	return reconfigure.Cluster{
		Name:    "test",
		Control: reconfigure.Control{Name: "ctl", Source: source},
		Groups:  []reconfigure.NodeGroup{{Name: "group", Prefix: "node", Width: 1, Source: source, Min: 1, Max: 4}},
	}
}

// quick returns a world in which no action takes long.
func quick() *simulate.World {
	w := simulate.NewWorld(declared())
	w.Takes(simulate.Building, 20*time.Millisecond)
	w.Takes(simulate.Removing, 20*time.Millisecond)
	w.Takes(simulate.ProviderSleep, 500*time.Millisecond)
	return w
}

func TestWorldIsAProvisioner(t *testing.T) {
	operationtest.TestProvisioner(t, func(t *testing.T, _ bool) operationtest.ProvisionerSetup {
		w := quick()
		return operationtest.ProvisionerSetup{
			Provisioner: w.Shard(""), Control: "ctl", Nodes: []string{"node2", "node3", "node4"},
			Spec: func(node string, version int) reconfigure.Spec {
				spec := w.Spec(node)
				if version == 2 {
					spec.ImageID = "id-of-v2"
				}
				return spec
			},
			Servers: func() map[string]reconfigure.Server {
				all, err := w.Servers(context.WithoutCancel(t.Context()), nodeset.NodeSet{})
				if err != nil {
					t.Error(err)
				}
				newest := map[string]reconfigure.Server{}
				for node, servers := range all {
					newest[node] = servers[len(servers)-1]
				}
				return newest
			},
			Vanish:  w.Vanish,
			Stop:    func(node string) { w.Switch(node, reconfigure.PowerOff) },
			Rebuild: func(node string, version int) { w.Rebuild(node, map[int]string{1: "v1", 2: "v2"}[version]) },
			Forget:  func(node string) { w.Forget(node) },
			FailCreate: func(node string) {
				w.Order(simulate.NoValidHost, node)
				w.Then(simulate.AfterApply, func() { w.Clear(simulate.NoValidHost) })
			},
			Stray: func() { w.Order(simulate.OtherImage, "node2") },
		}
	})
}

func TestWorldHasAQuota(t *testing.T) {
	w := quick()
	cloudtest.TestQuota(t, cloudtest.QuotaSetup{
		Quota: w, Make: func(node string) { w.Have(node) }, Flavor: w.Spec("node1").FlavorID, Limit: w.Limit,
		Takes: reconfigure.Use{Instances: 1, Cores: 2, RAM: 1024},
	})
}

func TestWorldIsACommenter(t *testing.T) {
	w := quick()
	w.Have("ctl")
	w.Submits(7, 8, 9)
	operationtest.TestCommenter(t, operationtest.CommenterSetup{
		Commenter: w, Jobs: [3]int64{7, 8, 9}, Remark: w.Remarks,
		Comment: func(job int64) string { return w.Comments()[job] },
	})
}

func TestWorldIsAHealthStore(t *testing.T) {
	operationtest.TestHealthStore(t, func(*testing.T) operationtest.HealthStore { return quick() })
}

func TestWorldIsACloud(t *testing.T) {
	cloudtest.TestCloud(t, func(t *testing.T) cloudtest.CloudSetup {
		w, c := quick(), declared()
		spec := w.Spec("node1")
		return cloudtest.CloudSetup{
			Cloud: w, Source: c.Control.Source,
			Resolved: reconfigure.Resolved{ImageID: spec.ImageID, FlavorID: spec.FlavorID, NetworkID: spec.NetworkID},
			Make: func(node string) string {
				w.Have(node)
				return w.IDs()[node]
			},
			Break: func(node string) string {
				w.HaveTainted(node)
				return w.IDs()[node]
			},
			Print: w.Print,
			Boots: func(id string) int { return w.Boots(id) - 1 },
		}
	})
}

func TestWorldIsAScheduler(t *testing.T) {
	w := quick()
	w.Have("ctl", "node1")
	operationtest.TestScheduler(t, operationtest.SchedulerSetup{
		Scheduler: w, Node: "node3",
		Silence: func() func() {
			w.Order(simulate.SlurmSilent)
			return func() { w.Clear(simulate.SlurmSilent) }
		},
		Occupy: func() func() {
			w.Have("node3")
			w.StartJob("node3")
			return func() {
				w.EndJob("node3")
				w.PoweredDown("node3")
			}
		},
	})
}

func TestWorldMakesImages(t *testing.T) {
	cloudtest.TestImages(t, func(t *testing.T) cloudtest.ImagesSetup {
		w := quick()
		w.Takes(simulate.Saving, simulate.Forever)
		w.Have("ctl")
		foreign := reconfigure.RequestID(99)
		return cloudtest.ImagesSetup{
			Images: w,
			Make: func(node string) reconfigure.Instance {
				w.Have(node)
				return reconfigure.Instance{Node: node, ID: w.IDs()[node]}
			},
			Saved: w.SaveImages,
			Lose:  w.LoseImage,
			Foreign: func(name string) {
				w.Have("node2")
				i := reconfigure.Instance{Node: "node2", ID: w.IDs()["node2"]}
				if _, err := w.CreateImage(t.Context(), i, name, foreign); err != nil {
					t.Fatal(err)
				}
			},
		}
	})
}
