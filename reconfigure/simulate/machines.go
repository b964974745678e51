package simulate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation"
)

// hostKey is a learned host key, with the disk that it belongs to: an instance and the image from which the disk was
// made.
type hostKey struct{ instance, image, key string }

// Wait waits for one instance, which answers after it has been ACTIVE for as long as Booting takes. Like the real one,
// it accepts the key that was learned from the same disk, or the key on the console.
func (w *World) Wait(ctx context.Context, i reconfigure.Instance, newDisk bool) error {
	defer w.happened(AfterWait)
	const poll = time.Second
	if newDisk {
		w.forgetKey(ctx, i)
	}
	for {
		answers, next := w.answersSSH(ctx, i, poll)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("%w: %w", failure{NoSSH}, context.Cause(ctx))
		case answers:
			return nil
		}
		wait(ctx, next)
	}
}

// Known reports whether a host key was learned of the instance's disk.
func (w *World) Known(ctx context.Context, i reconfigure.Instance) (bool, error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.learned(i), ctx.Err()
}

func (w *World) learned(i reconfigure.Instance) bool {
	known, learned := w.journal.keys[i.Address]
	return learned && known.instance == i.ID && known.image == i.Made.ImageID
}

func (w *World) forgetKey(ctx context.Context, i reconfigure.Instance) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if ctx.Err() == nil {
		delete(w.journal.keys, i.Address)
	}
}

// answersSSH reports whether an instance answers with an accepted key, and stores the key. If not, it returns when to
// ask again.
func (w *World) answersSSH(
	ctx context.Context, i reconfigure.Instance, poll time.Duration,
) (answers bool, next time.Duration) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.advance()
	s := w.server(i.ID)
	if s == nil || !s.up || s.address != i.Address || s.lemon || w.struck(NoSSH, i.Node) {
		return false, poll
	}
	boots := w.span(Booting, i.Node)
	if boots == Forever {
		return false, poll
	}
	if left := time.Until(s.started.Add(boots)); left > 0 || ctx.Err() != nil {
		return false, min(left, poll)
	}
	if learned := w.learned(i); learned && w.journal.keys[i.Address].key != s.key || !learned && !s.shown {
		return false, poll
	}
	w.journal.keys[i.Address] = hostKey{i.ID, i.Made.ImageID, s.key}
	return true, 0
}

// Configure runs the playbooks on all nodes at once, on each for as long as Playing takes. It logs the nodes that it
// configures, and those in the inventory.
func (w *World) Configure(ctx context.Context, c reconfigure.Cluster, instances map[string]reconfigure.Instance,
	extent reconfigure.Extent, watch operation.Watch, done func(node string, seen reconfigure.Configured, err error),
) (reconfigure.Failures, error) {
	for node := range extent.Changed.All() {
		defer w.Begin(Ansible+" on "+Tool(node), everybody)()
	}
	defer w.happened(AfterConfigure)
	for node := range extent.Changed.All() {
		watch(node, "the playbooks run")
	}
	w.spend(ctx, Reading)
	p := &play{World: w, cluster: c, instances: instances, extent: extent, began: time.Now()}
	if err := p.begin(ctx); err != nil {
		return nil, err
	}
	failures := reconfigure.Failures{}
	for i, node := range p.order() {
		if i > 0 && w.broken() {
			return nil, failure{RunBreaks}
		}
		wait(ctx, time.Until(p.ends(node)))
		err := p.configure(ctx, node)
		if ctx.Err() != nil || p.dead {
			return nil, err
		}
		if err != nil {
			failures[node] = err
		}
		done(node, reconfigure.Configured{}, err)
	}
	return failures, nil
}

// broken reports whether runs of the playbooks end early.
func (w *World) broken() bool {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.ordered(RunBreaks)
}

// play is a run of the playbooks.
type play struct {
	*World
	cluster   reconfigure.Cluster
	instances map[string]reconfigure.Instance
	extent    reconfigure.Extent
	began     time.Time
	dead      bool // it was killed
}

func (p *play) begin(ctx context.Context) error {
	p.lock.Lock()
	defer p.lock.Unlock()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case p.ordered(BrokenPlaybook):
		return failure{BrokenPlaybook}
	}
	told, what := p.told(), "configure "
	if p.extent.Everywhere {
		what = "slurm.conf everywhere, configure "
	}
	what += p.extent.Changed.String() + " of " + told.String()
	if apart := p.extent.Apart.Intersect(told); !apart.Empty() {
		what += " apart from " + apart.String()
	}
	p.seen.calls = append(p.seen.calls, what)
	return nil
}

// told returns the nodes of the inventory, which has no stopped instances.
func (p *play) told() nodeset.NodeSet {
	return nodeset.Collect(maps.Keys(p.instances)).Where(func(node string) bool {
		return !p.instances[node].Made.Stopped()
	})
}

// Sums depend on the declared groups, the addresses, and the instances with their images.
func (w *World) Sums(
	c reconfigure.Cluster, instances map[string]reconfigure.Instance, nodes nodeset.NodeSet,
) (map[string]string, error) {
	addresses := map[string]string{}
	for node, i := range instances {
		addresses[node] = i.Address
	}
	sums := map[string]string{}
	for node := range nodes.All() {
		i := instances[node]
		sums[node] = fmt.Sprint(c.Groups, i.ID, i.Made.ImageID)
		if !c.KeepsPort(node) {
			sums[node] += fmt.Sprint(addresses)
		}
	}
	return sums, nil
}

// StartSlurmd starts slurmd on an instance that was configured.
func (w *World) StartSlurmd(ctx context.Context, i reconfigure.Instance) error {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.advance()
	s := w.server(i.ID)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case s == nil || !s.up || !s.configured || w.struck(NoSlurmd, i.Node):
		return failure{NoSlurmd}
	}
	if err := w.unhealthy(s, i.Node); err != nil {
		return err
	}
	w.log("start slurmd on", nodeset.Of(i.Node))
	s.silent = false
	w.startSlurmd(s, time.Now())
	return nil
}

// order returns the nodes in the order in which they end, then by name.
func (p *play) order() []string {
	names := p.extent.Changed.Names()
	slices.SortStableFunc(names, func(a, b string) int { return p.ends(a).Compare(p.ends(b)) })
	return names
}

func (p *play) ends(node string) time.Time {
	p.lock.Lock()
	defer p.lock.Unlock()
	if d := p.span(Playing, node); d != Forever {
		return p.began.Add(d)
	}
	return never()
}

// configure configures one node.
func (p *play) configure(ctx context.Context, node string) error {
	p.lock.Lock()
	defer p.lock.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	p.advance()
	if p.breaksOff() {
		p.terraform.kill, p.dead = nil, true
		return killed()
	}
	s := p.server(p.instances[node].ID)
	switch {
	case s == nil || !s.up || p.extent.Apart.Contains(node):
		return fmt.Errorf("%s is not in the inventory", node)
	case p.struck(PlaybookFails, node):
		return reconfigure.WithOutput("stderr: "+string(PlaybookFails)+" on "+s.id, failure{PlaybookFails})
	case !s.configured || s.silent:
		s.configured = true
		if err := p.unhealthy(s, node); err != nil {
			return err
		}
		s.silent = false
		p.startSlurmd(s, time.Now())
	}
	if p.extent.Everywhere && node == p.cluster.Control.Name {
		p.reread(p.cluster)
	}
	return nil
}

// CheckHealth runs the health checks on an instance that is configured.
func (w *World) CheckHealth(ctx context.Context, i reconfigure.Instance) error {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.advance()
	s := w.server(i.ID)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case s == nil || !s.up || !s.configured:
		return failure{NoSSH}
	}
	w.log("check health of", nodeset.Of(i.Node))
	if w.struck(Unhealthy, i.Node) {
		return reconfigure.Classify(reconfigure.ClassUnhealthy, failure{Unhealthy})
	}
	return nil
}

// unhealthy returns the failure of the health check of an instance whose slurmd is to start. The instance stays without
// slurmd.
func (w *World) unhealthy(s *server, node string) error {
	if !w.struck(Unhealthy, node) {
		return nil
	}
	s.silent = true
	w.log("unhealthy:", nodeset.Of(node))
	return reconfigure.WithOutput("health check on "+s.id+"\n",
		reconfigure.Classify(reconfigure.ClassUnhealthy, failure{Unhealthy}))
}

// reread restarts slurmctld with the slurm.conf of a declaration. It keeps the known states, and all jobs except those
// on nodes that it forgets. For a node that is no longer a cloud node, it forgets a power down that waits for a job.
// Each slurmd that runs is restarted too, and registers again, which ends DOWN.
func (w *World) reread(c reconfigure.Cluster) {
	for node := range w.slurm.nodes {
		if !c.Nodes().Contains(node) {
			w.lose(node)
			delete(w.slurm.nodes, node)
		}
	}
	persistent := c.Persistent()
	for node := range c.Nodes().All() {
		if w.slurm.nodes[node] == nil {
			w.slurm.nodes[node] = &slurmNode{base: reconfigure.NodeIdle, power: reconfigure.NodePoweredDown}
		}
		n := w.slurm.nodes[node]
		if n.cloud = !persistent.Contains(node); !n.cloud && n.power == reconfigure.NodePowerDown {
			n.power = 0
		}
		if n.base == reconfigure.NodeDown && n.power == 0 && n.server != nil && n.server.slurmd {
			w.startSlurmd(n.server, time.Now())
		}
	}
}
