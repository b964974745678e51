package client

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/attach"
	"github.com/eiffel-hpc/eiffel/reconfigure/check"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
	"github.com/eiffel-hpc/eiffel/reconfigure/slurmconf"
)

// PlanAttach plans the attachment to the control node that exists. It changes nothing, here or there. If the cloud does
// not answer, the plan has no hardware of flavors, and says so. The other errors may be retried.
func PlanAttach(ctx context.Context, a *site.Adapters) (attach.Plan, error) {
	var hardware map[string]reconfigure.Hardware
	var err error
	if attach.NeedsFlavors(a.Site.Cluster) {
		if hardware, err = a.Hardware(ctx); err != nil && ctx.Err() != nil {
			return attach.Plan{}, err
		}
	}
	p, failed := PlanAttachOf(ctx, attach.Facts{Cluster: a.Site.Cluster, Hardware: hardware,
		Firewall: a.Site.Provider.Module.Firewall}, a.Site.OnControlNode)
	if err != nil {
		p.Report.Unreachable = append(p.Report.Unreachable, check.Unreachable{Source: "the cloud", Reason: err.Error()})
	}
	return p, failed
}

// PlanAttachOf is PlanAttach for what the declaration and the cloud say, and for a function that runs programs on the
// control node and returns their output.
func PlanAttachOf(ctx context.Context, declared attach.Facts, run onControlNode) (attach.Plan, error) {
	f, err := factsOf(ctx, declared, run)
	if err != nil {
		return attach.Plan{}, err
	}
	return attach.Compute(f)
}

// onControlNode runs a program on the control node and returns its output.
type onControlNode = func(ctx context.Context, program string, args ...string) ([]byte, error)

// factsOf adds what the control node answers to the facts.
func factsOf(ctx context.Context, f attach.Facts, run onControlNode) (attach.Facts, error) {
	f.Files = map[string]string{}
	_, err := slurmconf.Load(f.Cluster.Control.Existing.SlurmConf, func(path string) (string, error) {
		text, err := run(ctx, "cat", path)
		if err == nil {
			f.Files[path] = string(text)
		}
		return string(text), err
	})
	if err != nil {
		return attach.Facts{}, err
	}
	for _, ask := range []struct {
		command string
		note    func(answer string) error
	}{
		{"scontrol show config", func(answer string) error { f.Settings = settingsIn(answer); return nil }},
		{"scontrol --all --oneliner show nodes", func(answer string) error {
			f.Nodes = nodeset.Of(namesIn(answer, "NodeName=")...)
			return nil
		}},
		{"scontrol --all --oneliner show partitions", func(answer string) error {
			f.Partitions = namesIn(answer, "PartitionName=")
			return nil
		}},
		{"squeue --all --noheader --format=%i|%P|%N", func(answer string) (err error) {
			f.Jobs, err = jobsIn(answer)
			return err
		}},
	} {
		words := strings.Fields(ask.command)
		answer, err := run(ctx, words[0], words[1:]...)
		if err == nil {
			err = ask.note(string(answer))
		}
		if err != nil {
			return attach.Facts{}, fmt.Errorf("%s: %w", ask.command, err)
		}
	}
	return f, nil
}

// settingsIn returns the settings that `scontrol show config` prints; of several with one name the first.
func settingsIn(answer string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(answer) {
		name, value, ok := strings.Cut(line, "=")
		if _, twice := all[strings.TrimSpace(name)]; ok && !twice {
			all[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	return all
}

// namesIn returns the values of the lines that begin with a key and an equals sign.
func namesIn(answer, key string) (names []string) {
	for line := range strings.Lines(answer) {
		if words := strings.Fields(line); len(words) > 0 && strings.HasPrefix(words[0], key) {
			names = append(names, strings.TrimPrefix(words[0], key))
		}
	}
	slices.Sort(names)
	return names
}

func jobsIn(answer string) (jobs []attach.Job, err error) {
	for line := range strings.Lines(answer) {
		fields := strings.Split(strings.TrimSpace(line), "|")
		if len(fields) != 3 {
			return nil, fmt.Errorf("%q is not a job", line)
		}
		job := attach.Job{ID: fields[0], Partitions: strings.Split(fields[1], ",")}
		if fields[2] != "" {
			if job.Nodes, err = nodeset.Parse(fields[2]); err != nil {
				return nil, fmt.Errorf("job %s: %w", job.ID, err)
			}
		}
		jobs = append(jobs, job)
	}
	return jobs, nil
}
