package main

import (
	"bufio"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// step is one part of the time from sbatch to a job's first line.
type step string

// The steps, in their order.
const (
	scheduler   step = "scheduler"    // until slurmctld gives the job its nodes
	powerThread step = "power thread" // until slurmctld starts resume.sh
	handOver    step = "hand-over"    // resume.sh, SSH and the call, until the request is in the journal
	planning    step = "plan"         // until the operation waits for Terraform
	inCloud     step = "cloud"        // Terraform, until the cloud shows the instance as ACTIVE
	booting     step = "boot"         // until SSH answers
	configuring step = "configure"    // the playbooks, until they have started slurmd
	registering step = "register"     // until slurmctld shows the node as up
	launching   step = "launch"       // until slurmctld starts the job, and the job has written its first line
)

var steps = []step{
	scheduler, powerThread, handOver, planning, inCloud, booting, configuring, registering, launching,
}

// floors says what bounds each step from below on the lab.
var floors = map[step]string{
	scheduler: "slurmctld schedules a submitted job at once, unless it has just scheduled: then up to " +
		"`sched_min_interval` later.",
	powerThread: "Half of `power_save_interval` on average: 2 s on the lab, 10 s by default. slurmctld accepts 1 s.",
	handOver: "Two starts of a shell, one SSH login, and two starts of reconfigure: the gate and the request. The login " +
		"needs a new connection each time: slurmctld starts each resume.sh for itself, SlurmUser has no folder for a " +
		"socket that a kept connection could use in every release, and a broken kept connection would delay a request.",
	planning: "A start of the worker, the login to the cloud, and one answer of each source; Slurm's answer costs an SSH " +
		"login and two starts of Slurm's tools.",
	inCloud: "Two starts of Terraform with its provider, for the plan and for the apply, and the cloud's own time of 1 s. " +
		"The plan stays a file of its own, because the fence reads it before anything is changed.",
	booting: "The node's own time. The lab's machines boot in less than a second.",
	configuring: "A start of ansible-playbook, an SSH login, and three modules on the node, of which the last one starts " +
		"slurmd. The playbooks are the only description of a node, so none of it is done in another way.",
	registering: "One look of reconfigure, and slurmd's first message.",
	launching:   "PrologSlurmctld ends and slurmctld starts the job; with `launch: slurm` its timer of 30 s.",
}

// split has the duration of each step for one job and one of its nodes.
type split struct {
	of    map[step]time.Duration
	first time.Duration // sbatch to the job's first line
	up    time.Duration // sbatch to slurmd registered
	start time.Duration // sbatch to the job's StartTime in slurmctld, which has whole seconds
}

// splitOf returns the steps of a job that was submitted at a time and made Slurm resume a node, which had registered at
// another time. The job's first line was written at first.
func (l *lab) splitOf(
	ctx context.Context, job, node string, submitted, registered, first time.Time,
) (split, error) {
	request, err := l.newest(ctx, reconfigure.Resume, node)
	if err != nil {
		return split{}, err
	}
	at, _, err := l.entered(ctx, request, node)
	if err != nil {
		return split{}, err
	}
	text, err := l.Command(cluster.ControlNodeName, "cat", slurmctldLog).Output()
	if err != nil {
		return split{}, fmt.Errorf("read %s: %w", slurmctldLog, err)
	}
	allocated, woken := logged(string(text), job, node, submitted)
	started, err := l.JobField(job, "StartTime")
	if err != nil {
		return split{}, err
	}
	// A node that is started without playbooks has no phase configure, and one that is adopted no phase boot.
	verified := at[reconfigure.PhaseVerify]
	configured := orTime(at[reconfigure.PhaseConfigure], verified)
	booted := orTime(at[reconfigure.PhaseBoot], configured)
	moments := []time.Time{
		submitted, allocated, woken, request.Submitted, at[reconfigure.PhaseApply], booted, configured, verified, registered,
		first,
	}
	s := split{of: map[step]time.Duration{}, first: first.Sub(submitted), up: registered.Sub(submitted)}
	for i, name := range steps {
		if moments[i].IsZero() || moments[i+1].IsZero() {
			return s, fmt.Errorf("job %s on %s: the time of the step %q is not known: %v", job, node, name, moments)
		}
		s.of[name] = moments[i+1].Sub(moments[i])
	}
	if when, err := time.ParseInLocation("2006-01-02T15:04:05", started, time.Local); err == nil {
		s.start = when.Sub(submitted)
	}
	return s, nil
}

// orTime returns the first time, or the other one if it is zero.
func orTime(t, other time.Time) time.Time {
	if t.IsZero() {
		return other
	}
	return t
}

// slurmctldLog is the log of the lab's slurmctld, which has the level that logged needs.
const slurmctldLog = "/var/log/slurm/slurmctld.log"

// logTime matches the time at the beginning of a line of slurmctld's log.
var logTime = regexp.MustCompile(`^\[(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3})\] `)

// logged returns when slurmctld gave a job its nodes, and when it then started resume.sh for a node, from its log; zero
// if the log does not say so. Lines before since are those of other jobs.
func logged(log, job, node string, since time.Time) (allocated, woken time.Time) {
	allocates := regexp.MustCompile(`(?i)\b(allocate|started) JobId=` + regexp.QuoteMeta(job) + `\b`)
	for lines := bufio.NewScanner(strings.NewReader(log)); lines.Scan(); {
		line := lines.Text()
		found := logTime.FindStringSubmatch(line)
		if found == nil {
			continue
		}
		at, err := time.ParseInLocation("2006-01-02T15:04:05.000", found[1], time.Local)
		if err != nil || at.Before(since.Truncate(time.Millisecond)) {
			continue
		}
		if allocated.IsZero() && allocates.MatchString(line) {
			allocated = at
		}
		_, list, wakes := strings.Cut(line, "waking nodes ")
		if nodes, err := nodeset.Parse(strings.TrimSpace(list)); wakes && err == nil && woken.IsZero() &&
			!allocated.IsZero() && nodes.Contains(node) {
			woken = at
		}
	}
	return allocated, woken
}

// firstLine makes a job write the time of its first line to a file on its node, and stay. The file is firstFile.
const firstLine = `date +%s.%N >/tmp/first-$SLURM_JOB_ID; exec sleep 3600`

// firstOf waits for a job's first line on a node, and returns its time.
func (l *lab) firstOf(ctx context.Context, job, node string) (at time.Time, err error) {
	err = until(ctx, patience, 100*time.Millisecond, "job "+job+" writes its first line", func() (bool, error) {
		out, err := l.Command(node, "cat", "/tmp/first-"+job).Output()
		if err != nil {
			return false, err
		}
		at, err = clock(string(out))
		return err == nil, err
	})
	return at, err
}

// clock reads the output of `date +%s.%N`.
func clock(text string) (time.Time, error) {
	whole, part, _ := strings.Cut(strings.TrimSpace(text), ".")
	s, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("not the output of date: %q", text)
	}
	ns, err := strconv.ParseInt(part, 10, 64)
	if err != nil || len(part) != 9 {
		return time.Time{}, fmt.Errorf("not the output of date: %q", text)
	}
	return time.Unix(s, ns), nil
}

// splitTable returns a table of the steps: medians and extremes of several jobs, with the floor of each step.
func splitTable(came []split) [][]string {
	table := [][]string{{"step", "median", "smallest", "largest"}}
	line := func(name string, of func(split) time.Duration) {
		var all []time.Duration
		for _, s := range came {
			all = append(all, of(s))
		}
		table = append(table, []string{name, seconds(median(all)), seconds(slices.Min(all)), seconds(slices.Max(all))})
	}
	for _, name := range steps {
		line(string(name), func(s split) time.Duration { return s.of[name] })
	}
	line("until registered", func(s split) time.Duration { return s.up })
	line("until slurmctld's StartTime (whole seconds)", func(s split) time.Duration { return s.start })
	line("until the first line", func(s split) time.Duration { return s.first })
	return table
}

// sideBySide returns a table of the steps with a column for each job.
func sideBySide(titles []string, columns []split) [][]string {
	table := [][]string{append([]string{"step"}, titles...)}
	line := func(name string, of func(split) time.Duration) {
		row := []string{name}
		for _, s := range columns {
			row = append(row, seconds(of(s)))
		}
		table = append(table, row)
	}
	for _, name := range steps {
		line(string(name), func(s split) time.Duration { return s.of[name] })
	}
	line("until registered", func(s split) time.Duration { return s.up })
	line("until the first line", func(s split) time.Duration { return s.first })
	return table
}

// jobOn submits a job that occupies nodes, waits for slurmd on them and for the job's first line, and returns the steps
// of the node of that line.
func (l *lab) jobOn(ctx context.Context, nodes ...string) (split, error) {
	submitted := time.Now()
	job, err := l.Submit(
		fmt.Sprintf("--nodes=%d", len(nodes)), "--nodelist="+strings.Join(nodes, ","), "--output=/dev/null",
		"--wrap="+firstLine,
	)
	if err != nil {
		return split{}, err
	}
	return l.stepsOf(ctx, job, submitted, nodes...)
}

// stepsOf is jobOn for a job that was submitted at a time. slurmctld starts a batch job on several nodes when the first
// one, on which the script runs, is up; the steps are those of that node.
func (l *lab) stepsOf(ctx context.Context, job string, submitted time.Time, nodes ...string) (split, error) {
	came, err := l.registered(ctx, nodes...)
	if err != nil {
		return split{}, err
	}
	return l.stepsOnce(ctx, job, submitted, came)
}

// stepsOnce is stepsOf for nodes that have registered at these times.
func (l *lab) stepsOnce(
	ctx context.Context, job string, submitted time.Time, came map[string]time.Time,
) (split, error) {
	host, err := l.JobField(job, "BatchHost")
	if err != nil {
		return split{}, err
	}
	first, err := l.firstOf(ctx, job, host)
	if err != nil {
		return split{}, err
	}
	return l.splitOf(ctx, job, host, submitted, came[host], first)
}
