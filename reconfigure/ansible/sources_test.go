package ansible

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// ofSite makes the cluster directory of a run a site folder, with the program's files elsewhere.
func (r *run) ofSite(t *testing.T) {
	t.Helper()
	r.Program = t.TempDir()
	if err := os.Rename(filepath.Join(r.Dir, "ansible"), filepath.Join(r.Program, "ansible")); err != nil {
		t.Fatal(err)
	}
	if err := copyTree("../../ansible/empty_roles", filepath.Join(r.Program, "ansible", "empty_roles")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(r.Dir, "group_vars", "all.yml"), filepath.Join(r.Dir, "all.yml")); err != nil {
		t.Fatal(err)
	}
}

const withOwnRole = `
- hosts: "{{ groups['compute'] | intersect(reconfigure_changed) }}"
  gather_facts: false
  tasks:
    - name: Run the site's own role
      ansible.builtin.import_role:
        name: site_compute
    - name: Tell
      ansible.builtin.debug:
        msg: "variable {{ own | default('none') }}, {{ site_files | default([{'base64': 'bm9uZQ=='}]) |
          map(attribute='base64') | map('b64decode') | join }}, program {{ control_host_program | default('none') }}"
      tags: last
- hosts: control
  gather_facts: false
  tasks:
    - name: On the control node
      ansible.builtin.command: "true"
`

// TestASiteFolderHasItsOwnRolesFilesAndVariables runs a role, a file and variables of the site.
func TestASiteFolderHasItsOwnRolesFilesAndVariables(t *testing.T) {
	r := newRun(t, withOwnRole)
	r.ofSite(t)
	configure := func(want string) {
		t.Helper()
		r.log.Reset()
		got, err := r.configure(t.Context(), "node01")
		if err != nil || len(got) > 0 {
			t.Fatalf("%v, %v\n%s", got, err, r.log)
		}
		if !strings.Contains(r.log.String(), want) {
			t.Errorf("Ansible did not print %q:\n%s", want, r.log)
		}
	}
	configure(`"variable none, none, program none"`)

	r.Command = "/usr/bin/reconfigure"
	write(t, filepath.Join(r.Dir, "ansible", "roles", "site_compute", "tasks", "main.yml"),
		"- {name: On the node, ansible.builtin.command: touch "+filepath.Join(r.Dir, "touched")+"}\n")
	write(t, filepath.Join(r.Dir, "ansible", "group_vars", "cluster.yml"),
		"own: of the cluster\nslurm_directory: /etc/slurm\n")
	write(t, filepath.Join(r.Dir, "ansible", "host_vars", "node01.yml"), "own: of the node\n")
	write(t, filepath.Join(r.Dir, "ansible", "files", "site", "prolog.1.all"), "a file")
	configure(`"variable of the node, a file, program /usr/bin/reconfigure"`)
	if _, err := os.Stat(filepath.Join(r.Dir, "touched")); err != nil {
		t.Errorf("the role did not run: %v", err)
	}

	// An error in a file has the file's name in the site folder.
	write(t, filepath.Join(r.Dir, "ansible", "group_vars", "cluster.yml"), "own: x\nname: a: b\n")
	_, err := r.configure(t.Context(), "node01")
	if err == nil || !strings.Contains(err.Error(), " ansible/group_vars/cluster.yml, line 2, column 8: syntax error") {
		t.Errorf("the error is %v", err)
	}
}

func TestTwoFilesOfVariablesWithOnePlaceAreRefused(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "all.yml"), "")
	write(t, filepath.Join(dir, "ansible", "group_vars", "all.yml"), "")
	err := sources{dir: dir, site: true}.link(t.TempDir())
	want := "all.yml and ansible/group_vars/all.yml have the same place beside the inventory: rename or remove one of them"
	if err == nil || err.Error() != want {
		t.Errorf("the error is %v", err)
	}
}

// TestSumOfASiteFolder changes what the site and the program give, and where the program's files are.
func TestSumOfASiteFolder(t *testing.T) {
	dir, programs := t.TempDir(), t.TempDir()
	c := testCluster()
	c.Settings.StateDir = filepath.Join(dir, "state")
	sum := func(version string) string {
		t.Helper()
		sums, err := New(Config{Dir: dir, Program: filepath.Join(programs, version)}).
			Sums(c, testInstances(), nodeset.Of("node01"))
		if err != nil {
			t.Fatal(err)
		}
		return sums["node01"]
	}
	write(t, filepath.Join(dir, "all.yml"), "cluster_name: eiffel\n")
	for _, version := range []string{"1", "2", "3"} {
		write(t, filepath.Join(programs, version, "slurmscripts", "reboot.sh.j2"), "#!/bin/sh\n")
		write(t, filepath.Join(programs, version, "ansible", "site.yml"), "- hosts: all\n")
	}
	write(t, filepath.Join(programs, "3", "ansible", "site.yml"), "- hosts: none\n")
	if diff := cmp.Diff(sum("1"), sum("2")); diff != "" {
		t.Errorf("it depends on the folder of the program's files:\n%s", diff)
	}
	if sum("1") == sum("3") {
		t.Error("it does not change with the program's playbooks")
	}
	for _, file := range []string{
		"all.yml", "group_vars/cluster.yml", "ansible/group_vars/cluster.yml", "ansible/host_vars/node01.yml",
		"ansible/roles/site_compute/tasks/main.yml", "ansible/files/site/prolog.1.all",
	} {
		before := sum("1")
		write(t, filepath.Join(dir, file), "{}\n")
		if sum("1") == before {
			t.Errorf("it does not change with %s", file)
		}
	}
}
