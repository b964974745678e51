package slurm

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// endedLine is a line as slurmctld 22.05 writes it, with this name of the job.
func endedLine(id int, user, name, state, nodes string) string {
	return fmt.Sprintf("JobId=%d UserId=%s(1000) GroupId=users(100) Name=%s JobState=%s Partition=main "+
		"TimeLimit=UNLIMITED StartTime=2026-01-02T10:03:00 EndTime=2026-01-02T10:05:00 NodeList=%s NodeCnt=1 "+
		"ProcCnt=1 WorkDir=/home/x ReservationName= Tres=cpu=1,node=1 Account= QOS= WcKey= Cluster=unknown "+
		"SubmitTime=2026-01-02T10:00:00 EligibleTime=2026-01-02T10:00:00 DerivedExitCode=0:0 ExitCode=0:0 \n",
		id, user, name, state, nodes)
}

// jobTools are tools with this list of ended jobs, and these lines of squeue.
func jobTools(t *testing.T, list, queue string) (s tools, file string) {
	t.Helper()
	s = newTools(t, nil)
	file = filepath.Join(s.dir, "ended.list")
	write(t, file, list)
	write(t, filepath.Join(s.dir, "queue"), queue)
	s.set("scontrol", "printf 'JobAcctGatherType = x\\nJobCompLoc              = "+file+
		"\\nJobCompType             = jobcomp/filetxt\\n'")
	s.set("squeue", "cat "+filepath.Join(s.dir, "queue"))
	return s, file
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// at is a time of the tests, in the zone of this host, where the script runs too.
func at(minute int) time.Time { return time.Date(2026, 1, 2, 10, minute, 0, 0, time.Local).UTC() }

func ended(id int64, user, state string, nodes ...string) reconfigure.JobRun {
	return reconfigure.JobRun{ID: id, User: user, Partition: "main", State: state, Nodes: nodeset.Of(nodes...),
		Submitted: at(0), Started: at(3), Ended: at(5)}
}

func wantRuns(t *testing.T, got Jobs, want ...reconfigure.JobRun) {
	t.Helper()
	if d := cmp.Diff(want, got.Runs, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("jobs (-want +got):\n%s", d)
	}
}

func TestJobsThatEndedAndJobsThatSlurmKnows(t *testing.T) {
	first := endedLine(4, "anna", "a b=c", "COMPLETED", "n[1-2]")
	s, file := jobTools(t, first,
		"5|bob|main|CONFIGURING|2026-01-02T10:00:00|2026-01-02T10:01:00|2027-01-02T10:00:00|n3\n"+
			"6|bob|main|RUNNING|2026-01-02T10:00:00|2026-01-02T10:01:00|2027-01-02T10:00:00|n4\n"+
			"7|bob|main,b|PENDING|2026-01-02T10:00:00|N/A|N/A|\n"+
			"4|anna|main|COMPLETED|2026-01-02T10:00:00|2026-01-02T10:03:00|2026-01-02T10:05:00|n[1-2]\n")
	c := s.client(false)
	jobs, err := c.Jobs(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	waits := reconfigure.JobRun{ID: 5, User: "bob", Partition: "main", State: "CONFIGURING", Nodes: nodeset.Of("n3"),
		Submitted: at(0)}
	runs := waits
	runs.ID, runs.State, runs.Nodes, runs.Started = 6, "RUNNING", nodeset.Of("n4"), at(1)
	known := ended(4, "anna", "COMPLETED", "n1", "n2")
	wantRuns(t, jobs, known, waits, runs, known)
	if jobs.Position != int64(len(first)) || jobs.More || !jobs.Listed || len(jobs.Skipped) > 0 {
		t.Errorf("%+v", jobs)
	}
	second := endedLine(6, "bob", "x", "NODE_FAIL", "n4")
	write(t, file, first+second+"JobId=7 User") // while slurmctld writes it
	write(t, filepath.Join(s.dir, "queue"), "")
	more, err := c.Jobs(t.Context(), jobs.Position)
	if err != nil {
		t.Fatal(err)
	}
	wantRuns(t, more, ended(6, "bob", "NODE_FAIL", "n4"))
	if more.Position != int64(len(first+second)) || len(more.Skipped) > 0 {
		t.Errorf("%+v", more)
	}
	write(t, file, second) // another list
	if more, err = c.Jobs(t.Context(), more.Position); err != nil {
		t.Fatal(err)
	}
	wantRuns(t, more, ended(6, "bob", "NODE_FAIL", "n4"))
}

func TestALongListIsReadInParts(t *testing.T) {
	var list strings.Builder
	for i := range 6000 {
		list.WriteString(endedLine(i+1, "anna", "x", "COMPLETED", "n1"))
	}
	s, _ := jobTools(t, list.String(), "9000|anna|main|RUNNING|2026-01-02T10:00:00|2026-01-02T10:01:00|N/A|n1\n")
	c := s.client(false)
	position, calls, next := int64(0), 0, int64(1)
	for more := true; more; calls++ {
		jobs, err := c.Jobs(t.Context(), position)
		if err != nil {
			t.Fatal(err)
		}
		position, more = jobs.Position, jobs.More
		for _, r := range jobs.Runs {
			if r.ID != next && r.ID != 9000 {
				t.Fatalf("job %d follows %d", r.ID, next-1)
			}
			next++
		}
		if len(jobs.Skipped) > 0 {
			t.Fatal(jobs.Skipped)
		}
	}
	if next != 6002 || calls < 2 || position != int64(list.Len()) {
		t.Errorf("%d jobs in %d calls, position %d of %d", next-1, calls, position, list.Len())
	}
}

// A user chooses a job's name, and must not be able to forge the record of another job with it.
func TestAUserCannotForgeAJob(t *testing.T) {
	forged := strings.TrimSuffix(endedLine(9, "root", "y", "COMPLETED", "n9"), "\n")
	before, after := endedLine(1, "anna", "x", "COMPLETED", "n1"), strings.Repeat("#", 20000)+"\n"
	last := endedLine(3, "bob", "x", "COMPLETED", "n3")
	for what, name := range map[string]string{
		"a line":               "x\n" + forged + "\n",
		"the beginning of one": "x\nJobId=9 UserId=root(0) GroupId=root(0) Name=y",
		"a state": "x JobState=FAILED Partition=p TimeLimit=1 StartTime=2026-01-01T00:00:00 " +
			"EndTime=2026-01-01T00:00:00 NodeList=n9 NodeCnt=1 ProcCnt=1 WorkDir=/",
		"two lines":         "x\n" + forged + "\n" + forged,
		"a carriage return": "x\r" + forged,
		"a page":            "x\f" + forged,
	} {
		t.Run(what, func(t *testing.T) {
			evil := endedLine(2, "eve", name, "COMPLETED", "n2")
			s, _ := jobTools(t, before+evil+after+last, "")
			c := s.client(false)
			for _, position := range []int{0, len(before), len(before) + strings.IndexByte(evil, '\n') + 1} {
				jobs, err := c.Jobs(t.Context(), int64(position))
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range jobs.Runs {
					if r.ID == 9 || r.ID == 2 && r.Nodes.String() != "n2" {
						t.Errorf("from %d: %+v", position, r)
					}
				}
				if len(jobs.Skipped) == 0 && position < len(before)+1 {
					t.Error("the output does not mention it")
				}
			}
		})
	}
}

func TestWhatSlurmSaysOfJobsIsChecked(t *testing.T) {
	good := `{"id":1,"user":"anna","partition":"main","state":"RUNNING","nodes":"n1","submitted":1}`
	for what, job := range map[string]string{
		"no number":   strings.Replace(good, `"id":1`, `"id":0`, 1),
		"no time":     strings.Replace(good, `"submitted":1`, `"submitted":0`, 1),
		"a late time": strings.Replace(good, `"submitted":1`, `"submitted":999999999999`, 1),
		"a user":      strings.Replace(good, "anna", "an\\u001b[31mna", 1),
		"a state":     strings.Replace(good, "RUNNING", "<b>", 1),
		"a partition": strings.Replace(good, "main", "a b", 1),
		"nodes":       strings.Replace(good, "n1", "n[1-", 1),
		"many nodes":  strings.Replace(good, "n1", "n[1-99999999]", 1),
	} {
		t.Run(what, func(t *testing.T) {
			jobs, err := parseJobs([]byte(`{"listed":true,"position":3,"jobs":[` + job + `,` + good + `]}`))
			if err != nil || len(jobs.Runs) != 1 || len(jobs.Skipped) != 1 {
				t.Errorf("%+v, %v", jobs, err)
			}
		})
	}
	for _, text := range []string{"", "[]", `{"position":-1}`, `{"jobs":[{"id":"x"}]}`} {
		if _, err := parseJobs([]byte(text)); err == nil {
			t.Errorf("%q is an answer", text)
		}
	}
}

func TestNoListOfEndedJobs(t *testing.T) {
	s, file := jobTools(t, "", "6|bob|main|RUNNING|2026-01-02T10:00:00|2026-01-02T10:01:00|N/A|n4\n")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	jobs, err := s.client(false).Jobs(t.Context(), 7)
	if err != nil || !jobs.Listed || jobs.Position != 0 || len(jobs.Runs) != 1 {
		t.Errorf("before the first job: %+v, %v", jobs, err)
	}
	s.set("scontrol", "echo 'JobCompType = jobcomp/none'")
	jobs, err = s.client(false).Jobs(t.Context(), 7)
	if err != nil || jobs.Listed || jobs.Position != 7 || len(jobs.Runs) != 1 {
		t.Errorf("without a list: %+v, %v", jobs, err)
	}
}
