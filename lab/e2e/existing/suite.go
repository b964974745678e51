package existing

import (
	"bytes"
	"net/netip"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/generation"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
	"github.com/eiffel-hpc/eiffel/lab/labcloud"
)

// The methods of this file are tests that each cluster must pass. Each begins and ends with the cluster as the site has
// set it up.

// AttachAndDetach attaches while a job of the site runs, which runs until after the detachment. In between, nodes come
// and go for jobs, one of them is replaced, and one of them fails.
func (l *Lab) AttachAndDetach(t *testing.T) {
	own := l.StartOwnJob(t)
	before := l.Sums(t)
	if out, code := l.Call(t, "plan", "attach"); code != 0 && code != 12 { // 12: there are warnings
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	before.AssertUnchanged(t, "after the plan")
	t.Log(l.Do(t, "attach"))
	l.attachAgain(t)
	l.AssertRunning(t, own)
	for _, command := range [][]string{{"enlarge", "cloud", "--to", "1"}, {"resize"}, {"image", "create", "node01"}} {
		if out, code := l.Call(t, command...); code != 2 || !strings.Contains(out, "control_node.existing") {
			t.Errorf("%v: exit code %d:\n%s", command, code, out)
		}
	}
	if out := l.Do(t, "deploy"); strings.Contains(out, "failed") {
		t.Errorf("deploy:\n%s", out)
	}

	two := l.Job(t, "--partition=burst", "--nodes=2", harness.Until)
	l.AwaitJob(t, two, "RUNNING")
	if out, code := l.Call(t, "detach"); code != 11 || !strings.Contains(out, "node[01-02]: there are instances") ||
		!strings.Contains(out, "job would end") {
		t.Errorf("detach: exit code %d:\n%s", code, out)
	}
	if out := l.Do(t, "status"); !strings.Contains(out, "node01") {
		t.Errorf("status:\n%s", out)
	}
	l.Reimage(t, "node02", two, "node01")
	l.AssertNeverRestarted(t, two)
	l.AwaitQuiet(t)
	l.requeue(t)

	t.Log(l.Do(t, "detach"))
	before.AssertUnchanged(t, "after the detachment")
	if _, err := l.NodeState("node01"); err == nil {
		t.Error("slurmctld still knows node01")
	}
	l.Do(t, "detach")
	before.AssertUnchanged(t, "after the second detachment")
	l.EndOwnJob(t, own)
	if server, ok := l.Server(cluster.ControlNodeName); !ok || server.Status != "ACTIVE" {
		t.Errorf("the site's control node is %+v", server)
	}
}

// attachAgain repeats the command, also after an upgrade. slurmctld goes on.
func (l *Lab) attachAgain(t *testing.T) {
	t.Helper()
	slurmctld := l.OnControl(t, "pgrep", "-x", "slurmctld")
	attached := l.Sums(t)
	again := func(when string) {
		t.Helper()
		l.Do(t, "attach")
		if now := l.OnControl(t, "pgrep", "-x", "slurmctld"); now != slurmctld {
			t.Errorf("%s slurmctld was started anew: %s, then %s", when, slurmctld, now)
		}
		attached.AssertUnchanged(t, when)
	}
	again("after the second attachment")
	// The programs on the control node are those of the version before.
	l.OnControl(t, "sh", "-c", "echo '# of another version' >>"+l.eiffel()+"/bin/resume.sh")
	again("after an upgrade")
}

// requeue has a node fail. Its job is requeued, and runs on the other node.
func (l *Lab) requeue(t *testing.T) {
	t.Helper()
	l.Order(t, labcloud.Fault{Kind: labcloud.NoValidHost, Server: "node01", Count: 1000})
	failed := l.Job(t, "--partition=burst", "--wrap=hostname >/tmp/on")
	l.Eventually(t, harness.JobPatience, func() (bool, string) {
		l.Hurry(t, failed)
		state, err := l.JobState(failed)
		return err == nil && state == "COMPLETED", "job is " + state
	})
	if restarts, err := l.JobField(failed, "Restarts"); err != nil || restarts == "0" {
		t.Errorf("the job was restarted %s times (%v)", restarts, err)
	}
	l.AwaitQuiet(t)
}

// KilledAndRepeated kills attach and detach, with what they started on both hosts, and repeats them. A job of the site
// runs meanwhile. The module that changes slurm.conf has a test that kills it at each of its steps.
func (l *Lab) KilledAndRepeated(t *testing.T) {
	generation.OnlyFull(t)
	own := l.StartOwnJob(t)
	before := l.Sums(t)
	line := "grep -q '^Include eiffel' " + l.SlurmConf()
	for _, moment := range []string{
		"[ -e " + l.eiffel() + "/bin/resume.sh ]",
		"[ -e " + l.eiffel() + "/work/deploy/stopped ] || " + line,
		line,
	} {
		l.kill(t, "attach", moment)
	}
	l.Do(t, "attach")
	attached := l.Sums(t)
	l.Do(t, "attach")
	attached.AssertUnchanged(t, "after one more attach")
	if state := l.State(t, "node01"); state != "IDLE+CLOUD+POWERED_DOWN" {
		t.Errorf("node01 is %s", state)
	}
	for _, moment := range []string{
		"[ -e " + l.eiffel() + "/work/deploy ] || ! " + line,
		"[ -e " + l.eiffel() + "/work/deploy/stopped ] || ! " + line,
		"[ ! -e " + l.eiffel() + "/bin ]",
	} {
		l.kill(t, "detach", moment)
	}
	l.Do(t, "detach")
	before.AssertUnchanged(t, "after the detachment")
	l.OnControl(t, "scontrol", "ping")
	l.EndOwnJob(t, own)
}

// kill starts a command, and kills it when a condition is true on the control node.
func (l *Lab) kill(t *testing.T, command, moment string) {
	t.Helper()
	cmd := l.Reconfigure(t.Context(), command)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	reached := func() bool { return l.Command(cluster.ControlNodeName, "sh", "-c", moment).Run() == nil }
	for !reached() {
		select {
		case err := <-ended:
			if !reached() {
				t.Fatalf("%s ended (%v) before %s:\n%s", command, err, moment, &said)
			}
			ended <- err
		default:
		}
	}
	_ = cmd.Process.Kill() // it may have ended
	// Ansible's modules. There may be none.
	_ = l.Command(cluster.ControlNodeName, "pkill", "-9", "-f", "python3$|AnsiballZ").Run()
	if l.Command(cluster.ControlNodeName, "scontrol", "ping").Run() != nil {
		t.Logf("slurmctld is stopped since %s was killed when %s", command, moment)
	}
	if <-ended == nil {
		t.Logf("%s had ended when %s", command, moment)
	}
}

// TheStaticNodeIsAdopted adopts the site's own node while a job of the site runs there, and kills the command twice.
// The job goes on, and after the release the server is as it was.
func (l *Lab) TheStaticNodeIsAdopted(t *testing.T) {
	generation.OnlyFull(t)
	own := l.StartOwnJob(t)
	server := l.static(t)
	before, files := l.Sums(t), l.Sums(t, Static)
	if out, code := l.Call(t, "adopt", "node01"); code != 1 || !strings.Contains(out, "the cloud has no server with") {
		t.Errorf("a node without a server: exit code %d:\n%s", code, out)
	}
	group := cluster.Group("site", "static", 1, 1)
	group.Width = 1
	l.Redeclare(t, func(d *cluster.Declaration) { d.NodeGroups = append(d.NodeGroups, group) })
	l.Do(t, "attach")

	log := l.Journal(t)
	for _, kill := range []struct {
		when   string
		moment func() bool
	}{
		{"the pause has begun", func() bool { _, paused, err := log.Paused(t.Context()); return err == nil && paused }},
		{"the map has it", func() bool {
			nodes, _, err := log.Nodes(t.Context())
			return err == nil && nodes[Static].HasInstance()
		}},
	} {
		cmd := l.Reconfigure(t.Context(), "adopt", Static)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		l.Eventually(t, time.Minute, func() (bool, string) { return kill.moment(), kill.when })
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if cmd.Wait() == nil {
			t.Errorf("the adoption had ended when %s", kill.when)
		}
		out, code := l.Call(t, "adopt", "node01")
		if code != 2 || !strings.Contains(out, "adopt static1` is in progress; if it was interrupted, repeat it") {
			t.Errorf("another adoption after a kill when %s: exit code %d:\n%s", kill.when, code, out)
		}
	}
	if out := l.Do(t, "adopt", Static); !strings.Contains(out, "adopted: "+Static) {
		t.Errorf("adopt:\n%s", out)
	}
	l.AssertRunning(t, own)
	if out, code := l.Call(t, "reconcile"); code != 0 {
		t.Errorf("the sources differ (exit code %d):\n%s", code, out)
	}
	if out, code := l.Call(t, "adopt", Static); code != 1 || !strings.Contains(out, "already") {
		t.Errorf("once more: exit code %d:\n%s", code, out)
	}
	files.AssertUnchanged(t, "after the adoption")

	l.Do(t, "release", Static)
	if diff := cmp.Diff(server, l.static(t), cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("after the release, the server differs (-before +after):\n%s", diff)
	}
	files.AssertUnchanged(t, "after the release")
	l.Do(t, "detach")
	before.AssertUnchanged(t, "after the detachment")
	l.EndOwnJob(t, own)
}

// static returns the server of the site's node.
func (l *Lab) static(t *testing.T) labcloud.Server {
	t.Helper()
	s, ok := l.Server(Static)
	if !ok {
		t.Fatal("the site's node has no server")
	}
	return s
}

// AdoptedServersAreUsedAndReplaced adopts two servers that the site has made, on which a job then runs. A reboot by
// Slurm replaces one of them: Nova removes its port with it, so that Terraform's first attempt fails.
func (l *Lab) AdoptedServersAreUsedAndReplaced(t *testing.T) {
	generation.OnlyFull(t)
	before := l.Sums(t)
	l.Do(t, "attach")
	l.Do(t, "destroy", "--yes") // the ports that other tests have left
	names := []string{"node01", "node02"}
	if _, err := l.makeServers(t.Context(), l.Declaration.NodeGroups[0], names...); err != nil {
		t.Fatal(err)
	}
	made := map[string]labcloud.Server{}
	for _, name := range names {
		made[name], _ = l.Server(name)
	}
	l.Do(t, "adopt", strings.Join(names, ","))
	l.Do(t, "deploy")
	job := l.Job(t, "--partition=burst", "--nodes=2", harness.Until)
	l.AwaitJob(t, job, "RUNNING")
	for _, name := range names {
		if now, _ := l.Server(name); now.ID != made[name].ID {
			t.Errorf("%s has another server: %+v, before %+v", name, now, made[name])
		}
	}
	l.Reimage(t, "node02", job, "node01")
	l.AwaitQuiet(t)
	l.DestroyAndDetach(t, before)
}

// eiffel returns the folder of the attachment on the control node.
func (l *Lab) eiffel() string { return path.Join(path.Dir(l.SlurmConf()), "eiffel") }
