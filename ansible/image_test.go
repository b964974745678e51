package site_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure/ansible"
)

// inNoImage are the files of a configured node that must not be in its image.
const inNoImage = "ls -d /etc/munge/munge.key /etc/munge/made-by-reconfigure " +
	"/etc/slurm/slurm.conf /etc/slurm/cgroup.conf /etc/slurm/reconfigure " +
	"/usr/local/libexec/reconfigure /var/lib/slurm/slurmd/* /var/log/slurm/* /var/tmp/* 2>/dev/null; " +
	"find /var/log -type f -size +0; grep -s node /etc/hosts; cat /etc/machine-id; true"

// TestImageOfANode cleans a configured node, makes an image of its disk, and configures a node of that image.
func TestImageOfANode(t *testing.T) {
	t.Parallel()
	m := newMachines(t, 11)
	m.boot("ctl", 10)
	m.boot("node01", 11)
	m.configure("ctl", "node01")
	m.until("the node has registered", func() bool { return strings.HasPrefix(m.slurm("node01"), "IDLE") })
	m.on("node01", "sh", "-c", "echo 0123456789abcdef0123456789abcdef >/etc/machine-id; echo built >/etc/of-the-image; "+
		"echo private >/var/tmp/of-a-job; echo line >/var/log/slurm/slurmd.log; echo line >/var/log/older.log.1")
	keys := m.on("node01", "cat", "/etc/ssh/ssh_host_ed25519_key.pub")
	for _, want := range []string{
		"/etc/munge/munge.key", "/etc/slurm/slurm.conf", "/etc/slurm/reconfigure",
		"/var/log/slurm/slurmd.log", "/var/tmp/of-a-job", "# BEGIN nodes of ansible", "0123456789abcdef",
	} {
		if there := m.on("node01", "sh", "-c", inNoImage); !strings.Contains(there, want) {
			t.Errorf("the configured node lacks %s:\n%s", want, there)
		}
	}

	onDisk := func() []string {
		found, err := filepath.Glob(filepath.Join(m.dir, "machines", "node01", "disk", "upper", "etc", "ssh", "ssh_host_*"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if len(onDisk()) == 0 {
		t.Error("the configured node has no host keys on its disk")
	}

	m.clean("node01")
	m.clean("node01") // logging in still works
	if left := onDisk(); len(left) > 0 {
		t.Errorf("host keys are on the disk of the cleaned node: %s", left)
	}
	if err := m.host.Snapshot(t.Context(), "node01", "fresh"); err != nil {
		t.Fatal(err)
	}
	if out, err := m.host.Command("node01", "pgrep", "-x", "slurmd|munged").CombinedOutput(); err == nil {
		t.Errorf("daemons still run: %s", out)
	}
	if diff := cmp.Diff(m.instances["node01"].Address+" node01", m.on("node01", "sh", "-c", inNoImage)); diff != "" {
		t.Errorf("on the disk of the cleaned node (-want +got):\n%s", diff)
	}
	if err := m.host.Destroy(t.Context(), "node01"); err != nil {
		t.Fatal(err)
	}

	m.bootFrom("fresh", "node02", 12)
	if m.on("node02", "cat", "/etc/of-the-image") != "built" {
		t.Error("the new node does not have the files of the other one")
	}
	if again := m.on("node02", "cat", "/etc/ssh/ssh_host_ed25519_key.pub"); again == keys {
		t.Error("the new node has the host key of the other one")
	}
	m.configure("node02")
	m.until("the new node has registered", func() bool { return strings.HasPrefix(m.slurm("node02"), "IDLE") })
}

// clean prepares a node for an image.
func (m *machines) clean(name string) {
	m.Helper()
	var log bytes.Buffer
	runner := ansible.New(ansible.Config{Dir: m.dir, Env: os.Environ(), Log: &log})
	if err := runner.Clean(m.Context(), m.cluster, m.instances[name]); err != nil {
		m.Fatalf("%v\n%s", err, log.String())
	}
}
