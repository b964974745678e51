package usage

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// example has a job that failed on n1 and ran later, and a job that found its node up.
func example() Facts {
	first, again := job(1, "NODE_FAIL", "n1", 1, 2, 30), job(1, "COMPLETED", "n1", 30, 80, 90)
	up := life("n1", "a", 50, 55, 60, 65, 70, 0)
	up.Image, up.FlavorID, up.Host = "debian", "f", "h\x1b[31m1"
	return Facts{
		Now:      at(100),
		Runs:     []reconfigure.JobRun{first, again, job(2, "RUNNING", "n2", 85, 85, 0)},
		Lives:    []reconfigure.Life{up, life("n2", "b", 6, 11, 21, 31, 49, 0)},
		Requests: []reconfigure.Request{resume(7, 5, first), resume(8, 45, again)},
		Events:   map[reconfigure.RequestID][]reconfigure.Event{7: {failed(20, "n1")}},
	}
}

func TestViews(t *testing.T) {
	zone := time.Local
	time.Local = time.UTC
	defer func() { time.Local = zone }()
	jobs := Jobs(example())
	for what, c := range map[string]struct {
		wide bool
		jobs []Job
		ids  bool
		want string
	}{
		"a table": {false, jobs, false, `
JOB  USER  STATE      SUBMITTED            WAITED  RAN  NODES  WHY
1    u1    NODE_FAIL  2026-01-01 12:00:01  -       -    n1     apply: no room
1    u1    COMPLETED  2026-01-01 12:00:30  50s     10s  n1     -
2    u2    RUNNING    2026-01-01 12:01:25  0s      -    n2     -
`},
		"a wide one": {true, jobs, true, `
JOB  USER  STATE      SUBMITTED            WAITED  RAN  NODES  INSTANCE  IMAGE   FLAVOR  HOST     BOOTED IN
1    u1    NODE_FAIL  2026-01-01 12:00:01  -       -    n1     -         -       -       -        -
1    u1    COMPLETED  2026-01-01 12:00:30  50s     10s  n1     a         debian  f       h�[31m1  15s
2    u2    RUNNING    2026-01-01 12:01:25  0s      -    n2     b         -       -       -        38s
`},
		"timelines": {false, jobs[:2], true, `
job 1: NODE_FAIL, of u1, on n1; apply: no room
TIME  AFTER  NODE  WHAT  DETAILS
2026-01-01 12:00:01  +0s    -     submitted  -
2026-01-01 12:00:05  +4s    -     asked for  n1 in request 7
2026-01-01 12:00:20  +19s   n1    failed     apply: no room
2026-01-01 12:00:30  +29s   -     ended      NODE_FAIL

job 1: COMPLETED, of u1, on n1
TIME  AFTER  NODE  WHAT  INSTANCE  DETAILS
2026-01-01 12:00:30  +0s    -     submitted   -         -
2026-01-01 12:00:45  +15s   -     asked for   -         n1 in request 8
2026-01-01 12:00:50  +20s   n1    planned     -         plan 1
2026-01-01 12:00:55  +25s   n1    made        a         image debian, flavor f, host h�[31m1
2026-01-01 12:01:00  +30s   n1    booted      a         -
2026-01-01 12:01:05  +35s   n1    configured  a         -
2026-01-01 12:01:10  +40s   n1    registered  a         -
2026-01-01 12:01:20  +50s   -     started     -         n1
2026-01-01 12:01:30  +1m00s  -     ended       -         COMPLETED
`},
		"no jobs":     {false, nil, false, "\nno jobs\n"},
		"no such job": {false, nil, true, "\nno such job\n"},
	} {
		t.Run(what, func(t *testing.T) {
			var b bytes.Buffer
			if err := JobTable(c.jobs, c.ids)(&b, c.wide, 0); err != nil {
				t.Fatal(err)
			}
			plain := func(s string) string { // without the widths of columns
				var lines []string
				for line := range strings.Lines(s) {
					lines = append(lines, strings.Join(strings.Fields(line), " "))
				}
				return strings.Join(lines, "\n")
			}
			if d := cmp.Diff(plain(strings.TrimPrefix(c.want, "\n")), plain(b.String())); d != "" {
				t.Errorf("(-want +got):\n%s\n%s", d, b.String())
			}
		})
	}
}

func TestReportForPrograms(t *testing.T) {
	var b bytes.Buffer
	r := NewReport(example(), at(1), "")
	r.Saved = NewSaved(example(), at(1), "")
	if err := json.NewEncoder(&b).Encode(r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"groups":[{"name":"g","instances":2,"total_hours":0.037,"used_hours":0.007,`, `"users":[{"name":"","total_hours":`,
		`"jobs_at_once":1,"saved_hours":0.006}`,
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in %s", want, b.String())
		}
	}
	b.Reset()
	if err := r.Write(&b, false, 0); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"(no job)", "JOBS AT ONCE  WAIT SAVED\n", "1             0.01\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestFilter(t *testing.T) {
	now := at(100)
	jobs := Jobs(example())
	for what, c := range map[string]struct {
		jobs                   []string
		nodes, instance, since string
		want                   []int64
	}{
		"of a day":         {nil, "", "", "", []int64{1, 1, 2}},
		"of 30 seconds":    {nil, "", "", "30s", []int64{1, 2}},
		"of a number":      {[]string{"2", "3"}, "", "", "", []int64{2}},
		"of nodes":         {nil, "n[1,3]", "", "1d", []int64{1, 1}},
		"of an instance":   {nil, "", "a", "", []int64{1}},
		"of both":          {nil, "n2", "a", "", nil},
		"of no such thing": {nil, "", "x", "", nil},
	} {
		t.Run(what, func(t *testing.T) {
			f, err := ParseFilter(now, c.jobs, c.nodes, c.instance, c.since)
			if err != nil {
				t.Fatal(err)
			}
			var got []int64
			for _, j := range f.Select(jobs) {
				got = append(got, j.ID)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
	for _, bad := range []string{"0d", "-1d", "d", "1w", "-5m", "99999999999d", "1.5d"} {
		if _, err := ParseFilter(now, nil, "", "", bad); err == nil {
			t.Errorf("%s is a length of time", bad)
		}
	}
}

func TestObserved(t *testing.T) {
	now := at(20000)
	server := func(id string, created float64) reconfigure.Server {
		return reconfigure.Server{
			ID: id, Status: "ACTIVE", Created: at(created), Group: "g", ImageID: "i", FlavorID: "f", Host: "h",
		}
	}
	known := []reconfigure.Life{
		{Node: "n1", Instance: "a", Made: at(1)}, {Node: "n2", Instance: "b", Made: at(1)},
		{Node: "n3", Instance: "c", Made: now.Add(time.Second)},
	}
	got := Observed(known, map[string][]reconfigure.Server{
		"n1": {server("a", 1), server("twin", 2)}, "n2": {server("other", 1)},
		"n4": {server("d", 5), server("e", 6)}, "n5": {server("young", 19000)},
		"n6": {{ID: "stopped", Status: "SHUTOFF", Created: at(1)}},
	}, now)
	want := []reconfigure.Life{
		{Node: "n2", Removed: now},
		{Node: "n4", Instance: "d", Group: "g", ImageID: "i", FlavorID: "f", Host: "h", Made: at(5)},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestVanished(t *testing.T) {
	open := []reconfigure.JobRun{job(1, "RUNNING", "n1", 1, 2, 0), job(2, "RUNNING", "n1", 1, 2, 0)}
	again := job(1, "RUNNING", "n1", 50, 52, 0)
	got := Vanished(open, []reconfigure.JobRun{again, open[1]}, at(60))
	want := open[0]
	want.State, want.Ended = StateUnknown, at(60)
	if d := cmp.Diff([]reconfigure.JobRun{want}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if nodes := nodeset.Of("n1"); !got[0].Nodes.Equal(nodes) {
		t.Error(got[0].Nodes)
	}
}

// TestTheReportHasTheSameHoursInCSV compares CSV with JSON.
func TestTheReportHasTheSameHoursInCSV(t *testing.T) {
	report := Report{
		Groups:    map[string]Hours{"standard": {Used: 90 * time.Minute, Idle: time.Hour}, "gpu": {Used: time.Hour}},
		Instances: map[string]int{"standard": 2, "gpu": 1},
		Saved:     map[string]Saved{"standard": {Jobs: 12, Wait: 18 * time.Minute}, "gpu": {Jobs: 1}},
		Users:     map[string]Hours{"ada, count": {Used: 90 * time.Minute}, Nobody: {Idle: time.Hour}},
	}
	var got strings.Builder
	if err := csv.NewWriter(&got).WriteAll(report.Rows()); err != nil {
		t.Fatal(err)
	}
	const want = `of,name,instances,total_hours,used_hours,idle_hours,booting_hours,wasted_hours,jobs_at_once,saved_hours
group,standard,2,2.5,1.5,1,0,0,12,0.3
group,gpu,1,1,1,0,0,0,1,
user,"ada, count",,1.5,1.5,0,0,0,,
user,,,1,0,1,0,0,,
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Error(diff)
	}
}
