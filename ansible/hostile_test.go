package site_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// hostile runs tasks on the hosts evil and good, which are this machine. What evil answers to each module is the output
// of a shell script of its root's. It returns Ansible's output.
func hostile(t *testing.T, script, tasks string, env ...string) string {
	t.Helper()
	dir := t.TempDir()
	interpreter := filepath.Join(dir, "python3")
	write(t, interpreter, "#!/bin/sh\n"+script+"\n")
	if err := os.Chmod(interpreter, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "hosts.json"), fmt.Sprintf(`{"all": {"hosts": {
		"evil": {"ansible_python_interpreter": %q}, "good": {"ansible_python_interpreter": "/usr/bin/python3"}},
		"vars": {"ansible_connection": "local"}}}`, interpreter))
	file := filepath.Join(dir, "playbook.yml")
	write(t, file, "- hosts: all\n  strategy: free\n  tasks:\n"+tasks+
		"\n- hosts: localhost\n  connection: local\n  tasks:\n    - debug:\n"+
		"        msg: \"at the end {{ groups.keys() | sort }} {{ groups['all'] }} {{ hostvars['good'].evil | default('no') }}\"\n")
	here := mustAbs(t, ".")
	cmd := exec.CommandContext(t.Context(), "ansible-playbook", "--inventory", filepath.Join(dir, "hosts.json"), file)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "ANSIBLE_HOME="+dir,
		"ANSIBLE_CONFIG="+filepath.Join(here, "ansible.cfg"), "ANSIBLE_LIBRARY="+filepath.Join(here, "library"),
		"ANSIBLE_ACTION_PLUGINS="+filepath.Join(here, "action_plugins"))
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestAnAnswerChangesNoOtherHost has a node answer with what Ansible takes from some of its own modules: other hosts and
// their variables, with which a task for them would run on the control host.
func TestAnAnswerChangesNoOtherHost(t *testing.T) {
	const answer = `echo '{"changed": false, "rc": 0, "stdout": "", "stat": {"exists": false},
"add_host": {"host_name": "good", "groups": ["taken"], "host_vars": {"evil": "yes"}}, "add_group": "grouped",
"parent_groups": ["all"], "ansible_facts": {"evil": "yes"}, "ansible_stats": {"data": {"evil": "yes"}}}'`
	for name, task := range map[string]string{
		"apt": "ansible.builtin.apt: {name: []}", "file": "ansible.builtin.file: {path: /tmp, state: directory}",
		"command": "ansible.legacy.command: 'true'", "shell": "ansible.builtin.shell: 'true'",
		"service": "ansible.legacy.service: {name: none, use: service, pattern: none}",
		"copy":    "ansible.legacy.copy: {remote_src: true, src: /dev/null, dest: " + t.TempDir() + "/copy}",
		"systemd": "ansible.builtin.systemd: {daemon_reload: false}",
		"our own": "wait_for_node: {families: [Debian]}",
	} {
		t.Run(name, func(t *testing.T) {
			said := hostile(t, answer, "    - "+task+"\n      when: inventory_hostname == 'evil'\n      ignore_errors: true\n")
			want := "at the end ['all', 'ungrouped'] ['evil', 'good'] no"
			if !strings.Contains(said, want) {
				t.Errorf("there is no %q:\n%s", want, said)
			}
		})
	}
}

// TestABadAnswerFailsOneNodeAlone has the first tasks of each node of a resume.
func TestABadAnswerFailsOneNodeAlone(t *testing.T) {
	const tasks = `
    - wait_for_node: {families: [Debian, RedHat], timeout: 1}
    - converge: {folders: [{path: /tmp, mode: "1777"}], key: {path: %s, comment: a}}
      register: converged
    - ansible.builtin.meta: end_host
      when: converged.missing | default([])
    - authorize_key: {file: %s, key: "{{ converged.public_key }}", comment: "{{ inventory_hostname }}"}
    - ansible.legacy.command: 'true'
`
	facts := func(family string) string {
		return `echo '{"ansible_facts": {"os_family": ` + family + `, "service_mgr": "systemd"}, "changed": true, "missing": []}'`
	}
	for name, script := range map[string]string{
		"nothing":                     "",
		"no JSON":                     "echo '{{ lookup(\"pipe\", \"id\") }}'",
		"a list":                      "echo '[1]'",
		"a text":                      "echo '\"text\"'",
		"not text":                    `printf '{"msg": "\377\000"}'`,
		"a failure of another type":   `echo '{"failed": {"a": 1}, "msg": ["a"]}'`,
		"no facts":                    "echo '{}'",
		"facts of another type":       `echo '{"ansible_facts": [1]}'`,
		"an unknown system":           facts(`"Plan9"`),
		"a system of another type":    facts(`{"a": []}`),
		"a system that is a template": facts(`"{{ lookup(\"pipe\", \"id\") }}"`),
		"no key":                      facts(`"Debian"`),
		"a malformed key":             strings.Replace(facts(`"Debian"`), `"missing"`, `"public_key": "ssh-ed25519", "missing"`, 1),
		"a key of another type":       strings.Replace(facts(`"Debian"`), `"missing"`, `"public_key": {"a": 1}, "missing"`, 1),
		"packages of another type":    strings.Replace(facts(`"Debian"`), `"missing": []`, `"missing": {"a": 1}`, 1),
		"an answer that never comes":  "exec sleep 600",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			key, keys := filepath.Join(dir, "key"), filepath.Join(dir, "authorized_keys")
			said := hostile(t, script, fmt.Sprintf(tasks, key, keys), "ANSIBLE_TASK_TIMEOUT=15")
			if !strings.Contains(said, "at the end ['all', 'ungrouped'] ['evil', 'good'] no") {
				t.Errorf("the run ended for all:\n%s", said)
			}
			for host, failed := range map[string]string{"evil": "failed=1", "good": "failed=0"} {
				_, recap, _ := strings.Cut(said, "PLAY RECAP")
				_, line, _ := strings.Cut(recap, "\n"+host)
				line, _, _ = strings.Cut(line, "\n")
				if !strings.Contains(line, failed) {
					t.Errorf("%s is not %s:\n%s", host, failed, said)
				}
			}
			if text := read(t, keys); strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, " good\n") {
				t.Errorf("the keys are %q", text)
			}
			if strings.Contains(said, "uid=") {
				t.Errorf("a template was rendered:\n%s", said)
			}
		})
	}
}
