package storm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/campaign"
	"github.com/eiffel-hpc/eiffel/reconfigure/controller"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// book is the part of the journal that workers, callers and these tests use.
type book interface {
	controller.Journal
	operation.HealthStore
	operation.SumStore
	Health(ctx context.Context) (map[string]reconfigure.Health, error)
	Submit(ctx context.Context, r reconfigure.Request) (reconfigure.Request, error)
	Outcome(ctx context.Context, id reconfigure.RequestID) (reconfigure.Outcome, bool, error)
	Record(ctx context.Context, events ...reconfigure.Event) error
	Keep(ctx context.Context, evidence ...reconfigure.Evidence) error
	Lives(ctx context.Context, since time.Time) ([]reconfigure.Life, error)
	EventsOf(ctx context.Context, ids ...reconfigure.RequestID) (map[reconfigure.RequestID][]reconfigure.Event, error)
	StartCampaign(ctx context.Context, c reconfigure.Campaign) (reconfigure.Campaign, error)
	campaign.Journal
	LastMoves(ctx context.Context) (map[string]reconfigure.Event, error)
}

// life is the life of one worker, counted in moments: before its first action, right after each action, before the
// worker gets its result, and between the steps of an action. An action is a call that may change the world or the
// journal. At one moment the worker may be killed, together with the programs that it runs. From then on none of its
// calls returns, so it does nothing more, and its lease ends.
type life struct {
	world *simulate.World
	deps  operation.Deps // the dependencies of the worker
	book  book
	end   int           // the moment at which it is killed; 0: never
	half  simulate.Half // the state in which Terraform leaves a change if it is killed too
	job   string        // the test job of campaigns; empty: none
	pace  time.Duration // the time that each action of Terraform, the cloud and Ansible takes

	lock   sync.Mutex
	now    int
	dead   bool
	last   string // its last action
	leases []func() error

	stop     context.CancelFunc // ends the worker gracefully
	mortal   context.Context    // ends when it is killed
	die      context.CancelCauseFunc
	recorder *journal.Recorder
	succeed  func() // starts another worker
	looks    *looks // nil: the worker does not compare the sources
	fixed    atomic.Int32

	plans, under, overlaps int // begun plans, runs of Terraform and Ansible under way, and plans that began beside one
}

// never is after the end of any instance's life.
var never = time.Now().AddDate(100, 0, 0)

// longest is a greater number of moments than any life has.
const longest = 100_000

// errKilled is the result of a worker that was killed.
var errKilled = errors.New("killed")

func newLife(w *simulate.World, b book) *life {
	l := &life{world: w, deps: w.Deps(), book: b, half: simulate.Unwritten}
	l.mortal, l.die = context.WithCancelCause(context.Background())
	return l
}

// work runs a worker's process.
func (l *life) work(ctx context.Context, open func() reconfigure.Cluster) error {
	ctx, l.stop = context.WithCancel(ctx)
	defer l.stop()
	ctx, end := withDeath(ctx, l.mortal)
	defer end()
	l.recorder = journal.NewRecorder(diary{l}.write, func(error, []reconfigure.Event) {})
	ended := make(chan error, 1)
	go func() {
		l.did("was started")
		ended <- controller.Run(ctx, controller.Config{
			Journal: diary{l}, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Flush: l.flush,
			Succeed: func(context.Context) error {
				if l.succeed != nil {
					l.succeed()
				}
				return nil
			},
			Open: func(context.Context) (controller.Site, error) {
				l.alive()
				return l.site(open()), nil
			},
			Campaign: l.campaign(open), Reconcile: l.compare(open),
		})
	}()
	var err error
	select {
	case err = <-ended:
	case <-l.mortal.Done():
		err = errKilled
		time.Sleep(time.Nanosecond) // until everything in progress has ended
	}
	l.lock.Lock()
	l.dead = true
	leases := l.leases
	l.lock.Unlock()
	for _, release := range leases {
		_ = release() // as the kernel does; the lease may be lost already
	}
	closed, cancel := context.WithCancel(context.Background())
	cancel()
	_ = l.recorder.Close(closed)
	return err
}

// withDeath returns a ctx that also ends when the worker is killed.
func withDeath(ctx, mortal context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(mortal, func() { cancel(context.Cause(mortal)) })
	return ctx, func() { stop(); cancel(nil) }
}

// did lets one moment pass.
func (l *life) did(what string) { l.steps(what, 1) }

// steps lets moments pass, and does not return if the worker is killed meanwhile.
func (l *life) steps(what string, n int) {
	if l.killedIn(what, n) > 0 {
		l.kill()
	}
}

// killedIn lets moments pass, and returns at which of them the worker is killed, from 1; 0: at none.
func (l *life) killedIn(what string, n int) int {
	l.lock.Lock()
	defer l.lock.Unlock()
	first := l.now
	l.now += n
	if l.now > longest {
		panic(fmt.Sprintf("a worker does not end: it has just %s", what)) // time does not pass for others
	}
	if first < l.end && l.end <= l.now && !l.dead {
		l.last = what
		return l.end - first
	}
	return 0
}

// freeze stops the worker while a program that it started keeps running; false if the worker is already stopped.
func (l *life) freeze() bool {
	l.lock.Lock()
	defer l.lock.Unlock()
	lives := !l.dead
	l.dead = true
	return lives
}

// kill does not return.
func (l *life) kill() {
	l.freeze()
	l.die(simulate.Death{Half: l.half})
	runtime.Goexit()
}

// killAs kills the worker, and Terraform with it, unless it is dead already.
func (l *life) killAs(half simulate.Half) {
	if l.freeze() {
		l.die(simulate.Death{Half: half})
	}
}

// alive does not return if the worker is dead.
func (l *life) alive() {
	l.lock.Lock()
	dead := l.dead
	l.lock.Unlock()
	if dead {
		runtime.Goexit()
	}
}

func (l *life) takes(d time.Duration) {
	l.alive()
	if d > 0 {
		select {
		case <-time.After(d):
		case <-l.mortal.Done():
		}
	}
	l.alive()
}

// runs makes a run of a tool take time, so that other actions happen meanwhile. Ansible takes longer than the other
// tools.
func (l *life) runs(tool simulate.Tool) (end func()) {
	l.lock.Lock()
	l.under++
	l.lock.Unlock()
	d := l.pace
	if tool == simulate.Ansible {
		d *= 8
	}
	l.takes(d)
	return func() {
		l.lock.Lock()
		defer l.lock.Unlock()
		l.under--
	}
}

func (l *life) flush(ctx context.Context) error {
	l.alive()
	ctx, end := withDeath(ctx, l.mortal)
	defer end()
	err := l.recorder.Flush(ctx)
	l.alive()
	return err
}

// site is the world as a worker that may be killed sees it.
func (l *life) site(c reconfigure.Cluster) controller.Site {
	d := l.deps
	deps := operation.Deps{
		Provisioner: func(shard string) operation.Provisioner { return terraform{l, d.Provisioner(shard), shard} },
		Cloud:       l.api(d.Cloud), Quota: quota{l, d.Quota},
		Images: images{l, d.Images}, Cleaner: cleaner{l, d.Cleaner}, Waiter: waiter{l, d.Waiter},
		Configurer: ansible{l, d.Configurer}, Starter: starter{l, d.Starter}, Sums: diary{l}, Recorder: diary{l},
		Health:    diary{l},
		Scheduler: func(i reconfigure.Instance) operation.Scheduler { return slurm{l, d.Scheduler(i)} },
		Commenter: func(i reconfigure.Instance) operation.Commenter { return commenter{l, d.Commenter(i)} },
	}
	observer := snapshot.Observer{
		Cluster: c, State: func(ctx context.Context, _ nodeset.NodeSet) (reconfigure.State, error) {
			l.alive()
			return l.world.State(ctx)
		},
		States: func(
			ctx context.Context, _ reconfigure.Instance, nodes nodeset.NodeSet,
		) (map[string]reconfigure.NodeState, error) {
			l.alive()
			return l.world.States(ctx, nodes)
		},
		Servers: func(ctx context.Context) (map[string][]reconfigure.Server, error) {
			return deps.Cloud.Servers(ctx, nodeset.NodeSet{})
		},
		Server: deps.Cloud.Server, Resolve: l.world.Resolve, Health: diary{l}.Health, Events: l.book.EventsOf,
		Lives: func(ctx context.Context) ([]reconfigure.Life, error) { return l.book.Lives(ctx, never) },
	}
	return controller.Site{Cluster: c, Observe: observer.Observe, States: observer.States, Deps: deps}
}

// diary is the journal.
type diary struct{ *life }

func (d diary) Pending(ctx context.Context) ([]reconfigure.Request, error) {
	d.alive()
	return d.book.Pending(ctx)
}

func (d diary) Changed(ctx context.Context) (int64, error) {
	d.alive()
	return d.book.Changed(ctx)
}

func (d diary) Begin(ctx context.Context, ids []reconfigure.RequestID, undone ...reconfigure.Outcome) (int64, error) {
	d.alive()
	d.lock.Lock()
	d.plans++
	if d.under > 0 {
		d.overlaps++
	}
	d.lock.Unlock()
	defer d.did(fmt.Sprint("began a plan for ", ids, " that undoes ", undone))
	return d.book.Begin(ctx, ids, undone...)
}

func (d diary) Finish(ctx context.Context, outcomes ...reconfigure.Outcome) error {
	d.alive()
	defer d.did(fmt.Sprintf("finished %+v", outcomes))
	return d.book.Finish(ctx, outcomes...)
}

func (d diary) Defer(ctx context.Context, outcomes ...reconfigure.Outcome) error {
	d.alive()
	defer d.did(fmt.Sprintf("deferred %+v", outcomes))
	return d.book.Defer(ctx, outcomes...)
}

// Record is asynchronous, as in the product.
func (d diary) Record(events ...reconfigure.Event) {
	d.alive()
	d.recorder.Record(events...)
}

func (d diary) Flush(ctx context.Context) error { return d.flush(ctx) }

// write is the recorder's write function.
func (d diary) write(ctx context.Context, events ...reconfigure.Event) error {
	d.alive()
	defer d.did(fmt.Sprintf("recorded %+v", events))
	return d.book.Record(ctx, events...)
}

func (d diary) Health(ctx context.Context) (map[string]reconfigure.Health, error) {
	d.alive()
	return d.book.Health(ctx)
}

func (d diary) UpdateHealth(
	ctx context.Context, group string, update func(reconfigure.Health) reconfigure.Health,
) error {
	d.alive()
	defer d.did("wrote down the health of " + group)
	return d.book.UpdateHealth(ctx, group, update)
}

func (d diary) Sum(ctx context.Context, node string) (string, error) {
	d.alive()
	return d.book.Sum(ctx, node)
}

func (d diary) KeepSums(ctx context.Context, sums map[string]string) error {
	d.alive()
	defer d.did(fmt.Sprint("kept the sums ", sums))
	return d.book.KeepSums(ctx, sums)
}

func (d diary) Keep(ctx context.Context, evidence ...reconfigure.Evidence) error {
	d.alive()
	defer d.did(fmt.Sprintf("kept evidence %+v", evidence))
	return d.book.Keep(ctx, evidence...)
}

func (d diary) Paused(ctx context.Context) (reconfigure.Pause, bool, error) {
	d.alive()
	return d.book.Paused(ctx)
}

func (d diary) Campaign(ctx context.Context) (reconfigure.Campaign, bool, error) {
	d.alive()
	return d.book.Campaign(ctx)
}

func (d diary) AdvanceCampaign(
	ctx context.Context, id reconfigure.CampaignID,
	update func(reconfigure.Campaign) (reconfigure.Campaign, []reconfigure.Request, error),
) ([]reconfigure.Request, error) {
	d.alive()
	defer d.did("advanced the campaign")
	return d.book.AdvanceCampaign(ctx, id, update)
}

func (d diary) Outcome(ctx context.Context, id reconfigure.RequestID) (reconfigure.Outcome, bool, error) {
	d.alive()
	return d.book.Outcome(ctx, id)
}

func (d diary) WhileHeld(ctx context.Context) (context.Context, context.CancelFunc) {
	d.alive()
	return d.book.WhileHeld(ctx)
}

func (d diary) Acquire(ctx context.Context) (func() error, bool, error) {
	d.alive()
	release, ok, err := d.book.Acquire(ctx)
	if !ok || err != nil {
		return release, ok, err
	}
	once := sync.OnceValue(release)
	d.lock.Lock()
	d.leases = append(d.leases, once)
	d.lock.Unlock()
	d.did("acquired the lease")
	return func() error {
		d.alive()
		defer d.did("released the lease")
		return once()
	}, true, nil
}

// terraform is the provisioner of one shard.
type terraform struct {
	*life
	operation.Provisioner
	shard string
}

func (t terraform) State(ctx context.Context) (reconfigure.State, error) {
	t.alive()
	return t.Provisioner.State(ctx)
}

func (t terraform) Preview(ctx context.Context, p reconfigure.Plan) (reconfigure.Preview, error) {
	defer t.runs(simulate.Terraform)()
	return t.Provisioner.Preview(ctx, p)
}

func (t terraform) ForgetInstances(
	ctx context.Context, desired map[string]reconfigure.Spec, nodes nodeset.NodeSet,
) error {
	defer t.runs(simulate.Terraform)()
	defer t.did("forgot " + nodes.String())
	return t.Provisioner.ForgetInstances(ctx, desired, nodes)
}

func (t terraform) Discard(p reconfigure.Preview) error {
	t.alive()
	return t.Provisioner.Discard(p)
}

// Apply may be killed at each of its changes, which leaves the change in one of the halves, and while it waits for the
// cloud, both before and after its instances are ACTIVE.
func (t terraform) Apply(
	ctx context.Context, p reconfigure.Preview, watch operation.Watch, interrupt <-chan struct{},
) (reconfigure.Failures, error) {
	defer t.runs(simulate.Terraform)()
	// Terraform starts its provider before the first change: until then the recorder has written what came before.
	t.takes(time.Nanosecond)
	for i, c := range p.Changes {
		ways := t.halves(ctx, c)
		n := t.killedIn(fmt.Sprintf("applied %+v, of which number %d is left half done", p.Changes, i), len(ways))
		if n > 0 {
			t.freeze()
			spare := t.world.KillDuring(i, ways[n-1])
			_, _ = t.Provisioner.Apply(context.WithoutCancel(ctx), p, func(string, string) {}, nil)
			spare()
			t.kill()
		}
	}
	t.killedWhileItWaits(ctx, p)
	failures, err := t.Provisioner.Apply(ctx, p, watch, interrupt)
	t.did(fmt.Sprintf("applied %+v, with failures %v", p.Changes, failures))
	return failures, err
}

// killedWhileItWaits kills the worker while the cloud works, or when the cloud is done but Terraform has not polled
// yet.
func (t terraform) killedWhileItWaits(ctx context.Context, p reconfigure.Preview) {
	if _, err := t.world.States(ctx, nodeset.NodeSet{}); err != nil {
		return // without Slurm, an instance that Terraform does not know is left to the administrator
	}
	ways := []simulate.Half{simulate.Unwritten, simulate.Unknown, simulate.Tainted}
	times := []time.Duration{500 * time.Millisecond, 1500 * time.Millisecond, 3 * time.Second}
	n := t.killedIn(fmt.Sprintf("begun to apply %+v", p.Changes), len(ways)*len(times))
	if n > 0 {
		half, after := ways[(n-1)%len(ways)], times[(n-1)/len(ways)]
		t.last += fmt.Sprintf(" %s ago, which is %s", after, half)
		time.AfterFunc(after, func() { t.killAs(half) })
	}
}

// halves returns the distinct ways to leave this change. Without Slurm, an instance that Terraform does not know is
// left to the administrator; the tests of package operation cover that.
func (t terraform) halves(ctx context.Context, c reconfigure.ResourceChange) []simulate.Half {
	if _, err := t.world.States(ctx, nodeset.NodeSet{}); err != nil {
		return []simulate.Half{simulate.NotBegun, simulate.Unwritten, simulate.Tainted}
	}
	switch c.Effect {
	case reconfigure.EffectCreate:
		return []simulate.Half{simulate.NotBegun, simulate.Unwritten, simulate.Unknown, simulate.Tainted}
	case reconfigure.EffectReplace:
		return []simulate.Half{
			simulate.NotBegun, simulate.Removed, simulate.Unwritten, simulate.Unknown, simulate.Tainted,
		}
	}
	return []simulate.Half{simulate.NotBegun, simulate.Unwritten}
}

// Adopt may be killed after each of its nodes.
func (t terraform) Adopt(
	ctx context.Context, p reconfigure.Plan, servers map[string]reconfigure.Server,
) (nodeset.NodeSet, reconfigure.Failures, error) {
	defer t.runs(simulate.Terraform)()
	if n := t.killedIn(fmt.Sprintf("adopted a part of %v", servers), len(servers)); n > 0 {
		part := map[string]reconfigure.Server{}
		for _, node := range slices.Sorted(maps.Keys(servers))[:n-1] {
			part[node] = servers[node]
		}
		t.freeze()
		_, _, _ = t.Provisioner.Adopt(context.WithoutCancel(ctx), p, part)
		t.kill()
	}
	defer t.did(fmt.Sprintf("adopted %v", servers))
	return t.Provisioner.Adopt(ctx, p, servers)
}

// images makes images.
type images struct {
	*life
	operation.Images
}

func (i images) Image(
	ctx context.Context, name string, request reconfigure.RequestID,
) (reconfigure.Image, bool, error) {
	i.alive()
	return i.Images.Image(ctx, name, request)
}

func (i images) CreateImage(
	ctx context.Context, of reconfigure.Instance, name string, request reconfigure.RequestID,
) (reconfigure.Image, error) {
	i.takes(i.pace)
	defer i.did("began an image of " + of.Node)
	return i.Images.CreateImage(ctx, of, name, request)
}

func (i images) AwaitImage(
	ctx context.Context, image reconfigure.Image, of reconfigure.Instance,
) (reconfigure.Image, error) {
	i.alive()
	ctx, end := withDeath(ctx, i.mortal)
	defer end()
	defer i.did("saw the end of image " + image.ID)
	return i.Images.AwaitImage(ctx, image, of)
}

// cleaner cleans disks.
type cleaner struct {
	*life
	operation.Cleaner
}

func (c cleaner) Clean(ctx context.Context, declared reconfigure.Cluster, i reconfigure.Instance) error {
	defer c.runs(simulate.Ansible)()
	defer c.did("cleaned " + i.Node)
	return c.Cleaner.Clean(ctx, declared, i)
}

// cloud is the cloud's own API.
type cloud struct {
	*life
	operation.Cloud
}

func (c cloud) Servers(ctx context.Context, nodes nodeset.NodeSet) (map[string][]reconfigure.Server, error) {
	c.alive()
	return c.Cloud.Servers(ctx, nodes)
}

func (c cloud) Server(ctx context.Context, id string) (reconfigure.Server, bool, error) {
	c.alive()
	return c.Cloud.Server(ctx, id)
}

func (c cloud) Fault(ctx context.Context, id string) (reconfigure.Fault, error) {
	c.alive()
	return c.Cloud.Fault(ctx, id)
}

func (c cloud) Console(ctx context.Context, id string, lines int) (string, error) {
	c.alive()
	return c.Cloud.Console(ctx, id, lines)
}

func (c cloud) Reboot(ctx context.Context, id string) error {
	c.takes(c.pace)
	defer c.did("rebooted " + id)
	return c.Cloud.Reboot(ctx, id)
}

func (c cloud) RemoveServer(ctx context.Context, id, name string, before time.Time) error {
	c.takes(c.pace)
	defer c.did("deleted " + id)
	return c.Cloud.RemoveServer(ctx, id, name, before)
}

// keeper is a cloud that can set instances aside.
type keeper struct {
	cloud
	operation.Keeper
}

func (k keeper) SetAside(ctx context.Context, id string) error {
	k.takes(k.pace)
	defer k.did("set aside " + id)
	return k.Keeper.SetAside(ctx, id)
}

func (l *life) api(c operation.Cloud) operation.Cloud {
	if k, keeps := c.(operation.Keeper); keeps {
		return keeper{cloud{l, c}, k}
	}
	return cloud{l, c}
}

type quota struct {
	*life
	operation.Quota
}

func (q quota) Room(ctx context.Context) (reconfigure.Room, error) {
	q.alive()
	return q.Quota.Room(ctx)
}

// waiter waits for SSH.
type waiter struct {
	*life
	operation.Waiter
}

func (w waiter) Wait(ctx context.Context, i reconfigure.Instance, fresh bool) error {
	w.takes(w.pace)
	defer w.did("waited for " + i.Node)
	return w.Waiter.Wait(ctx, i, fresh)
}

func (w waiter) Known(ctx context.Context, i reconfigure.Instance) (bool, error) {
	w.alive()
	return w.Waiter.Known(ctx, i)
}

// ansible may be killed between two nodes.
type ansible struct {
	*life
	operation.Configurer
}

func (a ansible) Configure(
	ctx context.Context, c reconfigure.Cluster, instances map[string]reconfigure.Instance, extent reconfigure.Extent,
	watch operation.Watch, done func(node string, seen reconfigure.Configured, err error),
) (reconfigure.Failures, error) {
	defer a.runs(simulate.Ansible)()
	if n := a.killedIn("configured a part of "+extent.Changed.String(), extent.Changed.Len()); n > 0 {
		a.freeze()
		spare := a.world.KillDuring(n-1, simulate.NotBegun)
		_, _ = a.Configurer.Configure(context.WithoutCancel(ctx), c, instances, extent, func(string, string) {},
			func(string, reconfigure.Configured, error) {})
		spare()
		a.kill()
	}
	defer a.did("configured " + extent.Changed.String())
	return a.Configurer.Configure(ctx, c, instances, extent, watch, done)
}

// slurm is the scheduler.
type slurm struct {
	*life
	operation.Scheduler
}

func (s slurm) States(ctx context.Context, nodes nodeset.NodeSet) (map[string]reconfigure.NodeState, error) {
	s.alive()
	return s.Scheduler.States(ctx, nodes)
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

type starter struct {
	*life
	operation.Starter
}

func (s starter) CheckHealth(ctx context.Context, i reconfigure.Instance) error {
	s.alive()
	defer s.did("checked the health of " + i.Node)
	return s.Starter.CheckHealth(ctx, i)
}

func (s starter) StartSlurmd(ctx context.Context, i reconfigure.Instance) error {
	s.alive()
	defer s.did("started slurmd on " + i.Node)
	return s.Starter.StartSlurmd(ctx, i)
}

type commenter struct {
	*life
	operation.Commenter
}

func (c commenter) Comment(ctx context.Context, jobs []int64, text string) error {
	c.alive()
	defer c.did(fmt.Sprint("commented on jobs ", jobs))
	return c.Commenter.Comment(ctx, jobs, text)
}
