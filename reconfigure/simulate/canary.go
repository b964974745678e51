package simulate

import (
	"context"
	"fmt"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// testJob is the test job of a campaign.
type testJob struct {
	name, node string
	ends       time.Time
	bad        bool
}

// Spoil makes test jobs fail on instances of an image.
func (w *World) Spoil(image string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.slurm.spoiled = idOf(image)
}

// Reserve keeps new jobs off a node.
func (w *World) Reserve(ctx context.Context, name, node string) error {
	w.lock.Lock()
	defer w.lock.Unlock()
	if err := w.answers(ctx); err != nil {
		return err
	}
	if n := w.slurm.nodes[node]; n.reserved != name {
		if n.reserved != "" {
			return fmt.Errorf("%s is reserved for %s", node, n.reserved)
		}
		n.reserved = name
		w.seen.calls = append(w.seen.calls, "reserve "+node)
	}
	return nil
}

// Test runs a job for ten seconds.
func (w *World) Test(
	ctx context.Context, name, node, _ string, _ time.Duration,
) (ended bool, failure string, err error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if err := w.answers(ctx); err != nil {
		return false, "", err
	}
	for _, job := range w.slurm.tests {
		if job.name == name {
			ended = !time.Now().Before(job.ends)
			if ended && job.bad {
				failure = "the job has failed"
			}
			return ended, failure, nil
		}
	}
	n := w.slurm.nodes[node]
	if n.reserved != name {
		return false, "", fmt.Errorf("%s is not reserved for %s", node, name)
	}
	if !n.state(node).Usable() || n.job {
		return false, "", nil
	}
	w.seen.calls = append(w.seen.calls, "test "+node)
	job := testJob{name: name, node: node, ends: time.Now().Add(10 * time.Second)}
	if r := w.terraform.state[node]; r != nil {
		job.bad = w.server(r.id).spec.ImageID == w.slurm.spoiled
	}
	w.slurm.tests = append(w.slurm.tests, job)
	return false, "", nil
}

// Release ends a reservation.
func (w *World) Release(ctx context.Context, name string) error {
	w.lock.Lock()
	defer w.lock.Unlock()
	if err := w.answers(ctx); err != nil {
		return err
	}
	for _, n := range w.slurm.nodes {
		if n.reserved == name {
			n.reserved = ""
		}
	}
	return nil
}

// Reserved returns the nodes that are reserved.
func (w *World) Reserved() nodeset.NodeSet {
	w.lock.Lock()
	defer w.lock.Unlock()
	var names []string
	for node, n := range w.slurm.nodes {
		if n.reserved != "" {
			names = append(names, node)
		}
	}
	return nodeset.Of(names...)
}
