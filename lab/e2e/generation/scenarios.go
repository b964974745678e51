package generation

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
	"github.com/eiffel-hpc/eiffel/reconfigure"
)

func (l *Lab) servicesAreUnits(t *testing.T) {
	for node, services := range map[string][]string{
		cluster.ControlNodeName: {"munge", "slurmctld", "ssh"}, "node01": {"munge", "slurmd", "ssh"},
	} {
		for _, service := range services {
			state := l.On(t, node, "systemctl", "show", "--value", "-p", "ActiveState", service)
			if state != "active" {
				t.Errorf("%s on %s is %s", service, node, state)
			}
			enabled, _ := l.Command(node, "systemctl", "is-enabled", service).Output() // exit status 1 if disabled
			if boot := strings.TrimSpace(string(enabled)) == "enabled"; boot != (service != "slurmd") {
				t.Errorf("%s on %s is %s at boot", service, node, enabled)
			}
		}
	}
}

func (l *Lab) theSecondDeployChangesNothing(t *testing.T) {
	before := l.units(t)
	l.AssertDeployChangesNothing(t)
	if diff := cmp.Diff(before, l.units(t)); diff != "" {
		t.Errorf("services were restarted (-before +after):\n%s", diff)
	}
}

// units returns the times at which Slurm's services started.
func (l *Lab) units(t *testing.T) map[string]string {
	t.Helper()
	started := map[string]string{}
	for node, service := range map[string]string{cluster.ControlNodeName: "slurmctld", "node01": "slurmd"} {
		started[node] = l.On(t, node, "systemctl", "show", "-p", "MainPID", "-p", "ActiveEnterTimestampMonotonic", service)
	}
	return started
}

// aJobOnACloudNode checks that a node is made for a job and removed when it is idle, and that SLURM_RESUME_FILE is
// read. slurmctld's call starts the worker's service.
func (l *Lab) aJobOnACloudNode(t *testing.T) {
	l.asRoot(t, "systemctl", "stop", worker)
	id := l.Job(t, "--nodelist=node02", "--wrap=true")
	l.AwaitJob(t, id, "COMPLETED")
	l.assertLaunchedAtOnce(t, id)
	if text := l.asRoot(t, "journalctl", "--no-pager", "--unit", worker); !strings.Contains(text, "node02") {
		t.Errorf("the journal of the worker does not name node02:\n%s", text)
	}
	requests, err := l.Journal(t).Requests(t.Context(), 5)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(requests, func(r reconfigure.Request) bool {
		return r.Mode == reconfigure.Resume && slices.ContainsFunc(r.Jobs, func(j reconfigure.Job) bool {
			return fmt.Sprint(j.ID) == id && j.Nodes.Contains("node02")
		})
	}) {
		t.Errorf("no resume has job %s of SLURM_RESUME_FILE: %+v", id, requests)
	}
	l.AwaitQuiet(t)
}

func (l *Lab) aJobThatExceedsItsMemoryIsKilled(t *testing.T) {
	const take = "--wrap=python3 -c 'len(bytearray(300 << 20))'"
	l.AwaitJob(t, l.Job(t, "--nodelist=node01", "--mem=400", take), "COMPLETED")
	l.AwaitJob(t, l.Job(t, "--nodelist=node01", "--mem=100", take), "OUT_OF_MEMORY")
}

func (l *Lab) aJobHasItsCoresOnly(t *testing.T) {
	id := l.Job(t, "--nodelist=node01", "--cpus-per-task=1", harness.Until)
	l.AwaitJob(t, id, "RUNNING")
	// The job is RUNNING before its first process runs; until then a number may be -1.
	script := "job=$(scontrol listpids | awk '$2 == " + id + " && $1 > 0 {print $1}' | tail -n 1)\n" +
		"sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/$job/status"
	var cpus string
	l.Eventually(t, harness.JobPatience, func() (bool, string) {
		out, err := l.Command("node01", "sh", "-c", script).Output()
		cpus = strings.TrimSpace(string(out))
		return cpus != "", fmt.Sprintf("the job has no process (%v)", err)
	})
	l.LetGo(t, "node01")
	if strings.ContainsAny(cpus, ",-") {
		t.Errorf("a job with one core may use %s", cpus)
	}
	l.AwaitJob(t, id, "COMPLETED")
}

func (l *Lab) afterAPlainRebootSlurmdWaits(t *testing.T) {
	before := l.Identities(t, "node01")["node01"]
	server, _ := l.Server("node01")
	if err := l.Host.Reboot(t.Context(), server.ID, false); err != nil {
		t.Fatal(err)
	}
	l.Eventually(t, harness.JobPatience, func() (bool, string) {
		out, _ := l.Command("node01", "systemctl", "is-system-running").Output()
		state := strings.TrimSpace(string(out))
		return state == "running" || state == "degraded", "node01 is " + state
	})
	if state, _ := l.Command("node01", "systemctl", "is-active", "slurmd").Output(); strings.TrimSpace(
		string(state)) != "inactive" {
		t.Errorf("after the boot slurmd is %s", state)
	}
	l.On(t, "node01", "systemctl", "is-active", "munge")
	l.Do(t, "update", "node01")
	l.AwaitIdle(t, "node01")
	if after := l.Identities(t, "node01")["node01"]; after.ID != before.ID {
		t.Errorf("the instance is another one: %+v", after)
	}
}

// rebootBySlurm reboots a node without a change: slurmctld or slurmd calls RebootProgram, as declared.
func (l *Lab) rebootBySlurm(t *testing.T) {
	before := l.Identities(t, "node01")["node01"]
	l.OnControl(t, "scontrol", "reboot", "ASAP", "nextstate=RESUME", "reason=maintenance", "node01")
	if after := l.AwaitRenewed(t, "node01", before); after.ID != before.ID {
		t.Errorf("the node was to be rebooted, no more: before %+v, after %+v", before, after)
	}
}

// rebootTheOtherWay is rebootBySlurm by slurmd if slurmctld is declared, and by slurmctld otherwise.
func (l *Lab) rebootTheOtherWay(t *testing.T) {
	l.DeployAfter(t)
	l.Redeclare(t, func(d *cluster.Declaration) {
		all := slices.Clone(d.Slurm.ControllerParameters)
		if i := slices.Index(all, fromController); i >= 0 {
			all = slices.Delete(all, i, i+1)
		} else {
			all = append(all, fromController)
		}
		d.Slurm.ControllerParameters = all
	})
	l.Do(t, "deploy")
	l.AwaitIdle(t, "node01")
	l.rebootBySlurm(t)
}

// eachJobHasAFreshInstance checks that a node powers down after its job, and that the mark rejects a job if it does
// not.
func (l *Lab) eachJobHasAFreshInstance(t *testing.T) {
	l.DeployAfter(t)
	l.Redeclare(t, func(d *cluster.Declaration) {
		d.NodeGroups = append(d.NodeGroups, cluster.Group("single", "f", 0, 1))
		d.Partitions = append(d.Partitions, cluster.Partition{Name: "single", Groups: []string{"single"}, Fresh: "job"})
	})
	l.Do(t, "deploy")
	run := func() (job, instance string) {
		job = l.Job(t, "--partition=single", harness.Until)
		l.AwaitJob(t, job, "RUNNING")
		s, _ := l.Server("f01")
		return job, s.ID
	}
	job, first := run()
	l.LetGo(t, "f01")
	l.AwaitJob(t, job, "COMPLETED")
	job, second := run()
	if first == second {
		t.Errorf("both jobs had instance %s", first)
	}
	l.IgnoreTheEndOfJobs(t, "f01")
	l.LetGo(t, "f01")
	l.AwaitJob(t, job, "COMPLETED")
	refused := l.Job(t, "--partition=single", "--wrap=true")
	l.AwaitRefused(t, refused)
	l.Restart(t, refused)
	l.AwaitJob(t, refused, "COMPLETED")
	l.AwaitQuiet(t)
}

func (l *Lab) reimageBySlurm(t *testing.T) {
	before := l.Identities(t, "node01")["node01"]
	l.OnControl(t, "scontrol", "reboot", "ASAP", "nextstate=RESUME", "reason=reimage", "node01")
	after := l.AwaitRenewed(t, "node01", before)
	if after.ID == before.ID {
		t.Errorf("the instance is the old one: %+v", after)
	}
	l.AwaitJob(t, l.Job(t, "--nodelist=node01", "--wrap=true"), "COMPLETED")
	l.AssertTerraformIsClean(t)
}

// worker is the systemd unit of the cluster's worker.
const worker = "reconfigure-worker@opt-eiffel.service"

// The next tests use the service.
func (l *Lab) theWorkerIsAService(t *testing.T) {
	if err := l.InstallService(); err != nil {
		t.Fatal(err)
	}
	l.awaitWorker(t)
	show := func(property string) string {
		return strings.TrimSpace(l.asRoot(t, "systemctl", "show", "--value", "-p", property, worker))
	}
	if owner := l.asRoot(t, "ps", "-o", "user=", "-p", show("MainPID")); strings.TrimSpace(owner) != cluster.User {
		t.Errorf("the worker is %s's", owner)
	}
	// polkit's rule allows the user to start only this unit.
	l.asRoot(t, "systemctl", "stop", worker)
	for _, denied := range [][]string{{"stop", "ssh"}, {"start", "ssh"}, {"restart", worker}} {
		argv := append([]string{"systemctl", "--no-ask-password"}, denied...)
		if out, err := l.OnControlHost(t.Context(), "/", argv...).CombinedOutput(); err == nil {
			t.Errorf("polkit lets the user %v: %s", denied, out)
		}
	}
	if state := show("ActiveState"); state != "inactive" {
		t.Fatalf("the worker was stopped, and is %s", state)
	}
	if out, err := l.OnControlHost(t.Context(), "/", "systemctl", "--no-ask-password", "start",
		worker).CombinedOutput(); err != nil {
		t.Errorf("polkit does not let the user start the worker: %s", out)
	}
	l.awaitWorker(t)
}

func (l *Lab) awaitWorker(t *testing.T) {
	t.Helper()
	l.Eventually(t, harness.JobPatience, func() (bool, string) {
		out, _ := l.OnControlHostAsRoot("systemctl", "is-active", worker).Output()
		state := strings.TrimSpace(string(out))
		return state == "active", "the worker is " + state
	})
}

// asRoot runs a command on the control host, which must succeed.
func (l *Lab) asRoot(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := l.OnControlHostAsRoot(argv...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v on the control host: %v\n%s", argv, err, out)
	}
	return string(out)
}

func (l *Lab) settingsFitTheRelease(t *testing.T) {
	config := l.OnControl(t, "scontrol", "show", "config")
	if strings.Contains(config, "cloud_reg_addrs") == l.of.newer { // 23.11 and later lack the setting
		t.Errorf("slurmctld runs with\n%s", config)
	}
	for _, want := range []string{"idle_on_node_suspend", "SuspendExcNodes         = node01\n"} {
		if !strings.Contains(config, want) {
			t.Errorf("slurmctld runs without %q:\n%s", want, config)
		}
	}
	if l.of.newer { // 23.02 and later
		for _, c := range []struct{ change, want string }{{"+=node02", "node[01-02]"}, {"-=node02", "node01"}} {
			l.OnControl(t, "scontrol", "update", "SuspendExcNodes"+c.change)
			if config := l.OnControl(t, "scontrol", "show", "config"); !strings.Contains(config,
				"SuspendExcNodes         = "+c.want+"\n") {
				t.Errorf("after %s slurmctld runs with\n%s", c.change, config)
			}
		}
	}
	for _, log := range []string{"slurmctld.log", "slurmd.log"} {
		host := map[string]string{"slurmctld.log": cluster.ControlNodeName, "slurmd.log": "node01"}[log]
		text := l.On(t, host, "cat", "/var/log/slurm/"+log)
		for line := range strings.Lines(text) {
			for _, word := range []string{"defunct", "deprecated", "nrecognized"} {
				if strings.Contains(line, word) {
					t.Errorf("%s on %s has %s", log, host, line)
				}
			}
		}
	}
}

func (l *Lab) slurmConforms(t *testing.T) { l.ConformSlurm(t, "node02") }

// tutorial runs the commands of the rest of docs/start/tutorial.md. The first sections installed and deployed this lab.
// It is the last scenario, since the tutorial ends with an empty project.
func (l *Lab) tutorial(t *testing.T) {
	for _, section := range []string{"Run a job", "Reimage a node", "Destroy the cluster"} {
		before, _ := l.Server("node01")
		if err := l.Follow(t.Context(), cluster.Tutorial, section); err != nil {
			t.Fatal(err)
		}
		after, found := l.Server("node01")
		switch {
		case section == "Reimage a node" && after.ID == before.ID:
			t.Errorf("node01 has instance %s as before", after.ID)
		case section == "Destroy the cluster" && (found || len(l.Servers()) > 0):
			t.Errorf("the project is not empty: %v", l.Servers())
		}
	}
}
