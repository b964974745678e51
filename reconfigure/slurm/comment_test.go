package slurm

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// jobListing is what squeue prints, in columns of 20 and 40 characters.
func jobListing(comments map[int]string) string {
	var b strings.Builder
	for id, comment := range comments {
		fmt.Fprintf(&b, "%-20d%-40.40s\n", id, comment)
	}
	return b.String()
}

func TestCommentGoesToJobsThatNobodyElseHasCommentedOn(t *testing.T) {
	s := &slurmctld{t: t, jobs: jobListing(map[int]string{
		4: "", 5: "(null)", 6: "reconfigure: the cloud is too busy at the moment", 7: "billed to physics",
		8: "see reconfigure: it", 41: "",
	})}
	text := "quota:\n \"12 of 12\" instances are in use"
	if err := s.client().Comment(t.Context(), []int64{4, 5, 6, 7, 8, 9}, text); err != nil {
		t.Fatal(err)
	}
	want := []string{"JobId=4,5,6 AdminComment=reconfigure: quota: 12 of 12 instances are in use"}
	if diff := cmp.Diff(want, s.done); diff != "" {
		t.Errorf("updates (-want +got):\n%s", diff)
	}
}

func TestCommentOnNobodyChangesNothing(t *testing.T) {
	s := &slurmctld{t: t, jobs: jobListing(map[int]string{7: "billed to physics"})}
	for _, jobs := range [][]int64{nil, {7}, {9}} {
		if err := s.client().Comment(t.Context(), jobs, "quota"); err != nil || len(s.done) > 0 {
			t.Errorf("%v: updates %v, error %v", jobs, s.done, err)
		}
	}
}

func TestManyJobsAreToldInFewCalls(t *testing.T) {
	comments := map[int]string{}
	var jobs []int64
	for i := range 3 * jobsAtOnce {
		comments[i+1] = ""
		jobs = append(jobs, int64(i+1))
	}
	s := &slurmctld{t: t, jobs: jobListing(comments)}
	if err := s.client().Comment(t.Context(), jobs, "quota"); err != nil {
		t.Fatal(err)
	}
	told := 0
	for _, update := range s.done {
		told += strings.Count(update, ",") + 1
	}
	if len(s.done) != 3 || told != len(jobs) {
		t.Errorf("%d jobs in %d updates", told, len(s.done))
	}
}

func TestCommentOfASlurmThatIsDownIsUnreachable(t *testing.T) {
	s := &slurmctld{t: t, down: true}
	if err := s.client().Comment(t.Context(), []int64{4}, "quota"); !errors.Is(err, ErrUnreachable) {
		t.Errorf("error %v", err)
	}
}
