package harness

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
)

// CutOff cuts a node off from its networks, until connect is called or the test ends.
func (l *Lab) CutOff(t *testing.T, node string) (connect func()) {
	t.Helper()
	server, there := l.Server(node)
	if !there {
		t.Fatalf("%s has no instance", node)
	}
	if err := l.Host.Cut(server.ID, true); err != nil {
		t.Fatal(err)
	}
	connect = func() {
		if err := l.Host.Cut(server.ID, false); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(connect)
	return connect
}

// PlaybooksRunAgain resumes nodes by a job while a fault keeps the playbooks from giving results. It ends the fault
// when the playbooks have run twice for each node. The nodes must come up on the instances that they have by then,
// without any effect in Slurm. The notes on the nodes must contain these words.
func (l *Lab) PlaybooksRunAgain(
	t *testing.T, log *journal.Journal, nodes []string, words string, begin func(t *testing.T) (end func()),
) {
	t.Helper()
	const create = "POST /compute/v2.1/servers"
	made := l.Cloud.Calls()[create]
	job := l.Job(t, fmt.Sprintf("--nodes=%d", len(nodes)), "--nodelist="+strings.Join(nodes, ","), "--wrap=true")
	requests := l.awaitResumes(t, log, nodes)
	end := begin(t)
	l.Eventually(t, JobPatience, func() (bool, string) {
		again := map[string]int{}
		for _, id := range requests {
			events, err := log.Events(t.Context(), id, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range events {
				if strings.HasPrefix(e.Message, "the playbooks run again in ") &&
					strings.Contains(e.Message, string(reconfigure.ClassAnsible)+": ") && strings.Contains(e.Message, words) {
					again[e.Node]++
				}
			}
		}
		return !slices.ContainsFunc(nodes, func(node string) bool { return again[node] < 2 }),
			fmt.Sprintf("the playbooks run again with %q: %v", words, again)
	})
	status := l.Do(t, "status", "-o", "wide")
	ids := map[string]string{}
	for _, node := range nodes {
		server, _ := l.Server(node)
		ids[node] = server.ID
	}
	end()
	l.AwaitJob(t, job, "COMPLETED")
	l.AssertNeverRestarted(t, job)
	if n := l.Cloud.Calls()[create] - made; n != len(nodes) {
		t.Errorf("%d instances were made of %d nodes: %v", n, len(nodes), ids)
	}
	if !strings.Contains(status, words) {
		t.Errorf("the status did not say %q:\n%s", words, status)
	}
	health, err := log.Health(t.Context())
	for group, h := range health {
		if !h.Well() {
			t.Errorf("group %s has the health %+v", group, h)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// awaitResumes waits until there are requests for all nodes, and returns them.
func (l *Lab) awaitResumes(t *testing.T, log *journal.Journal, nodes []string) (ids []reconfigure.RequestID) {
	t.Helper()
	l.Eventually(t, JobPatience, func() (bool, string) {
		pending, err := log.Pending(t.Context())
		ids = nil
		missing := slices.Clone(nodes)
		for _, r := range pending {
			ids = append(ids, r.ID)
			missing = slices.DeleteFunc(missing, r.Nodes.Contains)
		}
		return len(missing) == 0, fmt.Sprintf("no request for %v (%v)", missing, err)
	})
	return ids
}
