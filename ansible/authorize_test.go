package site_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestKeysAreAuthorizedForTheGateAlone authorizes the key of a control node and that of a node, for a cluster with two
// control hosts, a file in the user's home, and a directory whose name has a quote in it.
func TestKeysAreAuthorizedForTheGateAlone(t *testing.T) {
	t.Setenv("ANSIBLE_ACTION_PLUGINS", mustAbs(t, "action_plugins"))
	dir := t.TempDir()
	inventory, keys, known := filepath.Join(dir, "hosts"), filepath.Join(dir, "keys"), filepath.Join(dir, "known")
	write(t, inventory, "[control]\nctl ansible_host=10.0.0.5\n[compute]\nnode01 ansible_host=10.0.0.11\n")
	t.Setenv("HOME", dir)
	key := "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5" + strings.Repeat("A", 48)
	play := func(from string) {
		t.Helper()
		playbook(t, fmt.Sprintf(`
- hosts: ctl,node01
  gather_facts: false
  connection: local
  vars_files: [%[5]s]
  vars:
    cluster_name: a
    slurm_user: slurm
    slurm_directory: /etc/slurm
    slurm_log_directory: /var/log
    slurm_key_file: /none
    control_host:
      {address: 192.0.2.10, port: 2222, user: eiffel, directory: "/opt/a 'quoted' dir", host_key: %[1]s me@one,
       authorized_keys: ~/%[2]s, others: [{address: 192.0.2.11, port: 22, host_key: "%[1]s"}]}
    slurm_scripts_public_key: "%[1]s"
    %[3]s
  tasks:
    - import_role: {name: slurm_scripts, tasks_from: authorize}
    - copy: {content: "{{ slurm_scripts_known_hosts }}", dest: %[4]s}
`, key, filepath.Base(keys), from, known, mustAbs(t, "vars/declared.yml")), "--inventory", inventory)
	}
	play("")
	const command = `/opt/a '"'"'quoted'"'"' dir`
	want := func(options string) string {
		return strings.NewReplacer("KEY", key, "DIR", strings.ReplaceAll(command, `"`, `\"`)).Replace(options)
	}
	lines := func() map[string]bool {
		all := map[string]bool{}
		for line := range strings.Lines(read(t, keys)) {
			all[line] = true
		}
		return all
	}
	const gate = `restrict,command="'DIR/bin/reconfigure' --dir 'DIR' gate --role `
	authorized := map[string]bool{
		want(gate + `controller",from="10.0.0.5" KEY slurm@a` + "\n"):                  true,
		want(gate + `node --node node01",from="10.0.0.11" KEY reboot@a/node01` + "\n"): true,
	}
	if diff := cmp.Diff(authorized, lines()); diff != "" {
		t.Errorf("authorized (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(fmt.Sprintf("[192.0.2.10]:2222 %[1]s\n192.0.2.11 %[1]s\n", key), read(t, known)); diff != "" {
		t.Errorf("known hosts (-want +got):\n%s", diff)
	}

	// A line of another cluster of that name with the same user, a line of an earlier version, and a line from
	// before the directory was moved.
	other := `restrict,command="/other/bin/reconfigure --dir /other gate --role controller" ` + key
	other = strings.TrimRight(other, "A") + strings.Repeat("B", 48) + " slurm@a\n"
	earlier := `restrict,command="reconfigure gate --role controller" ` + strings.Replace(key, "AAAAAA", "AAAACC", 1) + " slurm@a\n"
	moved := `restrict,command="/before/bin/reconfigure --dir /before gate --role controller" ` + key + " slurm@a\n"
	write(t, keys, other+earlier+moved+read(t, keys))
	play("slurm_scripts_from: []")
	authorized = map[string]bool{
		want(gate + `controller" KEY slurm@a` + "\n"):                 true,
		want(gate + `node --node node01" KEY reboot@a/node01` + "\n"): true,
		other: true,
	}
	if diff := cmp.Diff(authorized, lines()); diff != "" {
		t.Errorf("authorized from everywhere (-want +got):\n%s", diff)
	}
}
