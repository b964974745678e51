package existing

import "testing"

// Where StackHPC's appliance has the state of slurmctld and of slurmd, by its variables openhpc_state_save_location and
// openhpc_slurmd_spool_dir.
const (
	applianceState = "/var/lib/state/slurmctld"
	applianceSpool = "/var/spool/slurm"
)

// applianceConf returns a slurm.conf with the settings that the role openhpc of StackHPC's appliance writes: it logs to
// syslog, is configless, has the nodes in the file itself, and a node that does not exist. The settings for which
// docs/guides/attach-stackhpc.md asks are in it. The lab has no control groups.
func (l *Lab) applianceConf() string {
	parameters := "enable_configless,idle_on_node_suspend,reboot_from_controller"
	if !onTrixie() {
		parameters += ",cloud_reg_addrs"
	}
	accounting := ""
	if l.hasAccounting() {
		accounting = "AccountingStorageHost=ctl\nAccountingStoragePort=6819\n" +
			"AccountingStorageType=accounting_storage/slurmdbd\n"
	}
	return `ClusterName=university
SlurmctldHost=ctl
MpiDefault=none
ProctrackType=proctrack/linuxproc
SlurmctldPidFile=/var/run/slurmctld.pid
SlurmctldPort=6817
SlurmdPidFile=/var/run/slurmd.pid
SlurmdPort=6818
SlurmdSpoolDir=` + applianceSpool + `
SlurmUser=slurm
StateSaveLocation=` + applianceState + `
SwitchType=switch/none
TaskPlugin=task/none
InactiveLimit=0
KillWait=30
MinJobAge=300
SlurmctldTimeout=300
SlurmdTimeout=300
Waittime=0
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PriorityType=priority/multifactor
PriorityWeightPartition=1000
PreemptType=preempt/partition_prio
PreemptMode=SUSPEND,GANG
` + accounting + `JobAcctGatherFrequency=30
JobAcctGatherType=jobacct_gather/none
SlurmctldSyslogDebug=info
SlurmdSyslogDebug=info
SlurmdParameters=config_overrides
PropagateResourceLimitsExcept=MEMLOCK
Epilog=/etc/slurm/slurm.epilog.clean
NodeName=static1 State=UNKNOWN RealMemory=500 CPUs=2
PartitionName=work Default=YES MaxTime=24:00:00 State=UP Nodes=static1
NodeName=nonesuch
SlurmctldParameters=` + parameters + `
ReturnToService=2
`
}

const (
	// applianceShare serves what the appliance's playbook exports to its nodes by NFS, which the lab's kernel does not
	// have: the hosts, and variables with the munge key for each name of its inventory.
	applianceShare = `mkdir -p /exports/cluster
cp /etc/hosts /exports/cluster/
for name in static1 node01 node02; do
	mkdir -p /exports/cluster/hostvars/$name
	printf '{"vault_openhpc_mungekey": "%s"}' "$key" >/exports/cluster/hostvars/$name/hostvars.yml
done
setsid python3 -m http.server --directory /exports/cluster 8080 >/dev/null 2>&1 &
` + applianceEpilog
	applianceNode = applianceEpilog + "rm \"$etc/slurm.conf\"\n" +
		"for try in $(seq 60); do slurmd --conf-server ctl && exit; sleep 1; done; exit 1\n"
	// applianceEpilog installs the Epilog of OpenHPC's packages. Its work is not needed here.
	applianceEpilog = `printf '#!/bin/sh\n' >/etc/slurm/slurm.epilog.clean
chmod 0755 /etc/slurm/slurm.epilog.clean
`
)

// applianceInit does what the program compute-init of the appliance's image does at boot: it reads the instance's
// metadata, and with the files of the share the machine becomes a node. A name without variables is left alone.
const applianceInit = `#!/usr/bin/python3
import base64, json, os, shutil, socket, subprocess, sys, urllib.error, urllib.request

with open("/var/lib/lab/meta_data.json") as f:
    meta = json.load(f)["meta"] or {}
if sys.argv[1] != "start" or meta.get("compute") != "true":
    sys.exit()
name = socket.gethostname()


def shared(path):
    with urllib.request.urlopen("http://" + meta["control_address"] + ":8080/" + path, timeout=20) as answer:
        return answer.read()


try:
    variables = json.loads(shared("hostvars/" + name + "/hostvars.yml"))
except urllib.error.HTTPError:
    sys.exit("no variables of " + name)
if meta.get("etc_hosts") == "true":
    with open("/etc/hosts", "wb") as f:
        f.write(shared("hosts") + b"127.0.0.1 localhost " + name.encode() + b"\n")
with open("/etc/munge/munge.key", "wb") as f:
    f.write(base64.b64decode(variables["vault_openhpc_mungekey"]))
shutil.chown("/etc/munge/munge.key", "munge", "munge")
os.chmod("/etc/munge/munge.key", 0o400)
os.makedirs("` + applianceSpool + `", exist_ok=True)
subprocess.check_call(["service", "munge", "restart"])
# Debian's script for sysvinit does not start a slurmd without slurm.conf.
subprocess.check_call(["slurmd", "--conf-server", meta["control_address"]])
subprocess.call(["scontrol", "update", "state=resume", "nodename=" + name])
`

// DeployAppliance does what the Slurm playbook of the appliance does: it writes slurm.conf anew and restarts slurmctld.
func (l *Lab) DeployAppliance(t *testing.T) {
	t.Helper()
	l.OnControl(t, "sh", "-ec", "echo "+encoded(l.conf())+" | base64 -d >"+l.SlurmConf()+"; service slurmctld restart")
}
