package main

import (
	"context"
	"errors"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
)

// deploy measures the first deploy of a cluster with two compute nodes.
func (b *bench) deploy(ctx context.Context) (r report, err error) {
	r.about = "`reconfigure deploy` of a new cluster: its network, its control node with slurmctld, and two compute nodes, " +
		"until it has ended. Once."
	other := b.other(b.release, func(sizes) []cluster.NodeGroup {
		return []cluster.NodeGroup{cluster.Group("second", "second", 1, 1)} // each lab has one persistent node besides
	})
	defer func() { err = errors.Join(err, other.close()) }() // before the lab of the other benchmarks starts
	lab, err := other.lab(ctx)
	if err != nil {
		return r, err
	}
	r.rows = []row{{
		what: "first deploy of a control node and 2 compute nodes", measured: seconds(lab.deployed),
		value: lab.deployed.Seconds(),
	}}
	return r, nil
}
