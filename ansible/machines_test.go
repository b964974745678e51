package site_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/lab/await"
	"github.com/eiffel-hpc/eiffel/lab/image"
	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/lab/machine"
	"github.com/eiffel-hpc/eiffel/lab/needs"
	"github.com/eiffel-hpc/eiffel/lab/scratch"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/ansible"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// machines is a cluster of the lab's machines, without a cloud, which is all that the playbooks need.
type machines struct {
	testing.TB
	host      *machine.Host
	gateway   netip.Prefix // the host's address in the machines' network
	store     *image.Store
	dir       string
	publicKey string
	cluster   reconfigure.Cluster
	instances map[string]reconfigure.Instance
}

// newMachines returns an empty host in the network 10.63.NETWORK.0/24. Tests that run in parallel need different
// networks.
func newMachines(t testing.TB, network byte) *machines {
	t.Helper()
	return newMachinesWith(t, network, map[string]string{"/etc/image-release": "test\n"})
}

// newMachinesWith is newMachines with files in the image.
func newMachinesWith(t testing.TB, network byte, files map[string]string) *machines {
	t.Helper()
	paths := needs.Tools(t, "..")
	// Not in /tmp, whose file system may not support overlays.
	dir := scratch.Dir(t, "/var/tmp", "eiffel-ansible-")
	store, err := image.NewStore(filepath.Join(dir, "images"), paths.Image)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Add("image", files); err != nil {
		t.Fatal(err)
	}
	gateway := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 63, network, 1}), 24)
	host, err := machine.New(machine.Config{Name: fmt.Sprint("ansible-", network), Dir: filepath.Join(dir, "machines"),
		Gateway: gateway, Images: store})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := host.Close(); err != nil {
			t.Error(err)
		}
	})
	m := &machines{TB: t, host: host, gateway: gateway, store: store, dir: dir,
		instances: map[string]reconfigure.Instance{}}
	m.declare()
	return m
}

// declare creates the cluster directory.
func (m *machines) declare() {
	m.Helper()
	key := filepath.Join(m.dir, "id_ed25519")
	if out, err := exec.CommandContext(m.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
		key).CombinedOutput(); err != nil {
		m.Fatalf("ssh-keygen: %v: %s", err, out)
	}
	m.publicKey = strings.TrimSpace(read(m.TB, key+".pub"))
	write(m.TB, filepath.Join(m.dir, "group_vars", "all.yml"), fmt.Sprintf(`
cluster_name: ansible
control_host: {address: %s, port: 2222, user: root, directory: /opt/eiffel, host_key: %q, authorized_keys: %s}
control_node: {name: ctl}
node_groups:
  - {name: standard, prefix: node, width: 2, min_nodes: 2, max_nodes: 4, slurm: {CPUs: 1, RealMemory: 100}}
partitions:
  - {name: main, groups: [standard], default: true}
slurm:
  suspend_time: 600
  suspend_timeout: 30
  resume_timeout: 60
  resume_rate: 0
  suspend_rate: 0
  # Namespaces have no cgroups of their own.
  extra: {ProctrackType: proctrack/linuxproc, TaskPlugin: task/none, SlurmdParameters: config_overrides}
name_resolution: hosts
nfs_shares: []
`, m.gateway.Addr(), m.publicKey, filepath.Join(m.dir, "authorized_keys")))
	write(m.TB, filepath.Join(m.dir, "group_vars", "cluster.yml"), "slurm_cgroup_conf: CgroupPlugin=cgroup/v1\n")
	for _, part := range []string{"ansible", "slurmscripts"} {
		if err := os.CopyFS(filepath.Join(m.dir, part), os.DirFS(filepath.Join("..", part))); err != nil {
			m.Fatal(err)
		}
	}
	m.cluster = reconfigure.Cluster{
		Name: "ansible", LoginUser: image.LoginUser, PrivateKeyFile: key,
		Control:  reconfigure.Control{Name: "ctl"},
		Groups:   []reconfigure.NodeGroup{{Name: "standard", Prefix: "node", Width: 2, Min: 2, Max: 4}},
		Settings: reconfigure.Settings{StateDir: filepath.Join(m.dir, "state")},
	}
}

// boot starts a machine and learns its host key.
func (m *machines) boot(name string, number byte) {
	m.Helper()
	m.bootFrom("image", name, number)
}

// bootFrom is boot with another image.
func (m *machines) bootFrom(imageID, name string, number byte) {
	m.Helper()
	network := m.gateway.Addr().As4()
	address := netip.AddrFrom4([4]byte{network[0], network[1], network[2], number})
	err := m.host.Boot(m.Context(), labcloud.Machine{
		ID: name, Name: name, ImageID: imageID, AuthorizedKeys: []string{m.publicKey},
		Addresses: []labcloud.Address{{MAC: fmt.Sprintf("fa:16:3e:00:%02x:%02x", network[2], number),
			Prefix: netip.PrefixFrom(address, m.gateway.Bits()), Gateway: m.gateway.Addr()}},
	})
	if err != nil {
		m.Fatal(err)
	}
	m.instances[name] = reconfigure.Instance{Node: name, ID: name, Address: address.String()}
	block := regexp.MustCompile(`(?s)-----BEGIN SSH HOST KEY KEYS-----\s*(.*)-----END SSH HOST KEY KEYS-----`)
	var keys []string
	m.within(bootPatience, name+" shows its host keys", func() bool {
		console, err := m.host.Console(name, 0)
		if found := block.FindStringSubmatch(strings.ReplaceAll(console, "\r", "")); err == nil && found != nil {
			keys = strings.Split(strings.TrimSpace(found[1]), "\n")
		}
		return keys != nil
	})
	file, err := os.OpenFile(filepath.Join(m.mkdir("state"), "known_hosts"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		m.Fatal(err)
	}
	defer file.Close()
	for _, key := range keys {
		if _, err := fmt.Fprintln(file, address, key); err != nil {
			m.Fatal(err)
		}
	}
	m.within(bootPatience, name+" answers", func() bool {
		ssh := exec.CommandContext(m.Context(), "ssh", "-F", "none", "-o", "BatchMode=yes", "-o",
			"UserKnownHostsFile="+file.Name(),
			"-i", m.cluster.PrivateKeyFile, image.LoginUser+"@"+address.String(), "true")
		return ssh.Run() == nil
	})
}

func (m *machines) mkdir(name string) string {
	m.Helper()
	dir := filepath.Join(m.dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		m.Fatal(err)
	}
	return dir
}

// configure runs the playbooks and returns Ansible's output.
func (m *machines) configure(changed ...string) string {
	m.Helper()
	failures, log := m.try(changed...)
	if len(failures) > 0 {
		m.Fatalf("%v\n%s", failures, log)
	}
	return log
}

// try is configure; it returns the error of a failed run.
func (m *machines) try(changed ...string) (reconfigure.Failures, string) {
	m.Helper()
	return m.extend(reconfigure.Extent{Changed: nodeset.Of(changed...), Addresses: true})
}

// try with any extent.
func (m *machines) extend(extent reconfigure.Extent) (reconfigure.Failures, string) {
	m.Helper()
	var log bytes.Buffer
	began := time.Now()
	runner := ansible.New(ansible.Config{Dir: m.dir, Env: os.Environ(), Log: &log})
	failures, err := runner.Configure(m.Context(), m.cluster, m.instances, extent, func(_, _ string) {}, nil)
	m.Logf("%+v in %.1f s", extent, time.Since(began).Seconds())
	if err != nil {
		m.Fatalf("%v\n%s", err, log.String())
	}
	return failures, log.String()
}

// on runs a command on a machine and returns its output.
func (m *machines) on(name string, argv ...string) string {
	m.Helper()
	out, err := m.host.Command(name, argv...).CombinedOutput()
	if err != nil {
		m.Fatalf("%s: %v: %v: %s", name, argv, err, out)
	}
	return strings.TrimSpace(string(out))
}

// until waits for a condition that takes seconds on an idle computer.
func (m *machines) until(what string, holds func() bool) {
	m.Helper()
	m.within(3*time.Minute, what, holds)
}

// bootPatience is for a boot by cloud-init, which starts Python four times.
const bootPatience = 4 * time.Minute

func (m *machines) within(patience time.Duration, what string, holds func() bool) {
	m.Helper()
	if !await.Until(m.Context(), patience, holds) {
		m.Fatalf("not within %s: %s", patience, what)
	}
}

func TestPlaybooksOnMachines(t *testing.T) {
	t.Parallel()
	m := newMachines(t, 7)
	for number, name := range []string{"ctl", "node01", "node02"} {
		m.boot(name, byte(10+number))
	}
	m.configure("ctl", "node01", "node02")
	idle := func(nodes string) func() bool {
		return func() bool {
			return m.on("ctl", "sinfo", "--noheader", "--states=idle", "--nodes="+nodes, "--format=%T") == "idle"
		}
	}
	m.until("both persistent nodes have registered", idle("node[01-02]"))

	measured, err := ansible.Measured(m.cluster.Settings.StateDir)
	if printed := m.on("node01", "sh", "-c", "slurmd -C | head -n 1"); err != nil ||
		measured["standard"] != (reconfigure.Measured{Node: "node01", Printed: printed}) {
		t.Errorf("the measured hardware is %q, %v, and not %q", measured, err, printed)
	}

	daemons := m.on("ctl", "pgrep", "-x", "slurmctld") + m.on("node01", "pgrep", "-x", "slurmd")
	said := m.configure("ctl", "node01", "node02")
	if n := strings.Count(said, "changed=0 "); n != 3 {
		t.Errorf("a second run changed something:\n%s", said)
	}
	if again := m.on("ctl", "pgrep", "-x", "slurmctld") + m.on("node01", "pgrep", "-x", "slurmd"); again != daemons {
		t.Errorf("a second run restarted daemons: %s, then %s", daemons, again)
	}

	m.renderOnce()

	if err := m.host.Stop(t.Context(), "node02"); err != nil {
		t.Fatal(err)
	}
	m.boot("node03", 20)
	m.keepOut("node03")
	said = m.configure("node03")
	if !strings.Contains(said, "UNREACHABLE!") {
		t.Errorf("no node was unreachable:\n%s", said)
	}
	if !strings.Contains(m.on("node01", "cat", "/etc/hosts"), m.instances["node03"].Address+" node03\n") {
		t.Error("node01 does not have the address of node03")
	}
	if again := m.on("ctl", "pgrep", "-x", "slurmctld"); !strings.HasPrefix(daemons, again) {
		t.Error("slurmctld was restarted for a cloud node")
	}
	m.until("the cloud node has registered, although Slurm did not resume it", idle("node03"))

	if err := m.host.Destroy(t.Context(), "node02"); err != nil {
		t.Fatal(err)
	}
	m.boot("node02", 21)
	m.configure("node02")
	m.until("slurmctld has found the persistent node at its new address", idle("node02"))

	if err := m.host.Reboot(t.Context(), "node01", true); err != nil {
		t.Fatal(err)
	}
	m.until("munge starts at boot",
		func() bool { return m.host.Command("node01", "pgrep", "-x", "munged").Run() == nil })
	if links := m.on("node01", "find", "/etc", "-path", "/etc/rc[2-5].d/S*slurmd"); links != "" {
		t.Errorf("slurmd starts at boot, before the playbooks: %s", links)
	}
	m.configure("node01")
	m.until("slurmd runs after the playbooks", idle("node01"))

	authorized := read(t, filepath.Join(m.dir, "authorized_keys"))
	for name, role := range map[string]string{"ctl": "controller", "node01": "node --node node01"} {
		want := fmt.Sprintf(`restrict,command="/opt/eiffel/bin/reconfigure --dir /opt/eiffel gate --role %s",from="%s" %s`,
			role, m.instances[name].Address, m.on(name, "cat", "/etc/slurm/reconfigure/id_ed25519.pub"))
		if !strings.Contains(authorized, want+"\n") {
			t.Errorf("there is no %q in\n%s", want, authorized)
		}
	}
	m.resumeWithoutOtherNodes()
	m.failWithoutPackages()
	m.unsharesTheLastFolder()
	m.survivesABadSetting()
	m.setUpTheUnit()
	m.keepTheKeyOfTheCluster()
	// Otherwise they would stay open for 60 s (ControlPersist).
	m.within(45*time.Second, "Ansible's SSH connections have ended",
		func() bool { return m.host.Command("ctl", "pgrep", "-u", image.LoginUser).Run() != nil })
}

// keepOut makes a machine reject all users but root for 10 seconds, as during a boot.
func (m *machines) keepOut(name string) {
	m.Helper()
	m.on(name, "sh", "-c", "touch /run/nologin; (sleep 10; rm /run/nologin) </dev/null >/dev/null 2>&1 &")
}

// renderOnce configures two nodes together, and counts how often a variable of the scripts is rendered, of which both
// have the same text.
func (m *machines) renderOnce() {
	m.Helper()
	settings, rendered := filepath.Join(m.dir, "group_vars", "cluster.yml"), filepath.Join(m.dir, "rendered")
	before := read(m.TB, settings)
	defer write(m.TB, settings, before)
	write(m.TB, settings, before+"slurm_scripts_path: \"{{ lookup('ansible.builtin.pipe', 'echo once >>"+rendered+
		"; echo /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin') }}\"\n")
	failures, said := m.extend(reconfigure.Extent{Changed: nodeset.Of("node01", "node02")})
	if len(failures) > 0 || strings.Count(said, "changed=0 ") != 2 {
		m.Fatalf("%v\n%s", failures, said)
	}
	if got := read(m.TB, rendered); got != "once\n" {
		m.Errorf("what two nodes have in common is rendered %d times", strings.Count(got, "once"))
	}
}

// resumeWithoutOtherNodes configures a node after an edit of the declaration, first with the control host's file, and
// then without it.
func (m *machines) resumeWithoutOtherNodes() {
	m.Helper()
	kept := filepath.Join(m.dir, "state", "ansible", "given.json")
	if info, err := os.Stat(kept); err != nil || info.Mode().Perm() != 0o600 {
		m.Errorf("the control host's file is %v, %v", info, err)
	}
	declaration := filepath.Join(m.dir, "group_vars", "all.yml")
	good := read(m.TB, declaration)
	write(m.TB, declaration, strings.Replace(good, "resume_timeout: 60", "resume_timeout: 61", 1))
	resume := func() string {
		m.on("node03", "sh", "-c", "rm /etc/slurm/slurm.conf /etc/munge/munge.key; service munge stop")
		failures, said := m.extend(reconfigure.Extent{Changed: nodeset.Of("node03")})
		if len(failures) > 0 {
			m.Fatalf("%v\n%s", failures, said)
		}
		for _, file := range []string{"/etc/slurm/slurm.conf", "/etc/munge/munge.key"} {
			if m.on("ctl", "md5sum", file) != m.on("node03", "md5sum", file) {
				m.Errorf("node03 has another %s than the control node", file)
			}
		}
		return said
	}
	recap := regexp.MustCompile(`(?m)^(\S+) +: ok=(\d+)`)
	// Two remote tasks.
	got := recap.FindAllString(resume(), -1)
	if len(got) != 1 || !strings.HasPrefix(got[0], "node03 ") || !strings.HasSuffix(got[0], "ok=2") {
		m.Errorf("a resume has the tasks %q", got)
	}
	if err := os.Remove(kept); err != nil {
		m.Fatal(err)
	}
	if got := recap.FindAllString(resume(), -1); len(got) != 2 || !strings.HasPrefix(got[0], "ctl ") {
		m.Errorf("a resume without the control host's file has the tasks %q", got)
	}
	write(m.TB, declaration, good)
}

// failWithoutPackages runs on two nodes, one of which lacks a package that cannot be installed without a network.
func (m *machines) failWithoutPackages() {
	m.Helper()
	const edit = "/^Package: slurm-client$/,/^$/s/^Status: .*/Status: deinstall ok config-files/"
	m.on("node02", "sed", "-i", edit, "/var/lib/dpkg/status")
	failures, said := m.extend(reconfigure.Extent{Changed: nodeset.Of("node02", "node03")})
	err := failures["node02"]
	if len(failures) != 1 || err == nil || !strings.Contains(err.Error(), `task "packages : Install what is missing"`) {
		m.Errorf("failures are %v\n%s", failures, said)
	}
}

// keepTheKeyOfTheCluster replaces the control node, which must get the key of the other nodes.
func (m *machines) keepTheKeyOfTheCluster() {
	m.Helper()
	key := m.on("node01", "md5sum", "/etc/munge/munge.key")
	if err := m.host.Destroy(m.Context(), "ctl"); err != nil {
		m.Fatal(err)
	}
	m.boot("ctl", 10)
	m.configure("ctl")
	if anew := m.on("ctl", "md5sum", "/etc/munge/munge.key"); anew != key {
		m.Errorf("the new control node has another key than the cluster: %s, not %s", anew, key)
	}
}

// unsharesTheLastFolder makes the control node export a folder that is no longer declared, with a script in place of
// exportfs.
func (m *machines) unsharesTheLastFolder() {
	m.Helper()
	m.on("ctl", "sh", "-c", `mkdir -p /etc/exports.d && echo '"/home" *(rw)' >/etc/exports.d/reconfigure.exports
printf '#!/bin/sh\necho "$@" >>/run/exportfs.calls\n' >/usr/local/sbin/exportfs; chmod +x /usr/local/sbin/exportfs`)
	m.configure("ctl")
	m.on("ctl", "test", "!", "-e", "/etc/exports.d/reconfigure.exports")
	if calls := m.on("ctl", "cat", "/run/exportfs.calls"); calls != "-ra" {
		m.Errorf("exportfs was called with %q", calls)
	}
	m.configure("ctl")
	if calls := m.on("ctl", "cat", "/run/exportfs.calls"); calls != "-ra" {
		m.Errorf("without an export exportfs was called: %q", calls)
	}
}

// survivesABadSetting declares a setting that slurmctld rejects, for all nodes.
func (m *machines) survivesABadSetting() {
	m.Helper()
	declaration := filepath.Join(m.dir, "group_vars", "all.yml")
	before := m.on("ctl", "cat", "/etc/slurm/slurm.conf")
	elsewhere := m.on("node01", "cat", "/etc/slurm/slurm.conf")
	good := read(m.TB, declaration)
	write(m.TB, declaration, strings.Replace(good, "extra: {", "extra: {NoSuchKey: 1, ", 1))
	failures, said := m.extend(reconfigure.Extent{Everywhere: true, Addresses: true})
	if err := failures["ctl"]; err == nil || !strings.Contains(err.Error(), "unrecognized key: NoSuchKey") {
		m.Errorf("the control node's failure is %v, and not slurmctld's error:\n%s", err, said)
	}
	m.on("ctl", "scontrol", "ping")
	if diff := cmp.Diff(before, m.on("ctl", "cat", "/etc/slurm/slurm.conf")); diff != "" {
		m.Errorf("slurm.conf (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(elsewhere, m.on("node01", "cat", "/etc/slurm/slurm.conf")); diff != "" {
		m.Errorf("a configuration that slurmctld does not accept is on a node (-before +after):\n%s", diff)
	}
	write(m.TB, declaration, good)
}

// setUpTheUnit makes the role set up slurmctld's unit. The machine has a script in place of systemctl, since it has no
// systemd.
func (m *machines) setUpTheUnit() {
	m.Helper()
	const stub = `#!/bin/sh
echo "$@" >>/run/systemctl.calls
case $2 in is-*) test -e /run/$3.runs ;; esac
`
	m.on("ctl", "sh", "-c", "cat >/usr/local/bin/systemctl <<'END'\n"+stub+"END\n"+
		"chmod +x /usr/local/bin/systemctl; mkdir -p /run/systemd/system; touch /run/two.runs /run/three.runs")
	write(m.TB, filepath.Join(m.dir, "ansible", "unit.yml"), `
- hosts: control
  become: true
  vars: {slurm_directory: /etc/slurm, slurm_scripts_directory: /usr/local/sbin}
  tasks:
    - ansible.builtin.import_role: {name: slurm_control, tasks_from: systemd}
    - converge:
        services: [{name: one, restart: true}, {name: two, restart: true}, {name: three}]
`)
	cmd := exec.CommandContext(m.Context(), "ansible-playbook", "unit.yml")
	cmd.Dir = m.mkdir("ansible")
	cmd.Env = append(os.Environ(), "ANSIBLE_HOME="+m.mkdir("home"),
		"ANSIBLE_SSH_ARGS=-o ControlMaster=no", "LC_ALL=C.UTF-8")
	if out, err := cmd.CombinedOutput(); err != nil {
		m.Fatalf("%v\n%s", err, out)
	}
	unit := m.on("ctl", "cat", "/etc/systemd/system/slurmctld.service.d/reconfigure.conf")
	if !strings.Contains(unit, "\nKillMode=process\n") || !strings.HasSuffix(unit, "/put_back.sh") {
		m.Errorf("the unit's settings are:\n%s", unit)
	}
	m.on("ctl", "/usr/local/sbin/put_back.sh") // there is nothing to do
	calls := m.on("ctl", "cat", "/run/systemctl.calls")
	const services = `--quiet is-enabled one
--quiet enable one
--quiet is-active one
start one
--quiet is-enabled two
--quiet is-active two
restart two
--quiet is-enabled three
--quiet is-active three`
	if !strings.Contains(calls, "daemon-reload") || !strings.HasSuffix(calls, services) {
		m.Errorf("calls of systemctl:\n%s", calls)
	}
}

// TestANodeMayBecomeRootSlowly makes sudo on a node take longer than a connection may, as on a busy hypervisor.
func TestANodeMayBecomeRootSlowly(t *testing.T) {
	t.Parallel()
	m := newMachinesWith(t, 26, map[string]string{"/usr/local/bin/sudo": `#!/bin/sh
echo begun >>/tmp/sudo
sleep 9
exec /usr/bin/sudo "$@"
`})
	m.boot("node01", 10)
	m.on("node01", "chmod", "755", "/usr/local/bin/sudo")
	inventory := filepath.Join(m.dir, "hosts.json")
	write(t, inventory, fmt.Sprintf(`{"all": {"hosts": {"node01": {"ansible_host": %q, "ansible_user": %q}}}}`,
		m.instances["node01"].Address, image.LoginUser))
	cmd := exec.CommandContext(t.Context(), "ansible", "all", "--become", "--inventory", inventory,
		"--private-key", m.cluster.PrivateKeyFile, "--module-name", "command", "--args", "id -un")
	cmd.Dir = filepath.Join(m.dir, "ansible")
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "ANSIBLE_HOME="+filepath.Join(m.dir, "home"),
		"ANSIBLE_SSH_COMMON_ARGS=-o UserKnownHostsFile="+filepath.Join(m.dir, "state", "known_hosts"))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "root") {
		t.Errorf("%v\n%s", err, out)
	}
	if begun := m.on("node01", "cat", "/tmp/sudo"); begun != "begun" {
		t.Errorf("Ansible began more than once:\n%s", begun)
	}
}
