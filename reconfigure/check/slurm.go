package check

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-version"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/plan"
)

// setting is a setting of slurm.conf(5) that the tool depends on.
type setting struct {
	name     string
	wrong    func(value string) bool
	severity Severity
	want     string
	why      string
}

// slurmSettings checks slurmctld's running settings.
func slurmSettings(facts Facts) (found []Finding) {
	if facts.Slurm == nil {
		return nil
	}
	nodes := facts.Cluster.Nodes().Len()
	lacks := func(word string) func(string) bool {
		return func(value string) bool { return !hasWord(value, word) }
	}
	settings := []setting{
		{
			"ReturnToService", func(v string) bool { return v != "2" }, Error, "2",
			"a node that was thought lost, or registers late, stays DOWN forever",
		},
		{
			"SlurmctldParameters", lacks("idle_on_node_suspend"), Error, "idle_on_node_suspend",
			"a node that failed stays DOWN after its instance is removed",
		},
		{
			"TreeWidth", func(v string) bool { n, err := strconv.Atoi(v); return err == nil && n < nodes }, Warning,
			fmt.Sprintf("at least %d, the number of nodes", nodes),
			"nodes forward messages to nodes whose addresses they do not know",
		},
		{
			"ResumeRate", func(v string) bool { n, ok := number(v); return ok && n > 0 }, Warning, "0",
			"Slurm splits the nodes of a large job into calls a minute apart; the tool already batches requests",
		},
		{
			"SuspendTime", func(v string) bool { n, ok := number(v); return !ok || n < 0 }, Warning, "a time",
			"cloud nodes are never removed, and cost money",
		},
	}
	if hidesPoweredDown(facts.Versions[Slurm]) {
		settings = append(settings, setting{
			"PrivateData", lacks("cloud"), Error, "cloud",
			"powered-down nodes are not found, so they are neither planned nor handed back",
		})
	}
	for _, program := range []struct{ name, why string }{
		{"ResumeProgram", "Slurm cannot ask for nodes"},
		{"SuspendProgram", "no instance is removed when its node is idle"},
		{"ResumeFailProgram", "the instance of a node that did not register in time stays, and costs money"},
	} {
		settings = append(settings, setting{
			program.name, func(v string) bool { return v == "" || v == "(null)" }, Error,
			"the script of the playbooks", program.why,
		})
	}
	for _, s := range settings {
		if value, known := facts.Slurm[s.name]; known && s.wrong(value) {
			found = append(found, Finding{
				Check: "slurm", Severity: s.severity,
				What: fmt.Sprintf("slurmctld runs with %s=%s", s.name, value),
				Why:  s.why,
				Change: fmt.Sprintf(
					"remove %s from slurm.extra in all.yml, or set it to %s; then reconfigure deploy",
					s.name,
					s.want,
				),
			})
		}
	}
	declared := facts.Cluster.Slurm
	for _, timeout := range []struct {
		name, key string
		declared  time.Duration
	}{
		{"ResumeTimeout", "resume_timeout", declared.ResumeTimeout},
		{"SuspendTimeout", "suspend_timeout", declared.SuspendTimeout},
	} {
		runs, ok := number(facts.Slurm[timeout.name])
		if seconds := int(timeout.declared.Seconds()); ok && runs != seconds {
			found = append(found, Finding{
				Check: "slurm", Severity: Warning,
				What: fmt.Sprintf("slurmctld runs with %s=%d, but all.yml has slurm.%s: %d",
					timeout.name, runs, timeout.key, seconds),
				Why:    "the tool's deadlines follow all.yml: it gives up nodes too early, or after Slurm does",
				Change: "reconfigure deploy, and no " + timeout.name + " in slurm.extra",
			})
		}
	}
	return found
}

// hidesPoweredDown reports whether a release of Slurm hides powered-down nodes if PrivateData lacks cloud. Releases
// from 23.02 on always show them, and do not print the word (24.11, run).
func hidesPoweredDown(slurm string) bool {
	is, err := version.NewVersion(slurm)
	return err != nil || is.LessThan(version.Must(version.NewVersion("23.02")))
}

// hasWord reports whether a comma-separated list has a word, with or without a value.
func hasWord(list, word string) bool {
	for part := range strings.SplitSeq(list, ",") {
		name, _, _ := strings.Cut(strings.TrimSpace(part), "=")
		if strings.EqualFold(name, word) {
			return true
		}
	}
	return false
}

// number returns the number of a setting as `scontrol show config` prints it: "60 sec", "300 nodes/min"; false for NONE
// and INFINITE.
func number(value string) (int, bool) {
	first, _, _ := strings.Cut(value, " ")
	n, err := strconv.Atoi(first)
	return n, err == nil
}

// Times has the durations of phases, for nodes that became ready, and of removals.
type Times struct {
	Phases  map[reconfigure.Phase][]time.Duration
	Ready   []time.Duration // of the attempt that made a node ready, from its first phase to its last
	Removed []time.Duration // the durations of removals
}

const (
	// fewest is the minimum number of measurements for a conclusion.
	fewest = 5
	// slack is the ratio of a deadline to the measured time, in halves.
	slack = 3
)

// deadlines checks the timeouts against each other and against the measured times.
func deadlines(facts Facts) (found []Finding) {
	timing, boot := facts.Cluster.Slurm, facts.Cluster.Settings.BootTimeout
	usable := plan.Usable(timing.ResumeTimeout)
	add := func(severity Severity, what, why, change string) {
		found = append(found, Finding{Check: "deadlines", Severity: severity, What: what, Why: why, Change: change})
	}
	resumeTimeout := func(usable time.Duration) string {
		return fmt.Sprintf("slurm: {resume_timeout: %d}", ceiling(plan.ResumeTimeoutFor(usable)))
	}
	if boot >= usable && usable > 0 {
		what := fmt.Sprintf("reconfigure.boot_timeout is %s, and slurm.resume_timeout %s", boot, timing.ResumeTimeout)
		add(Warning, what, "a node that does not boot uses up Slurm's whole time, and is never retried",
			resumeTimeout(2*boot)+", or a shorter boot_timeout")
	}
	if facts.Times == nil {
		return found
	}
	ready, measured := p95(facts.Times.Ready)
	late := fmt.Sprintf("slurm.resume_timeout is %s, and 95 %% of the nodes are ready after %s",
		timing.ResumeTimeout, round(ready))
	switch {
	case !measured:
	case usable < ready:
		why := fmt.Sprintf("a node is given up %s before resume_timeout, so some never become ready; their jobs are requeued",
			timing.ResumeTimeout-usable)
		add(Error, late, why, resumeTimeout(ready*slack/2))
	case usable < ready*slack/2:
		add(Warning, late, "nodes that a busy cloud delays are then given up; a generous value costs little",
			resumeTimeout(ready*slack/2))
	case facts.Cluster.Settings.Retries > 0 && usable < 2*ready:
		what := fmt.Sprintf("slurm.resume_timeout is %s, and a node takes %s", timing.ResumeTimeout, round(ready))
		add(Note, what, "there is no time for another attempt (reconfigure.retries) on a fresh instance",
			resumeTimeout(2*ready*slack/2))
	}
	if answers, ok := p95(facts.Times.Phases[reconfigure.PhaseBoot]); ok && boot < answers*slack/2 {
		what := fmt.Sprintf("reconfigure.boot_timeout is %s, and 95 %% of the instances answer by SSH after %s",
			boot, round(answers))
		add(Warning, what, "instances that boot a little more slowly count as failed, and open the breaker of their group",
			fmt.Sprintf("reconfigure: {boot_timeout: %d}", ceiling(answers*2)))
	}
	if removed, ok := p95(facts.Times.Removed); ok && timing.SuspendTimeout < removed {
		what := fmt.Sprintf("slurm.suspend_timeout is %s, and 95 %% of the removals take up to %s",
			timing.SuspendTimeout, round(removed))
		add(Note, what,
			"Slurm gives a node to the next job while its instance is still being removed, and the job waits for that",
			fmt.Sprintf("slurm: {suspend_timeout: %d}", ceiling(removed*slack/2)))
	}
	if measured && timing.SuspendTime > 0 && timing.SuspendTime < ready {
		what := fmt.Sprintf("slurm.suspend_time is %s, and a node takes %s to become ready", timing.SuspendTime, round(ready))
		add(Note, what, "nodes are removed faster than they are made: frequent jobs mostly wait for boots",
			fmt.Sprintf("slurm: {suspend_time: %d}", ceiling(2*ready)))
	}
	return found
}

// p95 returns the 95th percentile; false if there are too few measurements.
func p95(all []time.Duration) (time.Duration, bool) {
	if len(all) < fewest {
		return 0, false
	}
	sorted := sortedCopy(all)
	return sorted[(len(sorted)*95+99)/100-1], true
}

func round(d time.Duration) time.Duration { return d.Round(time.Second) }

// ceiling returns a time in seconds for the declaration, rounded up to whole minutes.
func ceiling(d time.Duration) int {
	return int((d+time.Minute-1)/time.Minute) * 60
}
