package explain_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	godiff "github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/explain"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

var update = flag.Bool("update", false, "write the golden files anew")

var (
	job4     = explain.Subject{Job: 4}
	node3    = explain.Subject{Node: "p3"}
	request1 = explain.Subject{Request: 1}
)

// TestStories plays each scene on the simulated cluster, whose journal is what workers write there, and compares the
// stories with golden files.
func TestStories(t *testing.T) {
	zone := time.Local
	time.Local = time.UTC
	defer func() { time.Local = zone }()
	update := func(nodes ...string) reconfigure.Request {
		return reconfigure.Request{
			Mode: reconfigure.Update, Nodes: nodeset.Of(nodes...), Caller: "root", Reason: "new image",
			Options: reconfigure.Options{DrainTimeout: 2 * time.Hour},
		}
	}
	for name, scene := range map[string]struct {
		have     []string
		play     func(*cluster)
		subjects []explain.Subject
	}{
		"job-runs": {nil, func(c *cluster) {
			c.submits(4, "p2", "p3")
			pass(5 * time.Minute)
			c.becomes("RUNNING", func(r *reconfigure.JobRun) { r.Started = time.Now().Add(-3*time.Minute - 40*time.Second) })
		}, []explain.Subject{job4, node3, request1}},
		"job-waits-for-the-queue": {nil, func(c *cluster) {
			c.Takes(simulate.Playing, time.Hour)
			c.asks(reconfigure.Request{Mode: reconfigure.Deploy, Caller: "root"})
			pass(time.Minute)
			c.submits(4, "p3")
			pass(time.Minute)
		}, []explain.Subject{job4, {Node: "p1"}}},
		"a-deploy-is-done-with-a-node": {nil, func(c *cluster) {
			c.Takes(simulate.Playing, time.Hour, "p1")
			c.asks(reconfigure.Request{Mode: reconfigure.Deploy, Caller: "root"})
			pass(3 * time.Minute)
		}, []explain.Subject{{Node: "ctl"}, {Node: "p1"}, {Node: "p5"}}},
		"job-waits-for-the-cloud": {nil, func(c *cluster) {
			c.Takes(simulate.Building, simulate.Forever, "p3")
			c.submits(4, "p3")
			pass(2 * time.Minute)
		}, []explain.Subject{job4}},
		"job-waits-for-the-boot": {nil, func(c *cluster) {
			c.Order(simulate.NoSSH, "p3")
			c.submits(4, "p3")
			pass(2 * time.Minute)
		}, []explain.Subject{job4, request1}},
		"job-waits-for-its-slowest-node": {nil, func(c *cluster) {
			c.Takes(simulate.Booting, 4*time.Minute, "p3")
			c.submits(4, "p2", "p3")
			pass(2 * time.Minute)
		}, []explain.Subject{job4}},
		"job-waits-for-ansible": {nil, func(c *cluster) {
			c.submits(3, "p2")
			pass(5 * time.Minute)
			c.becomes("COMPLETED", func(r *reconfigure.JobRun) {
				r.Started, r.Ended = time.Now().Add(-4*time.Minute), time.Now().Add(-time.Minute)
			})
			c.Takes(simulate.Playing, 20*time.Minute)
			c.submits(4, "p3")
			pass(2 * time.Minute)
		}, []explain.Subject{job4}},
		"job-waits-for-slurmd": {nil, func(c *cluster) {
			c.Order(simulate.NeverRegisters, "p3")
			c.submits(4, "p3")
			pass(2 * time.Minute)
		}, []explain.Subject{job4}},
		"job-waits-for-its-launch": {nil, func(c *cluster) {
			c.submits(4, "p3")
			pass(3 * time.Minute)
		}, []explain.Subject{job4}},
		"job-waits-without-a-worker": {nil, func(c *cluster) {
			c.submits(4, "p3")
			c.open.Crash()
			c.stop()
			pass(time.Minute)
		}, []explain.Subject{job4}},
		"job-waits-in-a-pause": {nil, func(c *cluster) {
			if err := c.journal.Pause(c.Context(), "the cloud is repaired", "root"); err != nil {
				c.Fatal(err)
			}
			c.submits(4, "p3")
			pass(time.Minute)
		}, []explain.Subject{job4}},
		"node-fails-in-its-boot": {nil, func(c *cluster) {
			c.Order(simulate.NoSSH, "p3")
			c.submits(4, "p3")
			pass(16 * time.Minute)
		}, []explain.Subject{node3, request1, job4}},
		"node-fails-in-ansible": {nil, func(c *cluster) {
			c.Order(simulate.PlaybookFails, "p3")
			c.submits(4, "p3")
			pass(16 * time.Minute)
		}, []explain.Subject{node3}},
		"node-waits-after-its-failure": {nil, func(c *cluster) {
			c.Order(simulate.PlaybookFails, "p3")
			c.submits(4, "p3")
			pass(16 * time.Minute)
			if err := c.journal.Pause(c.Context(), "the image is repaired", "root"); err != nil {
				c.Fatal(err)
			}
			c.submits(5, "p3")
			pass(time.Minute)
		}, []explain.Subject{node3}},
		"node-fails-without-a-host": {nil, func(c *cluster) {
			c.Order(simulate.NoValidHost, "p3")
			c.submits(4, "p3")
			pass(time.Minute)
		}, []explain.Subject{node3, job4}},
		"node-fails-without-quota": {nil, func(c *cluster) {
			c.Limit(reconfigure.Use{Instances: 2, Cores: -1, RAM: -1})
			c.submits(4, "p3")
			pass(time.Minute)
		}, []explain.Subject{node3}},
		"job-is-requeued": {nil, func(c *cluster) {
			c.Order(simulate.NoValidHost, "p3")
			c.submits(4, "p3")
			pass(time.Minute)
			c.becomes("NODE_FAIL", func(r *reconfigure.JobRun) { r.Ended = time.Now() })
			c.Clear(simulate.NoValidHost)
			pass(5 * time.Minute)
			c.submits(4, "p4")
			pass(3 * time.Minute)
			c.becomes("COMPLETED", func(r *reconfigure.JobRun) {
				r.Started, r.Ended = time.Now().Add(-90*time.Second), time.Now().Add(-time.Minute)
			})
		}, []explain.Subject{job4}},
		"campaign-updates-a-node": {[]string{"p3"}, func(c *cluster) {
			c.StartJob("p3")
			declared := declared()
			declared.Groups[0].Image = "v2"
			c.Declare(declared)
			r := update("p3")
			r.Campaign = 1
			c.asks(r)
			pass(10 * time.Minute)
		}, []explain.Subject{node3}},
		"destroy-cancels-a-request": {nil, func(c *cluster) {
			c.Order(simulate.NoSSH, "p3")
			c.submits(4, "p3")
			pass(time.Minute)
			c.asks(reconfigure.Request{Mode: reconfigure.Destroy, Caller: "root"})
			pass(5 * time.Minute)
		}, []explain.Subject{request1, node3}},
		"worker-dies": {nil, func(c *cluster) {
			c.Takes(simulate.Playing, 10*time.Minute)
			c.submits(4, "p3")
			pass(2 * time.Minute)
			c.open.Crash()
			c.stop()
			pass(time.Minute)
			c.work()
			pass(30 * time.Second)
		}, []explain.Subject{request1, job4}},
		"sources-do-not-answer": {[]string{"p3"}, func(c *cluster) {
			c.Order(simulate.CloudSilent)
			c.Order(simulate.SlurmSilent)
		}, []explain.Subject{node3, job4, request1}},
	} {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			play(t, scene.have, func(c *cluster) {
				scene.play(c)
				for _, subject := range scene.subjects {
					story := c.tells(subject)
					if err := story.Table(time.Now())(&got, false, 0); err != nil {
						t.Error(err)
					}
					got.WriteString("\n")
					demandWhole(t, story)
				}
				lines := c.happened(explain.Filter{})
				slices.SortStableFunc(lines, func(a, b explain.Line) int { // nodes act at the same time in any order
					return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Nodes.String(), b.Nodes.String()))
				})
				for _, line := range lines {
					fmt.Fprintln(&got, line)
				}
			})
			compare(t, filepath.Join("testdata", name+".txt"), numbered(got.String()))
		})
	}
}

// numbered replaces the ids of instances by numbers in the order of their appearance: operations of several nodes get
// them in any order.
func numbered(s string) string {
	numbers := map[string]string{}
	return regexp.MustCompile(`instance-\d+`).ReplaceAllStringFunc(s, func(id string) string {
		if numbers[id] == "" {
			numbers[id] = fmt.Sprintf("instance-%c", 'a'+len(numbers))
		}
		return numbers[id]
	})
}

// demandWhole checks what holds for each story.
func demandWhole(t *testing.T, s explain.Story) {
	t.Helper()
	for i, step := range s.Steps {
		if i > 0 && step.Begin.Before(s.Steps[i-1].Begin) {
			t.Errorf("%s: step %d begins before the one before it", s.Subject, i)
		}
		if !step.End.IsZero() && step.End.Before(step.Begin) {
			t.Errorf("%s: step %d ends before it begins: %+v", s.Subject, i, step)
		}
	}
	if s.WaitsFor != nil && (s.WaitsFor.For == "" || s.WaitsFor.Since.IsZero() || len(s.Advice) == 0) {
		t.Errorf("%s: it waits for %+v, with advice %q", s.Subject, s.WaitsFor, s.Advice)
	}
	for i, p := range s.Wait {
		if i > 0 && p.Begin.Before(s.Wait[i-1].End) {
			t.Errorf("%s: %s begins before %s has ended", s.Subject, p.Part, s.Wait[i-1].Part)
		}
	}
	if _, err := json.Marshal(s); err != nil {
		t.Error(err)
	}
}

func compare(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	wantWords, wantTimes := timed(string(want))
	gotWords, gotTimes := timed(got)
	if diff := godiff.Diff(wantWords, gotWords); diff != "" {
		t.Errorf("%s (-want +got):\n%s\nall of it:\n%s", path, diff, got)
		return
	}
	for i, want := range wantTimes {
		if (want - gotTimes[i]).Abs() > tolerance {
			t.Errorf("%s: time %d is %s, not %s, in\n%s", path, i, gotTimes[i], want, got)
		}
	}
}

// tolerance is how much the times of two runs differ: goroutines that act at the same time share a run of Terraform, or
// the second one waits for the next.
const tolerance = 2 * time.Second

var times = regexp.MustCompile(`\d{4}-\d\d-\d\d\s+\d\d:\d\d:\d\d|\b\d+m\d\ds\b|\b\d+s\b`)

// timed returns the lines of a text with single blanks and without times, and the times.
func timed(s string) (lines []string, all []time.Duration) {
	for _, found := range times.FindAllString(s, -1) {
		if at, err := time.Parse(time.DateTime, strings.Join(strings.Fields(found), " ")); err == nil {
			all = append(all, time.Duration(at.UnixNano()))
			continue
		}
		d, err := time.ParseDuration(found)
		if err != nil {
			panic(err)
		}
		all = append(all, d)
	}
	for line := range strings.Lines(times.ReplaceAllString(s, "TIME")) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines, all
}
