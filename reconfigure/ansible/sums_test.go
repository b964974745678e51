package ansible

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

func TestSumChangesWithWhatTheNodeIsConfiguredFrom(t *testing.T) {
	dir := t.TempDir()
	write := func(file, text string) {
		t.Helper()
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("ansible/site.yml", "- hosts: all\n")
	write("ansible/library/module.py", "1")
	write("ansible/files/site/epilog.1.all", "")
	write("ansible/roles/x/vars/main.yml", "{}")
	write("shared.yml", "cluster_name: eiffel\n")
	write("group_vars/cluster.yml", "{}")
	write("slurmscripts/reboot.sh.j2", "#!/bin/sh\n")
	write("host_key.pub", "ssh-ed25519 AAAA\n")
	hostKey = filepath.Join(dir, "host_key.pub")
	t.Cleanup(func() { hostKey = systemHostKey })
	for name, to := range map[string]string{
		"ansible/roles/x/library": "../../library", "group_vars/all.yml": "../shared.yml",
	} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	c := testCluster()
	c.Settings.StateDir = filepath.Join(dir, "state")
	instances := testInstances()
	r := New(Config{Dir: dir})
	sum := func() string {
		t.Helper()
		sums, err := r.Sums(c, instances, nodeset.Of("node01", "node03"))
		if err != nil || len(sums) != 2 || sums["node01"] == sums["node03"] || sums["node01"] == "" {
			t.Fatalf("%v, error %v", sums, err)
		}
		return sums["node01"]
	}
	change := func(node string, change func(*reconfigure.Instance)) {
		i := instances[node]
		change(&i)
		instances[node] = i
	}
	before := sum()
	write("ansible/library/__pycache__/x.pyc", "1")
	change("node03", func(i *reconfigure.Instance) { i.ID = "another" })
	if sum() != before {
		t.Error("it changes with data that does not concern the node")
	}
	for name, change := range map[string]func(){
		"a playbook":  func() { write("ansible/site.yml", "- hosts: none\n") },
		"a role":      func() { write("ansible/roles/x/tasks/main.yml", "[]\n") },
		"a module":    func() { write("ansible/library/module.py", "2") },
		"a site file": func() { write("ansible/files/site/prolog.1.all", "#!/bin/sh\n") },
		"the mode of one": func() {
			if err := os.Chmod(filepath.Join(dir, "ansible/files/site/epilog.1.all"), 0o755); err != nil {
				t.Fatal(err)
			}
		},
		"a script of Slurm's":  func() { write("slurmscripts/reboot.sh.j2", "#!/bin/sh\ntrue\n") },
		"the host key":         func() { write("host_key.pub", "ssh-ed25519 BBBB\n") },
		"the declaration":      func() { write("group_vars/all.yml", "cluster_name: tower\n") },
		"a variable of a host": func() { write("host_vars/node01.yml", "x: 1\n") },
		"what is given":        func() { write("state/ansible/given.json", "{}") },
		"the hardware":         func() { write("state/ansible/hardware.json", "{}") },
		"the instance":         func() { change("node01", func(i *reconfigure.Instance) { i.ID = "another" }) },
		"its image":            func() { change("node01", func(i *reconfigure.Instance) { i.Made.ImageID = "v2" }) },
		"the control node":     func() { change("ctl", func(i *reconfigure.Instance) { i.ID = "another" }) },
		"an address":           func() { change("big1", func(i *reconfigure.Instance) { i.Address = "10.0.0.44" }) },
		"a node that is new":   func() { instances["gpu1"] = reconfigure.Instance{Node: "gpu1", Address: "10.0.0.5"} },
	} {
		kept := maps.Clone(instances)
		before := sum()
		change()
		if sum() == before {
			t.Errorf("it does not change with %s", name)
		}
		instances = kept
	}
}

// The playbooks do not log in to a stopped node, but the others know its address.
func TestAStoppedNodeIsNoHost(t *testing.T) {
	c, instances := testCluster(), testInstances()
	i := instances["node03"]
	i.Made = reconfigure.Spec{ImageID: "v1", Power: reconfigure.PowerOff}
	instances["node03"] = i
	inv := newInventory(c, instances, nil)
	if _, host := inv.hosts["node03"]; host {
		t.Error("it is a host")
	}
	addresses, _ := inv.groups[groupCluster].Vars["node_addresses"].(map[string]string)
	if addresses["node03"] != i.Address {
		t.Errorf("the addresses are %v", addresses)
	}
	everywhere := reconfigure.Plan{Everywhere: true}
	for _, play := range Plays(c, instances, everywhere) {
		if play.Hosts.Contains("node03") {
			t.Errorf("%s is for %s", play.Name, play.Hosts)
		}
	}
}

// The repository's own playbooks have links in them.
func TestSumOfTheRepositorysPlaybooks(t *testing.T) {
	c := testCluster()
	c.Settings.StateDir = t.TempDir()
	sums, err := New(Config{Dir: "../.."}).Sums(c, testInstances(), nodeset.Of("node01"))
	if err != nil || sums["node01"] == "" {
		t.Errorf("%v, error %v", sums, err)
	}
}
