package ansible

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/lab/needs"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/sitefiles"
)

var update = flag.Bool("update", false, "write the golden files")

func testCluster() reconfigure.Cluster {
	return reconfigure.Cluster{
		Name: "eiffel", LoginUser: "debian", PrivateKeyFile: "/keys/id_ed25519",
		Control: reconfigure.Control{Name: "ctl"},
		Groups: []reconfigure.NodeGroup{
			{Name: "standard", Prefix: "node", Width: 2, Min: 1, Max: 12},
			{Name: "gpu", Prefix: "gpu", Width: 1, Min: 0, Max: 2},
			{Name: "big", Prefix: "big", Width: 1, Min: 1, Max: 1},
		},
		Settings: reconfigure.Settings{StateDir: "/opt/a cluster/state"},
	}
}

func testInstances() map[string]reconfigure.Instance {
	return map[string]reconfigure.Instance{
		"ctl":    {Node: "ctl", ID: "ctl", Address: "10.0.0.1"},
		"node01": {Node: "node01", ID: "node01", Address: "10.0.0.2"},
		"node03": {Node: "node03", ID: "node03", Address: "10.0.0.3"},
		"node10": {Node: "node10"},                                    // has no address
		"node99": {Node: "node99", ID: "node99", Address: "10.0.0.9"}, // is not declared
		"big1":   {Node: "big1", ID: "big1", Address: "10.0.0.4"},
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func TestInventoryIsTheSameForTheSameArguments(t *testing.T) {
	list, err := Inventory(testCluster(), testInstances(), nil)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "list.json", list)
	static, err := newInventory(testCluster(), testInstances(), nil).static()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "inventory.json", static)
}

func TestAnsibleReadsTheSameFromBothForms(t *testing.T) {
	for name, instances := range map[string]map[string]reconfigure.Instance{"some instances": testInstances(),
		"none": {}} {
		t.Run(name, func(t *testing.T) {
			inv := newInventory(testCluster(), instances, nil)
			list, err := inv.list()
			if err != nil {
				t.Fatal(err)
			}
			static, err := inv.static()
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			write(t, filepath.Join(dir, "answer.json"), string(list))
			write(t, filepath.Join(dir, "inventory.json"), string(static))
			program := filepath.Join(dir, "program")
			write(t, program, "#!/bin/sh\nexec cat "+filepath.Join(dir, "answer.json")+"\n")
			if err := os.Chmod(program, 0o755); err != nil {
				t.Fatal(err)
			}
			file, answer := ansibleInventory(t, filepath.Join(dir, "inventory.json")), ansibleInventory(t, program)
			if diff := cmp.Diff(answer, file); diff != "" {
				t.Errorf("the file differs from the program's output (-program +file):\n%s", diff)
			}
		})
	}
}

// TestSiteFilesComeAsTheyAre makes Ansible write the site files in the inventory: text that looks like a value of
// another type, or like a template.
func TestSiteFilesComeAsTheyAre(t *testing.T) {
	needs.Lab(t)
	dir := t.TempDir()
	contents := map[string]string{
		"json.1.node[01-03]": "{\"a\": 1}\n", "list.1.all": "[1, 2]", "prolog.2.node01": "#!/bin/sh\necho '{{ x }}' é\n",
		"prolog.1.all": "true", "other.1.node02": "not for node01",
	}
	for name, content := range contents {
		write(t, filepath.Join(dir, sitefiles.Folder, name), content)
	}
	if err := os.Chmod(filepath.Join(dir, sitefiles.Folder, "prolog.2.node01"), 0o755); err != nil {
		t.Fatal(err)
	}
	files, err := sitefiles.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	inv := newInventory(testCluster(), testInstances(), files)
	text, err := inv.only(nodeset.Of("node01")).static()
	if err != nil {
		t.Fatal(err)
	}
	if ctl := inv.hosts["ctl"].Site; ctl != nil {
		t.Errorf("the control node gets %v", ctl)
	}
	write(t, filepath.Join(dir, "inventory.json"), string(text))
	write(t, filepath.Join(dir, "ansible", "site.yml"), `
- hosts: node01
  gather_facts: false
  tasks:
    - converge:
        folders: [{path: "{{ slurm_directory }}/site", mode: "0755"}]
        files: "{{ [] + site_files | default([]) + ([] if true else []) }}"
`)
	library, err := filepath.Abs("../../ansible")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "ansible-playbook", "--inventory", filepath.Join(dir, "inventory.json"),
		"--connection", "local", "--extra-vars", "slurm_directory="+filepath.Join(dir, "node"),
		filepath.Join(dir, "ansible", "site.yml"))
	cmd.Env = append(os.Environ(), "ANSIBLE_LIBRARY="+filepath.Join(library, "library"),
		"ANSIBLE_ACTION_PLUGINS="+filepath.Join(library, "action_plugins"),
		"ANSIBLE_MODULE_UTILS="+filepath.Join(library, "module_utils"), "HOME="+dir, "LC_ALL=C.UTF-8")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, want := range map[string]string{"json": "json.1.node[01-03]", "list": "list.1.all",
		"prolog": "prolog.2.node01"} {
		got, err := os.ReadFile(filepath.Join(dir, "node", "site", name))
		if err != nil || string(got) != contents[want] {
			t.Errorf("%s is %q, error %v, want %q", name, got, err, contents[want])
		}
	}
	prolog, err := os.Stat(filepath.Join(dir, "node", "site", "prolog"))
	if err != nil || prolog.Mode() != 0o755 {
		t.Errorf("the prolog has mode %v, error %v", prolog, err)
	}
	if there, err := os.ReadDir(filepath.Join(dir, "node", "site")); err != nil || len(there) != 3 {
		t.Errorf("the node has %v, error %v", there, err)
	}
}

// ansibleInventory returns the inventory as Ansible reads it. Hosts and children are sorted, since their order has no
// meaning.
func ansibleInventory(t *testing.T, source string) map[string]any {
	t.Helper()
	needs.Lab(t)
	cmd := exec.CommandContext(t.Context(), "ansible-inventory", "--inventory", source, "--list")
	cmd.Env = append(os.Environ(), "ANSIBLE_HOME="+t.TempDir(), "LC_ALL=C.UTF-8")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("ansible-inventory (Debian's package ansible-core): %v", err)
	}
	var understood map[string]any
	if err := json.Unmarshal(out, &understood); err != nil {
		t.Fatal(err)
	}
	for _, g := range understood {
		for _, key := range []string{"hosts", "children"} {
			if names, ok := g.(map[string]any)[key].([]any); ok {
				slices.SortFunc(names, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
			}
		}
	}
	return understood
}

func TestNodesThatCannotBeConfiguredFailAlone(t *testing.T) {
	instances := testInstances()
	nodes := nodeset.Of("ctl", "node01", "node10")
	got := texts(newInventory(testCluster(), instances, nil).absent(testCluster(), nodes))
	want := map[string]string{"node10": "not configured: it has no instance with an address"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	delete(instances, "ctl")
	got = texts(newInventory(testCluster(), instances, nil).absent(testCluster(), nodeset.Of("node01")))
	want = map[string]string{"node01": "not configured: the control node ctl has no instance with an address"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("without a control node (-want +got):\n%s", diff)
	}
}

func texts(failures reconfigure.Failures) map[string]string {
	all := map[string]string{}
	for node, err := range failures {
		all[node] = err.Error()
	}
	return all
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Every node needs the address of a node that is created later, since addresses are not distributed again then.
func TestAKeptPortHasAnAddressAndIsNoHost(t *testing.T) {
	instances := testInstances()
	instances["node02"] = reconfigure.Instance{Node: "node02", Address: "10.0.0.7"}
	inv := newInventory(testCluster(), instances, nil)
	addresses, _ := inv.groups[groupCluster].Vars["node_addresses"].(map[string]string)
	if _, host := inv.hosts["node02"]; host || addresses["node02"] != "10.0.0.7" {
		t.Errorf("it is a host: %t; addresses %v", host, addresses)
	}
	for name, g := range inv.groups {
		if slices.Contains(g.Hosts, "node02") {
			t.Errorf("it is in group %s", name)
		}
	}
}

func BenchmarkInventoryOf4000Nodes(b *testing.B) {
	c := testCluster()
	c.Groups = []reconfigure.NodeGroup{{Name: "standard", Prefix: "node", Width: 4, Min: 1, Max: 4000}}
	instances := map[string]reconfigure.Instance{"ctl": {Node: "ctl", ID: "ctl", Address: "10.0.0.1"}}
	for node := range c.Nodes().All() {
		instances[node] = reconfigure.Instance{Node: node, ID: node, Address: "10.1.2.3"}
	}
	for b.Loop() {
		if _, err := Inventory(c, instances, nil); err != nil {
			b.Fatal(err)
		}
	}
}
