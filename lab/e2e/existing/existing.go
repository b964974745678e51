// Package existing has clusters that the project's playbooks did not make, for tests of attach: another hand sets up
// their control node and their static node.
package existing

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/generation"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
)

// Static is the site's own node, and Backup the host of the backup slurmctld, if there is one.
const (
	Static = "static1"
	Backup = "ctl2"
)

// mungeKey is binary, as Debian's package makes it.
var mungeKey = encoded("\x00\xff\xfe" + strings.Repeat("a site's key, \x80", 20))

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// Lab is a lab whose cluster is set up by a script.
type Lab struct {
	harness.Lab
	Kind Kind
	// Machine makes the control host a machine, on which the tests follow docs/start/attach.md: nobody has logged in from
	// there to the control node.
	Machine bool
}

// Kind says how a site has set up Slurm.
type Kind int

const (
	// Packages is a site where Slurm is where Debian's packages put it.
	Packages Kind = iota
	// Elsewhere is a site with its own build of Slurm: the commands and slurm.conf are below Prefix, SlurmUser has
	// another uid, the nodes are configless, and there is a backup slurmctld: see [Lab.HasBackup].
	Elsewhere
	// Appliance is a site as StackHPC's appliance lays it out: see applianceConf.
	Appliance
)

// Prefix is the folder of Slurm's own build.
const Prefix = "/opt/slurm"

// uid is SlurmUser's in Lab.Elsewhere. That of Debian's packages is 64030.
const uid = "981"

// SlurmConf returns the path of slurm.conf.
func (l *Lab) SlurmConf() string {
	if l.Kind == Elsewhere {
		return Prefix + "/etc/slurm.conf"
	}
	return "/etc/slurm/slurm.conf"
}

// Place is a lab's name, and the gateway of its network with the length of the prefix.
type Place struct{ Name, Gateway string }

// Main sets the cluster up, runs the tests and returns the exit code, as [harness.Lab.Main] does. Labs with machines of
// Debian 12 and of Debian 13 have different places.
func (l *Lab) Main(m *testing.M, bookworm, trixie Place) int {
	l.Deploy = l.setUp
	at := bookworm
	if onTrixie() {
		at = trixie
	}
	cfg := cluster.Config{
		Name: at.Name, Gateway: netip.MustParsePrefix(at.Gateway),
		Groups:     []cluster.NodeGroup{cluster.Group("cloud", "node", 0, 2)},
		Partitions: []cluster.Partition{{Name: "burst", Groups: []string{"cloud"}}},
	}
	if l.Kind == Elsewhere {
		cfg.NodeEnviron = []string{
			"SLURM_CONF=" + l.SlurmConf(), "PATH=" + Prefix + "/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		}
	}
	if l.Machine {
		release := generation.Bookworm()
		if onTrixie() {
			release = generation.Trixie()
		}
		if err := release.Boots(&cfg); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return l.Lab.Main(m, cfg, nil)
}

// FullMain does what Main does for a package all of whose tests are for `make matrix`. Otherwise they are skipped, and
// need no lab.
func (l *Lab) FullMain(m *testing.M, bookworm, trixie Place) int {
	if !generation.Full() {
		return m.Run()
	}
	return l.Main(m, bookworm, trixie)
}

func onTrixie() bool { return os.Getenv(harness.ReleaseVariable) == harness.Trixie }

// HasBackup reports whether slurm.conf names a backup slurmctld. It runs, but shares no StateSaveLocation with the
// first one. Since Slurm 23.11 a reconfiguration starts slurmctld anew, which waits for the backup's answer. While the
// backup waits for the heartbeat in StateSaveLocation it does not answer, so that `scontrol reconfigure` times out.
func (l *Lab) HasBackup() bool { return l.Kind == Elsewhere && !onTrixie() }

// hasAccounting reports whether the site has slurmdbd, with an account of alice and its limits. With Packages it then
// also has its own Prolog and Epilog, of which the nodes' Prolog writes PrologLog, and alice's home over the network.
func (l *Lab) hasAccounting() bool { return l.Kind != Elsewhere && !l.Machine && generation.Full() }

// PrologLog is the file on each node to which Prolog and Epilog add a line for each job.
const PrologLog = "/var/log/slurm/prolog.log"

// Sums are the checksums, owners and modes of the files that an administrator finds on hosts.
type Sums struct {
	lab *Lab
	of  map[string]string
}

// Sums returns those of hosts, by default of all that run slurmctld.
func (l *Lab) Sums(t *testing.T, hosts ...string) Sums {
	t.Helper()
	if len(hosts) == 0 {
		hosts = []string{cluster.ControlNodeName}
		if l.HasBackup() {
			hosts = append(hosts, Backup)
		}
	}
	sums := Sums{l, map[string]string{}}
	for _, host := range hosts {
		sums.of[host] = l.sums(t, host)
	}
	return sums
}

func (l *Lab) sums(t *testing.T, host string) string {
	t.Helper()
	const find = "find /etc /home /root /usr/local /opt -xdev " +
		"\\( -path '*/.ansible' -o -path /home/alice -o -name reconfigure.log \\) -prune -o "
	return l.On(t, host, "sh", "-c", find+"-type f -printf '%p %u %g %m ' -exec sha256sum {} \\; | "+
		"sed 's/ [^ ]*$//' | sort; "+find+"-type l -printf '%p -> %l\n' | sort; "+find+"-type d -print | sort")
}

// AssertUnchanged checks that the files of the hosts are still the same. when is for the message.
func (s Sums) AssertUnchanged(t *testing.T, when string) {
	t.Helper()
	for host, before := range s.of {
		if diff := cmp.Diff(before, s.lab.sums(t, host)); diff != "" {
			t.Errorf("%s, files on %s differ (-before +after):\n%s", when, host, diff)
		}
	}
}

// DestroyAndDetach removes the nodes and the attachment, and checks that files are those of earlier Sums.
func (l *Lab) DestroyAndDetach(t *testing.T, before Sums) {
	t.Helper()
	l.Do(t, "destroy", "--yes")
	l.Do(t, "detach")
	before.AssertUnchanged(t, "after the detachment")
}

// StartOwnJob starts a job on the site's own node, and returns its id.
func (l *Lab) StartOwnJob(t *testing.T) string {
	t.Helper()
	job := l.Job(t, "--partition=work", harness.Until)
	l.AwaitJob(t, job, "RUNNING")
	return job
}

// EndOwnJob checks that a job of StartOwnJob still runs, and ends it.
func (l *Lab) EndOwnJob(t *testing.T, job string) {
	t.Helper()
	l.AssertRunning(t, job)
	l.LetGo(t, Static)
	l.AwaitJob(t, job, "COMPLETED")
	l.On(t, Static, "rm", "/tmp/go")
}

// Reimage has Slurm reboot a node on which a job with Until runs, which ends at the first of its nodes. The next job
// there runs on a new instance.
func (l *Lab) Reimage(t *testing.T, node, job, first string) {
	t.Helper()
	before := l.Identities(t, node)
	l.OnControl(t, "scontrol", "reboot", "asap", "nextstate=resume", "reason=reimage", node)
	next := l.Job(t, "--partition=burst", "--nodelist="+node, harness.Until)
	l.LetGo(t, first)
	l.AwaitJob(t, job, "COMPLETED")
	l.AwaitJob(t, next, "RUNNING")
	if after := l.Identities(t, node); after[node].Boot == before[node].Boot {
		t.Errorf("%s is not new: %+v", node, after)
	}
	l.LetGo(t, node)
	l.AwaitJob(t, next, "COMPLETED")
}
