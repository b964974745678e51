package existing

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/image"
)

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

// logs is the Prolog, and the Epilog, of the site. No job begins before its home is there.
const logs = `#!/bin/sh
until mountpoint -q /home/alice; do sleep 0.1; done
echo "$SLURM_JOB_ID" >>` + PrologLog + "\n"

// conf returns the slurm.conf.
func (l *Lab) conf() string {
	switch {
	case l.Kind == Appliance:
		return l.applianceConf()
	case l.hasAccounting():
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

// setUp makes the servers as a person would, sets up Slurm by a script, and logs in to the control node once.
func (l *Lab) setUp(ctx context.Context) error {
	if err := l.prepareImages(ctx); err != nil {
		return err
	}
	start := l.start()
	names := []string{cluster.ControlNodeName, Static}
	if l.HasBackup() {
		names = append(names, Backup)
	}
	addresses, err := l.makeServers(ctx, cluster.NodeGroup{Image: cluster.ImageV1}, names...)
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
	if err := l.declare(addresses[0]); err != nil {
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

// prepareImages adds to the images what the machines need beside Slurm.
func (l *Lab) prepareImages(ctx context.Context) error {
	if l.hasAccounting() {
		packages := append(image.Accounting(), "sshfs")
		if err := l.addPackages(ctx, packages, cluster.ImageV1, cluster.ImageV2); err != nil {
			return err
		}
	}
	if l.hasHome() {
		return errors.Join(l.ownFiles(), l.addHome())
	}
	return nil
}

// start returns the end of the script of each server, which starts Slurm.
func (l *Lab) start() map[string]string {
	start := map[string]string{cluster.ControlNodeName: "service slurmctld restart", Static: "service slurmd restart"}
	switch l.Kind {
	case Packages:
	case Appliance:
		start[cluster.ControlNodeName] = applianceShare + start[cluster.ControlNodeName]
		start[Static] = applianceNode
	case Elsewhere:
		ctld := "echo 'SLURMCTLD_OPTIONS=\"-f " + l.SlurmConf() + "\"' >/etc/default/slurmctld\n" +
			"service slurmctld restart"
		start = map[string]string{cluster.ControlNodeName: ctld, Backup: ctld,
			Static: "rm -r " + path.Dir(l.SlurmConf()) + " && slurmd --conf-server ctl"}
	}
	if l.hasAccounting() {
		start[cluster.ControlNodeName] = account + start[cluster.ControlNodeName]
	}
	if l.hasHome() {
		start[cluster.ControlNodeName] = serveHome + start[cluster.ControlNodeName]
		start[Static] = "/usr/local/sbin/mount-home " + cluster.ControlNodeName + "\n" + start[Static]
	}
	return start
}

// declare writes the declaration, whose new nodes have an image of the site if the kind needs one.
func (l *Lab) declare(control string) error {
	d := l.Declaration
	d.ControlNode = cluster.ControlNode{Existing: control}
	d.Slurm.Extra = nil
	nodes := &d.NodeGroups[0]
	switch {
	case l.Kind == Elsewhere:
		d.ControlNode.SlurmConf = l.SlurmConf()
	case l.Kind == Appliance:
		if err := l.runAtBoot(cluster.ImageV2, "compute-init", applianceInit, map[string]string{
			"etc/slurm/slurm.epilog.clean": "#!/bin/sh\n",
		}); err != nil {
			return err
		}
		d.ControlNode.Configure, nodes.Image = "image", cluster.ImageV2
		nodes.Metadata = map[string]string{"control_address": control, "compute": "true", "etc_hosts": "true"}
	case l.hasHome():
		err := l.runAtBoot(cluster.ImageV2, "home", homeAtBoot, map[string]string{"etc/home/server": control + "\n"})
		if err != nil {
			return err
		}
		nodes.Image = cluster.ImageV2
	}
	return l.Declare(d)
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
