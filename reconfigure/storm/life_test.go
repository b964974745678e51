package storm

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/batch"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine/enginetest"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// life is the time of one worker, counted in moments: before its first deed, right after each deed, before it hears what came of it, and, where a deed takes
// several steps, between them. Deeds are what the world or the journal may be another for. At one moment the worker may be killed, and the programs that it
// runs with it: no call of its ever returns any more, so nothing that it would have done next happens, and its locks go.
type life struct {
	world *enginetest.World
	book  book
	end   int           // the moment at which it is killed; 0: never
	pace  time.Duration // that each deed of Terraform, the cloud and Ansible takes

	lock  sync.Mutex
	now   int
	dead  bool
	last  string // what it did last
	locks []func() error

	killed chan struct{}
	once   sync.Once

	batches, flying, overlaps int // that it began, that are under way, and that began beside others
}

// longest is more moments than any life has.
const longest = 100_000

// errKilled is what became of a worker that was killed.
var errKilled = errors.New("killed")

// work is a worker's life: all that a process of the tool does once it is started. Whatever was under way in one that is killed does nothing more, as soon as it wakes.
func (l *life) work(ctx context.Context, open func() reconfigure.Cluster) error {
	l.killed = make(chan struct{})
	ctx, wake := context.WithCancel(ctx)
	defer wake()
	ended := make(chan error, 1)
	go func() {
		l.did("was started")
		common := engine.NewCommon()
		ended <- batch.Work(ctx, diary{l}, census{l, batch.Pipeline{Turn: common.Terraform, Open: func(context.Context) (reconfigure.Cluster, batch.Engine, error) {
			l.alive()
			cluster, deps := open(), l.deps()
			deps.Common = common
			return cluster, engine.New(cluster, deps), nil
		}}}, poll)
	}()
	select {
	case err := <-ended:
		return errors.Join(err, l.die())
	case <-l.killed:
		return errKilled
	}
}

// die ends the process, and the kernel what it has locked.
func (l *life) die() (err error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.dead {
		return nil
	}
	l.dead = true
	for _, release := range l.locks {
		err = errors.Join(err, release())
	}
	return err
}

// did lets one moment pass.
func (l *life) did(what string) { l.steps(what, 1) }

// steps lets moments pass, and does not return if the worker is killed meanwhile.
func (l *life) steps(what string, n int) {
	if l.killedIn(what, n) > 0 {
		l.kill()
	}
}

// killedIn lets moments pass, and tells at which of them the worker is to be killed, from 1; 0: at none.
func (l *life) killedIn(what string, n int) int {
	l.lock.Lock()
	defer l.lock.Unlock()
	first := l.now
	l.now += n
	if l.now > longest {
		panic(fmt.Sprintf("a worker does not come to an end: it has just %s", what)) // time stands still for the others
	}
	if first < l.end && l.end <= l.now {
		l.last = what
		return l.end - first
	}
	return 0
}

// kill does not return.
func (l *life) kill() {
	_ = l.die() // there is nobody to tell
	l.once.Do(func() { close(l.killed) })
	runtime.Goexit()
}

// alive does not return in a worker that is dead.
func (l *life) alive() {
	l.lock.Lock()
	dead := l.dead
	l.lock.Unlock()
	if dead {
		runtime.Goexit()
	}
}

// takesTime has others come in between.
func (l *life) takesTime() { l.takes(l.pace) }

func (l *life) takes(d time.Duration) {
	l.alive()
	select {
	case <-time.After(d):
	case <-l.killed:
	}
	l.alive()
}

// runs is takesTime for a run of a tool. Ansible's takes longer than others, so that batches overlap.
func (l *life) runs(tool enginetest.Tool) (end func()) {
	l.alive()
	end = l.world.Begin(tool, func() bool {
		l.lock.Lock()
		defer l.lock.Unlock()
		return !l.dead
	})
	d := l.pace
	if tool == enginetest.Ansible {
		d *= 8
	}
	l.takes(d)
	return end
}

// census counts batches.
type census struct {
	*life
	batch.Carrier
}

func (c census) Carry(ctx context.Context, number int64, requests []reconfigure.Request, made func()) ([]reconfigure.Outcome, error) {
	c.lock.Lock()
	c.batches++
	if c.flying++; c.flying > 1 {
		c.overlaps++
	}
	c.lock.Unlock()
	defer func() {
		c.lock.Lock()
		defer c.lock.Unlock()
		c.flying--
	}()
	return c.Carrier.Carry(ctx, number, requests, made)
}

// deps is the world as a worker sees it that may die.
func (l *life) deps() engine.Deps {
	deps := l.world.Deps()
	deps.Provisioner, deps.Configurer, deps.Recorder = terraform{l, l.world}, ansible{l, l.world}, diary{l}
	deps.Cloud, deps.Sweeper, deps.Greeter = cloud{l, l.world}, sweeper{l, l.world}, greeter{l, deps.Greeter}
	deps.Health = diary{l}
	deps.Scheduler = func(reconfigure.Instance) engine.Scheduler { return slurm{l, l.world} }
	return deps
}

// diary is the journal.
type diary struct{ *life }

func (d diary) Pending(ctx context.Context) ([]reconfigure.Request, error) {
	d.alive()
	return d.book.Pending(ctx)
}

func (d diary) Begin(ctx context.Context, ids []reconfigure.RequestID, undone ...reconfigure.Outcome) (int64, error) {
	d.alive()
	defer d.did(fmt.Sprint("began a batch of ", ids, " that undoes ", undone))
	return d.book.Begin(ctx, ids, undone...)
}

func (d diary) Finish(ctx context.Context, o reconfigure.Outcome) error {
	d.alive()
	defer d.did("finished request " + o.Request.String())
	return d.book.Finish(ctx, o)
}

func (d diary) Hold(ctx context.Context, o reconfigure.Outcome) error {
	d.alive()
	defer d.did("held request " + o.Request.String())
	return d.book.Hold(ctx, o)
}

func (d diary) Record(ctx context.Context, events ...reconfigure.Event) error {
	d.alive()
	defer d.did(fmt.Sprintf("recorded %+v", events))
	return d.book.Record(ctx, events...)
}

func (d diary) Health(ctx context.Context) (map[string]reconfigure.Health, error) {
	d.alive()
	return d.book.Health(ctx)
}

func (d diary) UpdateHealth(ctx context.Context, group string, update func(reconfigure.Health) reconfigure.Health) error {
	d.alive()
	defer d.did("wrote down how " + group + " fares")
	return d.book.UpdateHealth(ctx, group, update)
}

func (d diary) Lead(ctx context.Context) (func() error, bool, error) {
	return d.take(ctx, "took the lead", d.book.Lead)
}

func (d diary) Keep(ctx context.Context, evidence ...reconfigure.Evidence) error {
	d.alive()
	defer d.did(fmt.Sprintf("kept evidence %+v", evidence))
	return d.book.Keep(ctx, evidence...)
}

func (d diary) WhileLeading(ctx context.Context) (context.Context, context.CancelFunc) {
	d.alive()
	return d.book.WhileLeading(ctx)
}

func (d diary) Watch(ctx context.Context) (func() error, bool, error) {
	return d.take(ctx, "began to watch", d.book.Watch)
}

func (d diary) Paused(ctx context.Context) (reconfigure.Pause, bool, error) {
	d.alive()
	return d.book.Paused(ctx)
}

func (d diary) take(ctx context.Context, what string, take func(context.Context) (func() error, bool, error)) (func() error, bool, error) {
	d.alive()
	release, ok, err := take(ctx)
	if !ok || err != nil {
		return release, ok, err
	}
	once := sync.OnceValue(release)
	d.lock.Lock()
	d.locks = append(d.locks, once)
	d.lock.Unlock()
	d.did(what)
	return func() error {
		d.alive()
		defer d.did("gave up what it " + what)
		return once()
	}, true, nil
}

// terraform is the provisioner.
type terraform struct {
	*life
	engine.Provisioner
}

func (t terraform) Desired(ctx context.Context) (map[string]reconfigure.Spec, error) {
	t.alive()
	return t.Provisioner.Desired(ctx)
}

func (t terraform) Instances(ctx context.Context) (map[string]reconfigure.Instance, error) {
	t.alive()
	return t.Provisioner.Instances(ctx)
}

func (t terraform) Preview(ctx context.Context, p reconfigure.Plan) (reconfigure.Preview, error) {
	defer t.runs(enginetest.Terraform)()
	return t.Provisioner.Preview(ctx, p)
}

func (t terraform) Discard(p reconfigure.Preview) error {
	t.alive()
	return t.Provisioner.Discard(p)
}

// Apply may be killed at each of its changes, and leaves that one in one way or another.
func (t terraform) Apply(ctx context.Context, p reconfigure.Preview, watch engine.Watch) (reconfigure.Failures, error) {
	defer t.runs(enginetest.Terraform)()
	for i, c := range p.Changes {
		ways := t.halves(ctx, c)
		if n := t.killedIn(fmt.Sprintf("applied %+v, of which number %d is left half done", p.Changes, i), len(ways)); n > 0 {
			spare := t.world.KillDuring(i, ways[n-1])
			_, _ = t.Provisioner.Apply(context.WithoutCancel(ctx), p, func(string, string) {})
			spare()
			t.kill()
		}
	}
	defer t.did(fmt.Sprintf("applied %+v", p.Changes))
	return t.Provisioner.Apply(ctx, p, watch)
}

// halves is the ways to leave a change that differ. While there is no Slurm to ask, an instance that Terraform knows nothing of is left to the administrator;
// the engine's own tests are about that.
func (t terraform) halves(ctx context.Context, c reconfigure.ResourceChange) []enginetest.Half {
	if _, err := t.world.States(ctx); err != nil {
		return []enginetest.Half{enginetest.NotBegun, enginetest.Unwritten}
	}
	switch c.Effect {
	case reconfigure.EffectCreate:
		return []enginetest.Half{enginetest.NotBegun, enginetest.Unwritten, enginetest.Unknown}
	case reconfigure.EffectReplace:
		return []enginetest.Half{enginetest.NotBegun, enginetest.Removed, enginetest.Unwritten, enginetest.Unknown}
	}
	return []enginetest.Half{enginetest.NotBegun, enginetest.Unwritten}
}

// cloud is the cloud's own API.
type cloud struct {
	*life
	engine.Cloud
}

func (c cloud) Resolve(ctx context.Context, s reconfigure.Source) reconfigure.Resolved {
	c.alive()
	return c.Cloud.Resolve(ctx, s)
}

func (c cloud) Active(ctx context.Context) (map[string]bool, error) {
	c.alive()
	return c.Cloud.Active(ctx)
}

func (c cloud) Faults(ctx context.Context) (map[string]string, error) {
	c.alive()
	return c.Cloud.Faults(ctx)
}

func (c cloud) Console(ctx context.Context, id string, lines int) (string, error) {
	c.alive()
	return c.Cloud.Console(ctx, id, lines)
}

func (c cloud) Reboot(ctx context.Context, id string) error {
	c.takesTime()
	defer c.did("rebooted " + id)
	return c.Cloud.Reboot(ctx, id)
}

// sweeper is the cloud's API too.
type sweeper struct {
	*life
	engine.Sweeper
}

func (s sweeper) Made(ctx context.Context) (map[string][]string, error) {
	s.alive()
	return s.Sweeper.Made(ctx)
}

func (s sweeper) RemoveOrphan(ctx context.Context, id, name string, before time.Time) error {
	s.takesTime()
	defer s.did("deleted " + id)
	return s.Sweeper.RemoveOrphan(ctx, id, name, before)
}

// greeter waits for SSH.
type greeter struct {
	*life
	engine.Greeter
}

func (g greeter) Await(ctx context.Context, instances []reconfigure.Instance, fresh nodeset.NodeSet, until map[string]time.Time) reconfigure.Failures {
	g.takesTime()
	defer g.did(fmt.Sprintf("greeted %+v", instances))
	return g.Greeter.Await(ctx, instances, fresh, until)
}

// ansible may be killed between two nodes.
type ansible struct {
	*life
	engine.Configurer
}

func (a ansible) Configure(ctx context.Context, c reconfigure.Cluster, instances map[string]reconfigure.Instance, extent reconfigure.Extent, watch engine.Watch,
	done func(node string, err error)) (reconfigure.Failures, error) {
	defer a.runs(enginetest.Ansible)()
	if n := a.killedIn("configured a part of "+extent.Changed.String(), extent.Changed.Len()); n > 0 {
		spare := a.world.KillDuring(n-1, enginetest.NotBegun)
		_, _ = a.Configurer.Configure(context.WithoutCancel(ctx), c, instances, extent, func(string, string) {}, nil)
		spare()
		a.kill()
	}
	defer a.did("configured " + extent.Changed.String())
	return a.Configurer.Configure(ctx, c, instances, extent, watch, done)
}

// slurm is the scheduler.
type slurm struct {
	*life
	engine.Scheduler
}

func (s slurm) States(ctx context.Context) (map[string]reconfigure.NodeState, error) {
	s.alive()
	return s.Scheduler.States(ctx)
}

func (s slurm) Down(ctx context.Context, nodes nodeset.NodeSet, reason string) error {
	return s.tell("set down ", nodes, func() error { return s.Scheduler.Down(ctx, nodes, reason) })
}

func (s slurm) PowerDown(ctx context.Context, nodes nodeset.NodeSet) error {
	return s.tell("powered down ", nodes, func() error { return s.Scheduler.PowerDown(ctx, nodes) })
}

func (s slurm) Drain(ctx context.Context, nodes nodeset.NodeSet, reason string) error {
	return s.tell("drained ", nodes, func() error { return s.Scheduler.Drain(ctx, nodes, reason) })
}

func (s slurm) Undrain(ctx context.Context, nodes nodeset.NodeSet) error {
	return s.tell("undrained ", nodes, func() error { return s.Scheduler.Undrain(ctx, nodes) })
}

func (s slurm) tell(what string, nodes nodeset.NodeSet, tell func() error) error {
	s.alive()
	defer s.did(what + nodes.String())
	return tell()
}
