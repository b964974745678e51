package snapshot

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

const newImage, oldImage = "image-v2", "image-v1"

var (
	declared = reconfigure.Source{Image: "debian-12", Flavor: "m1.large", Network: "cluster"}
	cluster  = reconfigure.Cluster{
		Control: reconfigure.Control{Name: "ctl", Source: declared},
		Groups: []reconfigure.NodeGroup{
			{Name: "standard", Prefix: "node", Width: 2, Source: declared, Fallbacks: []string{"m1.huge"}, Min: 2, Max: 20},
		},
	}
)

func TestDriftOfANode(t *testing.T) {
	spec := reconfigure.Spec{Group: "standard", ImageID: newImage, FlavorID: "large", NetworkID: "net"}
	wanted := map[reconfigure.Source]reconfigure.Resolved{
		declared: {ImageID: newImage, FlavorID: "large", NetworkID: "net"},
	}
	instance := reconfigure.Instance{Node: "node01", ID: "1", Address: "10.60.0.2"}
	server := reconfigure.Server{ID: "1", Node: "node01", Status: "ACTIVE", Address: "10.60.0.2", ImageID: newImage}
	changed := func(change func(*reconfigure.Spec)) reconfigure.Spec {
		s := spec
		change(&s)
		return s
	}
	with := func(s reconfigure.Server, status reconfigure.ServerStatus) reconfigure.Server {
		s.Status = status
		return s
	}
	placed := func(zone string) reconfigure.Spec {
		return changed(func(s *reconfigure.Spec) { s.Zone = zone })
	}
	in := func(zone string) reconfigure.Server {
		s := server
		s.Zone = zone
		return s
	}
	old := server
	old.ImageID = oldImage
	tainted, part := instance, reconfigure.Instance{Node: "node01", Tainted: true}
	tainted.Tainted = true
	for name, tc := range map[string]struct {
		spec        reconfigure.Spec
		wanted      reconfigure.Placement
		instances   []reconfigure.Instance
		servers     []reconfigure.Server
		address     string // Slurm's nodes
		unreachable bool   // no source answers
		want        []Drift
	}{
		"nothing": {
			spec: spec, instances: []reconfigure.Instance{instance}, servers: []reconfigure.Server{server},
		},
		"image, says the cloud": {
			spec: spec, instances: []reconfigure.Instance{instance}, servers: []reconfigure.Server{old},
			want: []Drift{DriftImage},
		},
		"flavor and network and group": {
			spec:      changed(func(s *reconfigure.Spec) { s.FlavorID, s.NetworkID, s.Group = "tiny", "other", "gpu" }),
			instances: []reconfigure.Instance{instance}, servers: []reconfigure.Server{server},
			want: []Drift{DriftFlavor, DriftNetwork, DriftGroup},
		},
		"in another zone, says the cloud": {
			spec: placed("a"), wanted: reconfigure.Placement{Zone: "a"},
			instances: []reconfigure.Instance{instance}, servers: []reconfigure.Server{in("b")}, want: []Drift{DriftPlacement},
		},
		"in the zone, although the map does not say so": {
			spec: spec, wanted: reconfigure.Placement{Zone: "a"},
			instances: []reconfigure.Instance{instance}, servers: []reconfigure.Server{in("a")},
		},
		"of a fallback flavor": {
			spec:      changed(func(s *reconfigure.Spec) { s.FlavorID = "huge" }),
			instances: []reconfigure.Instance{instance}, servers: []reconfigure.Server{server},
		},
		"in a zone that is no longer declared": {
			spec: placed("a"), instances: []reconfigure.Instance{instance}, servers: []reconfigure.Server{in("a")},
		},
		"stopped, without a host": {
			spec: placed("a"), wanted: reconfigure.Placement{Zone: "a"},
			instances: []reconfigure.Instance{instance}, servers: []reconfigure.Server{in("")},
		},
		"not in the server group": {
			spec: spec, wanted: reconfigure.Placement{ServerGroup: "g"},
			instances: []reconfigure.Instance{instance}, servers: []reconfigure.Server{server}, want: []Drift{DriftPlacement},
		},
		"no instance":                {want: []Drift{DriftMissing}},
		"a server without Terraform": {servers: []reconfigure.Server{server}},
		"tainted": {
			spec: spec, instances: []reconfigure.Instance{tainted}, servers: []reconfigure.Server{server},
			want: []Drift{DriftTainted},
		},
		"a part only": {spec: spec, instances: []reconfigure.Instance{part}, want: []Drift{DriftTainted}},
		"lost":        {spec: spec, instances: []reconfigure.Instance{instance}, want: []Drift{DriftLost}},
		"doubled": {
			spec: spec, instances: []reconfigure.Instance{instance}, servers: []reconfigure.Server{server, server},
			want: []Drift{DriftDoubled},
		},
		"unknown: no source answers": {unreachable: true},
		"shut off": {
			spec: spec, instances: []reconfigure.Instance{instance}, servers: []reconfigure.Server{with(server, "SHUTOFF")},
			want: []Drift{DriftStopped},
		},
		"paused": {
			spec: spec, instances: []reconfigure.Instance{instance}, servers: []reconfigure.Server{with(server, "PAUSED")},
			want: []Drift{DriftStopped},
		},
		"in ERROR": {
			spec: spec, instances: []reconfigure.Instance{instance}, servers: []reconfigure.Server{with(server, "ERROR")},
			want: []Drift{DriftError},
		},
		"another address in Slurm": {
			spec: spec, instances: []reconfigure.Instance{instance}, servers: []reconfigure.Server{server}, address: "10.60.0.9",
			want: []Drift{DriftAddress},
		},
		"a host name in Slurm": {
			spec: spec, instances: []reconfigure.Instance{instance}, servers: []reconfigure.Server{server}, address: "node01",
		},
		"stopped as asked": {
			spec:      changed(func(s *reconfigure.Spec) { s.Power = reconfigure.PowerOff }),
			instances: []reconfigure.Instance{instance}, servers: []reconfigure.Server{with(server, "SHUTOFF")},
			want: []Drift{DriftStopped}, // node01 is persistent
		},
		"a port that is kept": {
			spec: reconfigure.Spec{Group: "standard", NetworkID: "net"}, want: []Drift{DriftMissing},
		},
	} {
		t.Run(name, func(t *testing.T) {
			resolved := wanted[declared]
			resolved.Placement = tc.wanted
			s := Snapshot{
				Sources: map[reconfigure.Source]reconfigure.Resolved{
					declared: resolved,
					{Image: declared.Image, Flavor: "m1.huge", Network: declared.Network}: {FlavorID: "huge"},
				},
				Servers: map[string][]reconfigure.Server{}, States: map[string]reconfigure.NodeState{},
				Desired: map[string]reconfigure.Spec{"node01": tc.spec}, Instances: map[string]reconfigure.Instance{},
			}
			if tc.servers != nil {
				s.Servers["node01"] = tc.servers
			}
			for _, i := range tc.instances {
				s.Instances["node01"] = i
			}
			if tc.address != "" {
				s.States["node01"] = reconfigure.NodeState{Flags: reconfigure.NodeIdle, Address: tc.address}
			}
			if tc.unreachable {
				s = Snapshot{Missing: map[System]string{Cloud: "?", Terraform: "?", Slurm: "?"}}
			}
			if diff := cmp.Diff(tc.want, s.Drift(cluster, "node01")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A stopped instance of a cloud node is no drift if this tool has stopped it, unless Slurm uses the node.
func TestRestIsNoDrift(t *testing.T) {
	for name, tc := range map[string]struct {
		power  reconfigure.Power
		status reconfigure.ServerStatus
		slurm  reconfigure.NodeFlags
		rests  bool
	}{
		"stopped":              {reconfigure.PowerOff, "SHUTOFF", reconfigure.NodeIdle | reconfigure.NodePoweredDown, true},
		"shelved":              {reconfigure.Shelved, "SHELVED_OFFLOADED", reconfigure.NodePoweredDown, true},
		"Slurm does not say":   {reconfigure.PowerOff, "SHUTOFF", 0, true},
		"Slurm uses it":        {reconfigure.PowerOff, "SHUTOFF", reconfigure.NodeIdle, false},
		"it was not asked for": {"", "SHUTOFF", reconfigure.NodeIdle | reconfigure.NodePoweredDown, false},
		"paused":               {reconfigure.PowerOff, "PAUSED", reconfigure.NodePoweredDown, false},
	} {
		s := Snapshot{
			Desired: map[string]reconfigure.Spec{
				"node05": {Group: "standard", ImageID: newImage, FlavorID: "large", NetworkID: "net", Power: tc.power},
			},
			Instances: map[string]reconfigure.Instance{"node05": {Node: "node05", ID: "1"}},
			Servers:   map[string][]reconfigure.Server{"node05": {{ID: "1", Node: "node05", Status: tc.status}}},
			States:    map[string]reconfigure.NodeState{"node05": {Flags: tc.slurm}},
		}
		var want []Drift
		if !tc.rests {
			want = []Drift{DriftStopped}
		}
		if diff := cmp.Diff(want, s.Drift(cluster, "node05")); diff != "" || s.Rests(cluster, "node05") != tc.rests {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestBeforeTheFirstDeployNothingIsMissing(t *testing.T) {
	cluster := reconfigure.Cluster{
		Control: reconfigure.Control{Name: "ctl"},
		Groups:  []reconfigure.NodeGroup{{Name: "standard", Prefix: "n", Width: 1, Min: 1, Max: 2}},
	}
	control := map[string]reconfigure.Instance{"ctl": {Node: "ctl", ID: "1"}}
	for name, tc := range map[string]struct {
		instances map[string]reconfigure.Instance
		want      []Drift
	}{
		"nothing is deployed":       {map[string]reconfigure.Instance{}, nil},
		"the control node is there": {control, []Drift{DriftMissing}},
	} {
		s := Snapshot{Instances: tc.instances, Servers: map[string][]reconfigure.Server{}}
		if diff := cmp.Diff(tc.want, s.Drift(cluster, "n1")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestPortsAreAskedForWhereTheyAreWanted(t *testing.T) {
	want := map[string][]reconfigure.Port{"n1": {{ID: "p"}}}
	o := Observer{
		State: func(context.Context, nodeset.NodeSet) (reconfigure.State, error) { return reconfigure.State{}, nil },
		Ports: func(context.Context) (map[string][]reconfigure.Port, error) { return want, nil },
	}
	if s, err := o.Observe(t.Context(), Scope{Ports: true}); err != nil || !cmp.Equal(want, s.Ports) || !s.Answers(Cloud) {
		t.Errorf("%+v, error %v", s, err)
	}
	o.Ports = func(context.Context) (map[string][]reconfigure.Port, error) { return nil, errors.New("away") }
	if s, err := o.Observe(t.Context(), Scope{Ports: true}); err != nil || s.Answers(Cloud) {
		t.Errorf("%+v, error %v", s, err)
	}
	if s, err := o.Observe(t.Context(), Scope{}); err != nil || !s.Answers(Cloud) {
		t.Errorf("%+v, error %v", s, err)
	}
}

func TestUndeclaredNodes(t *testing.T) {
	s := Snapshot{
		Desired: map[string]reconfigure.Spec{
			"ctl": {
				Group: reconfigure.ControlGroup,
			}, "oldctl": {Group: reconfigure.ControlGroup}, "node01": {Group: "standard"},
			"node21": {Group: "standard"}, "old1": {Group: "retired"},
		},
		Instances: map[string]reconfigure.Instance{"ctl": {}, "node01": {}, "old1": {}},
		Servers:   map[string][]reconfigure.Server{"stray": {{ID: "1"}}, "node02": {{ID: "2"}}},
		States: map[string]reconfigure.NodeState{
			"old2": {Flags: reconfigure.NodeAllocated, Busy: true}, "old3": {Flags: reconfigure.NodeIdle},
			"node02": {Flags: reconfigure.NodeAllocated, Busy: true},
		},
	}
	for what, got := range map[string]nodeset.NodeSet{
		"old1,stray":  s.Undeclared(cluster),
		"old[1-2]":    s.Forgotten(cluster),
		"node21,old1": s.UndeclaredIn(cluster, ""),
		"node21":      s.UndeclaredIn(cluster, "standard"),
	} {
		if got.String() != what {
			t.Errorf("%s, want %s", got, what)
		}
	}
}

// observer returns an Observer whose sources answer.
func observer() Observer {
	return Observer{
		Cluster: cluster,
		State: func(context.Context, nodeset.NodeSet) (reconfigure.State, error) {
			return reconfigure.State{
				Instances: map[string]reconfigure.Instance{"ctl": {Node: "ctl", ID: "1", Address: "10.60.0.1"}},
			}, nil
		},
		States: func(context.Context, reconfigure.Instance, nodeset.NodeSet) (map[string]reconfigure.NodeState, error) {
			return map[string]reconfigure.NodeState{"node01": {Flags: reconfigure.NodeIdle}}, nil
		},
		Servers: func(context.Context) (map[string][]reconfigure.Server, error) { return nil, nil },
		Server: func(context.Context, string) (reconfigure.Server, bool, error) {
			return reconfigure.Server{}, false, nil
		},
		Resolve: func(context.Context, reconfigure.Source) reconfigure.Resolved {
			return reconfigure.Resolved{ImageID: newImage}
		},
	}
}

func TestEachSourceIsAskedForTheNodesOfTheScope(t *testing.T) {
	o := observer()
	var asked []string
	state, states := o.State, o.States
	o.State = func(ctx context.Context, nodes nodeset.NodeSet) (reconfigure.State, error) {
		asked = append(asked, "terraform "+nodes.String())
		return state(ctx, nodes)
	}
	o.States = func(
		ctx context.Context, control reconfigure.Instance, nodes nodeset.NodeSet,
	) (map[string]reconfigure.NodeState, error) {
		asked = append(asked, "slurm "+nodes.String())
		return states(ctx, control, nodes)
	}
	if _, err := o.Observe(t.Context(), Scope{Nodes: nodeset.Of("node01")}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"terraform node01", "slurm node01"}, asked); diff != "" {
		t.Error(diff)
	}
}

// TestWhatTheListLacksIsAskedForByID has instances of which the cloud's list omits some.
func TestWhatTheListLacksIsAskedForByID(t *testing.T) {
	listed := reconfigure.Server{ID: "2", Node: "node01", Status: "ACTIVE"}
	hidden := reconfigure.Server{ID: "3", Node: "node02", Status: "ACTIVE"}
	var (
		lock  sync.Mutex
		asked []string
	)
	o := observer()
	o.State = func(context.Context, nodeset.NodeSet) (reconfigure.State, error) {
		return reconfigure.State{Instances: map[string]reconfigure.Instance{
			"node01": {ID: "2"}, "node02": {ID: "3"}, "node03": {ID: "4"}, "node04": {},
		}}, nil
	}
	o.Servers = func(context.Context) (map[string][]reconfigure.Server, error) {
		return map[string][]reconfigure.Server{"node01": {listed}}, nil
	}
	o.Server = func(_ context.Context, id string) (reconfigure.Server, bool, error) {
		lock.Lock()
		defer lock.Unlock()
		asked = append(asked, id)
		return hidden, id == hidden.ID, nil
	}
	s, err := o.Observe(t.Context(), Scope{Servers: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(slices.Sorted(slices.Values(asked)), " "); got != "3 4" {
		t.Errorf("instances %s were asked for by id, want 3 and 4", got)
	}
	for node, lost := range map[string]bool{"node01": false, "node02": false, "node03": true, "node04": false} {
		if s.Lost(node) != lost {
			t.Errorf("%s is lost: %t, want %t", node, s.Lost(node), lost)
		}
	}
	o.Server = func(context.Context, string) (reconfigure.Server, bool, error) {
		return reconfigure.Server{}, false, errors.New("connection reset")
	}
	if s, err = o.Observe(t.Context(), Scope{Servers: true}); err != nil || s.Answers(Cloud) || s.Lost("node03") {
		t.Errorf("the cloud does not say whether an instance exists: %+v, error %v", s.Unreachable(), err)
	}
}

// TestAChangeThatTerraformHasNotWrittenIsSeenInTheCloud has instances whose entry in the map differs from Terraform's
// state. Only those in the scope are requested from the cloud.
func TestAChangeThatTerraformHasNotWrittenIsSeenInTheCloud(t *testing.T) {
	spec := func(image string) reconfigure.Spec {
		return reconfigure.Spec{Group: "standard", ImageID: image, FlavorID: "f", NetworkID: "n"}
	}
	for name, tc := range map[string]struct {
		server reconfigure.Server
		err    error
		want   string
	}{
		"changed":                       {reconfigure.Server{Status: "ACTIVE", ImageID: newImage}, nil, newImage},
		"not changed":                   {reconfigure.Server{Status: "ACTIVE", ImageID: "old"}, nil, "old"},
		"still changing":                {reconfigure.Server{Status: "BUILD", ImageID: newImage}, nil, "old"},
		"the cloud's list has no image": {reconfigure.Server{Status: "ACTIVE"}, nil, "old"},
		"the cloud does not answer":     {reconfigure.Server{}, errors.New("connection reset"), "old"},
	} {
		var asked []string
		o := observer()
		o.State = func(context.Context, nodeset.NodeSet) (reconfigure.State, error) {
			state := reconfigure.State{
				Desired: map[string]reconfigure.Spec{
					"node01": spec(newImage), "node02": spec("old"), "node03": spec(newImage),
				},
				Instances: map[string]reconfigure.Instance{},
			}
			for node := range state.Desired {
				state.Instances[node] = reconfigure.Instance{Node: node, ID: "id of " + node, Made: spec("old")}
			}
			return state, nil
		}
		o.Server = func(_ context.Context, id string) (reconfigure.Server, bool, error) {
			asked = append(asked, id)
			tc.server.ID = id
			return tc.server, true, tc.err
		}
		s, err := o.Observe(t.Context(), Scope{Nodes: nodeset.Of("node01", "node02")})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"id of node01"}, asked); diff != "" {
			t.Errorf("%s: asked for (-want +got):\n%s", name, diff)
		}
		if got := s.Desired["node01"].ImageID; got != tc.want || s.Instances["node01"].Made.ImageID != tc.want {
			t.Errorf("%s: image %s, want %s", name, got, tc.want)
		}
		if unmade := tc.want == "old"; s.Unmade.Contains("node01") != unmade {
			t.Errorf("%s: not carried out: %t, want %t", name, !unmade, unmade)
		}
	}
}

func TestEachSourceHasItsOwnTime(t *testing.T) {
	hang := func(ctx context.Context) error { <-ctx.Done(); return errors.New("killed") }
	for name, tc := range map[string]struct {
		change func(*Observer)
		want   []Unreachable
	}{
		"all answer": {func(*Observer) {}, []Unreachable{}},
		"the cloud does not": {func(o *Observer) {
			o.Servers = func(ctx context.Context) (map[string][]reconfigure.Server, error) { return nil, hang(ctx) }
		}, []Unreachable{{Cloud, "no answer within 20s"}}},
		"Slurm does not": {func(o *Observer) {
			o.States = func(
				ctx context.Context, _ reconfigure.Instance, _ nodeset.NodeSet,
			) (map[string]reconfigure.NodeState, error) {
				return nil, hang(ctx)
			}
		}, []Unreachable{{Slurm, "no answer within 20s"}}},
		"Terraform does not": {func(o *Observer) {
			o.State = func(ctx context.Context, _ nodeset.NodeSet) (reconfigure.State, error) {
				return reconfigure.State{}, hang(ctx)
			}
		}, []Unreachable{
			{Terraform, "no answer within 20s"},
			{Slurm, "not asked, since Terraform's state does not have the control node's address"},
		}},
		"Slurm fails": {func(o *Observer) {
			o.States = func(context.Context, reconfigure.Instance, nodeset.NodeSet) (map[string]reconfigure.NodeState, error) {
				return nil, errors.New("no route to host")
			}
		}, []Unreachable{{Slurm, "no route to host"}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := observer()
				o.Limit = 20 * time.Second
				tc.change(&o)
				s, err := o.Observe(t.Context(), Scope{Servers: true, Declared: true})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, s.Unreachable()); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if s.Sources[declared].ImageID != newImage {
					t.Errorf("a declared source is not resolved: %v", s.Sources)
				}
				if s.Asked(Cloud) != s.Answers(Cloud) || s.Asked(Slurm) != s.Answers(Slurm) ||
					s.Asked(Terraform) != s.Answers(Terraform) {
					t.Errorf("asked and answered differ: %+v", s)
				}
			})
		})
	}
}

// The map of nodes is written before Terraform starts, so after a kill it may be ahead of the instances.
func TestTheMapIsReadAsTheInstancesAre(t *testing.T) {
	old := reconfigure.Spec{Group: "g", ImageID: "old", FlavorID: "f", NetworkID: "n"}
	wanted, port := old, reconfigure.Spec{Group: "g", NetworkID: "n", Shard: "g-0"}
	wanted.ImageID, wanted.Shard = "new", "g-0"
	asleep := wanted
	asleep.Power = reconfigure.PowerOff
	still := old
	still.Shard = "g-0"
	placed, unplaced := wanted, wanted
	placed.Placement = reconfigure.Placement{Zone: "a", ServerGroup: "s", Hints: `{"k":"v"}`}
	unplaced.Shard = "" // as in the state
	for name, tc := range map[string]struct {
		told     reconfigure.Spec
		instance reconfigure.Instance
		want     reconfigure.Spec
	}{
		"another image":                            {wanted, reconfigure.Instance{ID: "i", Made: old}, still},
		"another image, tainted":                   {wanted, reconfigure.Instance{ID: "i", Made: old, Tainted: true}, wanted},
		"no instance yet":                          {wanted, reconfigure.Instance{}, wanted},
		"in a zone, which the state does not tell": {placed, reconfigure.Instance{ID: "i", Made: unplaced}, placed},
		"it was to stop":                           {asleep, reconfigure.Instance{ID: "i", Made: wanted}, wanted},
		"it was to start":                          {wanted, reconfigure.Instance{ID: "i", Made: asleep}, asleep},
		"the instance was to go, not the port":     {port, reconfigure.Instance{ID: "i", Made: old}, port},
	} {
		state := reconfigure.State{
			Desired:   map[string]reconfigure.Spec{"n1": tc.told},
			Instances: map[string]reconfigure.Instance{"n1": tc.instance},
		}
		actual, unmade := carriedOut(state)
		if diff := cmp.Diff(map[string]reconfigure.Spec{"n1": tc.want}, actual); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if got := unmade.Contains("n1"); got != (tc.told != tc.want) {
			t.Errorf("%s: not carried out: %v", name, got)
		}
	}
}
