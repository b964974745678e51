package clouds_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// withoutEnd returns a context for clean-up at a test's end, when the test's own context has ended.
func withoutEnd(t *testing.T) context.Context {
	t.Helper()
	return context.WithoutCancel(t.Context())
}

// awaitState waits for a state of a node in Nova.
func awaitState(t *testing.T, node, status string) {
	t.Helper()
	lab.Eventually(t, harness.UpdatePatience, func() (bool, string) {
		s, ok := lab.Server(node)
		return ok && s.Status == status, fmt.Sprintf("%s is %+v, there: %v", node, s, ok)
	})
}

func TestNoValidHost(t *testing.T) {
	scenario(t, "Nova finds no host for a server")
	failsAndRecovers(t, reconfigure.ClassCapacity, "No valid host was found", noHost)
}

func TestQuota(t *testing.T) {
	scenario(t, "the quota of instances is used up")
	failsAndRecovers(t, reconfigure.ClassQuota, "2 of 2 instances are in use",
		func(t *testing.T) func() { return quotaOf(t, 2) })
}

// failsAndRecovers makes Slurm request a node that does not come up, checks the messages to Slurm and the job's owner,
// ends the incident, and waits until the job has run.
func failsAndRecovers(t *testing.T, class reconfigure.Class, words string, incident func(*testing.T) (over func())) {
	t.Helper()
	over := incident(t)
	job := lab.Job(t, "--nodelist=node02", "--wrap=true")
	prefix := "reconfigure: " + string(class) + ": "
	lab.Eventually(t, harness.JobPatience, func() (bool, string) {
		reason, err := lab.NodeReason("node02")
		return strings.HasPrefix(reason, prefix) && strings.Contains(reason, words),
			fmt.Sprintf("the reason is %q (%v)", reason, err)
	})
	lab.Eventually(t, harness.JobPatience, func() (bool, string) {
		shown := lab.OnControl(t, "scontrol", "show", "job", job)
		return strings.Contains(shown, "("+string(class)+")"), "the owner is not told: " + shown
	})
	over()
	awaitRequeued(t, job, "COMPLETED")
	awaitPeace(t)
}

// awaitRequeued waits for the state of a job that may be requeued. Slurm delays such a job by two minutes, which the
// test skips.
func awaitRequeued(t *testing.T, job, want string) {
	t.Helper()
	lab.Eventually(t, 2*harness.JobPatience, func() (bool, string) {
		state, err := lab.JobState(job)
		if state == "PENDING" {
			// It may begin meanwhile.
			_ = lab.Command(cluster.ControlNodeName, "scontrol", "update", "JobId="+job, "StartTime=now").Run()
		}
		return state == want, fmt.Sprintf("job %s is %s, not %s (%v)", job, state, want, err)
	})
}

func TestImageIsDeletedWhileNodesRunOnIt(t *testing.T) {
	scenario(t, "an image is deleted while nodes run on it")
	const name = "node-v3"
	remove := addImage(t, name)
	declared := lab.Declaration
	lab.Redeclare(t, func(d *cluster.Declaration) { d.NodeGroups[0].Image = name })
	lab.Do(t, "update", "node01")
	lab.AwaitIdle(t, "node01")
	job := lab.Job(t, "--nodelist=node02", harness.Until)
	lab.AwaitJob(t, job, "RUNNING")
	before := lab.Identities(t, "node01", "node02")
	remove()
	lab.AssertTerraformIsClean(t)

	// Running instances stay and can be rebooted.
	lab.OnControl(t, "scontrol", "reboot", "ASAP", "nextstate=RESUME", "reason=maintenance", "node01")
	if after := lab.AwaitRenewed(t, "node01", before["node01"]); after.ID != before["node01"].ID ||
		lab.ImageOf(t, "node01") != name {
		t.Errorf("before %+v, after %+v of image %s", before["node01"], after, lab.ImageOf(t, "node01"))
	}
	// No instance is made from the deleted image, and the attempt loses nothing.
	kept := lab.Identities(t, "node01", "node02")
	for _, call := range [][]string{{"update", "--reimage", "node01"}, {"resume", "node03"}} {
		if out, code := lab.Call(t, call...); code == 0 || !strings.Contains(out, `image "`+name+`"`) {
			t.Errorf("%v: exit code %d\n%s", call, code, out)
		}
	}
	if now := lab.Identities(t, "node01", "node02"); now["node01"] != kept["node01"] || now["node02"] != kept["node02"] {
		t.Errorf("before %+v, after %+v", kept, now)
	}
	lab.AssertRunning(t, job)
	lab.LetGo(t, "node02")
	lab.AwaitJob(t, job, "COMPLETED")

	check(t, lab.Declare(declared))
	lab.Do(t, "update", "node01")
	lab.AwaitIdle(t, "node01")
	if image := lab.ImageOf(t, "node01"); image != cluster.ImageV1 {
		t.Errorf("the node is of image %s", image)
	}
	awaitPeace(t)
}

func TestTokenExpiresWhileTerraformRuns(t *testing.T) {
	scenario(t, "tokens expire while Terraform waits for a server")
	// Longer than a service uses one token, also on a busy computer.
	tokensOf(t, 30*time.Second)
	release := holdBoots(t, "node02")
	job := lab.Job(t, "--nodelist=node02", "--wrap=true")
	awaitState(t, "node02", "BUILD")
	awaitExpiry(t)
	release()
	lab.AwaitJob(t, job, "COMPLETED")
	lab.AssertNeverRestarted(t, job)
	awaitPeace(t)
}

func TestComputeServiceIsUnavailable(t *testing.T) {
	scenario(t, "Nova's endpoint answers 503 when a node is asked for")
	asked, over := unavailable(t)
	job := lab.Job(t, "--nodelist=node02", "--wrap=true")
	lab.Eventually(t, harness.JobPatience, func() (bool, string) {
		return asked() >= 3, fmt.Sprintf("Nova was asked %d times", asked())
	})
	over()
	lab.AwaitJob(t, job, "COMPLETED")
	lab.AssertNeverRestarted(t, job)
	awaitPeace(t)
}

func TestComputeServiceStopsWhileTerraformRuns(t *testing.T) {
	scenario(t, "Nova's API is killed while Terraform waits for a server, and comes back after half a minute")
	release := holdBoots(t, "node02")
	job := lab.Job(t, "--nodelist=node02", "--wrap=true")
	awaitState(t, "node02", "BUILD")
	over := outage(t)
	<-time.After(30 * time.Second) // the outage lasts that long
	over()
	release()
	lab.AwaitJob(t, job, "COMPLETED")
	lab.AssertNeverRestarted(t, job)
	awaitPeace(t)
}

func TestComputeHostIsAway(t *testing.T) {
	scenario(t, "nova-compute is killed before a server is built, and comes back")
	if real == nil {
		t.Skip("labcloud has no nova-compute")
	}
	check(t, real.Kill("nova-compute"))
	over := until(t, func() {
		if err := real.Restart("nova-compute"); err != nil {
			t.Error(err)
		}
	})
	job := lab.Job(t, "--nodelist=node02", "--wrap=true")
	lab.Eventually(t, harness.JobPatience, func() (bool, string) {
		// A minute after the kill, Nova marks the host as down and finds no host.
		s, ok := lab.Server("node02")
		return ok && s.Status != "ACTIVE", fmt.Sprintf("node02 is %+v", s)
	})
	over()
	awaitRequeued(t, job, "COMPLETED")
	awaitPeace(t)
}

func TestServerStaysInBuild(t *testing.T) {
	scenario(t, "a server stays in BUILD")
	failsAndRecovers(t, reconfigure.ClassBoot, "", func(t *testing.T) func() { return holdBoots(t, "node02") })
}

func TestServerIsDeletedBehindOurBack(t *testing.T) {
	scenario(t, "servers are deleted by somebody else: one with a job on it, and a persistent one")
	job := lab.Job(t, "--nodelist=node02", harness.Until)
	lab.AwaitJob(t, job, "RUNNING")
	client := compute(t, member(t))
	before := lab.Identities(t, "node01", "node02")
	for _, node := range []string{"node01", "node02"} {
		check(t, servers.Delete(t.Context(), client, before[node].ID).ExtractErr())
	}
	lab.Eventually(t, harness.UpdatePatience, func() (bool, string) {
		left := names(lab.Servers())
		return left == cluster.ControlNodeName, "the cloud has " + left
	})
	out, code := lab.Call(t, "reconcile", "--recheck", "1s")
	if code != 10 || strings.Count(out, "lost: ") != 2 {
		t.Errorf("exit code %d\n%s", code, out)
	}
	// An administrator does this before Slurm notices it, which takes SlurmdTimeout. DOWN requeues the job, and
	// Slurm does not wait until its processes end.
	lab.OnControl(t, "scontrol", "update", "NodeName=node02", "State=DOWN", "Reason=its instance is gone")
	lab.OnControl(t, "scontrol", "update", "NodeName=node02", "State=POWER_DOWN_FORCE")
	lab.Do(t, "update", "--reimage", "node01")
	lab.AwaitIdle(t, "node01")
	after := lab.Identities(t, "node01")["node01"]
	if after.ID == before["node01"].ID {
		t.Errorf("before %+v, after %+v", before["node01"], after)
	}
	awaitRequeued(t, job, "RUNNING")
	lab.LetGo(t, "node02")
	lab.AwaitJob(t, job, "COMPLETED")
	awaitPeace(t)
}

func TestServerIsStoppedBehindOurBack(t *testing.T) {
	scenario(t, "a persistent server is stopped by somebody else")
	client := compute(t, member(t))
	before := lab.Identities(t, "node01")["node01"]
	check(t, servers.Stop(t.Context(), client, before.ID).ExtractErr())
	awaitState(t, "node01", "SHUTOFF")
	if out, code := lab.Call(t, "reconcile", "--recheck", "1s"); code != 10 || !strings.Contains(out, "stopped") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	lab.Do(t, "update", "node01")
	lab.AwaitIdle(t, "node01")
	if after := lab.Identities(t, "node01")["node01"]; after.ID != before.ID || after.Boot == before.Boot {
		t.Errorf("before %+v, after %+v", before, after)
	}
	awaitPeace(t)
}
