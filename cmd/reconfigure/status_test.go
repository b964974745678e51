package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/openstack"
)

var (
	declaredSource = reconfigure.Source{Image: "debian-12", Flavor: "m1.large", Network: "cluster"}
	threeGroups    = reconfigure.Cluster{
		Name:    "eiffel",
		Control: reconfigure.Control{Name: "eiffel-control", Source: declaredSource},
		Groups: []reconfigure.NodeGroup{
			{Name: "standard", Prefix: "node", Width: 2, Source: declaredSource, Min: 2, Max: 20},
			{Name: "gpu", Prefix: "gpu", Width: 1, Source: declaredSource, Max: 4},
		},
	}
)

var utcNoon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

const (
	newImage = "11111111-0000-4000-8000-000000000001"
	oldImage = "11111111-0000-4000-8000-000000000000"
)

// busy is a cluster on which much goes on.
func busy() (sight, past) {
	seen := sight{
		servers:   map[string][]openstack.Server{},
		sources:   map[reconfigure.Source]reconfigure.Resolved{declaredSource: {ImageID: newImage}},
		desired:   map[string]reconfigure.Spec{},
		instances: map[string]reconfigure.Instance{},
		states:    map[string]reconfigure.NodeState{},
	}
	for i, node := range []string{"eiffel-control", "node01", "node02", "node03", "node05"} {
		image := newImage
		if node == "node02" {
			image = oldImage
		}
		address := fmt.Sprintf("10.60.0.%d", i+1)
		seen.desired[node] = reconfigure.Spec{ImageID: image}
		seen.instances[node] = reconfigure.Instance{Node: node, ID: node, Address: address}
		seen.servers[node] = []openstack.Server{{ID: node, Name: node, Status: "ACTIVE", Address: address, ImageID: image, Created: utcNoon.Add(-time.Duration(i*i*7) * time.Hour)}}
	}
	delete(seen.servers, "node03")
	seen.servers["node05"] = append(seen.servers["node05"], openstack.Server{ID: "x", Name: "node05", Status: "ERROR", Created: utcNoon.Add(-time.Minute)})
	for i := 1; i <= 20; i++ {
		seen.states[fmt.Sprintf("node%02d", i)] = reconfigure.NodeState{States: []string{"IDLE", "CLOUD", "POWERED_DOWN"}}
	}
	seen.states["node01"] = reconfigure.NodeState{States: []string{"MIXED"}}
	seen.states["node02"] = reconfigure.NodeState{States: []string{"IDLE", "DRAIN"}, Reason: "memory errors"}
	seen.states["node05"] = reconfigure.NodeState{States: []string{"ALLOCATED", "CLOUD"}}
	seen.states["node06"] = reconfigure.NodeState{States: []string{"MIXED", "CLOUD", "POWERING_UP"}}
	known := past{
		leader: "process 4711 on control since 2026-01-31T11:00:00Z",
		last: map[string]reconfigure.Event{
			"node01": {Phase: reconfigure.PhaseVerify, Level: reconfigure.Done, Time: utcNoon.Add(-26 * time.Hour)},
			"node06": {Phase: reconfigure.PhaseBoot, Level: reconfigure.Begun, Time: utcNoon.Add(-9 * time.Second)},
			"node07": {Phase: reconfigure.PhaseApply, Level: reconfigure.Failed, Time: utcNoon.Add(-3 * time.Minute), Message: "No valid host was found"},
			"node05": {Phase: reconfigure.PhaseConfigure, Level: reconfigure.Note, Time: utcNoon.Add(-3 * time.Minute), Message: "hosts : write /etc/hosts"},
		},
		pending: []pendingRequest{
			{reconfigure.Request{ID: 7, Mode: reconfigure.Resume, Nodes: nodeset.Of("node06"), Caller: "eiffel from 10.60.0.1", Submitted: utcNoon.Add(-10 * time.Second)}, true},
			{reconfigure.Request{ID: 8, Mode: reconfigure.Deploy, Caller: "alice as root", Reason: "new\nimage", Submitted: utcNoon.Add(-4 * time.Second)}, false},
		},
	}
	return seen, known
}

func TestStatusForPeople(t *testing.T) {
	var text strings.Builder
	seen, known := busy()
	write := func(title string) {
		fmt.Fprintf(&text, "=== %s\n", title)
		if err := seen.report(threeGroups, known).write(&text, utcNoon); err != nil {
			t.Fatal(err)
		}
	}
	write("much goes on")
	known.leader = ""
	write("the worker has died")
	seen = sight{silent: []silence{{partyCloud, "no route to host"}, {partyTerraform, "not installed"}, {partySlurm, "not asked"}}}
	known = past{}
	write("nobody answers")
	golden(t, "status.txt", text.String())
}

func TestStatusAsJSON(t *testing.T) {
	seen, known := busy()
	text, err := json.MarshalIndent(seen.report(threeGroups, known), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "status.json", string(text)+"\n")
}

func TestStatusOfThousandsOfNodesIsOneLineWhileTheyAreDown(t *testing.T) {
	cluster := threeGroups
	cluster.Groups = []reconfigure.NodeGroup{{Name: "standard", Prefix: "node", Width: 4, Max: 4000}}
	var text strings.Builder
	if err := (sight{}).report(cluster, past{}).write(&text, utcNoon); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(text.String(), "\n"); lines > 6 || !strings.Contains(text.String(), "node[0001-4000]") {
		t.Errorf("%d lines:\n%s", lines, text.String())
	}
}
