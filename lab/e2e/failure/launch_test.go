package failure_test

import (
	"fmt"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// TestOneNodeOfAJobFails has the first node of a job fail while its launch program waits for it. The job is requeued,
// and starts when the node can be made.
func TestOneNodeOfAJobFails(t *testing.T) {
	lab.Order(t, labcloud.Fault{Kind: labcloud.NoValidHost, Server: "w01", Count: 1000})
	job := lab.Job(t, "--nodelist=w01,w02", "--wrap=true")
	failed := &way{node: "w01", class: reconfigure.ClassCapacity}
	lab.Eventually(t, failurePatience, func() (bool, string) {
		nodes, err := lab.Nodes()
		return failed.shows(nodes["w01"]), fmt.Sprintf("w01 has not failed: %+v (%v)", nodes["w01"], err)
	})
	lab.Eventually(t, harness.JobPatience, func() (bool, string) {
		restarts, err := lab.JobField(job, "Restarts")
		return err == nil && restarts != "0", "the job was not requeued"
	})
	lab.Cloud.Faults().Clear(0)
	lab.Hurry(t, job)
	lab.AwaitJob(t, job, "COMPLETED")
	lab.AwaitQuiet(t)
	lab.AssertNothingLeaked(t)
}
