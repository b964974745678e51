// Package existing has clusters that the project's playbooks did not make, for tests of attach: another hand sets up
// their control node and their static node.
package existing

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/keypairs"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/generation"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
	"github.com/eiffel-hpc/eiffel/lab/image"
	"github.com/eiffel-hpc/eiffel/lab/tools"
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

// HasAccounting reports whether the site has slurmdbd, with an account of alice and its limits. With Packages it then
// has its own Prolog and Epilog too, and the nodes' Prolog writes PrologLog.
func (l *Lab) HasAccounting() bool {
	return l.Kind != Elsewhere && !l.Machine && !onTrixie() && generation.Full()
}

// PrologLog is the file on each node to which Prolog and Epilog add a line for each job.
const PrologLog = "/var/log/slurm/prolog.log"

// Sums returns the checksums, owners and modes of the files that an administrator finds on a node.
func (l *Lab) Sums(t *testing.T, node string) string {
	t.Helper()
	const find = "find /etc /home /root /usr/local /opt -xdev " +
		"\\( -path '*/.ansible' -o -path /home/alice -o -name reconfigure.log \\) -prune -o "
	return l.On(t, node, "sh", "-c", find+"-type f -printf '%p %u %g %m ' -exec sha256sum {} \\; | "+
		"sed 's/ [^ ]*$//' | sort; "+find+"-type l -printf '%p -> %l\n' | sort; "+find+"-type d -print | sort")
}

// AssertUnchanged checks that the files of a node are those of earlier Sums. when is for the message.
func (l *Lab) AssertUnchanged(t *testing.T, node, before, when string) {
	t.Helper()
	if diff := cmp.Diff(before, l.Sums(t, node)); diff != "" {
		t.Errorf("%s, files on %s differ (-before +after):\n%s", when, node, diff)
	}
}

// DestroyAndDetach removes the nodes and the attachment, and checks that the files of the control node are those of
// earlier Sums.
func (l *Lab) DestroyAndDetach(t *testing.T, before string) {
	t.Helper()
	l.Do(t, "destroy", "--yes")
	l.Do(t, "detach")
	l.AssertUnchanged(t, cluster.ControlNodeName, before, "after the detachment")
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

// written is the slurm.conf of a site, as an administrator writes it: tabs, upper case, a continued line, a byte not of
// UTF-8, and no newline at the end.
const written = "# Slurm of the university, M\xfcnster\r\n" + `ClusterName=university
SlurmctldHost=ctl
SlurmUser=slurm
AuthType=auth/munge
StateSaveLocation=/var/spool/slurm-state
SLURMDSPOOLDIR=/var/spool/slurmd.site	# on each node
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=5
KillWait=\
5
NodeName=DEFAULT CPUs=2 RealMemory=500
Include site/nodes.conf
# end`

// accounted is what a slurm.conf has in addition with accounting.
const accounted = `AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=ctl
AccountingStorageEnforce=associations,limits,qos
Prolog=/etc/slurm/site/prolog
Epilog=/etc/slurm/site/epilog
`

// account sets up slurmdbd. Debian's MariaDB lets SlurmUser in by its socket.
const account = `apt-get -qq update
DEBIAN_FRONTEND=noninteractive apt-get -qq --yes --no-install-recommends install mariadb-server slurmdbd >/dev/null
service mariadb start
mariadb <<END
CREATE DATABASE slurm_acct_db;
CREATE USER 'slurm'@'localhost' IDENTIFIED VIA unix_socket;
GRANT ALL ON slurm_acct_db.* TO 'slurm'@'localhost';
END
cat >/etc/slurm/slurmdbd.conf <<END
AuthType=auth/munge
DbdHost=ctl
SlurmUser=slurm
LogFile=/var/log/slurm/slurmdbd.log
PidFile=/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StorageLoc=slurm_acct_db
END
chown slurm: /etc/slurm/slurmdbd.conf
chmod 0600 /etc/slurm/slurmdbd.conf
service slurmdbd start
until sacctmgr --noheader list cluster >/dev/null 2>&1; do sleep 0.2; done
sacctmgr --immediate add cluster university
sacctmgr --immediate add account physics cluster=university
sacctmgr --immediate add user alice account=physics
sacctmgr --immediate modify user alice set MaxJobs=2
`

// logs is the Prolog, and the Epilog, of the site.
const logs = "#!/bin/sh\necho \"$SLURM_JOB_ID\" >>" + PrologLog + "\n"

// conf returns the slurm.conf.
func (l *Lab) conf() string {
	switch {
	case l.Kind == Appliance:
		return l.applianceConf()
	case l.HasAccounting():
		return strings.Replace(written, "KillWait=", accounted+"KillWait=", 1)
	case l.Kind == Packages:
		return written
	}
	hosts := "SlurmctldHost=ctl\n"
	if l.HasBackup() {
		hosts += "SlurmctldHost=" + Backup + "\n"
	}
	text := strings.ReplaceAll(written, "SlurmctldHost=ctl\n", hosts+
		"SlurmctldParameters=enable_configless,idle_on_node_suspend,cloud_reg_addrs,reboot_from_controller\n")
	// A configless slurmctld sends files of its own folder only.
	return strings.ReplaceAll(text, "Include site/", "Include ")
}

// install is what the site's administrator did on each node.
const install = `printf %s "$hosts" >>/etc/hosts
echo "$key" | base64 -d >/etc/munge/munge.key
chown munge:munge /etc/munge/munge.key
chmod 0400 /etc/munge/munge.key
mkdir -p "$etc/site" /var/log/slurm "$state" "$spool"
chown slurm: /var/log/slurm "$state"
echo "$conf" | base64 -d >"$etc/slurm.conf"
cat >"$etc/$nodes" <<END
nodename = static1 NodeAddr=$static State=UNKNOWN
PartitionName=work Nodes=static1 Default=YES MaxTime=INFINITE
END
echo CgroupPlugin=$plugin >"$etc/cgroup.conf"
for name in prolog epilog; do printf %s "$logs" >"$etc/site/$name"; chmod 0755 "$etc/site/$name"; done
service munge restart
`

// own moves Slurm's programs and gives SlurmUser another uid. A program that reads the packages' slurm.conf finds no
// slurmctld.
const own = `usermod --uid ` + uid + ` slurm
mkdir -p ` + Prefix + `/bin
for name in scontrol squeue sinfo sbatch srun scancel; do mv /usr/bin/$name ` + Prefix + `/bin/; done
printf 'ClusterName=example\nSlurmctldHost=nowhere\n' >/etc/slurm/slurm.conf
`

// join is what a site's image does at boot: the node becomes one of the site's, without SSH and without playbooks.
const join = `#!/bin/sh
### BEGIN INIT INFO
# Provides:          join
# Required-Start:    $network $remote_fs
# Required-Stop:
# Default-Start:     2 3 4 5
# Default-Stop:
### END INIT INFO
[ "$1" = start ] && [ ! -e /etc/join/broken ] || exit 0
set -e
cat /etc/join/hosts >>/etc/hosts
base64 -d /etc/join/key >/etc/munge/munge.key
chown munge:munge /etc/munge/munge.key
chmod 0400 /etc/munge/munge.key
usermod --uid ` + uid + ` slurm
mkdir -p /var/log/slurm /var/spool/slurmd.site
service munge restart
exec slurmd --conf-server ctl
`

// JoinByImage changes an image of the lab so that its machines join the site of a Lab.Elsewhere at boot, and breaks the
// program that does it. repair repairs the program. No machine of the image may exist during either call.
func (l *Lab) JoinByImage(t *testing.T, name string) (repair func()) {
	t.Helper()
	var hosts string
	for _, name := range []string{cluster.ControlNodeName, Backup} {
		if s, ok := l.Server(name); ok {
			hosts += fmt.Sprintf("%s %s\n", s.Addresses[0], name)
		}
	}
	l.runAtBoot(t, name, "join", join, map[string]string{
		"etc/join/hosts": hosts, "etc/join/key": mungeKey, "etc/join/broken": "",
	})
	return func() {
		t.Helper()
		if err := os.Remove(filepath.Join(l.layer(name), "etc", "join", "broken")); err != nil {
			t.Fatal(err)
		}
	}
}

// layer returns the folder of an image's own files.
func (l *Lab) layer(name string) string { return filepath.Join(l.Dir, "images", cluster.ImageID(name)) }

// runAtBoot makes the machines of an image run a program at boot, and gives them more files. No machine of the image
// may exist.
func (l *Lab) runAtBoot(t *testing.T, name, program, script string, files map[string]string) {
	t.Helper()
	files["etc/init.d/"+program] = script
	files["etc/init.d/.depend.start"] = "TARGETS = ssh " + program + "\nINTERACTIVE =\n" // startpar(8) starts no others
	if err := l.addToImage(name, files); err != nil {
		t.Fatal(err)
	}
	for _, level := range []string{"2", "3", "4", "5"} {
		link := filepath.Join(l.layer(name), "etc", "rc"+level+".d", "S99"+program)
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("../init.d/"+program, link); err != nil {
			t.Fatal(err)
		}
	}
}

// setUp makes the servers as a person would, sets up Slurm by a script, and logs in to the control node once.
func (l *Lab) setUp(ctx context.Context) error {
	names := []string{cluster.ControlNodeName, Static}
	start := map[string]string{cluster.ControlNodeName: "service slurmctld restart", Static: "service slurmd restart"}
	switch l.Kind {
	case Packages:
	case Appliance:
		start[cluster.ControlNodeName] = applianceShare + start[cluster.ControlNodeName]
		start[Static] = applianceNode
	case Elsewhere:
		ctld := "echo 'SLURMCTLD_OPTIONS=\"-f " + l.SlurmConf() + "\"' >/etc/default/slurmctld\n" +
			"service slurmctld restart"
		start = map[string]string{cluster.ControlNodeName: ctld,
			Static: "rm -r " + path.Dir(l.SlurmConf()) + " && slurmd --conf-server ctl"}
		if l.HasBackup() {
			names = append(names, Backup)
			start[Backup] = ctld
		}
	}
	if l.HasAccounting() {
		start[cluster.ControlNodeName] = account + start[cluster.ControlNodeName]
		err := l.addPackages()
		if l.Kind == Packages {
			err = errors.Join(err, l.ownFiles())
		}
		if err != nil {
			return err
		}
	}
	addresses, err := l.MakeServers(ctx, names...)
	if err != nil {
		return err
	}
	var hosts string
	for i, name := range names {
		hosts += addresses[i] + " " + name + "\n"
	}
	for _, node := range names {
		if err := l.install(ctx, node, hosts, addresses[slices.Index(names, Static)], start[node]); err != nil {
			return err
		}
	}
	d := l.Declaration
	d.ControlNode = cluster.ControlNode{Existing: addresses[0]}
	if l.Kind == Elsewhere {
		d.ControlNode.SlurmConf = l.SlurmConf()
	}
	d.Slurm.Extra = nil
	if err := l.Declare(d); err != nil {
		return err
	}
	if l.Machine {
		return nil
	}
	out, err := l.OnControlHost(ctx, l.Site, "ssh", "-o", "StrictHostKeyChecking=accept-new",
		"debian@"+addresses[0], "true").CombinedOutput()
	if err != nil {
		return fmt.Errorf("the first login: %w\n%s", err, out)
	}
	return nil
}

func (l *Lab) install(ctx context.Context, node, hosts, static, start string) error {
	plugin, before, nodes := "cgroup/v1", "", "site/nodes.conf" // no cgroup file system is there
	state, spool := "/var/spool/slurm-state", "/var/spool/slurmd.site"
	if onTrixie() {
		plugin = "disabled"
	}
	switch l.Kind {
	case Packages:
	case Elsewhere:
		before, nodes = own, "nodes.conf"
	case Appliance:
		state, spool = applianceState, applianceSpool
	}
	for ctx.Err() == nil {
		if l.Command(node, "test", "-e", "/run/sshd.pid").Run() == nil {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	out, err := l.Command(node, "env", "logs="+logs, "state="+state, "spool="+spool, "hosts="+hosts, "static="+static,
		"plugin="+plugin, "nodes="+nodes, "key="+mungeKey, "conf="+encoded(l.conf()), "etc="+path.Dir(l.SlurmConf()),
		"sh", "-ec", before+install+start).CombinedOutput()
	if err != nil {
		return fmt.Errorf("set up %s: %w\n%s", node, err, out)
	}
	return nil
}

// ownFiles gives the new nodes the site's Prolog and Epilog.
func (l *Lab) ownFiles() error {
	dir := filepath.Join(l.Site, "ansible", "files", "site")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"prolog.50.all", "epilog.50.all"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(logs), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// addPackages adds the packages of accounting to the image of the site's nodes, for apt.
func (l *Lab) addPackages() error {
	installed, err := tools.Find("../../..")
	if err != nil {
		return err
	}
	files, err := image.Archive(installed.Archive)
	return errors.Join(err, l.addToImage(cluster.ImageV1, files))
}

// addToImage adds files to an image of the lab. No machine of the image may exist.
func (l *Lab) addToImage(name string, files map[string]string) error {
	for file, text := range files {
		path := filepath.Join(l.layer(name), file)
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755))
		if err != nil {
			return err
		}
	}
	return nil
}

// MakeServers makes servers that Terraform does not know, and returns their addresses.
func (l *Lab) MakeServers(ctx context.Context, names ...string) (addresses []string, err error) {
	url, err := os.ReadFile(l.CloudsFile())
	if err != nil {
		return nil, err
	}
	_, rest, _ := strings.Cut(string(url), "auth_url:")
	endpoint := strings.Trim(strings.Fields(rest)[0], `"'`)
	provider, err := openstack.AuthenticatedClient(ctx, gophercloud.AuthOptions{IdentityEndpoint: endpoint,
		Username: "lab", Password: cluster.Password, DomainName: "Default", TenantName: "lab", AllowReauth: true})
	if err != nil {
		return nil, err
	}
	region := gophercloud.EndpointOpts{Region: "RegionOne"}
	compute, err := openstack.NewComputeV2(provider, region)
	if err != nil {
		return nil, err
	}
	network, err := openstack.NewNetworkV2(provider, region)
	if err != nil {
		return nil, err
	}
	pages, err := networks.List(network, networks.ListOpts{}).AllPages(ctx)
	if err != nil {
		return nil, err
	}
	nets, err := networks.ExtractNetworks(pages)
	if err != nil {
		return nil, err
	}
	pages, err = flavors.ListDetail(compute, nil).AllPages(ctx)
	if err != nil {
		return nil, err
	}
	sizes, err := flavors.ExtractFlavors(pages)
	if err != nil {
		return nil, err
	}
	_, err = keypairs.Create(ctx, compute, keypairs.CreateOpts{Name: "university",
		PublicKey: l.Declaration.KeyPair.PublicKey}).Extract()
	if err != nil && !gophercloud.ResponseCodeIs(err, http.StatusConflict) {
		return nil, err
	}
	for _, name := range names {
		if _, err := servers.Create(ctx, compute, keypairs.CreateOptsExt{KeyName: "university",
			CreateOptsBuilder: servers.CreateOpts{Name: name, ImageRef: cluster.ImageID(cluster.ImageV1),
				FlavorRef: sizes[0].ID, Networks: []servers.Network{{UUID: nets[0].ID}}}}, nil).Extract(); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		for {
			if s, ok := l.Server(name); ok && s.Status == "ACTIVE" {
				addresses = append(addresses, s.Addresses[0].String())
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	return addresses, ctx.Err()
}
