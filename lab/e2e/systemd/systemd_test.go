package systemd_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
	"github.com/eiffel-hpc/eiffel/reconfigure"
)

func TestServicesAreUnits(t *testing.T) {
	for node, services := range map[string][]string{
		cluster.ControlNodeName: {"munge", "slurmctld", "ssh"}, "node01": {"munge", "slurmd", "ssh"},
	} {
		for _, service := range services {
			state := lab.On(t, node, "systemctl", "show", "--value", "-p", "ActiveState", service)
			if state != "active" {
				t.Errorf("%s on %s is %s", service, node, state)
			}
			enabled, _ := lab.Command(node, "systemctl", "is-enabled", service).Output() // exit status 1 if it is not
			if boot := strings.TrimSpace(string(enabled)) == "enabled"; boot != (service != "slurmd") {
				t.Errorf("%s on %s is %s at boot", service, node, enabled)
			}
		}
	}
}

func TestTheSecondDeployChangesNothing(t *testing.T) {
	before := units(t)
	lab.Do(t, "deploy")
	for host, changed := range lab.LastRecap(t) {
		if changed != "changed=0" {
			t.Errorf("the recap has %s of %s, which was configured already", changed, host)
		}
	}
	if diff := cmp.Diff(before, units(t)); diff != "" {
		t.Errorf("services were restarted (-before +after):\n%s", diff)
	}
}

// units returns when the services of Slurm were started.
func units(t *testing.T) map[string]string {
	t.Helper()
	started := map[string]string{}
	for node, service := range map[string]string{cluster.ControlNodeName: "slurmctld", "node01": "slurmd"} {
		started[node] = lab.On(t, node, "systemctl", "show", "-p", "MainPID", "-p", "ActiveEnterTimestampMonotonic", service)
	}
	return started
}

func TestAJobOnACloudNode(t *testing.T) {
	id := lab.Job(t, "--nodelist=node02", "--wrap=true")
	lab.AwaitJob(t, id, "COMPLETED")
	requests, err := lab.Journal(t).Requests(t.Context(), 5)
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
	lab.AwaitQuiet(t)
}

func TestAJobThatExceedsItsMemoryIsKilled(t *testing.T) {
	const take = "--wrap=python3 -c 'len(bytearray(300 << 20))'"
	lab.AwaitJob(t, lab.Job(t, "--nodelist=node01", "--mem=400", take), "COMPLETED")
	lab.AwaitJob(t, lab.Job(t, "--nodelist=node01", "--mem=100", take), "OUT_OF_MEMORY")
}

func TestAJobHasItsCoresOnly(t *testing.T) {
	id := lab.Job(t, "--nodelist=node01", "--cpus-per-task=1", harness.Until)
	lab.AwaitJob(t, id, "RUNNING")
	job := lab.On(t, "node01", "sh", "-c", "scontrol listpids | awk '$2 == "+id+" {print $1}' | tail -n 1")
	cpus := lab.On(t, "node01", "sh", "-c", "sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/"+job+"/status")
	lab.LetGo(t, "node01")
	if strings.ContainsAny(cpus, ",-") {
		t.Errorf("a job with one core may use %s", cpus)
	}
	lab.AwaitJob(t, id, "COMPLETED")
}

func TestAfterAPlainRebootSlurmdWaitsForThePlaybooks(t *testing.T) {
	before := lab.Identities(t, "node01")["node01"]
	server, _ := lab.Server("node01")
	if err := lab.Host.Reboot(t.Context(), server.ID, false); err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, harness.JobPatience, func() (bool, string) {
		out, _ := lab.Command("node01", "systemctl", "is-system-running").Output()
		state := strings.TrimSpace(string(out))
		return state == "running" || state == "degraded", "node01 is " + state
	})
	if state, _ := lab.Command("node01", "systemctl", "is-active", "slurmd").Output(); strings.TrimSpace(
		string(state)) != "inactive" {
		t.Errorf("after the boot slurmd is %s", state)
	}
	lab.On(t, "node01", "systemctl", "is-active", "munge")
	lab.Do(t, "update", "node01")
	lab.AwaitIdle(t, "node01")
	if after := lab.Identities(t, "node01")["node01"]; after.ID != before.ID {
		t.Errorf("the instance is another one: %+v", after)
	}
}

// Package update tests it with Slurm 22.05.
func TestRebootFromTheController(t *testing.T) {
	if release() != trixie {
		t.Skip("tested elsewhere on this release")
	}
	t.Cleanup(func() {
		// Here the old declaration is back, and the test's context has ended.
		if out, err := lab.Reconfigure(context.Background(), "deploy").CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	lab.Redeclare(t, func(d *cluster.Declaration) {
		d.Slurm.ControllerParameters = append(slices.Clone(d.Slurm.ControllerParameters), "reboot_from_controller")
	})
	lab.Do(t, "deploy")
	lab.AwaitIdle(t, "node01")
	before := lab.Identities(t, "node01")["node01"]
	lab.OnControl(t, "scontrol", "reboot", "ASAP", "nextstate=RESUME", "reason=maintenance", "node01")
	if after := lab.AwaitRenewed(t, "node01", before); after.ID != before.ID {
		t.Errorf("the node was to be rebooted, no more: before %+v, after %+v", before, after)
	}
}

func TestReimageBySlurm(t *testing.T) {
	before := lab.Identities(t, "node01")["node01"]
	lab.OnControl(t, "scontrol", "reboot", "ASAP", "nextstate=RESUME", "reason=reimage", "node01")
	after := lab.AwaitRenewed(t, "node01", before)
	if after.ID == before.ID {
		t.Errorf("the instance is the old one: %+v", after)
	}
	lab.AwaitJob(t, lab.Job(t, "--nodelist=node01", "--wrap=true"), "COMPLETED")
	lab.AssertTerraformIsClean(t)
}
