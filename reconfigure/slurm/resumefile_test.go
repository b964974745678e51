package slurm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// The same two jobs, as Slurm writes them.
const (
	resumeFile2205  = `{"jobs":[{"job_id":4,"nodes":"c[001-002]"},{"job_id":5,"nodes":"c002"}],"all_nodes":"c[001-002]"}`
	resumeFileLater = `{"all_nodes_resume":"c[001-002]","jobs":[
			{"extra":null,"features":"","job_id":4,"nodes_resume":"c[001-002]","nodes_alloc":"c[001-003]",` +
		`"oversubscribe":"OK","partition":"main","reservation":""},
			{"job_id":5,"nodes_resume":"c002","nodes_alloc":"c002"}]}`
)

func TestResumeFilesOfAllReleasesAreRead(t *testing.T) {
	want := []reconfigure.Job{{ID: 4, Nodes: nodeset.Of("c001", "c002")}, {ID: 5, Nodes: nodeset.Of("c002")}}
	inPartition := func(name string) []reconfigure.Job {
		return []reconfigure.Job{{ID: 4, Nodes: want[0].Nodes, Partition: name}, want[1]}
	}
	for release, text := range map[string]string{"22.05": resumeFile2205, "later": resumeFileLater} {
		got, err := ParseResumeFile([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", release, err)
		}
		want := want
		if release == "later" {
			want = inPartition("main")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", release, diff)
		}
	}
	if jobs, err := ParseResumeFile(nil); err != nil || len(jobs) > 0 {
		t.Errorf("of nothing: %v, %v", jobs, err)
	}
	for _, text := range []string{
		"{", "[]", `{"jobs":[{"job_id":"x"}]}`, `{"jobs":[{"job_id":1,"nodes":"c[2-1]"}]}`, `{"jobs":[{"job_id":-1}]}`,
	} {
		if _, err := ParseResumeFile([]byte(text)); err == nil {
			t.Errorf("%s was taken", text)
		}
	}
	some := `{"jobs":[{"job_id":1,"nodes":"c[2-1]"},{"job_id":5,"nodes":"c002"},7]}`
	jobs, err := ParseResumeFile([]byte(some))
	if diff := cmp.Diff(want[1:], jobs); diff != "" || err == nil {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
}

// A text of a few bytes may name 65536 nodes for each job, which would take all of the control host's memory.
func TestAResumeFileThatNamesTooManyNodesIsCut(t *testing.T) {
	const each = `{"job_id":%d,"nodes":"n[1-65536]"}`
	var jobs []string
	for i := range maxResumeNames/nodeset.MaxNodes + 2 {
		jobs = append(jobs, fmt.Sprintf(each, i+1))
	}
	got, err := ParseResumeFile([]byte(`{"jobs":[` + strings.Join(jobs, ",") + `]}`))
	if err == nil || len(got) != maxResumeNames/nodeset.MaxNodes {
		t.Errorf("%d jobs, error %v", len(got), err)
	}
}
