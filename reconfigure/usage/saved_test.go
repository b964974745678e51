package usage

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// TestSaved has instances of group g that were ready after 10, 20 and 30 s, one of group h after 60 s, and one of group
// x that was found running.
func TestSaved(t *testing.T) {
	slow := life("n4", "d", 1, 2, 3, 4, 61, 0)
	slow.Group = "h"
	lives := []reconfigure.Life{
		life("n1", "a", 1, 2, 3, 4, 11, 0), life("n2", "b", 1, 2, 3, 4, 21, 0), life("n3", "c", 1, 2, 3, 4, 31, 0), slow,
		{Node: "n5", Instance: "e", Group: "x", Made: at(1)},
	}
	first := job(9, "COMPLETED", "n1", 100, 100, 195)
	asked := job(1, "COMPLETED", "n1", 200, 210, 300)
	for what, c := range map[string]struct {
		runs     []reconfigure.JobRun
		requests []reconfigure.Request
		want     map[string]Saved
	}{
		"its node was idle": {
			runs: []reconfigure.JobRun{job(1, "RUNNING", "n1", 200, 200, 0)},
			want: map[string]Saved{"g": {1, 20 * time.Second}},
		},
		"four tasks of an array share an idle node": {
			runs: []reconfigure.JobRun{
				job(1, "RUNNING", "n1", 200, 200, 0), job(2, "RUNNING", "n1", 200, 200, 0),
				job(3, "COMPLETED", "n1", 200, 200, 210), job(4, "RUNNING", "n1", 200, 200, 0),
			},
			want: map[string]Saved{"g": {4, 80 * time.Second}},
		},
		"it got the node of a job that had just ended": {
			runs: []reconfigure.JobRun{first, job(1, "RUNNING", "n1", 120, 200, 0)},
			want: map[string]Saved{"g": {1, 20 * time.Second}}, // the first one's
		},
		"it got the node 10 s after the last job's end, which Slurm truncates": {
			runs: []reconfigure.JobRun{first, job(1, "RUNNING", "n1", 120, 205, 0)},
			want: map[string]Saved{"g": {1, 20 * time.Second}}, // the first one's
		},
		"it got the node 11 s after the last job's end": {
			runs: []reconfigure.JobRun{first, job(1, "RUNNING", "n1", 120, 206, 0)},
			want: map[string]Saved{"g": {2, 40 * time.Second}},
		},
		"another job ran there already": {
			runs: []reconfigure.JobRun{job(9, "RUNNING", "n1", 100, 100, 0), job(1, "RUNNING", "n1", 200, 200, 0)},
			want: map[string]Saved{"g": {1, 20 * time.Second}}, // the first one's
		},
		"slurmd had just registered": {
			runs: []reconfigure.JobRun{job(1, "RUNNING", "n3", 1, 32, 0)},
		},
		"Slurm asked for a node": {
			runs: []reconfigure.JobRun{asked}, requests: []reconfigure.Request{resume(1, 201, asked)},
		},
		"it waits": {
			runs: []reconfigure.JobRun{job(1, "PENDING", "n1", 200, 0, 0)},
		},
		"it began before the report": {
			runs: []reconfigure.JobRun{job(1, "RUNNING", "n1", 40, 45, 0)},
		},
		"on two groups, one idle node each": {
			runs: []reconfigure.JobRun{job(1, "RUNNING", "n[2,4]", 200, 200, 0)},
			want: map[string]Saved{"h": {1, 60 * time.Second}},
		},
		"one of its two nodes was idle": {
			runs: []reconfigure.JobRun{job(9, "RUNNING", "n4", 60, 62, 0), job(1, "RUNNING", "n[2,4]", 200, 200, 0)},
			want: map[string]Saved{"g": {1, 20 * time.Second}},
		},
		"no instance of its group was measured": {
			runs: []reconfigure.JobRun{job(1, "RUNNING", "n5", 200, 200, 0)},
			want: map[string]Saved{"x": {1, 0}},
		},
		"on a node of the site": {
			runs: []reconfigure.JobRun{job(1, "RUNNING", "other", 200, 200, 0)},
		},
	} {
		t.Run(what, func(t *testing.T) {
			f := Facts{Now: at(1000), Lives: lives, Runs: c.runs, Requests: c.requests}
			if c.want == nil {
				c.want = map[string]Saved{}
			}
			if d := cmp.Diff(c.want, NewSaved(f, at(50), "")); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if s := NewSaved(f, at(50), "other"); len(s) > 0 {
				t.Errorf("of another group: %v", s)
			}
		})
	}
}
