package enginetest_test

import (
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine/enginetest"
)

// declared is a cluster with a control node and a group of one persistent node and three cloud nodes.
func declared() reconfigure.Cluster {
	source := reconfigure.Source{Image: "v1", Flavor: "small", Network: "cluster"}
	return reconfigure.Cluster{
		Name:    "test",
		Control: reconfigure.Control{Name: "ctl", Source: source},
		Groups:  []reconfigure.NodeGroup{{Name: "group", Prefix: "node", Width: 1, Source: source, Min: 1, Max: 4}},
	}
}

func TestWorldIsAProvisioner(t *testing.T) {
	enginetest.Provisioner(t, func(t *testing.T) enginetest.ProvisionerHarness {
		w := enginetest.NewWorld(declared())
		return enginetest.ProvisionerHarness{
			Provisioner: w, Control: "ctl", Nodes: []string{"node2", "node3", "node4"},
			Spec: func(node string, version int) reconfigure.Spec {
				spec := w.Spec(node)
				if version == 2 {
					spec.ImageID = "id-of-v2"
				}
				return spec
			},
			Servers: w.Servers, Vanish: w.Vanish,
			FailCreate: func(node string) {
				w.Order(enginetest.NoValidHost, node)
				w.Then(enginetest.AfterApply, func() { w.Clear(enginetest.NoValidHost) })
			},
			Stray: func() { w.Order(enginetest.OtherImage, "node2") },
		}
	})
}

func TestWorldIsASurveyor(t *testing.T) {
	w := enginetest.NewWorld(declared())
	enginetest.Surveyor(t, enginetest.SurveyorHarness{
		Surveyor: w, Make: func(node string) { w.Have(node) }, Flavor: w.Spec("node1").FlavorID, Limit: w.Limit,
		Takes: reconfigure.Use{Instances: 1, Cores: 2, RAM: 1024},
	})
}

func TestWorldIsACommenter(t *testing.T) {
	w := enginetest.NewWorld(declared())
	w.Have("ctl")
	w.Submits(7, 8, 9)
	enginetest.Commenter(t, enginetest.CommenterHarness{
		Commenter: w, Jobs: [3]int64{7, 8, 9}, Remark: w.Remarks, Comment: func(job int64) string { return w.Comments()[job] },
	})
}

func TestWorldIsAHealthKeeper(t *testing.T) {
	enginetest.HealthKeeper(t, func(*testing.T) engine.HealthKeeper { return enginetest.NewWorld(declared()) })
}

func TestWorldIsACloud(t *testing.T) {
	enginetest.Cloud(t, func(t *testing.T) enginetest.CloudHarness {
		c := declared()
		w := enginetest.NewWorld(c)
		spec := w.Spec("node1")
		nodes := map[string]string{}
		return enginetest.CloudHarness{
			Cloud: w, Source: c.Control.Source,
			Resolved: reconfigure.Resolved{ImageID: spec.ImageID, FlavorID: spec.FlavorID, NetworkID: spec.NetworkID},
			Make: func(node string) string {
				w.Have(node)
				id := w.Servers()[node]
				nodes[id] = node
				return id
			},
			Break: func(node string) string {
				w.HaveTainted(node)
				return w.Servers()[node]
			},
			Print: w.Print,
			Boots: func(id string) int { return w.Node(nodes[id]).Boots - 1 },
		}
	})
}

func TestWorldIsASweeper(t *testing.T) {
	enginetest.Sweeper(t, func(t *testing.T) enginetest.SweeperHarness {
		w := enginetest.NewWorld(declared())
		return enginetest.SweeperHarness{Sweeper: w, Stray: func(node string) string {
			w.Have(node)
			defer w.Forget(node)
			return w.Servers()[node]
		}}
	})
}

func TestWorldIsAScheduler(t *testing.T) {
	w := enginetest.NewWorld(declared())
	w.Have("ctl", "node1")
	enginetest.Scheduler(t, enginetest.SchedulerHarness{
		Scheduler: w, Node: "node3",
		Silence: func() func() {
			w.Order(enginetest.SlurmSilent)
			return func() { w.Clear(enginetest.SlurmSilent) }
		},
	})
}
