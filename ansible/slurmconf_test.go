package site_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/ansible"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/slurmconf"
)

// edit is an edit of slurm.conf or gres.conf, and the jobs that a real slurmctld ends when it restarts with the edit.
type edit struct {
	name     string
	old, new string // all occurrences
	ends     []string
	careful  []string // jobs that slurmconf names although they do not end
}

// The jobs of the test: on node01 in partition main, on node02 in partition second, on g01 with gres, and one that
// waits in partition second.
var edits = []edit{
	{name: "nothing that jobs depend on", old: "SuspendTime=600", new: "SuspendTime=700"},
	{name: "a feature", old: " RealMemory=100", new: " RealMemory=100 Feature=new"},
	{name: "more memory", old: "RealMemory=100", new: "RealMemory=200"},
	// The jobs keep running, but their next step may not begin: docs/how-it-works/settings.md.
	{name: "memory that is allocated", old: "=CR_Core\n", new: "=CR_Core_Memory\nDefMemPerCPU=10\n",
		careful: []string{"node01", "node02", "g01"}},
	{name: "less memory", old: "RealMemory=100", new: "RealMemory=1"},
	{name: "a persistent node becomes a cloud node", old: "State=UNKNOWN", new: "State=CLOUD"},
	{name: "a node out of a partition with a job there", old: "PartitionName=second Nodes=node[01-02]",
		new: "PartitionName=second Nodes=node01"},
	{name: "a shorter limit of a partition", old: "MaxTime=UNLIMITED", new: "MaxTime=1"},
	{name: "more CPUs", old: "node[01-02] CPUs=4", new: "node[01-02] CPUs=8",
		ends: []string{"node01", "node02"}},
	{name: "fewer CPUs", old: "node[01-02] CPUs=4", new: "node[01-02] CPUs=2",
		ends: []string{"node01", "node02"}},
	{name: "threads", old: "node[01-02] CPUs=4", new: "node[01-02] CPUs=4 ThreadsPerCore=2",
		ends: []string{"node01", "node02"}},
	// Without File in gres.conf, slurmctld only counts gres.
	{name: "fewer gres", old: "lic:2", new: "lic:1", careful: []string{"g01"}},
	{name: "no gres", old: "lic:2,", new: "", careful: []string{"g01"}},
	{name: "fewer gres with files", old: "dev:2", new: "dev:1", ends: []string{"g01"}},
	{name: "a partition is gone", old: "PartitionName=second", new: "PartitionName=other",
		ends: []string{"node02", "waiting"}},
	{name: "a node is gone", old: "node[01-02]", new: "node01", ends: []string{"node02"}},
	{name: "another plugin for selection",
		old: "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\n", new: "SelectType=select/linear\n",
		careful: []string{"node01", "node02", "g01", "waiting"}}, // slurm.conf(5) says that all jobs are lost
	// slurm.conf(5) allows a change only while no step runs.
	{name: "what jobs use is gathered", old: "SuspendTime=600",
		new: "SuspendTime=600\nJobAcctGatherType=jobacct_gather/linux", careful: []string{"node01", "node02", "g01"}},
	{name: "another folder for the jobs", old: "StateSaveLocation=/var/lib/slurm/slurmctld",
		new:  "StateSaveLocation=/var/lib/slurm/other",
		ends: []string{"node01", "node02", "g01", "waiting"}},
}

// TestARestartEndsOnlyTheJobsThatAreNamed makes every kind of edit in the configuration of a real slurmctld while jobs
// run on all nodes, and compares the jobs that end with those that package slurmconf names. Then the playbooks make one
// edit.
func TestARestartEndsOnlyTheJobsThatAreNamed(t *testing.T) {
	t.Parallel()
	m := newMachines(t, 12)
	declaration := filepath.Join(m.dir, "group_vars", "all.yml")
	text := regexp.MustCompile(`(?s)node_groups:.*\nslurm:`).ReplaceAllString(read(t, declaration), `node_groups:
  - {name: standard, prefix: node, width: 2, min_nodes: 2, max_nodes: 2, slurm: {CPUs: 4, RealMemory: 100}}
  - {name: special, prefix: g, width: 2, min_nodes: 1, max_nodes: 1, gres: "lic:2,dev:2",
     slurm: {CPUs: 4, RealMemory: 100}}
partitions:
  - {name: main, groups: [standard, special], default: true}
  - {name: second, groups: [standard], slurm: {MaxTime: UNLIMITED}}
slurm:`)
	write(t, declaration, text)
	write(t, filepath.Join(m.dir, "group_vars", "cluster.yml"), `
slurm_cgroup_conf: CgroupPlugin=cgroup/v1
slurm_gres_conf: |
  NodeName=g01 Name=lic Count=2
  NodeName=g01 Name=dev File=/dev/null
  NodeName=g01 Name=dev File=/dev/zero
`)
	m.cluster.Groups = []reconfigure.NodeGroup{
		{Name: "standard", Prefix: "node", Width: 2, Min: 2, Max: 2},
		{Name: "special", Prefix: "g", Width: 2, Min: 1, Max: 1},
	}
	for number, name := range []string{"ctl", "node01", "node02", "g01"} {
		m.boot(name, byte(10+number))
	}
	m.configure("ctl", "node01", "node02", "g01")
	m.on("ctl", "install", "-d", "-o", "slurm", "/var/lib/slurm/other")
	c := confs{machines: m, running: map[string]string{}}
	for _, name := range []string{"slurm.conf", "gres.conf"} {
		text, err := m.host.Command("ctl", "cat", "/etc/slurm/"+name).Output()
		if err != nil {
			t.Fatal(err)
		}
		c.running[name] = string(text)
	}
	for _, e := range edits {
		t.Run(e.name, func(t *testing.T) { c.try(t, e) })
	}
	c.TB = t
	c.refuse(text)
}

// confs restarts slurmctld with other files.
type confs struct {
	*machines
	running map[string]string
}

// begin starts the jobs, and returns their ids by node.
func (c confs) begin() map[string]string {
	c.Helper()
	c.until("all nodes are idle", func() bool {
		return c.on("ctl", "sinfo", "--noheader", "--nodes=node[01-02],g01", "--partition=main", "--states=idle",
			"--format=%D") == "3"
	})
	sbatch := func(args ...string) string {
		return c.on("ctl", append([]string{"sbatch", "--parsable", "--no-requeue", "--chdir=/tmp",
			"--wrap=sleep 1000"}, args...)...)
	}
	jobs := map[string]string{
		"node01":  sbatch("--nodelist=node01"),
		"node02":  sbatch("--nodelist=node02", "--partition=second"),
		"g01":     sbatch("--nodelist=g01", "--gres=lic:2,dev:2"),
		"waiting": sbatch("--partition=second", "--begin=now+1hour"),
	}
	c.until("all jobs run", func() bool { return len(c.alive(jobs, "RUNNING")) == 3 })
	return jobs
}

// alive returns which of the jobs are in one of the states.
func (c confs) alive(jobs map[string]string, states string) []string {
	c.Helper()
	ids := strings.Fields(c.on("ctl", "squeue", "--noheader", "--all", "--states="+states, "--format=%i"))
	var there []string
	for name, id := range jobs {
		if slices.Contains(ids, id) {
			there = append(there, name)
		}
	}
	slices.Sort(there)
	return there
}

// restart restarts slurmctld with other files.
func (c confs) restart(files map[string]string) {
	c.Helper()
	c.on("ctl", "service", "slurmctld", "stop")
	c.until("slurmctld has ended", func() bool { return c.host.Command("ctl", "pgrep", "-x", "slurmctld").Run() != nil })
	for name, text := range files {
		cmd := c.host.Command("ctl", "sh", "-c", "cat >/etc/slurm/"+name)
		cmd.Stdin = strings.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil {
			c.Fatalf("%v: %s", err, out)
		}
	}
	c.on("ctl", "service", "slurmctld", "start")
	c.until("slurmctld answers", func() bool { return c.host.Command("ctl", "squeue").Run() == nil })
}

func (c confs) try(t *testing.T, e edit) {
	t.Helper()
	c.TB = t
	jobs := c.begin()
	coming := map[string]string{}
	for name, text := range c.running {
		coming[name] = strings.ReplaceAll(text, e.old, e.new)
	}
	if maps.Equal(coming, c.running) {
		t.Fatalf("%q is not in the files:\n%s", e.old, c.running["slurm.conf"])
	}
	c.restart(coming)
	c.until("all nodes have registered", func() bool {
		return !strings.Contains(c.on("ctl", "scontrol", "show", "nodes"), "SlurmdStartTime=None")
	})
	ended := slices.Sorted(maps.Keys(jobs))
	left := c.alive(jobs, "RUNNING,PENDING,SUSPENDED")
	ended = slices.DeleteFunc(ended, func(name string) bool { return slices.Contains(left, name) })
	if diff := cmp.Diff(slices.Sorted(slices.Values(e.ends)), ended); diff != "" && len(e.ends)+len(ended) > 0 {
		t.Errorf("slurmctld has ended other jobs (-want +got):\n%s\n%s", diff,
			c.on("ctl", "grep", "-a", "-i", "abort\\|invalid", "/var/log/slurm/slurmctld.log"))
	}
	wanted, named := slices.Sorted(slices.Values(slices.Concat(e.ends, e.careful))), c.named(coming)
	if diff := cmp.Diff(wanted, named); diff != "" && len(wanted)+len(named) > 0 {
		t.Errorf("other jobs are named (-want +got):\n%s", diff)
	}
	c.restart(c.running)
	_ = c.host.Command("ctl", "scancel", "--user=root").Run() // having none is an error
	c.until("no job is left", func() bool { return c.on("ctl", "squeue", "--noheader", "--all") == "" })
	// It is an error for nodes that are idle.
	_ = c.host.Command("ctl", "scontrol", "update", "nodename=node[01-02],g01", "state=resume").Run()
}

// named returns the jobs that package slurmconf says would end.
func (c confs) named(coming map[string]string) []string {
	c.Helper()
	dangers, err := slurmconf.Dangers(c.running, coming)
	if err != nil {
		c.Fatal(err)
	}
	ends := map[string]bool{}
	for _, d := range dangers {
		for _, node := range []string{"node01", "node02", "g01"} {
			if d.Nodes.Contains(node) {
				ends[node] = true
			}
		}
		if d.Partition == "second" {
			ends["node02"], ends["waiting"] = true, true
		}
	}
	return slices.Sorted(maps.Keys(ends))
}

// refuse edits the hardware of a group, and lets the playbooks write it while a job runs that did not run when the
// configurations were compared.
func (c confs) refuse(text string) {
	c.Helper()
	declaration := filepath.Join(c.dir, "group_vars", "all.yml")
	write(c.TB, declaration, strings.Replace(text, "CPUs: 4", "CPUs: 8", 1))
	jobs := c.begin()
	runner := ansible.New(ansible.Config{Dir: c.dir, Env: os.Environ(), Log: os.Stderr})
	answer, err := runner.SlurmConf(c.Context(), c.cluster, c.instances, nil)
	if err != nil {
		c.Fatal(err)
	}
	if len(answer.Running) != 1 {
		c.Fatalf("slurmctld is said to run with %q", answer.Running)
	}
	if want := map[string]int{"main": 2, "second": 2}; !maps.Equal(answer.Jobs, want) {
		c.Errorf("the jobs are %v, not %v", answer.Jobs, want)
	}
	for name, text := range c.running {
		if diff := cmp.Diff(strings.TrimSpace(text), strings.TrimSpace(answer.Running[0][name])); diff != "" {
			c.Errorf("slurmctld is said to run with another %s (-want +got):\n%s", name, diff)
		}
	}
	dangers, err := slurmconf.Dangers(answer.Running[0], answer.Coming)
	if err != nil || len(dangers) != 1 || !dangers[0].Nodes.Equal(nodeset.Of("node01", "node02")) {
		c.Fatalf("%v, %v", dangers, err)
	}
	before := c.daemons()
	extent := reconfigure.Extent{Everywhere: true, Conf: &reconfigure.SlurmConf{
		Files: answer.Coming, Dangers: dangers}}
	fails := func(words string) {
		c.Helper()
		failures, said := c.extend(extent)
		if err := failures["ctl"]; err == nil || !strings.Contains(err.Error(), words) {
			c.Errorf("the control node's failure is %v\n%s", err, said)
		}
		if diff := cmp.Diff(before, c.daemons()); diff != "" {
			c.Errorf("daemons were restarted (-before +after):\n%s", diff)
		}
		if diff := cmp.Diff(c.running["slurm.conf"], c.on("ctl", "cat", "/etc/slurm/slurm.conf")+"\n"); diff != "" {
			c.Errorf("slurm.conf (-before +after):\n%s", diff)
		}
	}
	fails("a restarted slurmctld would end jobs " + jobs["node01"])
	extent.Conf = &reconfigure.SlurmConf{Err: "no answer"}
	fails("it is unknown whether jobs would be ended: no answer")

	// The playbooks write the configuration that was compared, not the current declaration.
	c.on("ctl", "scancel", "--user=root")
	c.until("no job is left", func() bool { return c.on("ctl", "squeue", "--noheader", "--all") == "" })
	write(c.TB, declaration, strings.Replace(text, "CPUs: 4", "CPUs: 2", 1))
	extent.Conf = &reconfigure.SlurmConf{Files: answer.Coming, Dangers: dangers}
	if failures, said := c.extend(extent); len(failures) > 0 {
		c.Fatalf("%v\n%s", failures, said)
	}
	for _, name := range []string{"ctl", "node01"} {
		if conf := c.on(name, "cat", "/etc/slurm/slurm.conf") + "\n"; conf != answer.Coming["slurm.conf"] {
			c.Errorf("%s has another slurm.conf:\n%s", name, cmp.Diff(answer.Coming["slurm.conf"], conf))
		}
	}
}
