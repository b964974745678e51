package attach_test

import (
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/e2e/existing"
	"github.com/eiffel-hpc/eiffel/lab/e2e/generation"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
)

func TestAttachAndDetach(t *testing.T) { lab.AttachAndDetach(t) }

func TestKilledAndRepeated(t *testing.T) { lab.KilledAndRepeated(t) }

func TestTheStaticNodeIsAdopted(t *testing.T) { lab.TheStaticNodeIsAdopted(t) }

func TestAdoptedServersAreUsedAndReplaced(t *testing.T) { lab.AdoptedServersAreUsedAndReplaced(t) }

// TestTheSitesAccountingPrologAndHome checks that the site's accounting, limits and Prolog also apply to new nodes, and
// that a job there writes to alice's home, which is on the control node.
func TestTheSitesAccountingPrologAndHome(t *testing.T) {
	generation.OnlyFull(t)
	own := lab.StartOwnJob(t)
	before := lab.Sums(t)
	lab.Do(t, "attach")
	lab.Do(t, "deploy")
	job := lab.Job(t, "--partition=burst", "--nodes=2", "--wrap=hostname >/home/alice/on")
	lab.AwaitJob(t, job, "COMPLETED")
	if said := lab.OnControl(t, "cat", "/home/alice/on"); said != "node01" {
		t.Errorf("the job has written to the home: %s", said)
	}
	lab.Eventually(t, harness.JobPatience, func() (bool, string) {
		said := lab.OnControl(t, "sacct", "--jobs="+job, "--noheader", "--parsable2", "--allocations",
			"--format=NodeList,State")
		return said == "node[01-02]|COMPLETED", said
	})
	if said := lab.On(t, "node01", "cat", existing.PrologLog); said != job+"\n"+job {
		t.Errorf("Prolog and Epilog of job %s have written:\n%s", job, said)
	}

	const long = "--wrap=sleep 1000"
	// alice may have two jobs, and has one on the site's own node.
	first, second := lab.Job(t, "--partition=burst", long), lab.Job(t, "--partition=burst", long)
	lab.AwaitJob(t, first, "RUNNING")
	lab.Eventually(t, harness.JobPatience, func() (bool, string) {
		reason, err := lab.JobField(second, "Reason")
		return err == nil && strings.HasPrefix(reason, "AssocMaxJobsLimit "), "the second job of alice waits for " + reason
	})
	lab.OnControl(t, "scancel", first, second)
	lab.AwaitJob(t, first, "CANCELLED")
	lab.AwaitQuiet(t)
	lab.DestroyAndDetach(t, before)
	lab.OnControl(t, "rm", "/home/alice/on")
	lab.EndOwnJob(t, own)
}
