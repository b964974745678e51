// Package libvirt_test tests on virtual machines of this computer's libvirt that a node is created for a job and
// removed afterwards: with Debian's kernel, cloud-init and systemd, real Terraform with its provider, Ansible and
// Slurm.
package libvirt_test

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/needs"
)

func TestMain(m *testing.M) {
	cluster.KeepIfAsked()
	os.Exit(m.Run())
}

// site is a lab whose nodes are virtual machines.
type site struct {
	*testing.T
	*cluster.Lab
}

func start(t *testing.T) site {
	t.Helper()
	installed := needs.Libvirt(t, "../../..")
	checkout, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	group := cluster.Group("standard", "node", 0, 2)
	group.Slurm = map[string]any{"CPUs": 1, "RealMemory": 500}
	release, err := cluster.Keep("libvirt")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := release(); err != nil {
			t.Error(err)
		}
	})
	lab, err := cluster.Start(t.Context(), cluster.Config{
		Name: "libvirt", Gateway: netip.MustParsePrefix("10.74.0.1/24"), Checkout: checkout, Tools: installed,
		Libvirt: true, Groups: []cluster.NodeGroup{group}, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(worker(lab))
		}
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	s := site{t, lab}
	declared := lab.Declaration
	// An emulated processor is slow.
	declared.Slurm.ResumeTimeout, declared.Slurm.SuspendTime, declared.Slurm.SuspendTimeout = 1800, 60, 120
	declared.Reconfigure["boot_timeout"] = 900
	s.must(lab.Declare(declared))
	return s
}

func worker(lab *cluster.Lab) string {
	var all strings.Builder
	files, _ := filepath.Glob(filepath.Join(lab.Site, "state", "log", "*"))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		const most = 8000
		fmt.Fprintf(&all, "%s:\n%s\n", file, text[max(0, len(text)-most):])
	}
	return all.String()
}

func (s site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// call runs reconfigure, which must succeed.
func (s site) call(args ...string) string {
	s.Helper()
	out, err := s.Reconfigure(s.Context(), args...).CombinedOutput()
	if err != nil {
		s.Fatalf("%s: %v\n%s", args, err, out)
	}
	return string(out)
}

// onControlNode runs a command as the login user on the control node.
func (s site) onControlNode(command string) (string, error) {
	known := filepath.Join(s.Site, "state", "known_hosts")
	state := s.call("inventory", "--list")
	_, rest, _ := strings.Cut(state, `"ctl"`)
	_, rest, _ = strings.Cut(rest, `"ansible_host": "`)
	address, _, _ := strings.Cut(rest, `"`)
	out, err := s.OnControlHost(s.Context(), s.Site, "ssh", "-i", "/home/"+cluster.User+"/.ssh/id_ed25519",
		"-o", "UserKnownHostsFile="+known, "-o", "BatchMode=yes", "debian@"+address, command).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// await polls until a command on the control node prints the wanted text.
func (s site) await(limit time.Duration, command, want string) {
	s.Helper()
	deadline := time.Now().Add(limit)
	for {
		out, err := s.onControlNode(command)
		if err == nil && out == want {
			return
		}
		if time.Now().After(deadline) {
			s.Fatalf("%s: %v\n%s\nwant %s", command, err, out, want)
		}
		time.Sleep(2 * time.Second)
	}
}

// TestAJobRunsOnAVirtualMachine deploys a control node, submits a job, and waits until its node has come up, the job
// has run there, and the node has been removed with all of its volumes.
func TestAJobRunsOnAVirtualMachine(t *testing.T) {
	t.Attr("scenario", "a job has its node made, with cloud-init and systemd, and removed after it")
	s := start(t)
	began := time.Now()
	s.call("deploy")
	t.Logf("deployed after %.0f s", time.Since(began).Seconds())
	began = time.Now()
	id, err := s.onControlNode("sudo -u alice sbatch --parsable --chdir=/tmp --output=/dev/null " +
		"--wrap='grep -q QEMU /sys/class/dmi/id/sys_vendor'")
	s.must(err)
	s.await(30*time.Minute, "scontrol show job "+id+" | grep -o 'JobState=[A-Z]*'", "JobState=COMPLETED")
	t.Logf("the job has run after %.0f s", time.Since(began).Seconds())
	s.await(15*time.Minute, "sinfo --noheader --Node --nodes=node01 --format=%t", "idle~")
	left, err := filepath.Glob(filepath.Join(s.Dir, "libvirt", "pool", "*node01*"))
	if err != nil || len(left) > 0 {
		t.Errorf("the pool still has %v (%v)", left, err)
	}
	terraform := fmt.Sprint(s.Declaration.Reconfigure["terraform"])
	clean := s.OnControlHost(t.Context(), filepath.Join(s.Site, "terraform", "libvirt"), terraform, "plan",
		"-detailed-exitcode", "-no-color", "-lock=false")
	if out, err := clean.CombinedOutput(); err != nil {
		t.Errorf("terraform plan is not clean: %v\n%s", err, out)
	}
}
