package operationtest

import (
	"context"
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation"
)

// CommenterSetup is a commenter, with jobs for the test.
type CommenterSetup struct {
	Commenter operation.Commenter
	// Jobs are three jobs without comments, which stay pending during the test.
	Jobs [3]int64
	// Remark sets another user's comment on a job.
	Remark func(job int64, text string)
	// Comment returns the comment of a job.
	Comment func(job int64) string
}

// TestCommenter checks the contract of operation.Commenter.
func TestCommenter(t *testing.T, h CommenterSetup) {
	first, second, remarked := h.Jobs[0], h.Jobs[1], h.Jobs[2]
	want := func(job int64, want string) {
		t.Helper()
		if got := h.Comment(job); got != want {
			t.Errorf("job %d carries %q, not %q", job, got, want)
		}
	}
	comment := func(text string, jobs ...int64) {
		t.Helper()
		if err := h.Commenter.Comment(t.Context(), jobs, text); err != nil {
			t.Error(err)
		}
	}
	comment("conformance, for nobody")
	h.Remark(remarked, "somebody's own")
	comment("conformance", first, remarked)
	want(first, reconfigure.ReasonPrefix+" conformance")
	want(second, "")
	want(remarked, "somebody's own")

	const noJob = 1 << 30 // Slurm counts up to 2^26 (slurm.conf(5), MaxJobId)
	comment("conformance, once more: it is (so)", first, second, noJob)
	want(first, reconfigure.ReasonPrefix+" conformance, once more: it is (so)")
	want(second, reconfigure.ReasonPrefix+" conformance, once more: it is (so)")
	comment("conformance, for what has gone", noJob)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Commenter.Comment(ctx, []int64{first}, "conformance, too late"); err == nil {
		t.Error("no error although the context is done")
	}
	want(first, reconfigure.ReasonPrefix+" conformance, once more: it is (so)")
}
