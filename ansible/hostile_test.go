package site_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// hostile runs tasks on the host good and on others, which are all this machine. The other hosts answer each command
// and each module with the output of a shell script of their root. hostile returns Ansible's output.
func hostile(t *testing.T, scripts map[string]string, tasks string, env ...string) string {
	t.Helper()
	dir := t.TempDir()
	hosts := map[string]any{"good": map[string]string{"ansible_python_interpreter": "/usr/bin/python3"}}
	for host, script := range scripts {
		interpreter := filepath.Join(dir, host)
		write(t, interpreter, "#!/bin/sh\n"+script+"\n")
		if err := os.Chmod(interpreter, 0o755); err != nil {
			t.Fatal(err)
		}
		hosts[host] = map[string]string{
			"ansible_python_interpreter": interpreter, "ansible_shell_executable": interpreter,
		}
	}
	inventory, err := json.Marshal(map[string]any{"all": map[string]any{
		"hosts": hosts, "vars": map[string]string{"ansible_connection": "local"}}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "hosts.json"), string(inventory))
	file := filepath.Join(dir, "playbook.yml")
	write(t, file, "- hosts: all\n  strategy: free\n  tasks:\n"+tasks+`
- hosts: localhost
  connection: local
  tasks:
    - debug:
        msg: "at the end {{ groups.keys() | sort }} {{ groups['all'] | length }} {{ x.evil | default('no') }}"
      vars: {x: "{{ hostvars['good'] }}"}
`)
	here := mustAbs(t, ".")
	cmd := exec.CommandContext(t.Context(), "ansible-playbook", "--inventory", filepath.Join(dir, "hosts.json"), file)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "ANSIBLE_HOME="+dir,
		"ANSIBLE_CONFIG="+filepath.Join(here, "ansible.cfg"), "ANSIBLE_LIBRARY="+filepath.Join(here, "library"),
		"ANSIBLE_ACTION_PLUGINS="+filepath.Join(here, "action_plugins"))
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("at the end ['all', 'ungrouped'] %d no", len(hosts))
	if !strings.Contains(string(out), want) {
		t.Errorf("there is no %q:\n%s", want, out)
	}
	return string(out)
}

// TestAnAnswerChangesNoOtherHost makes a node answer with data that Ansible accepts from some of its own modules: other
// hosts and their variables. With these, a task for the other hosts would run on the control host.
func TestAnAnswerChangesNoOtherHost(t *testing.T) {
	const answer = `echo '{"changed": false, "rc": 0, "stdout": "", "stat": {"exists": false},
"add_host": {"host_name": "good", "groups": ["taken"], "host_vars": {"evil": "yes"}}, "add_group": "grouped",
"parent_groups": ["all"], "ansible_facts": {"evil": "yes"}, "ansible_stats": {"data": {"evil": "yes"}}}'`
	var tasks strings.Builder
	for _, task := range []string{
		"ansible.builtin.apt: {name: []}", "ansible.builtin.file: {path: /tmp, state: directory}",
		"ansible.builtin.command: 'true'", "ansible.builtin.shell: 'true'",
		"ansible.builtin.service: {name: none, use: service, pattern: none}",
		"ansible.builtin.copy: {remote_src: true, src: /dev/null, dest: " + t.TempDir() + "/copy}",
		"ansible.builtin.systemd: {daemon_reload: false}", "wait_for_node: {families: [Debian], timeout: 1}",
		"converge: {}",
	} {
		tasks.WriteString("    - " + task + "\n      when: inventory_hostname == 'evil'\n      ignore_errors: true\n")
	}
	said := hostile(t, map[string]string{"evil": answer}, tasks.String())
	if n := strings.Count(said, "TASK ["); n != 10 {
		t.Errorf("there were %d tasks:\n%s", n, said)
	}
}

// TestABadAnswerFailsOneNodeAlone runs the tasks of a resume on each node.
func TestABadAnswerFailsOneNodeAlone(t *testing.T) {
	const tasks = `
    - wait_for_node: {families: [Debian, RedHat], timeout: 1, key: {path: %s, comment: a}}
      register: reached
    - authorize_key: {file: %s, key: "{{ reached.public_key }}", comment: "{{ inventory_hostname }}", command: "true"}
    - converge: {folders: [{path: /tmp, mode: "1777"}]}
      register: converged
    - ansible.builtin.command: 'true'
      when: converged.missing | default([]) | length == 0
`
	const template = `{{ lookup("pipe", "id") }}`
	node := "printf '%s\\n' debian systemd 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5" + strings.Repeat("A", 48) + "'"
	logins := map[string]string{
		"nothing":                    "",
		"one line":                   "echo debian",
		"another service manager":    "echo debian; echo other",
		"not text":                   `printf '\377\000'`,
		"no system":                  "echo; echo systemd",
		"an unknown system":          "echo plan9; echo systemd",
		"a system with a template":   "echo '" + template + "'; echo systemd",
		"no key":                     "echo debian; echo systemd",
		"a malformed key":            "echo debian; echo systemd; echo ssh-ed25519",
		"a key with a template":      "echo debian; echo systemd; echo '" + template + "'",
		"two keys":                   node + "; " + node,
		"a failure with a template":  "echo debian; echo systemd; echo '" + template + "' >&2; exit 1",
		"an answer that never comes": "exec sleep 600",
	}
	modules := map[string]string{
		"no output":                  "",
		"no JSON":                    "echo '" + template + "'",
		"a list":                     "echo '[1]'",
		"a text":                     "echo '\"text\"'",
		"a message that is not text": `printf '{"msg": "\377\000"}'`,
		"a failure of another type":  `echo '{"failed": {"a": 1}, "msg": ["a"]}'`,
		"a module that never ends":   "exec sleep 600",
	}
	hosts := map[string]string{}
	for name, script := range logins {
		hosts[strings.ReplaceAll(name, " ", "-")] = script
	}
	for name, script := range modules {
		hosts[strings.ReplaceAll(name, " ", "-")] = "if grep -q os-release; then\n" + node + "\nelse :\n" + script +
			"\nfi"
	}
	dir := t.TempDir()
	key, keys := filepath.Join(dir, "key"), filepath.Join(dir, "authorized_keys")
	said := hostile(t, hosts, fmt.Sprintf(tasks, key, keys), "ANSIBLE_TASK_TIMEOUT=30")
	_, recap, _ := strings.Cut(said, "PLAY RECAP")
	failed := regexp.MustCompile(`(?m)^(\S+) .* failed=(\d+)`)
	for _, line := range failed.FindAllStringSubmatch(recap, -1) {
		if good := line[1] == "good" || line[1] == "localhost"; good != (line[2] == "0") {
			t.Errorf("%s", line[0])
		}
	}
	if n := len(failed.FindAllString(recap, -1)); n != len(hosts)+2 {
		t.Errorf("there are %d hosts in the recap", n)
	}
	// A node with a well-formed key may have that authorized.
	if text := read(t, keys); strings.Count(text, "\n") != 1+len(modules) || !strings.Contains(text, " good\n") {
		t.Errorf("the keys are %q", text)
	}
	if strings.Contains(said, "uid=") {
		t.Error("a template was rendered")
	}
	if t.Failed() {
		t.Log(said)
	}
}
