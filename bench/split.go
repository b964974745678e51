package main

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// step is one part of the time from sbatch to a job's first line.
type step string

// The steps, in their order.
const (
	scheduler   step = "scheduler"    // until slurmctld gives the job its nodes
	powerThread step = "power thread" // until slurmctld powers the node up, which a poll every 0.15 s sees
	handOver    step = "hand-over"    // resume.sh, SSH and the call, until the request is in the journal
	planning    step = "plan"         // until the operation waits for a run of Terraform
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
	scheduler: "slurmctld may let a batch job wait for others for up to `batch_sched_delay` of SchedulerParameters, " +
		"3 s by default.",
	powerThread: "Up to `power_save_interval`, for which the playbooks declare 1 s, the smallest that has an effect.",
	handOver: "resume.sh, one SSH login, and two starts of reconfigure. A kept SSH connection would need a process of " +
		"SlurmUser that outlives resume.sh, which newer releases of Slurm kill with its process group.",
	planning: "A start of the worker, the login to the cloud, one answer of each source, and Slurm's, which costs an " +
		"SSH login and the starts of Python and of two of Slurm's tools.",
	inCloud: "0.01 s, or 0.1 s if other operations are under way, in which these join the run, then two starts of " +
		"Terraform with its provider: for the plan, which the fence reads before anything is changed, and for the apply " +
		"of this saved plan. Then the cloud's own time, 1 s on the lab. It is asked every 0.2 s at first, and less often " +
		"later.",
	booting: "The machine's own time. The lab's boot in less than a second.",
	configuring: "ansible-playbook has started while the instance was made, and reads its inventory and the playbook; " +
		"an SSH login; one module on the node, with a start of Python, which starts slurmd. The playbooks are the only " +
		"description of a node, so none of it is done in another way.",
	registering: "slurmd's first message.",
	launching: "reconfigure sees within 0.2 s that slurmd has registered, and tells the control node; PrologSlurmctld " +
		"ends, slurmctld starts the job. With `launch: slurm`, its timer of 30 s.",
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
	allocated := logged(string(text), job, submitted)
	started, err := l.JobField(job, "StartTime")
	if err != nil {
		return split{}, err
	}
	// A node that is started without playbooks has no phase configure, and one that is adopted no phase boot.
	verified := at[reconfigure.PhaseVerify]
	configured := orTime(at[reconfigure.PhaseConfigure], verified)
	booted := orTime(at[reconfigure.PhaseBoot], configured)
	moments := []time.Time{
		submitted, allocated, l.woken[node], request.Submitted, at[reconfigure.PhaseApply], booted, configured, verified,
		registered, first,
	}
	s := split{of: map[step]time.Duration{}, first: first.Sub(submitted), up: registered.Sub(submitted)}
	for i, name := range steps {
		if moments[i].IsZero() || moments[i+1].IsZero() {
			return s, fmt.Errorf("job %s on %s: the time of the step %q is not known: %v", job, node, name, moments)
		}
		// Some moments are seen by polls, a little before or after those that others have written down.
		if moments[i+1].Before(moments[i]) {
			moments[i+1] = moments[i]
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

// slurmctldLog is the log of the lab's slurmctld.
const slurmctldLog = "/var/log/slurm/slurmctld.log"

// logTime matches the time at the beginning of a line of slurmctld's log.
var logTime = regexp.MustCompile(`^\[(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3})\] `)

// logged returns when slurmctld gave a job its nodes, from its log; zero if the log does not say so. Lines before since
// are those of other jobs.
func logged(log, job string, since time.Time) time.Time {
	allocates := regexp.MustCompile(`(?i)\b(allocate|started) JobId=` + regexp.QuoteMeta(job) + `\b`)
	for lines := bufio.NewScanner(strings.NewReader(log)); lines.Scan(); {
		found := logTime.FindStringSubmatch(lines.Text())
		if found == nil || !allocates.MatchString(lines.Text()) {
			continue
		}
		at, err := time.ParseInLocation("2006-01-02T15:04:05.000", found[1], time.Local)
		if err == nil && !at.Before(since.Truncate(time.Millisecond)) {
			return at
		}
	}
	return time.Time{}
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
// of the node that registers last.
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

// stepsOf is jobOn for a job that was submitted at a time. PrologSlurmctld waits for all nodes of a job, so the steps
// are those of the node that registers last.
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
	latest := slices.MaxFunc(slices.Collect(maps.Keys(came)), func(a, b string) int { return came[a].Compare(came[b]) })
	return l.splitOf(ctx, job, latest, submitted, came[latest], first)
}
