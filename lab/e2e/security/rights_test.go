package security_test

import (
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/reconfigure/ssh"
)

// login is an ssh of the control host's user to a node, with a key of the lab.
func login(t *testing.T, key, node string) []string {
	t.Helper()
	server, ok := lab.Server(node)
	if !ok {
		t.Fatalf("there is no %s", node)
	}
	known := ssh.KnownHosts{Path: filepath.Join(lab.StateDir(), "known_hosts")}
	return known.Command(lab.Declaration.LoginUser, server.Addresses[0].String(), key)
}

// TestAStolenKeyForSlurm uses the key with which the control host controls Slurm as a thief would.
func TestAStolenKeyForSlurm(t *testing.T) {
	key := filepath.Join(lab.StateDir(), "slurm_key")
	to := login(t, key, cluster.ControlNodeName)
	before, destination := to[:len(to)-1], to[len(to)-1]
	with := func(options ...string) []string { return slices.Concat(before, options, []string{destination}) }

	if out, err := run(t, append(with(), "scontrol", "ping")); err != nil {
		t.Fatalf("the key does not work: %v\n%s", err, out)
	}
	for name, argv := range map[string][]string{
		"a shell":             with(),
		"a terminal":          with("-tt"),
		"a command":           append(with(), "id"),
		"root":                append(with(), "sudo", "-n", "id"),
		"a command after one": append(with(), "scontrol", "ping;", "id"),
		"jobs of others":      append(with(), "scontrol", "show", "jobs"),
		"all nodes":           append(with(), "scontrol", "update", "NodeName=ALL", "State=UNDRAIN"),
		"a file transfer":     append(with("-s"), "sftp"),
		"a way to slurmctld":  with("-W", "127.0.0.1:6817"),
		"a way back": append(with("-o", "ExitOnForwardFailure=yes", "-R", "127.0.0.1:0:127.0.0.1:22"),
			"scontrol", "ping"),
		"another node": append(login(t, key, "node01"), "id"),
	} {
		out, err := run(t, argv)
		var exit *exec.ExitError
		if !errors.As(err, &exit) || strings.Contains(out, "uid=") || strings.Contains(out, "JobId") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// run runs a command on the control host.
func run(t *testing.T, argv []string) (string, error) {
	t.Helper()
	out, err := lab.OnControlHost(t.Context(), lab.Site, argv...).CombinedOutput()
	return string(out), err
}

// TestWhatRootOfAComputeNodeFinds searches a node for secrets that give access to other hosts.
func TestWhatRootOfAComputeNodeFinds(t *testing.T) {
	found := lab.On(t, "node01", "sh", "-c",
		"grep -rlsI 'PRIVATE KEY' /etc /home /root /srv /usr/local /var | grep -v '^/etc/ssh/ssh_host_.*_key$' | sort")
	if want := "/etc/slurm/reconfigure/id_ed25519"; found != want { // it may request the update of this node
		t.Errorf("it finds the keys %q, not %q alone", found, want)
	}
	// The munge key gives access to Slurm: slurmctld trusts that a message which it signed for root is from root.
	lab.On(t, "node01", "scontrol", "update", "NodeName=node02", "Comment=by root of node01")
	lab.On(t, "node01", "scontrol", "update", "NodeName=node02", "Comment=")
	control, _ := lab.Server(cluster.ControlNodeName)
	for _, to := range []string{control.Addresses[0].String(), "node02"} {
		out, err := lab.Command("node01", "ssh", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no",
			"-o", "UserKnownHostsFile=/dev/null", "-i", found, lab.Declaration.LoginUser+"@"+to, "id").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "Permission denied") {
			t.Errorf("it logs in to %s: %v\n%s", to, err, out)
		}
	}
}

// TestWhatRootOfTheControlNodeFinds is TestWhatRootOfAComputeNodeFinds for the control node.
func TestWhatRootOfTheControlNodeFinds(t *testing.T) {
	found := lab.OnControl(t, "sh", "-c",
		"grep -rlsI 'PRIVATE KEY' /etc /home /root /srv /usr/local /var | grep -v '^/etc/ssh/ssh_host_.*_key$' | sort")
	if want := "/etc/slurm/reconfigure/id_ed25519"; found != want {
		t.Errorf("it finds the keys %q, not %q alone", found, want)
	}
	out, err := lab.Command(cluster.ControlNodeName, "ssh", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no",
		"-o", "UserKnownHostsFile=/dev/null", "-i", found, lab.Declaration.LoginUser+"@node01", "id").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "Permission denied") {
		t.Errorf("it logs in to node01: %v\n%s", err, out)
	}
}

// TestAStolenAdminKey uses the key with which Ansible logs in as a thief would.
func TestAStolenAdminKey(t *testing.T) {
	for _, node := range []string{cluster.ControlNodeName, "node01"} {
		out, err := run(t, append(login(t, lab.Declaration.PrivateKeyFile, node), "sudo", "-n", "id", "-u"))
		if err != nil || strings.TrimSpace(out) != "0" {
			t.Errorf("it is not root on %s: %v\n%s", node, err, out)
		}
	}
	host := lab.Declaration.ControlHost
	out, err := run(t, []string{"ssh", "-F", "none", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no",
		"-o", "UserKnownHostsFile=/dev/null", "-o", "IdentitiesOnly=yes", "-i", lab.Declaration.PrivateKeyFile,
		"-p", strconv.Itoa(host.Port), host.User + "@" + host.Address, "id"})
	if err == nil || !strings.Contains(out, "Permission denied") {
		t.Errorf("it logs in to the control host: %v\n%s", err, out)
	}
}

// TestWhatAUserCanDo lets a user without rights try the actions of the tool.
func TestWhatAUserCanDo(t *testing.T) {
	for _, node := range []string{cluster.ControlNodeName, "node01"} {
		alice := func(script string) (string, error) {
			out, err := lab.Command(node, "runuser", "-u", "alice", "--", "sh", "-c", script).CombinedOutput()
			return strings.TrimSpace(string(out)), err
		}
		for name, script := range map[string]string{
			"root":            "sudo -n id",
			"the munge key":   "cat /etc/munge/munge.key",
			"a key of ours":   "cat /etc/slurm/reconfigure/id_ed25519",
			"Slurm's scripts": "echo x >>/usr/local/libexec/reconfigure/reboot.sh",
			"slurm.conf":      "echo x >>/etc/slurm/slurm.conf",
			"Slurm's states":  "scontrol update NodeName=node02 State=DOWN Reason=x",
		} {
			if out, err := alice(script); err == nil {
				t.Errorf("%s on %s: no error\n%s", name, node, out)
			}
		}
		const keys = "grep -rlsI 'PRIVATE KEY' /etc /home /root /srv /usr/local /var"
		if out, err := alice(keys); err == nil {
			t.Errorf("keys that a user reads on %s: %s", node, out)
		}
	}
}
