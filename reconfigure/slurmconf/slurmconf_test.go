package slurmconf

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

const running = `# a cluster
ClusterName=c
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
SelectType=select/cons_tres
SuspendTime=600
GresTypes=gpu

NodeName=node[01-02] Feature=a CPUs=4 RealMemory=7500 State=UNKNOWN
NodeName=node[03-20] Feature=a CPUs=4 RealMemory=7500 State=CLOUD
NodeName=gpu[1-2] Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 Gres=gpu:a100:4,lic:2 State=CLOUD

PartitionName=main Nodes=node[01-20] Default=YES MaxTime=7-00:00:00
PartitionName=gpu Nodes=gpu[1-2]
`

const runningGres = "NodeName=gpu[1-2] Name=gpu Type=a100 Count=4\nNodeName=gpu[1-2] Name=lic Count=2\n"

// TestDangers edits the configuration of a cluster. TestARestartEndsOnlyTheJobsThatAreNamed tries such edits with a
// real slurmctld.
func TestDangers(t *testing.T) {
	for name, test := range map[string]struct {
		edits []string // in pairs: a part of slurm.conf or gres.conf, and its replacement
		want  []string
	}{
		"nothing": {nil, nil},
		// Not checked by slurmctld at its start.
		"a comment, an order, a case, a timeout, a feature": {[]string{"# a cluster\n", "", "ClusterName=c\n", "",
			"SuspendTime=600", "suspendtime=300\nClusterName=c", "Feature=a", "Feature=a,b",
			"MaxTime=7-00:00:00", "MaxTime=1-0"}, nil},
		"a cloud node becomes persistent": {
			[]string{"node[01-02]", "node[01-05]", "node[03-20]", "node[06-20]"}, nil},
		"more nodes": {
			[]string{"node[03-20]", "node[03-30]", "Nodes=node[01-20]", "Nodes=node[01-30]"}, nil},
		"the same hardware in other words": {[]string{"CPUs=4", "Sockets=4 CoresPerSocket=1",
			"Sockets=2 CoresPerSocket=4 ThreadsPerCore=2",
			"procs=16 Boards=1 SocketsPerBoard=2 CoresPerSocket=4 ThreadsPerCore=2"}, nil},
		"more memory":                   {[]string{"RealMemory=7500", "RealMemory=7600"}, nil},
		"less memory":                   {[]string{"RealMemory=7500", "RealMemory=100"}, nil},
		"a node out of a partition":     {[]string{"Nodes=node[01-20]", "Nodes=node[01-19]"}, nil},
		"lines that go on after a line": {[]string{" Feature=a CPUs=4", " \\\n  Feature=a \\\n  CPUs=4"}, nil},
		"the order of gres":             {[]string{"gpu:a100:4,lic:2", "lic:2,gpu:A100:4"}, nil},
		"a default": {[]string{"NodeName=node[01-02] Feature=a CPUs=4",
			"NodeName=DEFAULT CPUs=4\nNodeName=node[01-02] Feature=a",
			"NodeName=gpu[1-2] Sockets=2", "NodeName=gpu[1-2] CPUs=16 Sockets=2"}, nil},
		// valid_job_resources: "change in socket/core configuration".
		"CPUs": {[]string{"node[03-20] Feature=a CPUs=4", "node[03-20] Feature=a CPUs=8"}, []string{
			"node[03-20]: its hardware is CPUs=8 Sockets=8 CoresPerSocket=1 ThreadsPerCore=1 instead of " +
				"CPUs=4 Sockets=4 CoresPerSocket=1 ThreadsPerCore=1"}},
		"sockets": {[]string{"Sockets=2", "Sockets=1"}, []string{
			"gpu[1-2]: its hardware is CPUs=8 Sockets=1 CoresPerSocket=4 ThreadsPerCore=2 instead of " +
				"CPUs=16 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2"}},
		"threads": {[]string{" ThreadsPerCore=2", ""}, []string{
			"gpu[1-2]: its hardware is CPUs=8 Sockets=2 CoresPerSocket=4 ThreadsPerCore=1 instead of " +
				"CPUs=16 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2"}},
		// node_name2bitmap: "Invalid nodes".
		"a node is gone": {[]string{"node[03-20]", "node[03-19]"}, []string{"node20: it is no longer declared"}},
		// gres_job_revalidate2: "invalid GRES configuration".
		"gres shrinks": {[]string{"gpu:a100:4", "gpu:a100:2"},
			[]string{"gpu[1-2]: Gres is gpu:a100:2,lic:2 instead of gpu:a100:4,lic:2"}},
		"gres is gone": {[]string{" Gres=gpu:a100:4,lic:2", ""},
			[]string{"gpu[1-2]: Gres is not set instead of gpu:a100:4,lic:2"}},
		"files of the gres": {[]string{"Type=a100 Count=4", "Type=a100 Count=4 File=/dev/nvidia[0-3]"},
			[]string{"gpu[1-2]: its lines in gres.conf change"}},
		// get_part_list: "Invalid partition".
		"a partition is gone": {[]string{"PartitionName=gpu", "PartitionName=gpus"},
			[]string{"partition gpu: it is no longer declared"}},
		// slurm.conf(5), SelectType: "all job information (running and pending) will be lost".
		"the plugin for selection": {[]string{"select/cons_tres", "select/linear"}, []string{
			"gpu[1-2],node[01-20]: SelectType is select/linear instead of select/cons_tres",
			"partition gpu: SelectType is select/linear instead of select/cons_tres",
			"partition main: SelectType is select/linear instead of select/cons_tres"}},
		"the folder of the jobs": {[]string{"StateSaveLocation=/var/lib/slurm/slurmctld\n", ""}, []string{
			"gpu[1-2],node[01-20]: StateSaveLocation is not set instead of /var/lib/slurm/slurmctld",
			"partition gpu: StateSaveLocation is not set instead of /var/lib/slurm/slurmctld",
			"partition main: StateSaveLocation is not set instead of /var/lib/slurm/slurmctld"}},
		// slurm.conf(5), JobAcctGatherType: "Only change this … when there are no running job steps".
		"what jobs use is gathered": {[]string{"SuspendTime=600", "JobAcctGatherType=jobacct_gather/linux"}, []string{
			"gpu[1-2],node[01-20]: JobAcctGatherType is jobacct_gather/linux instead of jobacct_gather/none"}},
		"the same as the default": {[]string{"SuspendTime=600", "JobAcctGatherType=jobacct_gather/none"}, nil},
		"accounting":              {[]string{"SuspendTime=600", "AccountingStorageType=accounting_storage/slurmdbd"}, nil},
		// slurm.conf(5), SwitchType: "records of all jobs in any state may be lost".
		"the plugin for the network": {[]string{"SuspendTime=600", "SwitchType=switch/nvidia_imex"}, []string{
			"gpu[1-2],node[01-20]: SwitchType is switch/nvidia_imex instead of not set",
			"partition gpu: SwitchType is switch/nvidia_imex instead of not set",
			"partition main: SwitchType is switch/nvidia_imex instead of not set"}},
		"nodes that are declared DOWN": {[]string{"SuspendTime=600", "DownNodes=node[01-02] State=DOWN"}, []string{
			"gpu[1-2],node[01-20]: DownNodes is node[01-02] State=DOWN instead of not set"}},
		"a port": {[]string{"SuspendTime=600", "SlurmctldPort=7817"},
			[]string{"gpu[1-2],node[01-20]: SlurmctldPort is 7817 instead of not set"}},
		"a setting that nobody tried": {[]string{"SuspendTime=600", "NewSetting=1"},
			[]string{"gpu[1-2],node[01-20]: NewSetting is 1 instead of not set"}},
		"one more controller": {[]string{"ClusterName=c", "ClusterName=c\nSlurmctldHost=a\nSlurmctldHost=b"},
			[]string{"gpu[1-2],node[01-20]: SlurmctldHost is a b instead of not set"}},
		"several settings": {[]string{"SuspendTime=600", "SlurmctldPort=7817\nSwitchType=a\nKillWait=60"}, []string{
			"gpu[1-2],node[01-20]: SlurmctldPort is 7817 instead of not set, and SwitchType is a instead of not set",
			"partition gpu: SwitchType is a instead of not set",
			"partition main: SwitchType is a instead of not set"}},
		"an included file": {[]string{"SuspendTime=600", "Include more.conf"}, []string{
			"gpu[1-2],node[01-20]: Include is more.conf instead of not set",
			"partition gpu: Include is more.conf instead of not set",
			"partition main: Include is more.conf instead of not set"}},
		"a file that gres.conf includes": {[]string{"NodeName=gpu[1-2] Name=lic Count=2", "include lic.conf"},
			[]string{"gpu[1-2]: its lines in gres.conf change"}},
		"words of a list that were tried": {[]string{"SuspendTime=600",
			"SlurmctldParameters=power_save_interval=2,cloud_dns"}, nil},
		"a word that was not": {[]string{"SuspendTime=600", "SlurmctldParameters=cloud_dns,enable_configless"},
			[]string{"gpu[1-2],node[01-20]: SlurmctldParameters is cloud_dns,enable_configless instead of not set"}},
		"a longer timeout": {[]string{"SuspendTime=600", "SlurmdTimeout=301"}, nil},
		"a shorter one": {[]string{"SuspendTime=600", "SlurmdTimeout=299"},
			[]string{"gpu[1-2],node[01-20]: SlurmdTimeout is 299 instead of not set"}},
		"the folder of the steps": {[]string{"/slurmd\n", "/d\n"}, []string{
			"gpu[1-2],node[01-20]: SlurmdSpoolDir is /var/lib/slurm/d instead of /var/lib/slurm/slurmd"}},
	} {
		t.Run(name, func(t *testing.T) {
			replaced := strings.NewReplacer(test.edits...)
			coming := map[string]string{slurmFile: replaced.Replace(running), gresFile: replaced.Replace(runningGres)}
			got, err := Dangers(map[string]string{slurmFile: running, gresFile: runningGres}, coming)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, texts(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func texts(dangers []reconfigure.Danger) []string {
	var all []string
	for _, d := range dangers {
		where := d.Nodes.String()
		if d.Partition != "" {
			where = "partition " + d.Partition
		}
		all = append(all, where+": "+d.What)
	}
	return all
}

func TestNothingRunsYet(t *testing.T) {
	got, err := Dangers(nil, map[string]string{slurmFile: running})
	if got != nil || err != nil {
		t.Errorf("%v, %v", got, err)
	}
}

// TestOnlyOfOtherSettingsItIsUnknown checks that the dangers of nodes and partitions are certain.
func TestOnlyOfOtherSettingsItIsUnknown(t *testing.T) {
	coming := strings.NewReplacer("PartitionName=gpu", "PartitionName=gpus", "CPUs=4", "CPUs=8",
		"SuspendTime=600", "SwitchType=x").Replace(running)
	dangers, err := Dangers(map[string]string{slurmFile: running}, map[string]string{slurmFile: coming})
	if err != nil || len(dangers) == 0 {
		t.Fatalf("%v, %v", dangers, err)
	}
	for _, d := range dangers {
		if d.Unsure != strings.HasPrefix(d.What, "SwitchType") {
			t.Errorf("%+v", d)
		}
	}
}

// TestLinesThatCannotBeRead checks that a line that Slurm does not read is an error in both configurations.
func TestLinesThatCannotBeRead(t *testing.T) {
	good := map[string]string{slurmFile: running}
	for _, line := range []string{
		"NodeName=node[01-02 CPUs=4", "NodeName=a[2-1]", "NodeName=a CPUs", "SwitchType switch/none",
		"SlurmctldParameters a b", "SlurmctldParameters=a b", "SuspendRate=1 ResumeRate=1", "Include", "Include a b",
		"Includes a", "=", "=1", "SwitchType=", "Switch-Type=a",
	} {
		bad := maps.Clone(good)
		bad[slurmFile] += line + "\n"
		if _, err := Dangers(bad, good); err == nil || !strings.Contains(err.Error(), "slurm.conf, line 15: ") {
			t.Errorf("%s: the error is %v", line, err)
		}
		if _, err := Dangers(good, bad); err == nil || !strings.Contains(err.Error(), "the next configuration: ") {
			t.Errorf("%s: the error is %v", line, err)
		}
	}
	bad := maps.Clone(good)
	bad[gresFile] = "NodeName=gpu1 Name=gpu File"
	if _, err := Dangers(good, bad); err == nil || !strings.Contains(err.Error(), "gres.conf, line 1: ") {
		t.Errorf("the error is %v", err)
	}
}

// TestRulesAreOfSlurmsSettings finds rules with a typing error in the name.
func TestRulesAreOfSlurmsSettings(t *testing.T) {
	known := map[string]bool{}
	for _, name := range Settings() {
		known[name] = true
	}
	for _, r := range harmless {
		if !known[r.name] {
			t.Errorf("Slurm has no setting %s", r.name)
		}
		if slices.Contains(jobsLost, strings.ToLower(r.name)) && !r.grows {
			t.Errorf("%s is harmless, and loses jobs", r.name)
		}
		known[r.name] = false // a second rule would be ignored
	}
	for _, key := range jobsLost {
		if !slices.ContainsFunc(Settings(), func(name string) bool { return strings.EqualFold(name, key) }) && key != "include" {
			t.Errorf("Slurm has no setting %s", key)
		}
	}
}

func FuzzDangers(f *testing.F) {
	f.Add(running)
	f.Add("NodeName=DEFAULT CPUs=2 \\\nNodeName=a")
	f.Add(`NodeName=a Reason="x y" CPUs = 3 # z`)
	f.Fuzz(func(t *testing.T, text string) {
		files := map[string]string{slurmFile: text, gresFile: text}
		if dangers, err := Dangers(files, files); err == nil && len(dangers) > 0 {
			t.Errorf("a file differs from itself: %v", dangers)
		}
	})
}

// FuzzLines adds a line to slurm.conf. It is an error, or another configuration: no line is dropped.
func FuzzLines(f *testing.F) {
	for _, line := range []string{"SuspendTime=1", "Include a", "SlurmctldParameters a b", `MailProg="a b"`, "a=b c=d",
		"NodeName=a CPUs=2", "PartitionName=a Nodes=b", "DownNodes=a State=DOWN", "SlurmctldHost=a(b)", "a = b"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if strings.ContainsAny(line, "#\\\n") || strings.TrimSpace(line) == "" {
			t.Skip("it is a comment, several lines, or none")
		}
		before, err := parse(map[string]string{slurmFile: running})
		if err != nil {
			t.Fatal(err)
		}
		after, err := parse(map[string]string{slurmFile: running + line})
		lower := strings.ToLower(line)
		if err == nil && reflect.DeepEqual(before, after) && !strings.Contains(lower, "default") &&
			!strings.Contains(lower, "nodename") && !strings.Contains(lower, "partitionname") {
			t.Errorf("the line is dropped: %q", line)
		}
	})
}
