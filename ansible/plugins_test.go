package site_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// local runs a playbook with the shipped modules and plugins. All hosts are this machine. It returns Ansible's output.
func local(t *testing.T, hosts, tasks string, env ...string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "playbook.yml")
	write(t, file, "- hosts: all\n  strategy: free\n  tasks:\n"+tasks)
	here := mustAbs(t, ".")
	cmd := exec.CommandContext(t.Context(), "ansible-playbook", "--inventory", hosts+",", "--connection", "local", file)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "ANSIBLE_HOME="+dir,
		"ANSIBLE_CONFIG="+filepath.Join(here, "ansible.cfg"), "ANSIBLE_LIBRARY="+filepath.Join(here, "library"),
		"ANSIBLE_ACTION_PLUGINS="+filepath.Join(here, "action_plugins"))
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestConvergeChangesOnlyWhatDiffers(t *testing.T) {
	dir := t.TempDir()
	hosts := filepath.Join(dir, "hosts")
	write(t, hosts, "127.0.1.1 me\n# BEGIN nodes of a\n10.0.0.9 gone\n# END nodes of a\nlast\n")
	tasks := fmt.Sprintf(`
    - converge:
        packages: {names: [one, two], query: [printf, 'installed\n%%.0s'], installed: installed}
        folders: [{path: %[1]s/folder/below, mode: "0750"}]
        files:
          - {path: %[1]s/folder/below/text, content: "a\nb", mode: "0640"}
          - {path: %[1]s/folder/below/key, secret: tell nobody, mode: "0400"}
          - {path: %[1]s/missing/text, content: left out, mode: "0644", optional: true}
        blocks:
          - {path: %[1]s/hosts, marker: nodes of a, content: "10.0.0.1 node01\n"}
          - {path: %[1]s/hosts, marker: nodes of b, content: "10.0.0.2 node02\n"}
        key: {path: %[1]s/folder/id, comment: a node}
      register: converged
    - debug: {msg: "says {{ converged }}"}
`, dir)
	said, err := local(t, "localhost", tasks)
	if err != nil || !strings.Contains(said, "changed=1 ") || !strings.Contains(said, "ssh-ed25519 AAAA") {
		t.Fatalf("%v\n%s", err, said)
	}
	if strings.Contains(said, "tell nobody") {
		t.Errorf("the secret is in the output:\n%s", said)
	}
	want := "# BEGIN nodes of b\n10.0.0.2 node02\n# END nodes of b\n127.0.1.1 me\n" +
		"# BEGIN nodes of a\n10.0.0.1 node01\n# END nodes of a\nlast\n"
	if diff := cmp.Diff(want, read(t, hosts)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, want := range map[string]string{"text": "-rw-r-----", "key": "-r--------", "../id": "-rw-------"} {
		info, err := os.Stat(filepath.Join(dir, "folder", "below", name))
		if err != nil || info.Mode().String() != want {
			t.Errorf("%s: %v, %v; want %s", name, info.Mode(), err, want)
		}
	}
	if said, err := local(t, "localhost", tasks); err != nil || !strings.Contains(said, "changed=0 ") {
		t.Errorf("a second time: %v\n%s", err, said)
	}
	if err := os.Chmod(filepath.Join(dir, "folder", "below", "text"), 0o600); err != nil {
		t.Fatal(err)
	}
	said, err = local(t, "localhost", tasks)
	if err != nil || !strings.Contains(said, "'changes': ['"+dir+"/folder/below/text']") {
		t.Errorf("with another mode: %v\n%s", err, said)
	}
}

// TestWhatNodesHaveInCommonIsRenderedOnce counts the calls of a program by a variable, with two nodes. One that depends
// on the node, by way of a template, is rendered for each of them, and so is one with a variable of the node.
func TestWhatNodesHaveInCommonIsRenderedOnce(t *testing.T) {
	var tasks strings.Builder
	var checks []func(said string)
	for _, tc := range []struct {
		name, text, fact, first, second string
		calls                           int
	}{
		{"the same for all", "{{ one }}", "one", "one", "one", 1},
		{"the node's name in a file", "{{ lookup('ansible.builtin.template', file) }}", "one", "h1", "h2", 3},
		{"a variable of each node", "{{ own }}", "one", "own h1", "own h2", 3},
		{"a value that was read on the node", "{{ fact }}", "fact {{ inventory_hostname }}", "fact h1", "fact h2", 2},
	} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "template"), "{{ inventory_hostname }}")
		fmt.Fprintf(&tasks, `
    - set_fact: {fact: "%[3]s"}
    - converge:
        common: all_have
        files: [{path: "%[1]s/{{ inventory_hostname }}.own", content: own, mode: "0644"}]
      vars:
        one: one
        own: "own {{ inventory_hostname }}"
        file: %[1]s/template
        each: "{{ lookup('ansible.builtin.pipe', 'echo call >>%[1]s/calls; echo %[1]s') }}"
        all_have:
          folders: [{path: "{{ each }}", mode: "0755", keep: true}]
          blocks: [{path: "%[1]s/blocks", marker: "%[2]s", content: ""}]
`, dir, tc.text, tc.fact)
		checks = append(checks, func(said string) {
			blocks := read(t, filepath.Join(dir, "blocks"))
			for _, want := range []string{tc.first, tc.second} {
				if !strings.Contains(blocks, "# BEGIN "+want+"\n") {
					t.Errorf("%s: there is no block %q:\n%s\n%s", tc.name, want, blocks, said)
				}
			}
			for _, host := range []string{"h1", "h2"} {
				if _, err := os.Stat(filepath.Join(dir, host+".own")); err != nil {
					t.Errorf("%s: %v", tc.name, err)
				}
			}
			if calls := strings.Count(read(t, filepath.Join(dir, "calls")), "call"); calls != tc.calls {
				t.Errorf("%s: %d calls, want %d", tc.name, calls, tc.calls)
			}
		})
	}
	said, err := local(t, "h1,h2", tasks.String(), "ANSIBLE_FORKS=1") // both write one file
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	for _, check := range checks {
		check(said)
	}
}

func TestConvergeRejectsAnUnknownOption(t *testing.T) {
	said, err := local(t, "localhost", "    - converge: {file: []}\n")
	if err == nil || !strings.Contains(said, "converge has no option file") {
		t.Errorf("%v\n%s", err, said)
	}
}

// TestConvergeGivesUsersTheirUids uses doubles of useradd and usermod.
func TestConvergeGivesUsersTheirUids(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"useradd", "usermod"} {
		write(t, filepath.Join(dir, name), "#!/bin/sh\necho \"${0##*/} $*\" >>"+dir+"/calls\n")
		if err := os.Chmod(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	said, err := local(t, "localhost", `
    - converge: {users: [{name: root, uid: 0}, {name: daemon, uid: 981}, {name: no-such-user, uid: 982}]}
`, "PATH="+dir+":"+os.Getenv("PATH"))
	want := "usermod --uid 981 daemon\n" +
		"useradd --system --uid 982 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin no-such-user\n"
	if diff := cmp.Diff(want, read(t, filepath.Join(dir, "calls"))); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s\n%s", err, diff, said)
	}
}

// TestTheHardwareOfANodeIsReported uses a double of slurmd, one that fails, and none.
func TestTheHardwareOfANodeIsReported(t *testing.T) {
	for script, want := range map[string]string{
		"#!/bin/sh\necho NodeName=a $1; echo UpTime=1": "is NodeName=a -C!",
		"#!/bin/sh\necho NodeName=a; exit 1":           "is !",
		"":                                             "is !",
	} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "slurmd"), script)
		if err := os.Chmod(filepath.Join(dir, "slurmd"), 0o755); err != nil {
			t.Fatal(err)
		}
		if script == "" {
			dir = "/nonexistent"
		}
		said, err := local(t, "localhost", `
    - converge: {hardware: true}
      register: converged
    - debug: {msg: "the hardware is {{ converged.hardware }}!"}
`, "PATH="+dir+":"+os.Getenv("PATH"))
		if err != nil || !strings.Contains(said, "the hardware "+want) {
			t.Errorf("%q: %v\n%s", script, err, said)
		}
	}
}

func TestConvergeChangesNothingWherePackagesAreMissing(t *testing.T) {
	dir := t.TempDir()
	said, err := local(t, "localhost", fmt.Sprintf(`
    - converge:
        packages:
          names: [one, two]
          query: [sh, -c, 'for name in "$@"; do [ "$name" = two ] || echo installed; done', query]
          installed: installed
        files: [{path: %s/text, content: text, mode: "0644"}]
      register: converged
    - debug: {msg: "missing are {{ converged.missing }}"}
`, dir))
	if err != nil || !strings.Contains(said, "missing are ['two']") || !strings.Contains(said, "changed=0 ") {
		t.Errorf("%v\n%s", err, said)
	}
	if _, err := os.Stat(filepath.Join(dir, "text")); err == nil {
		t.Error("a file was written")
	}
}

// TestAHomeOnASharedFolderIsRefused uses root's home, inside and beside a folder that could be shared. Each host has
// another folder.
func TestAHomeOnASharedFolderIsRefused(t *testing.T) {
	home, err := user.LookupId("0")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	hosts := []struct {
		name, folder string
		shared       bool
	}{
		{"itself", home.HomeDir, true},
		{"above", filepath.Dir(home.HomeDir), true},
		{"beside", home.HomeDir + "s", false},
		{"below", home.HomeDir + "/users", false},
	}
	said, err := local(t, "itself,above,beside,below", fmt.Sprintf(`
    - converge:
        apart: {users: [root], paths: ["{{ folders[inventory_hostname] }}"]}
        files: [{path: "%s/{{ inventory_hostname }}", content: text, mode: "0644"}]
      vars: {folders: {itself: %s, above: %s, beside: %s, below: %s}}
`, dir, hosts[0].folder, hosts[1].folder, hosts[2].folder, hosts[3].folder))
	if err == nil {
		t.Error("the playbook has succeeded")
	}
	for _, host := range hosts {
		refused := strings.Contains(said,
			"the home of root, "+home.HomeDir+", is in the folder "+host.folder+" of nfs_shares")
		if _, err := os.Stat(filepath.Join(dir, host.name)); refused != host.shared || (err == nil) == host.shared {
			t.Errorf("%s: refused: %v, the file exists: %v\n%s", host.folder, refused, err == nil, said)
		}
	}
}

// TestRootIsSquashed checks the shipped settings of a share.
func TestRootIsSquashed(t *testing.T) {
	out := filepath.Join(t.TempDir(), "exports")
	playbook(t, `- hosts: localhost
  vars: {declared_nfs_shares: [/home/users]}
  vars_files: [`+mustAbs(t, "roles/nfs/defaults/main.yml")+`]
  tasks:
    - template: {src: `+mustAbs(t, "roles/nfs/templates/exports.j2")+`, dest: `+out+`}
`)
	want := "\"/home/users\" *(rw,sync,no_subtree_check,root_squash)\n"
	if got := read(t, out); !strings.HasSuffix(got, want) {
		t.Errorf("(-want +got):\n%s", cmp.Diff(want, got))
	}
}

func TestAFailureOfConvergeNamesItsCause(t *testing.T) {
	said, err := local(t, "localhost", `
    - converge: {files: [{path: /nowhere, content: text, owner: nobody-of-ours, mode: "0644"}]}
`)
	if err == nil || !strings.Contains(said, "nobody-of-ours") {
		t.Errorf("%v\n%s", err, said)
	}
}

// TestSlurmdDoesNotStartAtBoot runs the module with the role's arguments on slurmd, with doubles of systemctl(1) and of
// the commands of sysvinit.
func TestSlurmdDoesNotStartAtBoot(t *testing.T) {
	const script = `
import importlib.util, sys, yaml
spec = importlib.util.spec_from_file_location("converge", "library/converge.py")
converge = importlib.util.module_from_spec(spec)
spec.loader.exec_module(converge)
options = yaml.safe_load(open("roles/slurm_compute/vars/main.yml"))["slurm_compute_options"]
start = options["services"][-1]
systemd, enabled, runs = (word == "yes" for word in sys.argv[1:])
calls = []
def called(argv):
    words = " ".join(argv)
    if "is-enabled" in words: return (0 if enabled else 1), "", ""
    if "is-active" in words or "status" in words: return (0 if runs else 3), "", ""
    calls.append(words)
    return 0, "", ""
converge.called = called
converge.glob.glob = lambda pattern: ["/etc/rc2.d/S01slurmd"] if enabled else []
node = converge.Node()
node.systemd = systemd
node.service(dict(start, restart_for=[]))
print("; ".join(calls))
`
	for name, tc := range map[string]struct{ systemd, enabled, runs, want string }{
		"systemd, by the package":     {"yes", "yes", "no", "systemctl --quiet disable slurmd; systemctl start slurmd"},
		"systemd, by an older deploy": {"yes", "yes", "yes", "systemctl --quiet disable slurmd"},
		"systemd, after a reboot":     {"yes", "no", "no", "systemctl start slurmd"},
		"systemd, once more":          {"yes", "no", "yes", ""},
		"sysvinit, by the package":    {"no", "yes", "no", "update-rc.d slurmd disable; service slurmd start"},
		"sysvinit, once more":         {"no", "no", "yes", ""},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", script, tc.systemd, tc.enabled, tc.runs)
			out, err := cmd.CombinedOutput()
			if got := strings.TrimSpace(string(out)); err != nil || got != tc.want {
				t.Errorf("%v: %s; want %s", err, got, tc.want)
			}
		})
	}
}

// TestKeysOfSeveralNodesAreAuthorizedAtOnce makes several nodes add their own lines, and one replace its old line.
func TestKeysOfSeveralNodesAreAuthorizedAtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ssh", "authorized_keys")
	key := func(letter string) string {
		return "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5" + strings.Repeat(letter, 48)
	}
	write(t, file, "# by\u2028hand\nssh-rsa AAAA me@home\nrestrict "+key("x")+" reboot@a/h1\n")
	tasks := `
    - authorize_key:
        file: ` + file + `
        key: "` + key("A") + ` says\n"
        comment: reboot@a/{{ inventory_hostname }}
        command: 'run "{{ inventory_hostname }}"'
        from: [192.0.2.1, "2001:db8::1"]
`
	const hosts = "h1,h2,h3,h4,h5,h6,h7,h8"
	if said, err := local(t, hosts, tasks); err != nil || strings.Count(said, "changed=1 ") != 8 {
		t.Fatalf("%v\n%s", err, said)
	}
	lines := strings.Split(strings.TrimSuffix(read(t, file), "\n"), "\n")
	for _, want := range append(strings.Split(hosts, ","), "by hand", "me@home") {
		switch want {
		case "by hand":
			want = "# by\u2028hand"
		case "me@home":
			want = "ssh-rsa AAAA me@home"
		default:
			want = fmt.Sprintf(`restrict,command="run \"%s\"",from="192.0.2.1,2001:db8::1" %s reboot@a/%s`, want, key("A"), want)
		}
		if !strings.Contains(strings.Join(lines, "\n")+"\n", want+"\n") {
			t.Errorf("there is no line %q in\n%s", want, strings.Join(lines, "\n"))
		}
	}
	if len(lines) != 10 {
		t.Errorf("there are %d lines, want 10", len(lines))
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if said, err := local(t, hosts, tasks); err != nil || strings.Count(said, "changed=0 ") != 8 {
		t.Errorf("a second time: %v\n%s", err, said)
	}
}

// TestFilesOfTheControlHostAreReplacedOrStay writes data, changes only what differs, and removes the file.
func TestFilesOfTheControlHostAreReplacedOrStay(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "given")
	write(t, file, "before")
	const data = `{"key": "k\u00e9", "files": [{"name": "a"}]}`
	tasks := `
    - control_host_file: {path: ` + file + `, content: "{{ data | to_json }}"}
      vars: {data: {key: "k\xe9", files: [{name: a}]}}
      no_log: true
    - control_host_file: {path: ` + file + `.mark, content: ""}
`
	for _, changed := range []string{"changed=2 ", "changed=0 "} {
		if said, err := local(t, "h1", tasks); err != nil || !strings.Contains(said, changed) {
			t.Fatalf("not %s: %v\n%s", changed, err, said)
		}
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 || read(t, file) != data || read(t, file+".mark") != "" {
		t.Errorf("%v, %v, %q", err, info.Mode(), read(t, file))
	}
	remove := "    - control_host_file: {path: " + file + ".mark}\n"
	for _, changed := range []string{"changed=1 ", "changed=0 "} {
		if said, err := local(t, "h1", remove); err != nil || !strings.Contains(said, changed) {
			t.Errorf("not %s: %v\n%s", changed, err, said)
		}
	}
	said, err := local(t, "h1", "    - control_host_file: {path: "+dir+"/missing/file, content: text}\n")
	if err == nil || !strings.Contains(said, "change a file of the control host: ") {
		t.Errorf("%v\n%s", err, said)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 1 {
		t.Errorf("files: %v", left)
	}
}

// TestAKeyOfANodeIsChecked makes one node send text that would authorize other keys.
func TestAKeyOfANodeIsChecked(t *testing.T) {
	file := filepath.Join(t.TempDir(), "authorized_keys")
	good := "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5" + strings.Repeat("A", 48)
	keys := map[string]string{
		"good":         good,
		"two-lines":    good + "\nssh-ed25519 AAAA anybody",
		"options":      `command="sh" ` + good,
		"another-type": "ssh-rsa AAAAB3NzaC1yc2E",
		"too-long":     good + "AAAA",
		"nothing":      "",
	}
	vars, err := json.Marshal(keys)
	if err != nil {
		t.Fatal(err)
	}
	said, err := local(t, strings.Join(slices.Collect(maps.Keys(keys)), ","), fmt.Sprintf(`
    - authorize_key:
        {file: %s, key: "{{ said[inventory_hostname] }}", comment: "{{ inventory_hostname }}", command: run}
      vars: {said: %s}
`, file, vars))
	if n := strings.Count(said, "does not have a public key"); err == nil || n != len(keys)-1 {
		t.Errorf("%d keys are refused: %v\n%s", n, err, said)
	}
	if got, want := read(t, file), "restrict,command=\"run\" "+good+" good\n"; got != want {
		t.Errorf("(-want +got):\n%s\n%s", cmp.Diff(want, got), said)
	}
}

// TestAnAddressThatEndsTheOptionIsRefused uses an address that would add options.
func TestAnAddressThatEndsTheOptionIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "authorized_keys")
	key := "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5" + strings.Repeat("A", 48)
	said, err := local(t, "h1", fmt.Sprintf(`
    - authorize_key: {file: %s, key: %s, comment: h1, command: run, from: ['192.0.2.1",environment="A=1']}
`, file, key))
	if err == nil || !strings.Contains(said, "not a valid address for accepting the key of h1") {
		t.Errorf("%v\n%s", err, said)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the file was written")
	}
}

func TestANodeOfAnUnknownSystemFails(t *testing.T) {
	said, err := local(t, "localhost", "    - wait_for_node: {families: [Plan9]}\n")
	if err == nil || !strings.Contains(said, "the playbooks do not support its operating system: 'Debian'") {
		t.Errorf("%v\n%s", err, said)
	}
}

// TestANodeCannotSetVariablesOfOtherHosts replaces our modules on the node with an attacker's.
func TestANodeCannotSetVariablesOfOtherHosts(t *testing.T) {
	dir := t.TempDir()
	attacker := filepath.Join(dir, "library")
	write(t, filepath.Join(attacker, "converge.py"), `
from ansible.module_utils.basic import AnsibleModule
AnsibleModule(argument_spec={}).exit_json(changed=True, changes="all", public_key="a key",
    ansible_facts={"os_family": "Debian", "service_mgr": "x", "evil": 1},
    add_host={"host_name": "h2", "groups": ["evil"], "host_vars": {"evil": 1}}, add_group="evil")
`)
	const tasks = `
    - wait_for_node: {families: [Debian]}
    - converge: {}
      register: converged
    - debug:
        msg: >-
          {{ converged.keys() | sort }} {{ ansible_facts }} {{ groups.keys() | sort }}
          {{ hostvars['h2'].evil | default('good') }}
`
	said, err := local(t, "h1,h2", tasks, "ANSIBLE_LIBRARY="+attacker)
	want := `"['changed', 'failed', 'public_key'] {'os_family': 'Debian', 'service_mgr': 'service'} ` +
		`['all', 'ungrouped'] good"`
	if err != nil || strings.Count(said, want) != 2 {
		t.Errorf("%v, want %s twice\n%s", err, want, said)
	}
}
