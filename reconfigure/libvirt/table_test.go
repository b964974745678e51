package libvirt

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

var small = Flavor{Cores: 2, Memory: 2048, Disk: 10}

func clusterOf(groups ...reconfigure.NodeGroup) reconfigure.Cluster {
	source := reconfigure.Source{Flavor: "small"}
	for i := range groups {
		groups[i].Source, groups[i].Width = source, 1
	}
	return reconfigure.Cluster{Cloud: "lab", Control: reconfigure.Control{Name: "ctl", Source: source}, Groups: groups}
}

func TestNodesArePlacedOverTheHosts(t *testing.T) {
	flavors := map[string]Flavor{"small": small}
	nodes := reconfigure.NodeGroup{Prefix: "n", Max: 4}
	for name, tc := range map[string]struct {
		hosts []Host
		want  map[string]string
	}{
		"one host": {
			[]Host{{Cores: 2, Memory: 2048}},
			map[string]string{"ctl": "", "n1": "", "n2": "", "n3": "", "n4": ""},
		},
		"two alike": {
			[]Host{{Cores: 16, Memory: 16000}, {Cores: 16, Memory: 16000}},
			map[string]string{"ctl": "", "n1": "host-1", "n2": "", "n3": "host-1", "n4": ""},
		},
		"one has three times as much": {
			[]Host{{Cores: 8}, {Cores: 24}},
			map[string]string{"ctl": "", "n1": "host-1", "n2": "host-1", "n3": "host-1", "n4": "host-1"},
		},
		"no limits": {
			[]Host{{}, {}}, map[string]string{"ctl": "", "n1": "host-1", "n2": "", "n3": "host-1", "n4": ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := place(Table{Hosts: tc.hosts, Flavors: flavors}, clusterOf(nodes))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRoomIsThatOfEachHostAndOfAll(t *testing.T) {
	table := Table{
		Hosts:   []Host{{Cores: 8, Memory: 16000}, {Cores: 4, Memory: 8000, Instances: 3}},
		Flavors: map[string]Flavor{"small": small},
	}
	one := reconfigure.Use{Instances: 1, Cores: 2, RAM: 2048}
	got := room(table, map[string]reconfigure.Use{"": one, "host-1": one})
	flavors := map[string]reconfigure.Use{"2x2048x10": one}
	want := reconfigure.Room{
		Limit: reconfigure.Use{Instances: -1, Cores: 12, RAM: 24000}, Used: one.Plus(one), Flavors: flavors,
		Shards: map[string]reconfigure.Room{
			"":       {Limit: reconfigure.Use{Instances: -1, Cores: 8, RAM: 16000}, Used: one, Flavors: flavors},
			"host-1": {Limit: reconfigure.Use{Instances: 3, Cores: 4, RAM: 8000}, Used: one, Flavors: flavors},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want.Shards["host-1"], got.In("host-1")); diff != "" {
		t.Error(diff)
	}
}

func TestTableSaysWhatIsWrong(t *testing.T) {
	const good = `clouds: {lab: {pool: p, hosts: [{uri: "qemu:///system"}], ` +
		`flavors: {small: {cores: 1, memory: 1, disk: 1}}}}`
	for name, tc := range map[string]struct{ text, want string }{
		"nothing":          {good, ""},
		"over SSH":         {strings.Replace(good, "qemu:///", "qemu+ssh://root@h:23/", 1), ""},
		"no such cloud":    {strings.Replace(good, "lab", "other", 1), `no cloud "lab"`},
		"no pool":          {strings.Replace(good, "pool: p, ", "", 1), "pool is missing"},
		"no hosts":         {strings.Replace(good, `[{uri: "qemu:///system"}]`, "[]", 1), "hosts is empty"},
		"another driver":   {strings.Replace(good, "qemu:", "xen:", 1), "neither qemu:///system nor"},
		"a host's name":    {strings.Replace(good, "qemu:///", "qemu://h/", 1), "needs qemu+ssh"},
		"a type":           {strings.Replace(good, "pool: p", "pool: p, type: lxc", 1), "neither kvm nor qemu"},
		"an empty flavor":  {strings.Replace(good, "cores: 1", "cores: 0", 1), "flavor small"},
		"a negative limit": {strings.Replace(good, `system"}`, `system", cores: -1}`, 1), "negative"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, File), []byte(tc.text), 0o644); err != nil {
				t.Fatal(err)
			}
			err := Check(reconfigure.Access{Dir: dir, Cloud: "lab"})
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestStateSaysWhatADomainIsMadeOf(t *testing.T) {
	got := made(map[string]any{
		"description": `{"eiffel_group":"g","image":"i","flavor":"f","network":"n"}`,
		"network_interface": []any{map[string]any{
			"addresses": []any{"fe80::1", "10.0.0.7"},
		}},
	})
	want := reconfigure.Made{
		Spec:    reconfigure.Spec{Group: "g", ImageID: "i", FlavorID: "f", NetworkID: "n"},
		Address: "10.0.0.7",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := made(map[string]any{"description": "by hand"}); got != (reconfigure.Made{}) {
		t.Errorf("of another's: %+v", got)
	}
}

func TestErrorsOfTheProviderHaveClasses(t *testing.T) {
	for words, want := range map[string]reconfigure.Class{
		"error creating libvirt domain: cannot set up guest memory: Cannot allocate memory": reconfigure.ClassCapacity,
		"couldn't retrieve IP address of domain id: 1. Please check following":              reconfigure.ClassBoot,
		"Storage volume not found: no storage vol with matching name 'x'":                   reconfigure.ClassMissing,
		"failed to connect: dial unix /run/libvirt/libvirt-sock: no such file":              reconfigure.ClassCloud,
		"anything else": reconfigure.ClassOther,
	} {
		if got := providerClass(words); got != want {
			t.Errorf("%q is %s, want %s", words, got, want)
		}
	}
}
