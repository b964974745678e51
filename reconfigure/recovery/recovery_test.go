package recovery

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

var cluster = reconfigure.Cluster{
	Control: reconfigure.Control{Name: "control"},
	Groups: []reconfigure.NodeGroup{
		{Name: "plain", Prefix: "p", Width: 1, Max: 4},
		{Name: "stops", Prefix: "s", Width: 1, Max: 4, KeepPorts: true, WhenIdle: reconfigure.IdleStop},
	},
	Settings: reconfigure.Settings{NodesPerState: 4},
}

func server(node, status string) reconfigure.Server {
	return reconfigure.Server{
		ID: node + "-id", Node: node, Status: reconfigure.ServerStatus(status), ImageID: "image", FlavorID: "flavor",
	}
}

// factsOf returns the facts of a cloud that has a port of each server.
func factsOf(servers ...reconfigure.Server) Facts {
	f := Facts{
		Cluster: cluster, Servers: map[string][]reconfigure.Server{}, Ports: map[string][]reconfigure.Port{},
		Commands: reconfigure.CloudCommands{
			Remove: "delete ", RemovePort: "delete port ",
			Start: map[reconfigure.ServerStatus]string{reconfigure.ServerStopped: "start "},
		},
	}
	control := server("control", "ACTIVE")
	control.Group = reconfigure.ControlGroup
	for _, s := range append(servers, control) {
		f.Servers[s.Node] = append(f.Servers[s.Node], s)
		f.Ports[s.Node] = append(f.Ports[s.Node], reconfigure.Port{
			ID: s.Node + "-port", Node: s.Node, Server: s.ID, Network: "network",
		})
	}
	return f
}

func TestTheMapIsThatOfTheInstancesAndPorts(t *testing.T) {
	former := server("x9", "ACTIVE") // the declaration no longer has its group
	former.Group = "removed"
	marked := server("p1", "ACTIVE")
	marked.Metadata = `{"role":"compute"}`
	f := factsOf(marked, server("s1", "SHUTOFF"), former)
	f.Ports["s2"] = []reconfigure.Port{{ID: "kept", Network: "other"}}
	f.Ports["p2"] = []reconfigure.Port{{ID: "leftover"}} // its group keeps no ports
	spec := func(group, shard string) reconfigure.Spec {
		return reconfigure.Spec{Group: group, ImageID: "image", FlavorID: "flavor", NetworkID: "network", Shard: shard}
	}
	with := spec("plain", "plain-0")
	with.Metadata = marked.Metadata
	stopped := spec("stops", "stops-0")
	stopped.Power = reconfigure.PowerOff
	want := map[string]reconfigure.Spec{
		"control": spec(reconfigure.ControlGroup, ""), "p1": with, "s1": stopped,
		"s2": {Group: "stops", NetworkID: "other", Shard: "stops-0"}, "x9": spec("removed", ""),
	}
	got := Compute(f)
	if diff := cmp.Diff(want, got.Nodes); diff != "" || len(got.Left) > 0 {
		t.Errorf("left %v, the map (-want +got):\n%s", got.Left, diff)
	}
	if diff := cmp.Diff(map[string]string{"s2": "kept"}, got.Ports); diff != "" {
		t.Error(diff)
	}
	if s := got.Servers["p1"]; s.ID != "p1-id" || s.PortID != "p1-port" {
		t.Errorf("the instance of p1 is %+v", s)
	}
}

// TestWhatCannotBeImportedIsNamedWithACommand has one problem each. The node must not be in the map, and the others
// must be.
func TestWhatCannotBeImportedIsNamedWithACommand(t *testing.T) {
	with := func(change func(*reconfigure.Server)) Facts {
		s := server("p1", "ACTIVE")
		change(&s)
		return factsOf(s)
	}
	status := func(is reconfigure.ServerStatus) Facts {
		return with(func(s *reconfigure.Server) { s.Status = is })
	}
	twice := factsOf(server("p1", "ACTIVE"))
	twice.Servers["p1"] = append(twice.Servers["p1"], reconfigure.Server{ID: "a"})
	foreign := factsOf(server("p1", "ACTIVE"))
	foreign.Ports["p1"][0].Server = "another"
	ports := factsOf()
	ports.Ports["s1"] = []reconfigure.Port{{ID: "b"}, {ID: "a"}}
	none := factsOf(server("p1", "ERROR"))
	delete(none.Servers, "control")
	for name, tc := range map[string]struct {
		facts  Facts
		reason string
		want   string
	}{
		"two instances":   {twice, "a, p1-id", "delete ID"},
		"stopped":         {status(reconfigure.ServerStopped), "SHUTOFF; start it", "start p1-id"},
		"failed":          {status(reconfigure.ServerFailed), "ERROR", "delete p1-id"},
		"building":        {status(reconfigure.ServerBuilding), "when it is ACTIVE", ""},
		"a volume":        {with(func(s *reconfigure.Server) { s.ImageID = "" }), "volume", "delete p1-id"},
		"no flavor":       {with(func(s *reconfigure.Server) { s.FlavorID = "" }), "flavor", "delete p1-id"},
		"a foreign port":  {foreign, "port", "delete p1-id"},
		"two ports":       {ports, "several ports and no instance: a, b", "delete port ID"},
		"no control node": {none, "the control node has no instance", "reconfigure deploy"},
	} {
		got := Compute(tc.facts)
		if len(got.Left) == 0 {
			t.Errorf("%s: nothing is left", name)
			continue
		}
		left := got.Left[len(got.Left)-1]
		if !strings.Contains(left.Reason, tc.reason) || left.Command != tc.want {
			t.Errorf("%s: %+v", name, left)
		}
		for _, node := range []string{"p1", "s1"} {
			if spec, ok := got.Nodes[node]; ok {
				t.Errorf("%s: %s is in the map: %+v", name, node, spec)
			}
		}
		if _, ok := got.Nodes["control"]; !ok && name != "no control node" {
			t.Errorf("%s: the control node is missing", name)
		}
	}
}

func TestAControlNodeOfTheSiteIsNotMissed(t *testing.T) {
	f := factsOf(server("p1", "ACTIVE"))
	f.Cluster.Control = reconfigure.Control{Existing: &reconfigure.ExistingControl{Host: "slurm"}}
	delete(f.Servers, "control")
	if got := Compute(f); len(got.Left) > 0 || len(got.Nodes) != 1 {
		t.Errorf("left %+v, the map %v", got.Left, got.Nodes)
	}
}

func TestTheIDIsThatOfTheInstances(t *testing.T) {
	s := []reconfigure.Server{server("p1", "ACTIVE")}
	type found = map[string][]reconfigure.Server
	for name, tc := range map[string]struct {
		found       found
		asked, want string
		err         string
	}{
		"one":            {found: found{"a": s, "": s}, want: "a"},
		"two":            {found: found{"a": s, "b": s}, err: "--cluster-id: a (p1), b (p1)"},
		"two, one asked": {found: found{"a": s, "b": s}, asked: "b", want: "b"},
		"another asked":  {found: found{"a": s}, asked: "c", err: "there are a"},
		"without an id":  {found: found{"": s}, err: "no cluster id"},
		"none":           {err: "nothing to recover"},
	} {
		got, err := ClusterID("small", tc.found, tc.asked)
		if got != tc.want || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
