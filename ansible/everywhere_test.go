package site_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// TestAnotherConfigurationOfSlurmReachesAllNodes changes the size of a group while jobs run on a persistent and on a
// cloud node.
func TestAnotherConfigurationOfSlurmReachesAllNodes(t *testing.T) {
	t.Parallel()
	m := newMachines(t, 10)
	for number, name := range []string{"ctl", "node01", "node02", "node03"} {
		m.boot(name, byte(10+number))
	}
	m.configure("ctl", "node01", "node02", "node03")
	for _, node := range []string{"node01", "node02", "node03"} {
		m.until(node+" has registered", func() bool { return strings.HasPrefix(m.slurm(node), "IDLE") })
	}
	jobs := m.jobs("node02", "node03")
	everywhere := reconfigure.Extent{Everywhere: true, Addresses: true}
	before := m.daemons()

	m.size(4, 5)
	m.boot("node04", 14)
	failures, said := m.extend(reconfigure.Extent{Changed: nodeset.Of("node04"), Everywhere: true, Addresses: true})
	if len(failures) > 0 {
		t.Fatalf("%v\n%s", failures, said)
	}
	m.agree("node[01-04]", "node05")
	larger := m.daemons()
	for name, pid := range before {
		if larger[name] == pid {
			t.Errorf("%s was not restarted", name)
		}
	}
	m.until("the cloud node is persistent, the new node has registered, and slurmctld has one more cloud node",
		func() bool {
			return m.slurm("node03") == "ALLOCATED" && m.slurm("node04") == "IDLE" &&
				strings.HasPrefix(m.slurm("node05"), "IDLE+CLOUD")
		})
	jobs.run("in the larger group")

	_, said = m.extend(everywhere)
	if n := strings.Count(said, "changed=0 "); n != 5 {
		t.Errorf("a second run changed something:\n%s", said)
	}
	if diff := cmp.Diff(larger, m.daemons()); diff != "" {
		t.Errorf("a second run restarted daemons (-before +after):\n%s", diff)
	}

	// As after runs that ended after the files were written and before the daemon started.
	m.on("ctl", "sh", "-c", "echo '#' >>/etc/slurm/last-good/slurm.conf")
	m.on("node02", "mkdir", "/etc/slurm/before")
	m.extend(everywhere)
	for name, anew := range map[string]bool{"ctl": true, "node01": false, "node02": true,
		"node03": false, "node04": false} {
		if now := m.daemons()[name]; (now != larger[name]) != anew {
			t.Errorf("%s is process %s, and was %s before the run after an interrupted one", name, now, larger[name])
		}
	}
	jobs.run("after an interrupted run")

	// One node cannot be reached, and slurmd does not accept the files on another one, which lacks a plugin of Slurm.
	if err := m.host.Stop(t.Context(), "node01"); err != nil {
		t.Fatal(err)
	}
	plugin := m.on("node02", "find", "/usr/lib", "-name", "task_affinity.so")
	m.on("node02", "mv", plugin, "/root/")
	m.declares("task/none", "task/affinity")
	kept := m.on("node02", "cat", "/etc/slurm/slurm.conf")
	m.size(2, 5)
	failures, said = m.extend(everywhere)
	if len(failures) > 0 || !strings.Contains(said, "UNREACHABLE!") {
		t.Errorf("%v\n%s", failures, said)
	}
	for _, words := range []string{"slurmd does not answer with the new configuration; the previous one is restored",
		"task/affinity"} {
		if !strings.Contains(said, words) {
			t.Errorf("Ansible did not print %q:\n%s", words, said)
		}
	}
	delete(m.instances, "node01")
	if diff := cmp.Diff(kept, m.on("node02", "cat", "/etc/slurm/slurm.conf")); diff != "" {
		t.Errorf("the files that slurmd ran with are not restored (-before +after):\n%s", diff)
	}
	m.on("node02", "scontrol", "show", "slurmd")
	m.until("the node is a cloud node again", func() bool { return strings.Contains(m.slurm("node03"), "CLOUD") })
	jobs.run("in the smaller group")

	m.on("node02", "mv", "/root/task_affinity.so", plugin)
	m.extend(everywhere)
	m.agree("node[01-02]", "node[03-05]")
	jobs.end()
}

// size changes the declared size of the group.
func (m *machines) size(least, most int) {
	m.Helper()
	declaration := filepath.Join(m.dir, "group_vars", "all.yml")
	sizes := regexp.MustCompile(`min_nodes: \d+, max_nodes: \d+`)
	write(m.TB, declaration, sizes.ReplaceAllString(read(m.TB, declaration),
		fmt.Sprintf("min_nodes: %d, max_nodes: %d", least, most)))
	m.cluster.Groups[0].Min, m.cluster.Groups[0].Max = least, most
}

// declares replaces a word of the declaration.
func (m *machines) declares(word, other string) {
	m.Helper()
	declaration := filepath.Join(m.dir, "group_vars", "all.yml")
	write(m.TB, declaration, strings.ReplaceAll(read(m.TB, declaration), word, other))
}

// daemons returns the processes of slurmctld and of each slurmd, by machine.
func (m *machines) daemons() map[string]string {
	m.Helper()
	pids := map[string]string{}
	for name := range m.instances {
		daemon := "slurmd"
		if name == "ctl" {
			daemon = "slurmctld"
		}
		pids[name] = m.on(name, "pgrep", "-o", "-x", daemon)
	}
	return pids
}

// agree checks that all machines have the same slurm.conf, with these persistent and these cloud nodes.
func (m *machines) agree(persistent, cloud string) {
	m.Helper()
	conf := m.on("ctl", "cat", "/etc/slurm/slurm.conf")
	for nodes, state := range map[string]string{persistent: "UNKNOWN", cloud: "CLOUD"} {
		if !strings.Contains(conf, "\nNodeName="+nodes+" CPUs=1 RealMemory=100 State="+state+"\n") {
			m.Errorf("slurm.conf does not have %s as %s:\n%s", nodes, state, conf)
		}
	}
	for name := range m.instances {
		if diff := cmp.Diff(conf, m.on(name, "cat", "/etc/slurm/slurm.conf")); diff != "" {
			m.Errorf("%s has another slurm.conf (-ctl +%s):\n%s", name, name, diff)
		}
		if left := m.on(name, "find", "/etc/slurm", "-name", "before*", "-o", "-name", ".*"); left != "" {
			m.Errorf("left on %s: %s", name, left)
		}
	}
}

// slurm returns Slurm's state of a node.
func (m *machines) slurm(node string) string {
	m.Helper()
	state := regexp.MustCompile(`State=(\S+)`).FindStringSubmatch(m.on("ctl", "scontrol",
		"--oneliner", "show", "node", node))
	if state == nil {
		m.Fatalf("no state of %s", node)
	}
	return state[1]
}

// jobs are jobs by node, which run until end is called.
type jobs struct {
	*machines
	ids, pids map[string]string
}

func (m *machines) jobs(nodes ...string) jobs {
	m.Helper()
	j := jobs{machines: m, ids: map[string]string{}, pids: map[string]string{}}
	for _, node := range nodes {
		j.ids[node] = m.on("ctl", "sbatch", "--parsable", "--chdir=/tmp", "--nodelist="+node, "--wrap",
			"echo $$ >/tmp/job; until [ -e /tmp/end ]; do sleep 1; done; scontrol ping && srun true && touch /tmp/ended")
		m.until("the job runs on "+node,
			func() bool { return m.host.Command(node, "test", "-s", "/tmp/job").Run() == nil })
		j.pids[node] = m.on(node, "cat", "/tmp/job")
	}
	return j
}

// run checks that the jobs still run and were not restarted.
func (j jobs) run(when string) {
	j.Helper()
	for node, id := range j.ids {
		if info := j.on("ctl", "scontrol", "--oneliner", "show", "job", id); !strings.Contains(info,
			"JobState=RUNNING") || !strings.Contains(info, "Restarts=0") {
			j.Errorf("%s, the job on %s is %s", when, node, info)
		}
		if j.on(node, "cat", "/tmp/job") != j.pids[node] || j.host.Command(node, "kill", "-0",
			j.pids[node]).Run() != nil {
			j.Errorf("%s, the process of the job on %s has ended", when, node)
		}
	}
}

// end ends the jobs and checks that they succeed.
func (j jobs) end() {
	j.Helper()
	for node, id := range j.ids {
		j.on(node, "touch", "/tmp/end")
		j.until("the job on "+node+" is done", func() bool {
			return strings.Contains(j.on("ctl", "scontrol", "show", "job", id), "JobState=COMPLETED")
		})
		j.on(node, "test", "-e", "/tmp/ended")
	}
}
