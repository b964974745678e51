package plan

import (
	"fmt"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// endsJobs returns why slurmctld must not be restarted with the declared configuration now: it would end jobs. It is
// empty if a restart is safe. The playbooks check again before they write the configuration, since jobs may start at
// any moment.
func (p *planner) endsJobs() string {
	conf := p.seen.Conf
	switch {
	case conf == nil:
		return ""
	case conf.Err != "" && p.slurm:
		return "slurm.conf may end jobs: it cannot be compared with the one that slurmctld runs with: " + conf.Err
	case conf.Err != "":
		// the request may repair the control node; the playbooks write nothing unless the node is unconfigured
		return ""
	}
	for _, d := range conf.Dangers {
		if why := p.endedBy(d); why != "" {
			return why
		}
	}
	return ""
}

// endedBy returns the jobs that a change of slurm.conf ends or may end, and the remedy; empty if there are none.
func (p *planner) endedBy(d reconfigure.Danger) string {
	const orElse = ", and try again; or undo the change in all.yml"
	would := "would"
	if d.Unsure {
		would = "may"
	}
	if d.Partition != "" && d.Jobs > 0 {
		return fmt.Sprintf("slurm.conf %s end the %d job(s) of partition %s, running and waiting: %s. Set it DOWN "+
			"(`scontrol update partitionname=%s state=down`), wait until its jobs have ended or move them"+orElse,
			would, d.Jobs, d.Partition, d.What, d.Partition)
	}
	busy := d.Nodes.Where(func(node string) bool { return p.seen.States[node].GivenToJob() })
	switch {
	case !p.slurm && !d.Nodes.Empty():
		return fmt.Sprintf("slurm.conf may end jobs on %s: %s, and Slurm does not answer: %s", d.Nodes, d.What,
			p.seen.Missing[snapshot.Slurm])
	case busy.Empty():
		return ""
	case d.Unsure: // the change concerns all nodes, so draining the busy ones is not enough
		return fmt.Sprintf("slurm.conf may end the jobs on %s: %s, and it is unknown whether jobs survive this change "+
			"(docs/how-it-works/settings.md). Set all partitions DOWN (`scontrol update partitionname=NAME state=down`), "+
			"wait until the jobs have ended"+orElse, busy, d.What)
	}
	return fmt.Sprintf("slurm.conf would end the jobs on %s: of %s, %s. Drain %s (`scontrol update nodename=%s "+
		"state=drain reason=slurm.conf`), wait until the jobs have ended"+orElse, busy, d.Nodes, d.What, pronoun(busy), busy)
}

func pronoun(nodes nodeset.NodeSet) string {
	if nodes.Len() == 1 {
		return "it"
	}
	return "them"
}
