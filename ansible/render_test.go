package site_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files")

// playbook runs Ansible on this machine with the shipped roles and settings.
func playbook(t *testing.T, content string, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "playbook.yml")
	write(t, file, content)
	roles, err := filepath.Abs("roles")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "ansible-playbook",
		append(args, "--inventory", "localhost,", "--connection", "local", file)...)
	cmd.Env = append(os.Environ(), "ANSIBLE_CONFIG="+filepath.Join(filepath.Dir(roles), "ansible.cfg"),
		"ANSIBLE_ROLES_PATH="+roles, "ANSIBLE_HOME="+dir, "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("ansible-playbook (Debian's package ansible-core): %v\n%s", err, out)
	}
	return string(out)
}

// TestSlurmConf renders the shipped declaration and variants of it, with a play for each: the variables of
// testdata/NAME.yml replace those of the declaration.
func TestSlurmConf(t *testing.T) {
	shipped, err := filepath.Abs("../group_vars/all.yml")
	if err != nil {
		t.Fatal(err)
	}
	vars, err := filepath.Abs("vars")
	if err != nil {
		t.Fatal(err)
	}
	variants, err := filepath.Glob("testdata/*.yml")
	if err != nil || len(variants) == 0 {
		t.Fatalf("no variants: %v", err)
	}
	all := t.TempDir()
	folder := func(variant string) string {
		return filepath.Join(all, strings.TrimSuffix(filepath.Base(variant), ".yml"))
	}
	var plays, hosts strings.Builder
	for _, variant := range variants {
		out := folder(variant)
		if err := os.Mkdir(out, 0o755); err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(strings.TrimSuffix(read(t, variant), "{}\n"), "\n", "\n        ")
		fmt.Fprintf(&hosts, "%s,", filepath.Base(out))
		fmt.Fprintf(&plays, `- hosts: %s
  vars_files: [%s, %[3]s/Debian.yml, %[3]s/declared.yml]
  tasks:
    - import_role: {name: slurm_conf, tasks_from: read}
      vars: # those of a task replace also those of its role
        slurm_directory: %[4]s
        slurm_conf_answer: %[4]s/answer
        %s
`, filepath.Base(out), shipped, vars, out, text)
	}
	playbook(t, plays.String(), "--inventory", hosts.String())
	for _, variant := range variants {
		name, out := filepath.Base(folder(variant)), folder(variant)
		t.Run(name, func(t *testing.T) {
			var answer struct{ Coming map[string]string }
			if err := json.Unmarshal([]byte(read(t, filepath.Join(out, "answer"))), &answer); err != nil {
				t.Fatal(err)
			}
			for name, content := range answer.Coming {
				write(t, filepath.Join(out, name), content)
			}
			for _, file := range []string{"slurm.conf", "cgroup.conf", "gres.conf", "topology.conf", "fresh.sh"} {
				golden(t, filepath.Join("testdata", name, file), filepath.Join(out, file))
			}
		})
	}
}

// TestDefaults has the playbooks read the declarations of package config's test of that name: the one with the required
// keys alone, and the one that has the defaults of all others.
func TestDefaults(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	values := func(declaration string) string {
		out := t.TempDir()
		playbook(t, `- hosts: localhost
  vars: {control_host_user: OWNER, control_host_directory: DIRECTORY}
  vars_files:
    - `+here+`/../reconfigure/config/testdata/defaults/`+declaration+`
    - `+here+`/vars/Debian.yml
    - `+here+`/vars/declared.yml
  tasks:
    - import_role: {name: slurm_conf, tasks_from: read}
    - copy:
        dest: `+out+`/others
        content: "{{ [declared_control_hosts | map(attribute='port') | list, declared_control_hosts | map(attribute='host_key') | list,
          declared_user, declared_directory, declared_authorized_keys, declared_nfs_shares, declared_canary_job] | to_nice_json }}"
`, "--extra-vars", "slurm_directory="+out, "--extra-vars", "slurm_conf_answer="+out+"/answer")
		var answer struct{ Coming map[string]string }
		if err := json.Unmarshal([]byte(read(t, filepath.Join(out, "answer"))), &answer); err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(answer.Coming["slurm.conf"], out, "/etc/slurm") + read(t, filepath.Join(out, "others"))
	}
	all, few := values("all.yml"), values("few.yml")
	if !strings.Contains(all, "NodeName=big-mem[001-300]") || !strings.Contains(all, "SuspendTime=600") {
		t.Errorf("the declaration with all keys gives\n%s", all)
	}
	if diff := cmp.Diff(all, few); diff != "" {
		t.Errorf("with all keys and with the required ones (-all +few):\n%s", diff)
	}
}

// golden compares two files. A missing file is like an empty one.
func golden(t *testing.T, want, got string) {
	t.Helper()
	text, err := os.ReadFile(got)
	text = bytes.ReplaceAll(text, []byte(filepath.Dir(got)), []byte("/etc/slurm"))
	if *update {
		if err := os.Remove(want); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if err == nil {
			write(t, want, string(text))
		}
	}
	expected, _ := os.ReadFile(want)
	if diff := cmp.Diff(string(expected), string(text)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", want, diff)
	}
}

func TestSyntax(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "ansible-playbook", "--syntax-check", "--inventory",
		"testdata/inventory.json", "site.yml")
	cmd.Env = append(os.Environ(), "ANSIBLE_HOME="+t.TempDir(), "LC_ALL=C.UTF-8")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestThePrologOfTheSite finds the prolog and its time limit, in any letter case.
func TestThePrologOfTheSite(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	text := "- hosts: localhost\n  vars_files: [" + here + "/vars/declared.yml, " + here +
		"/roles/slurm_scripts/vars/main.yml]\n  tasks:\n"
	wants := map[string]string{
		"{}":                                "960 []",
		"{PROLOGSLURMCTLD: /site/prolog}":   "960 [/site/prolog]",
		"{PrologEpilogTimeout: 20, Foo: 1}": "15 []",
		"{PrologTimeout: 30}":               "25 []",
	}
	for extra, want := range wants {
		text += fmt.Sprintf(`
    - ansible.builtin.debug:
        msg: "{{ 'right' if said == '%[2]s' else 'wrong' }} with %[1]s: {{ said }}"
      vars:
        slurm: {resume_timeout: 900, extra: %[1]s}
        said: "{{ slurm_scripts_launch_limit }} [{{ slurm_scripts_prolog }}]"
`, extra, want)
	}
	if said := playbook(t, text); strings.Count(said, "right with") != len(wants) {
		t.Error(said)
	}
}
