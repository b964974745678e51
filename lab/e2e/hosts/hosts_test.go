// Package hosts_test tests a cluster with two control hosts on a lab. One of the hosts dies.
package hosts_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/lab/needs"
	"github.com/eiffel-hpc/eiffel/lab/postgres"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
)

func TestMain(m *testing.M) {
	postgres.KeepIfAsked()
	cluster.KeepIfAsked()
	os.Exit(m.Run())
}

// handOver is the program with which Slurm's scripts call the control hosts.
const handOver = "/usr/local/libexec/reconfigure/hand_over.sh"

// pair is a cluster with two control hosts, which share only a PostgreSQL server with the journal and Terraform's
// state.
type pair struct {
	harness.Lab
	other   *cluster.OtherHost
	journal *journal.Journal
}

// deployed starts a lab, and deploys its cluster of at most that many nodes on each control host, as
// docs/guides/control-hosts.md says.
func deployed(t *testing.T, most int) *pair {
	checkout := filepath.Join("..", "..", "..")
	paths := needs.Tools(t, checkout)
	server := postgres.Start(t)
	check(t, os.Chmod(server.Dir, 0o711)) // all users may use its socket
	database := server.Database(t)
	release, err := cluster.Keep("hosts")
	check(t, err)
	t.Cleanup(func() { check(t, release()) })
	lab, err := cluster.Start(t.Context(), cluster.Config{
		Name: "hosts", Gateway: netip.MustParsePrefix("10.68.0.1/24"), Checkout: checkout, Tools: paths,
		Groups: []cluster.NodeGroup{cluster.Group("standard", "node", 1, most)},
	})
	check(t, err)
	p := &pair{Lab: harness.Lab{Lab: lab}}
	t.Cleanup(func() { check(t, lab.Close()) })

	p.other, err = lab.AddControlHost(t.Context(), netip.MustParseAddr("10.68.0.254"))
	check(t, err)
	d := lab.Declaration
	d.ControlHost.Others = []cluster.FurtherControlHost{p.other.Declared}
	d.Reconfigure["journal"] = database
	d.Slurm.SuspendTime = 5
	check(t, lab.Declare(d))
	backend := fmt.Sprintf("terraform {\n  backend \"pg\" {\n    conn_str = %q\n  }\n}\n", database+"&sslmode=disable")
	check(t, os.WriteFile(filepath.Join(lab.Site, "terraform", "openstack", "backend.tf"), []byte(backend), 0o644))
	p.Do(t, "deploy")
	check(t, p.other.Start(t.Context()))
	if out, err := p.other.Reconfigure(t.Context(), "deploy").CombinedOutput(); err != nil {
		t.Fatalf("deploy on the other host: %v\n%s", err, out)
	}
	p.journal, err = journal.OpenURL(t.Context(), database)
	check(t, err)
	t.Cleanup(func() { check(t, p.journal.Close()) })
	return p
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestTheOtherControlHostTakesOver kills the first control host while it makes an instance for a job. The calls of
// Slurm's scripts go to the other host, which also carries out the requests that the first one had accepted. When the
// first one is back, it gets the calls again.
func TestTheOtherControlHostTakesOver(t *testing.T) {
	p := deployed(t, 3)
	p.trust(t)

	hang, err := p.Cloud.Faults().Add(labcloud.Fault{Kind: labcloud.Hang, Call: "POST servers", Count: 1000})
	check(t, err)
	accepted := p.Job(t, "--nodelist=node02", "--wrap=sleep 1")
	p.Eventually(t, harness.JobPatience, func() (bool, string) {
		return p.Cloud.Faults().List()[0].Hits > 0, "no instance is asked for"
	})
	if logins := p.logins(t); logins != 0 {
		t.Errorf("%d calls went to the other host although the first one answers", logins)
	}
	check(t, p.StopControlHost())
	p.Cloud.Faults().Clear(hang)
	next := p.Job(t, "--nodelist=node03", "--wrap=sleep 1")
	p.AwaitJob(t, next, "COMPLETED")
	p.AwaitJob(t, accepted, "COMPLETED")
	p.AssertNeverRestarted(t, accepted, next)
	p.awaitSuspended(t)
	p.said(t, "control host 10.68.0.1 did not answer")

	check(t, p.StartControlHost(t.Context()))
	logins := p.logins(t)
	p.handOver(t, "suspend", "node02")
	if now := p.logins(t); now != logins {
		t.Errorf("%d calls went to the other host although the first one is back", now-logins)
	}
	p.silent(t)
	p.awaitSuspended(t)
}

// TestASilentControlNodeCostsNoInstance cuts the control node off while nodes are resumed. With several control hosts,
// each run of the playbooks begins with that node.
func TestASilentControlNodeCostsNoInstance(t *testing.T) {
	p := deployed(t, 6)
	p.PlaybooksRunAgain(t, p.journal, harness.Nodes(p.Declaration.NodeGroups[0], 2, 6),
		"the run ended at "+cluster.ControlNodeName,
		func(t *testing.T) (end func()) { return p.CutOff(t, cluster.ControlNodeName) })
}

// trust checks that each host accepts the keys of Slurm's scripts, that the scripts check the keys of both hosts, and
// that both hosts know the host keys of the nodes.
func (p *pair) trust(t *testing.T) {
	t.Helper()
	home := filepath.Join(p.Dir, cluster.ControlHostName, "home", cluster.User)
	first, err := os.ReadFile(filepath.Join(home, ".ssh", "authorized_keys"))
	check(t, err)
	second, err := p.other.AuthorizedKeys()
	check(t, err)
	for _, key := range []string{"slurm@hosts", "reboot@hosts/node01"} {
		for host, text := range []string{string(first), second} {
			if !strings.Contains(text, " "+key) {
				t.Errorf("host %d does not accept the key %s:\n%s", host+1, key, text)
			}
		}
	}
	const folder = "/etc/slurm/reconfigure/"
	for _, node := range []string{cluster.ControlNodeName, "node01"} {
		known := p.On(t, node, "cat", folder+"known_hosts")
		for _, want := range []string{
			"[10.68.0.1]:2222 " + key(p.Declaration.ControlHost.HostKey),
			"[10.68.0.254]:2222 " + key(p.other.Declared.HostKey),
		} {
			if !strings.Contains(known, want) {
				t.Errorf("%s does not know the host key %q:\n%s", node, want, known)
			}
		}
	}
	if script := p.OnControl(t, "cat", handOver); !strings.Contains(script, "StrictHostKeyChecking=yes") {
		t.Errorf("the host keys are not checked:\n%s", script)
	}
	server, _ := p.Server("node01")
	for _, site := range []string{p.Site, p.other.Site} {
		known, err := os.ReadFile(filepath.Join(site, "state", "known_hosts"))
		check(t, err)
		if !strings.Contains(string(known), server.Addresses[0].String()+" ") {
			t.Errorf("%s has no key of node01:\n%s", site, known)
		}
	}
	if t.Failed() {
		t.FailNow() // otherwise calls would fail too
	}
}

// key returns a public key without its comment.
func key(public string) string { return strings.Join(strings.Fields(public)[:2], " ") }

// logins returns the number of logins on the other host.
func (p *pair) logins(t *testing.T) int {
	t.Helper()
	text, err := p.other.SSHLog()
	check(t, err)
	return strings.Count(text, "Accepted publickey for")
}

// said checks for a text in the log of Slurm's scripts.
func (p *pair) said(t *testing.T, want string) {
	t.Helper()
	if log := p.OnControl(t, "cat", "/var/log/slurm/reconfigure.log"); !strings.Contains(log, want) {
		t.Errorf("no %q in the log of Slurm's scripts:\n%s", want, log)
	}
}

// awaitSuspended waits until no cloud node has an instance, and no request waits.
func (p *pair) awaitSuspended(t *testing.T) {
	t.Helper()
	p.Eventually(t, harness.IdlePatience, func() (bool, string) {
		pending, err := p.journal.Pending(t.Context())
		_, two := p.Server("node02")
		_, three := p.Server("node03")
		return err == nil && len(pending) == 0 && !two && !three,
			fmt.Sprintf("instances of node02 %v, node03 %v, pending %+v (%v)", two, three, pending, err)
	})
}

// silent stops the first host from answering, though its kernel accepts the connection: the call waits for
// slurm_scripts_connect_timeout, and the other host accepts it.
func (p *pair) silent(t *testing.T) {
	t.Helper()
	sshd, err := strconv.Atoi(p.ControlHostSSHD())
	check(t, err)
	check(t, syscall.Kill(sshd, syscall.SIGSTOP))
	defer syscall.Kill(sshd, syscall.SIGCONT) //nolint:errcheck // sshd runs
	logins, begun := p.logins(t), time.Now()
	p.handOver(t, "suspend", "node03")
	t.Logf("a call that the first host does not answer took %s", time.Since(begun).Round(time.Millisecond))
	if p.logins(t) == logins {
		t.Error("the other host was not called")
	}
}

// handOver makes a call as Slurm's programs do, and returns when a host has accepted it.
func (p *pair) handOver(t *testing.T, request, nodes string) {
	t.Helper()
	p.OnControl(t, "runuser", "-u", "slurm", "--", handOver, request, nodes)
}
