package site

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

func TestProviderIsFoundByItsName(t *testing.T) {
	first := providers()[0].Name
	for name, want := range map[string]string{
		"": first, first: first, "libvirt": "libvirt", "vsphere": "vsphere", "paper": "",
	} {
		p, err := providerNamed(t.TempDir(), name)
		if p.Name != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q, error %v", name, p.Name, err)
		}
		if err != nil && !strings.Contains(err.Error(), `"paper" is none of openstack, libvirt, vsphere`) {
			t.Error(err)
		}
	}
}

// TestWhatACloudDoesNotHaveIsOff ignores kept ports and the interrupt in a declaration for a cloud that lacks them.
func TestWhatACloudDoesNotHaveIsOff(t *testing.T) {
	declared := reconfigure.Cluster{
		Groups:   []reconfigure.NodeGroup{{Name: "g", Prefix: "n", Width: 1, Max: 1, KeepPorts: true}},
		Settings: reconfigure.Settings{Interrupt: true},
	}
	for _, tc := range []struct {
		module           reconfigure.RootModule
		ports, interrupt bool
	}{
		{reconfigure.RootModule{}, false, false},
		{reconfigure.RootModule{Port: "port"}, true, false},
		{reconfigure.RootModule{Finish: func(map[string]any, reconfigure.Server, string) {}}, false, true},
	} {
		p := provider{Provider: reconfigure.Provider{Module: tc.module}}
		c, err := p.adapt("", declared)
		if err != nil || c.KeepsPort("n1") != tc.ports || c.Settings.Interrupt != tc.interrupt || c.Shard("n1") != "" {
			t.Errorf("%+v: %+v, error %v", tc.module, c, err)
		}
	}
	if !declared.KeepsPort("n1") {
		t.Error("the declaration itself was changed")
	}
	places := func(string, reconfigure.Cluster) (map[string]string, error) {
		return map[string]string{"n1": "host-1"}, nil
	}
	placed := provider{Provider: reconfigure.Provider{Places: places}}
	if c, err := placed.adapt("", declared); err != nil || c.Shard("n1") != "host-1" {
		t.Errorf("n1 is in %q, error %v", c.Shard("n1"), err)
	}
	declared.Groups[0].Zone = "az1"
	placing := provider{Provider: reconfigure.Provider{Module: reconfigure.RootModule{Placement: true}}}
	if _, err := placing.adapt("", declared); err != nil {
		t.Error(err)
	}
	for _, kind := range []reconfigure.Provider{{Name: "paper"}, {Name: "paper", Existing: true}} {
		const why = "node_groups[0]: availability_zone, server_group, scheduler_hints and metadata are not possible " +
			"with provider paper"
		if _, err := (provider{Provider: kind}).adapt("", declared); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("error %v", err)
		}
	}
	declared.Groups[0].Zone = ""
	declared.Groups[0].WhenIdle = reconfigure.IdleStop
	stopping := provider{Provider: reconfigure.Provider{Module: reconfigure.RootModule{Power: "power_state"}}}
	if _, err := stopping.adapt("", declared); err != nil {
		t.Error(err)
	}
	stays := provider{Provider: reconfigure.Provider{Name: "paper"}}
	const why = "node_groups[0].when_idle: stop is not possible with provider paper; set it to delete"
	if _, err := stays.adapt("", declared); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("an error of %v", err)
	}
}

// TestExistingMachinesAreStopped adapts declarations to existing machines.
func TestExistingMachinesAreStopped(t *testing.T) {
	p := provider{Provider: reconfigure.Provider{
		Name: "paper", Existing: true,
		Places: func(string, reconfigure.Cluster) (map[string]string, error) {
			return map[string]string{"n1": "n1"}, nil
		},
	}}
	declared := func(idle reconfigure.WhenIdle, keys reconfigure.HostKeyPolicy) reconfigure.Cluster {
		return reconfigure.Cluster{
			Groups:   []reconfigure.NodeGroup{{Name: "g", Prefix: "n", Width: 1, Max: 2, WhenIdle: idle}},
			Settings: reconfigure.Settings{Interrupt: true, HostKeys: keys},
		}
	}
	before := declared(reconfigure.IdleDelete, reconfigure.HostKeysAcceptNew)
	c, err := p.adapt("", before)
	want := reconfigure.NodeGroup{
		Name: "g", Prefix: "n", Width: 1, Max: 2, WhenIdle: reconfigure.IdleStop, MaxStopped: 2, KeepPorts: true,
	}
	if diff := cmp.Diff([]reconfigure.NodeGroup{want}, c.Groups); err != nil || diff != "" || !c.Existing ||
		c.Settings.Interrupt || c.Shard("n1") != "n1" {
		t.Errorf("%+v, error %v\n%s", c, err, diff)
	}
	if before.Groups[0].KeepPorts {
		t.Error("the declaration itself was changed")
	}
	aged := declared(reconfigure.IdleStop, reconfigure.HostKeysAcceptNew)
	aged.Groups[0].MaxAge = time.Hour
	fresh := declared(reconfigure.IdleStop, reconfigure.HostKeysAcceptNew)
	fresh.Partitions = []reconfigure.Partition{{Name: "p", Groups: []string{"g"}, Fresh: true}}
	for want, c := range map[string]reconfigure.Cluster{
		"fresh: job":                        fresh,
		"max_age":                           aged,
		"when_idle: shelve is not possible": declared(reconfigure.IdleShelve, reconfigure.HostKeysAcceptNew),
		"set it to accept-new":              declared(reconfigure.IdleStop, reconfigure.HostKeysConsole),
	} {
		if _, err := p.adapt("", c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
