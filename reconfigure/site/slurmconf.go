package site

import (
	"context"
	"errors"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/slurmconf"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// Conf compares the declared configuration of Slurm with slurmctld's running one. Without a control node there is
// nothing to compare. If the comparison fails, the answer says why. Conf returns an error only if ctx has ended or,
// without a control node, if the cloud does not list its flavors.
func (a *Adapters) Conf(ctx context.Context, seen snapshot.Snapshot) (*reconfigure.SlurmConf, error) {
	hardware, err := a.Hardware(ctx)
	control, there := seen.Instances[a.Site.Cluster.Control.Name]
	if !there || control.ID == "" || control.Tainted || control.Address == "" {
		return &reconfigure.SlurmConf{Hardware: hardware}, err
	}
	var conf reconfigure.SlurmConf
	if err == nil {
		conf, err = a.compareConf(ctx, seen, hardware)
	}
	if err != nil && ctx.Err() == nil {
		return &reconfigure.SlurmConf{Err: err.Error()}, nil
	}
	return &conf, err
}

// Hardware returns the hardware of the node groups' flavors. It leaves out flavors that the cloud does not have,
// since their nodes cannot be made.
func (a *Adapters) Hardware(ctx context.Context) (map[string]reconfigure.Hardware, error) {
	cloud, err := a.Cloud(ctx)
	if err != nil {
		return nil, err
	}
	flavors, err := cloud.Flavors(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string]reconfigure.Hardware{}
	for _, g := range a.Site.Cluster.Groups {
		if flavor, ok := flavors[g.Flavor]; ok {
			all[g.Name] = reconfigure.HardwareOf(flavor)
		}
	}
	slurmconf.Weigh(a.Site.Cluster, all)
	return all, nil
}

func (a *Adapters) compareConf(
	ctx context.Context, seen snapshot.Snapshot, hardware map[string]reconfigure.Hardware,
) (reconfigure.SlurmConf, error) {
	if err := a.Site.KnownHosts(a.Journal).Refresh(ctx); err != nil {
		return reconfigure.SlurmConf{}, err
	}
	playbooks, err := a.playbooks(ctx)
	if err != nil {
		return reconfigure.SlurmConf{}, err
	}
	files, err := playbooks.SlurmConf(ctx, a.Site.Cluster, seen.Instances, hardware)
	if err != nil {
		return reconfigure.SlurmConf{}, err
	}
	conf := reconfigure.SlurmConf{Files: files.Coming, Hardware: hardware}
	for _, running := range files.Running {
		dangers, err := slurmconf.Dangers(running, files.Coming)
		if err != nil {
			return reconfigure.SlurmConf{}, err
		}
		conf.Dangers = append(conf.Dangers, dangers...)
	}
	if seen.Answers(snapshot.Slurm) {
		conf.Dangers = ofKnownNodes(conf.Dangers, seen.States)
	}
	for i, d := range conf.Dangers {
		if conf.Dangers[i].Jobs = files.Jobs[d.Partition]; d.Partition != "" && files.Jobs == nil {
			return reconfigure.SlurmConf{}, errors.New("squeue does not list the jobs of partition " + d.Partition)
		}
	}
	return conf, nil
}

// ofKnownNodes drops the nodes that slurmctld does not know, since they have no jobs: a file that was written but
// never read may have such nodes.
func ofKnownNodes(all []reconfigure.Danger, states map[string]reconfigure.NodeState) []reconfigure.Danger {
	var known []reconfigure.Danger
	for _, d := range all {
		d.Nodes = d.Nodes.Where(func(node string) bool { _, ok := states[node]; return ok })
		if d.Partition != "" || !d.Nodes.Empty() {
			known = append(known, d)
		}
	}
	return known
}
