package terraform

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

func TestPlanArguments(t *testing.T) {
	m := module{kinds: kinds, perNode: []string{instanceBlock, "port.node"}, shared: []string{"group.cluster"}}
	v1, v2 := reconfigure.Spec{Group: "g", ImageID: "1"}, reconfigure.Spec{Group: "g", ImageID: "2"}
	elsewhere := reconfigure.Spec{Group: "g", ImageID: "2", Placement: reconfigure.Placement{Zone: "a"}}
	head := reconfigure.Spec{Group: reconfigure.ControlGroup}
	of := func(node string) []string {
		return []string{instance(instanceBlock, node), `port.node["` + node + `"]`}
	}
	for name, tc := range map[string]struct {
		plan   reconfigure.Plan
		before map[string]reconfigure.Spec
		want   arguments
	}{
		"create targets all that is the node's, and nothing shared": {
			plan: planOf(reconfigure.Create, map[string]reconfigure.Spec{"n1": v1, "n2": v1, "head": head}, "n1"),
			want: arguments{targets: of("n1"), refresh: true, parallelism: 10},
		},
		"a removal does not ask the cloud": {
			plan:   planOf(reconfigure.Remove, map[string]reconfigure.Spec{"n2": v1}, "n1"),
			before: map[string]reconfigure.Spec{"n1": v1, "n2": v1},
			want:   arguments{targets: of("n1"), parallelism: 10},
		},
		"another spec is replaced as Terraform sees fit": {
			plan:   planOf(reconfigure.Replace, map[string]reconfigure.Spec{"n1": v2}, "n1"),
			before: map[string]reconfigure.Spec{"n1": v1},
			want:   arguments{targets: of("n1"), refresh: true, parallelism: 10},
		},
		"the same spec must be forced": {
			plan:   planOf(reconfigure.Replace, map[string]reconfigure.Spec{"n1": v1}, "n1"),
			before: map[string]reconfigure.Spec{"n1": v1},
			want:   arguments{targets: of("n1"), replace: of("n1")[:1], refresh: true, parallelism: 10},
		},
		"a rebuild would leave the instance where it is": {
			plan:   planOf(reconfigure.Replace, map[string]reconfigure.Spec{"n1": elsewhere}, "n1"),
			before: map[string]reconfigure.Spec{"n1": v1},
			want:   arguments{targets: of("n1"), replace: of("n1")[:1], refresh: true, parallelism: 10},
		},
		"what the cloud may place anywhere stays": {
			plan:   planOf(reconfigure.Replace, map[string]reconfigure.Spec{"n1": v1}, "n1"),
			before: map[string]reconfigure.Spec{"n1": elsewhere},
			want:   arguments{targets: of("n1"), refresh: true, parallelism: 10},
		},
		"what was no longer wanted must be forced": {
			plan: planOf(reconfigure.Replace, map[string]reconfigure.Spec{"n1": v1}, "n1"),
			want: arguments{targets: of("n1"), replace: of("n1")[:1], refresh: true, parallelism: 10},
		},
		"Terraform is told of no node that only reboots": {
			plan: reconfigure.Plan{
				Changes: []reconfigure.Change{{Node: "n1", Action: reconfigure.Create},
					{Node: "n2", Action: reconfigure.Reboot}, {Node: "n3", Action: reconfigure.Configure}},
				Desired: map[string]reconfigure.Spec{"n1": v1, "n2": v1, "n3": v1},
			},
			want: arguments{targets: of("n1"), refresh: true, parallelism: 10},
		},
		"shared resources come with the control node": {
			plan: reconfigure.Plan{Shared: true, Desired: map[string]reconfigure.Spec{"n1": v1, "head": head}},
			want: arguments{targets: []string{"group.cluster", of("head")[0], of("head")[1]}, refresh: true,
				parallelism: 10},
		},
		"everything goes without targets": {
			plan: reconfigure.Plan{Shared: true,
				Changes: []reconfigure.Change{{Node: "n1", Action: reconfigure.Remove}}},
			want: arguments{refresh: true, parallelism: 10},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, needed := planArguments(tc.plan, tc.before, m)
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(arguments{})); diff != "" || !needed {
				t.Errorf("needed: %t\n%s", needed, diff)
			}
		})
	}
	m.kinds.RefreshRemovals = true
	removal := planOf(reconfigure.Remove, map[string]reconfigure.Spec{}, "n1")
	if got, _ := planArguments(removal, nil, m); !got.refresh {
		t.Error("a removal is planned without a refresh, although the provider fails to remove a missing resource")
	}
}

func TestParallelismFollowsTheNodes(t *testing.T) {
	for nodes, want := range map[int]int{0: 10, 3: 10, 40: 40, 400: 50} {
		if got := parallelism(nodes); got != want {
			t.Errorf("%d nodes: %d, want %d", nodes, got, want)
		}
	}
}

func TestEnvironmentLeavesOutWhatWouldChangeAPlan(t *testing.T) {
	got := environment([]string{
		"PATH=/bin", "HOME=/root", "TF_CLI_CONFIG_FILE=/etc/rc", "OS_CLIENT_CONFIG_FILE=/elsewhere", "OS_PASSWORD=a=b",
		"broken",
		"TF_VAR_nodes={}", "TF_CLI_ARGS=-lock=false", "TF_CLI_ARGS_plan=x", "TF_WORKSPACE=w", "TF_DATA_DIR=/d",
		"OS_IMAGE_ID=1", "OS_IMAGE_NAME=1", "OS_FLAVOR_ID=1", "OS_FLAVOR_NAME=1",
	}, kinds.Unset, map[string]string{"OS_CLIENT_CONFIG_FILE": "/c/clouds.yaml"})
	want := map[string]string{
		"PATH": "/bin", "HOME": "/root", "TF_CLI_CONFIG_FILE": "/etc/rc", "OS_CLIENT_CONFIG_FILE": "/c/clouds.yaml",
		"OS_PASSWORD": "a=b", "CHECKPOINT_DISABLE": "1",
		"TF_LOG_SDK": "OFF", "TF_LOG_SDK_PROTO": "OFF", "TF_LOG_SDK_HELPER_SCHEMA": "OFF",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := environment([]string{"OS_CLIENT_CONFIG_FILE=/elsewhere"},
		nil, nil); got["OS_CLIENT_CONFIG_FILE"] != "/elsewhere" {
		t.Errorf("without a clouds.yaml of its own: %v", got)
	}
}

func TestDurationsAreWholeSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0s", 1500 * time.Millisecond: "1s", 10 * time.Minute: "600s"} {
		if got := seconds(d); got != want {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
}
