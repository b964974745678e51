package main

import "fmt"

// budget is the most that a row may measure. A run in which a row measures a fifth more fails.
type budget struct {
	most float64
	unit string
}

// tolerance is how far above its budget a row may be, since times differ from run to run.
const tolerance = 1.2

// budgets has the budgets, by the benchmark and the text of its row. Times are those of a quiet machine with two cores.
var budgets = map[string]map[string]budget{
	"deploy": {"first deploy of a control node and 2 compute nodes": {15, "s"}},
	"one": {
		"one node, sbatch to slurmd registered": {5, "s"}, "one node, sbatch to the job's first line": {6, "s"},
	},
	"idle":     {"start of one stopped node, sbatch to the job's first line": {8, "s"}},
	"commands": {"srun, to the first line": {10, "s"}, "sbatch of a job on 2 nodes, to the first line": {9, "s"}},
	"launch":   {"50 jobs, sbatch to the first line, median": {12, "s"}},
	"slurm-24.11": {"one node, sbatch to the job's first line": {6, "s"},
		"50 jobs, sbatch to the first line, median": {12, "s"}},
	"many":    {"all of them registered": {25, "s"}},
	"status":  {"status of 4000 nodes": {0.5, "s"}},
	"waiting": {"memory of a worker that waits for a job, 4000 nodes": {250, "MiB"}},
	"footprint": {
		"size of the program": {60, "MiB"}, "start of `reconfigure version`": {20, "ms"},
		"memory of `reconfigure version`": {40, "MiB"}, "memory of `reconfigure status`, 4000 nodes": {250, "MiB"},
	},
}

func (b budget) String() string { return fmt.Sprintf("<= %g %s", b.most, b.unit) }

// budgeted sets the goal of a row that has a budget.
func budgeted(name string, r row) row {
	if b, ok := budgets[name][r.what]; ok && r.value > 0 {
		if r.goal != "" {
			r.goal, r.met = r.goal+", "+b.String(), r.met && r.value <= b.most
		} else {
			r.goal, r.met = b.String(), r.value <= b.most
		}
	}
	return r
}

// broken returns an error for each broken budget and, if all benchmarks of the budgets were run in their default sizes,
// for each budget without a row.
func (p *page) broken(all bool) (errs []error) {
	measured := map[string]map[string]float64{}
	for i, r := range p.reports {
		measured[p.names[i]] = map[string]float64{}
		for _, one := range r.rows {
			measured[p.names[i]][one.what] = one.value
		}
	}
	for name, some := range budgets {
		for what, b := range some {
			switch value := measured[name][what]; {
			case value > b.most*tolerance:
				errs = append(errs, fmt.Errorf("%s: %s is %.3g %s, more than a fifth above the budget of %g %s",
					name, what, value, b.unit, b.most, b.unit))
			case value == 0 && all:
				errs = append(errs, fmt.Errorf("%s: %s has a budget and was not measured", name, what))
			}
		}
	}
	return errs
}
