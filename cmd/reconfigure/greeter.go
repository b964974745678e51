package main

import (
	"context"
	"sync"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/ssh"
)

// greeter waits for the instances of a batch together, each of them as long as its timeout at most.
type greeter struct {
	*ssh.Waiter
	timeout time.Duration
}

// Await is the seam of the engine's.
func (g greeter) Await(ctx context.Context, instances []reconfigure.Instance, fresh nodeset.NodeSet, until map[string]time.Time) reconfigure.Failures {
	var (
		lock     sync.Mutex
		wait     sync.WaitGroup
		failures = reconfigure.Failures{}
		end      = time.Now().Add(g.timeout)
	)
	for _, instance := range instances {
		wait.Go(func() {
			deadline := end
			if d, limited := until[instance.Node]; limited && d.Before(end) {
				deadline = d
			}
			ctx, cancel := context.WithDeadline(ctx, deadline)
			defer cancel()
			if err := g.Wait(ctx, instance, fresh.Contains(instance.Node)); err != nil {
				lock.Lock()
				defer lock.Unlock()
				failures[instance.Node] = err
			}
		})
	}
	wait.Wait()
	return failures
}
