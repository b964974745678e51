package harness

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
)

// Until is a job's option to end when LetGo creates a file on its node.
const Until = "--wrap=until [ -e /tmp/go ]; do sleep 1; done"

// LetGo ends the jobs with Until on a node.
func (l *Lab) LetGo(t *testing.T, node string) {
	t.Helper()
	l.On(t, node, "touch", "/tmp/go")
}

// Job submits a batch job without output, and returns its id.
func (l *Lab) Job(t *testing.T, args ...string) string {
	t.Helper()
	id, err := l.Submit(append(args, "--output=/dev/null")...)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// Hurry makes a job begin as soon as possible: Slurm delays a requeued job by two minutes. The job may begin during the
// call.
func (l *Lab) Hurry(t *testing.T, job string) {
	t.Helper()
	state, err := l.JobState(job)
	if err != nil || state != "PENDING" {
		return
	}
	out, err := l.Command(cluster.ControlNodeName, "scontrol", "update", "JobId="+job, "StartTime=now").CombinedOutput()
	if err != nil && !strings.Contains(string(out), "no longer pending") {
		t.Fatalf("job %s cannot be hurried: %v\n%s", job, err, out)
	}
}

// Call calls the tool, and returns its output and exit code.
func (l *Lab) Call(t *testing.T, args ...string) (output string, code int) {
	t.Helper()
	cmd := l.Reconfigure(t.Context(), args...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("reconfigure %v: %v", args, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// Do calls the tool, which must succeed, and returns its output.
func (l *Lab) Do(t *testing.T, args ...string) (output string) {
	t.Helper()
	out, code := l.Call(t, args...)
	if code != 0 {
		t.Fatalf("reconfigure %v: exit code %d\n%s\n%s", args, code, out, l.WorkerLogs())
	}
	return out
}

// On runs a command on a node as root, which must succeed, and returns its output.
func (l *Lab) On(t *testing.T, node string, argv ...string) string {
	t.Helper()
	out, err := l.Command(node, argv...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v on %s: %v\n%s", argv, node, err, out)
	}
	return strings.TrimSpace(string(out))
}

// OnControl is On for the control node.
func (l *Lab) OnControl(t *testing.T, argv ...string) string {
	t.Helper()
	return l.On(t, cluster.ControlNodeName, argv...)
}

// Server returns the instance of a node, if it has one.
func (l *Lab) Server(node string) (labcloud.Server, bool) {
	servers := l.Servers()
	i := slices.IndexFunc(servers, func(s labcloud.Server) bool { return s.Name == node })
	if i < 0 {
		return labcloud.Server{}, false
	}
	return servers[i], true
}

// Order adds a fault until the test ends. The test fails if the fault has not occurred by then.
func (l *Lab) Order(t *testing.T, f labcloud.Fault) {
	t.Helper()
	id, err := l.Cloud.Faults().Add(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, ordered := range l.Cloud.Faults().List() {
			if ordered.ID == id && ordered.Hits == 0 {
				t.Errorf("the fault %+v never occurred: the test proves nothing", ordered)
			}
		}
		l.Cloud.Faults().Clear(id)
	})
}

// Identity is what must not change in an instance without a request.
type Identity struct{ ID, Image, Flavor, Boot string }

// Identities returns the identities of nodes, which must have instances.
func (l *Lab) Identities(t *testing.T, nodes ...string) map[string]Identity {
	t.Helper()
	all := map[string]Identity{}
	for _, node := range nodes {
		s, ok := l.Server(node)
		if !ok {
			t.Fatalf("%s has no instance", node)
		}
		all[node] = Identity{s.ID, s.Image, s.Flavor, l.On(t, node, "stat", "-c", "%Y", "/proc/1")}
	}
	return all
}

// AssertSame checks that nodes have the identities that they had.
func (l *Lab) AssertSame(t *testing.T, before map[string]Identity) {
	t.Helper()
	for node, is := range l.Identities(t, slices.Sorted(maps.Keys(before))...) {
		if is != before[node] {
			t.Errorf("%s was %+v, and is %+v", node, before[node], is)
		}
	}
}

// Redeclare changes the declaration until the test ends.
func (l *Lab) Redeclare(t *testing.T, change func(*cluster.Declaration)) {
	t.Helper()
	declared := l.Declaration
	t.Cleanup(func() {
		if err := l.Declare(declared); err != nil {
			t.Error(err)
		}
	})
	changed := declared
	changed.NodeGroups, changed.Partitions = slices.Clone(declared.NodeGroups), slices.Clone(declared.Partitions)
	change(&changed)
	if err := l.Declare(changed); err != nil {
		t.Fatal(err)
	}
}

// Journal opens the lab's journal until the test ends.
func (l *Lab) Journal(t *testing.T) *journal.Journal {
	t.Helper()
	log, err := journal.Open(t.Context(), l.StateDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	return log
}

// LastRequest returns the newest request in the journal.
func (l *Lab) LastRequest(t *testing.T) reconfigure.Request {
	t.Helper()
	newest, err := l.Journal(t).Requests(t.Context(), 1)
	if err != nil || len(newest) != 1 {
		t.Fatalf("%v, error %v", newest, err)
	}
	return newest[0]
}

// State returns a node's state in Slurm.
func (l *Lab) State(t *testing.T, node string) string {
	t.Helper()
	state, err := l.NodeState(node)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// Reason returns the reason of a node's state in Slurm; "" if none.
func (l *Lab) Reason(t *testing.T, node string) string {
	t.Helper()
	reason, err := l.NodeReason(node)
	if err != nil {
		t.Fatal(err)
	}
	return reason
}

// AssertTerraformIsClean runs `terraform plan` as an administrator would, and waits for the state's lock. The plan must
// have no changes.
func (l *Lab) AssertTerraformIsClean(t *testing.T) {
	t.Helper()
	if clean, said := l.TerraformIsClean(t); !clean {
		t.Error(said)
	}
}

// TerraformIsClean reports whether that plan has no changes. While requests are carried out, it may have some.
func (l *Lab) TerraformIsClean(t *testing.T) (clean bool, said string) {
	t.Helper()
	out, err := l.Terraform(t.Context(), "plan", "-input=false", "-no-color", "-detailed-exitcode",
		"-lock-timeout=2m").CombinedOutput()
	return err == nil, fmt.Sprintf("terraform plan is not clean: %v\n%s", err, out)
}

// AssertNothingLeaked checks that the cloud has the servers of the control node and of the persistent nodes alone: only
// the cloud shows an instance that nothing else knows.
func (l *Lab) AssertNothingLeaked(t *testing.T) {
	t.Helper()
	var names []string
	for _, s := range l.Cloud.Servers() {
		names = append(names, s.Name)
	}
	want := []string{cluster.ControlNodeName}
	for _, g := range l.Declaration.NodeGroups {
		want = append(want, Nodes(g, 1, g.MinNodes)...)
	}
	slices.Sort(names)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("the cloud has %v, and not %v alone\n%s", names, want, l.WorkerLogs())
	}
}

// AssertAllIsWell waits until no cloud node has an instance, and checks that nothing is left of one.
func (l *Lab) AssertAllIsWell(t *testing.T) {
	t.Helper()
	l.AwaitQuiet(t)
	l.AssertTerraformIsClean(t)
	l.AssertNothingLeaked(t)
}

// AssertNeverRestarted checks that jobs were not requeued.
func (l *Lab) AssertNeverRestarted(t *testing.T, jobs ...string) {
	t.Helper()
	for _, id := range jobs {
		if restarts, err := l.JobField(id, "Restarts"); restarts != "0" {
			t.Errorf("job %s was restarted %s times (%v)", id, restarts, err)
		}
	}
}

// AssertRunning checks that jobs run and were not requeued.
func (l *Lab) AssertRunning(t *testing.T, jobs ...string) {
	t.Helper()
	for _, id := range jobs {
		if state, err := l.JobState(id); state != "RUNNING" {
			t.Errorf("job %s is %s (%v)", id, state, err)
		}
	}
	l.AssertNeverRestarted(t, jobs...)
}

// AssertDeployChangesNothing deploys once more: Ansible must run, and change no host. It reads Ansible's output task by
// task during this call, since a run that is interrupted at its end prints no recap.
func (l *Lab) AssertDeployChangesNothing(t *testing.T) {
	t.Helper()
	log := filepath.Join(l.StateDir(), "log", "ansible.log")
	before, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	l.Do(t, "deploy")
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	said, ok := strings.CutPrefix(string(text), string(before))
	if !ok || !strings.Contains(said, "TASK [") {
		t.Fatalf("Ansible's log has no run of this deploy:\n%s", said)
	}
	for line := range strings.Lines(said) {
		// The control host fetches Slurm's files to compare them.
		if strings.HasPrefix(line, "changed: [") && !strings.Contains(line, "-> localhost") {
			t.Errorf("Ansible changed what was configured already, %s:\n%s", strings.TrimSpace(line), said)
		}
	}
}

// Nodes returns the names of a group's nodes in a range of numbers.
func Nodes(g cluster.NodeGroup, first, last int) []string {
	var names []string
	for i := first; i <= last; i++ {
		names = append(names, fmt.Sprintf("%s%0*d", g.Prefix, g.Width, i))
	}
	return names
}
