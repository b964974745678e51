package storm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal/memory"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

// storm is a cluster in which everything happens at once. A list of steps, drawn before the storm begins, plays Slurm,
// its users, administrators and faults, while the workers run.
type storm struct {
	world    *simulate.World
	book     *memory.Journal
	wait     sync.WaitGroup
	lock     sync.Mutex
	declared reconfigure.Cluster
	lives    []*life
	wrong    []string
	deaths   atomic.Int32  // of workers
	away     bool          // the journal
	doom     int           // the moment at which the next worker is killed
	half     simulate.Half // the state in which Terraform leaves a change if it is killed too
	perState int
	idle     reconfigure.WhenIdle
	falls    bool                 // the group has fallbacks
	keeps    bool                 // the cloud can set instances aside
	limit    int                  // the maximum of nodes that exist at a time; 0: none
	queue    *queue               // the jobs of a partition with `fresh: job` over the group; nil: it has none
	since    map[string]time.Time // the time at which Slurm began to power a node up or down
	looks    *looks               // nil: the workers do not compare the sources
	spares   *kept                // nil: the group has no spare nodes
	deaf     int                  // the number of Slurm's next calls that get lost
}

const (
	resumeTimeout  = 10 * time.Minute
	suspendTimeout = 2 * time.Minute
	most           = 5 // nodes of the group
)

// step is one event. Its kind determines which of its values are used. When it happens, it skips nodes to which it does
// not apply.
type step struct {
	what  string
	nodes []string
	n     int
	fault simulate.Fault
	on    bool
}

func (s step) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %d %s %t", s.what, strings.Join(s.nodes, ","), s.n, s.fault, s.on))
}

// deeds returns all kinds of steps.
func deeds() map[string]func(*storm, step) {
	return map[string]func(*storm, step){
		"jobs need":                (*storm).need,
		"jobs start on":            func(s *storm, d step) { s.each(d, s.world.StartJob) },
		"jobs end on":              (*storm).end,
		"Slurm gives up":           (*storm).giveUp,
		"power_down_force":         (*storm).powerDownForce,
		"update":                   (*storm).update,
		"Slurm reboots":            (*storm).reboot,
		"image":                    (*storm).image,
		"images are slow":          func(s *storm, d step) { s.slow(simulate.Saving, d) },
		"declare":                  (*storm).declare,
		"deploy":                   func(s *storm, _ step) { s.submit(ask(reconfigure.Deploy)) },
		"kill":                     (*storm).kill,
		"kill now":                 (*storm).killNow,
		"stop":                     (*storm).stop,
		"lease is lost":            func(s *storm, _ step) { s.book.LoseLease() },
		"journal fails":            (*storm).failJournal,
		"builds are slow":          func(s *storm, d step) { s.slow(simulate.Building, d) },
		"removals hang":            func(s *storm, d step) { s.slow(simulate.Removing, d) },
		"node fault":               (*storm).fault,
		"cluster fault":            (*storm).fault,
		"slurmd is slow":           func(s *storm, d step) { s.world.Takes(simulate.Registering, time.Duration(d.n)*time.Minute) },
		"switches hang":            func(s *storm, d step) { s.slow(simulate.Switching, d) },
		"somebody stops":           func(s *storm, d step) { s.switches(d, reconfigure.PowerOff) },
		"somebody starts":          func(s *storm, d step) { s.switches(d, "") },
		"somebody boots":           func(s *storm, d step) { s.boots(d) },
		"boots are slow":           func(s *storm, d step) { s.world.Takes(simulate.Booting, time.Duration(d.n)*time.Minute) },
		"time passes":              func(s *storm, d step) { s.pass(time.Duration(d.n*d.n*d.n) * time.Second) },
		"somebody powers down":     (*storm).powerDown,
		"somebody cancels a drain": (*storm).cancelDrain,
		"somebody sets DOWN":       (*storm).setDown,
		"somebody ends DOWN":       func(s *storm, d step) { s.each(d, s.world.EndsDown) },
		"somebody drains":          (*storm).drain,
		"somebody undrains":        func(s *storm, d step) { s.each(d, s.undrain) },
	}
}

// jobDeeds returns kinds of steps that only some storms have.
func jobDeeds() map[string]func(*storm, step) {
	return map[string]func(*storm, step){
		"retire":            func(s *storm, _ step) { s.retire() },
		"jobs come":         func(s *storm, d step) { s.queue.add(1 + d.n%3); s.queue.place(s) },
		"calls are lost":    func(s *storm, d step) { s.deaf = 1 + d.n%3 },
		"somebody requeues": func(s *storm, d step) { s.queue.requeue(s, d.nodes) },
		"somebody cancels":  func(s *storm, d step) { s.queue.cancel(s, d.nodes) },
		"somebody resumes":  func(s *storm, d step) { s.resume(d.nodes) },
	}
}

func nodeFaults() []simulate.Fault {
	return []simulate.Fault{
		simulate.NoValidHost, simulate.NoQuota, simulate.NoPort, simulate.LostCreate, simulate.LostPoll, simulate.LateFailure,
		simulate.NotProven, simulate.Unreadable, simulate.NeverRemoved, simulate.RebootFails, simulate.NotActive,
		simulate.NoSSH,
		simulate.Lemon, simulate.PlaybookFails, simulate.NeverRegisters, simulate.StartsByItself, simulate.SlurmRefuses,
		simulate.RegistersLate, simulate.OtherImage, simulate.NoImage, simulate.ImageLost, simulate.NotReached,
		simulate.NotSent, simulate.NotListed, simulate.Unhealthy,
	}
}

func stopFaults() []simulate.Fault {
	return []simulate.Fault{simulate.StopFails, simulate.StartFails, simulate.OtherTags, simulate.NoSlurmd}
}

func clusterFaults() []simulate.Fault {
	return []simulate.Fault{
		simulate.StateLocked, simulate.LostAnswer, simulate.Killed, simulate.CloudSilent, simulate.BrokenPlaybook, simulate.RunBreaks,
		simulate.SlurmSilent,
	}
}

func drawSteps(t *rapid.T) []step {
	kinds := []string{ // the first kinds are drawn most often
		"jobs need", "jobs end on", "time passes", "Slurm gives up", "jobs need", "kill now", "update", "node fault",
		"jobs end on", "time passes", "power_down_force", "jobs start on", "builds are slow", "kill",
	}
	return drawStepsOf(t, slices.Concat(kinds, slices.Sorted(maps.Keys(deeds())), kinds), nodeFaults())
}

func drawStepsOf(t *rapid.T, kinds []string, nodeFaults []simulate.Fault) []step {
	one := rapid.Custom(func(t *rapid.T) step {
		s := step{
			what: rapid.SampledFrom(kinds).Draw(t, "what"), n: rapid.IntRange(0, 12).Draw(t, "n"),
			on: rapid.Bool().Draw(t, "on"),
		}
		s.nodes = rapid.SliceOfNDistinct(
			rapid.SampledFrom(declared(1, most).Nodes().Names()), 1, 3, rapid.ID,
		).Draw(t, "nodes")
		faults := nodeFaults
		if s.what == "cluster fault" {
			faults = clusterFaults()
		}
		s.fault = rapid.SampledFrom(faults).Draw(t, "fault")
		return s
	})
	var steps []step
	for range 3 { // package rapid draws short slices: one of them would have ten steps
		steps = append(steps, rapid.SliceOfN(one, 2, 14).Draw(t, "steps")...)
	}
	return steps
}

// TestStorm runs storms. At the end of each, after all faults have ended, every request has its outcome, no job was
// lost, and the cloud has the requested instances.
func TestStorm(t *testing.T) { blow(t, drawSteps) }

// blow runs storms, and returns the number of second attempts.
func blow(t *testing.T, draw func(*rapid.T) []step) (again int) {
	t.Helper()
	return blowWith(t, func(*storm) {}, draw)
}

// blowWith is blow with other settings.
func blowWith(t *testing.T, set func(*storm), draw func(*rapid.T) []step) (again int) {
	t.Helper()
	played, requests, killed, plans, overlaps, undone, refused, fixed, freed := 0, 0, 0, 0, 0, 0, 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		steps := draw(rt)
		var s *storm
		synctest.Test(t, func(t *testing.T) {
			s = begin(set)
			s.play(t.Context(), steps)
		})
		if len(s.wrong) > 0 {
			rt.Fatalf("%s\nsteps:\n%v\ncalls:\n%s", strings.Join(s.wrong, "\n"), steps, strings.Join(s.world.Calls(), "\n"))
		}
		played++
		for _, r := range s.requests(t.Context()) {
			requests++
			if o, _, err := s.book.Outcome(t.Context(), r.ID); err == nil && o.Code == reconfigure.CodeCancelled {
				undone++
			}
		}
		refused += s.world.Refusals()
		freed += len(s.world.Freed())
		again += strings.Count(s.book.Messages(), "retried on a fresh instance")
		for _, l := range s.lives {
			plans, overlaps, fixed = plans+l.plans, overlaps+l.overlaps, fixed+int(l.fixed.Load())
			if l.last != "" {
				killed++
			}
		}
	})
	t.Logf("%d storms, %d requests, %d of them undone, in %d plans, %d of these beside others, %d workers killed, "+
		"%d second attempts, %d runs of jobs refused, %d fixes of the workers' own comparison, "+
		"%d jobs on nodes that somebody undrained too late",
		played, requests, undone, plans, overlaps, killed, again, refused, fixed, freed)
	return again
}

func begin(set func(*storm)) *storm {
	s := &storm{book: memory.New(), since: map[string]time.Time{}}
	set(s)
	s.declared = s.stormy(1, "v1")
	s.world = simulate.NewWorld(s.declared)
	if s.keeps {
		s.world.CanSetAside()
	}
	s.world.Have(append([]string{"ctl"}, s.declared.Persistent().Names()...)...)
	time.Sleep(time.Minute)
	return s
}

func (s *storm) stormy(least int, image string) reconfigure.Cluster {
	c := of(image, declared(least, most))
	c.Slurm = reconfigure.Timing{ResumeTimeout: resumeTimeout, SuspendTimeout: suspendTimeout}
	c.Settings.BootTimeout = resumeTimeout / 4
	c.Settings.NodesPerState = s.perState
	c.Groups[0].WhenIdle, c.Groups[0].MaxStopped = s.idle, 2
	if s.falls {
		c = falling(c)
	}
	if s.limit > 0 {
		c.Limits = []reconfigure.Limit{{Groups: []string{c.Groups[0].Name}, Max: s.limit}}
	}
	if s.spares != nil {
		c.Groups[0].Spare = s.spares.count
	}
	c = wary(forgiving(c))
	if s.queue != nil {
		c = single(c)
	}
	return c
}

func (s *storm) play(ctx context.Context, steps []step) {
	all := deeds()
	maps.Copy(all, jobDeeds())
	for _, d := range steps {
		all[d.what](s, d)
		s.pass(time.Second)
	}
	s.settle(ctx)
	s.check(ctx)
	if !slices.ContainsFunc(steps, mayLeaveDown) {
		s.noneIsDown()
	}
	if s.looks != nil {
		s.healed()
		s.looks.end()
	}
	if s.spares != nil {
		s.spared()
		s.spares = nil
	}
	s.quiet(ctx)
	s.wait.Wait()
}

func (s *storm) complain(format string, args ...any) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if wrong := fmt.Sprintf(format, args...); !slices.Contains(s.wrong, wrong) {
		s.wrong = append(s.wrong, wrong)
	}
}

func (s *storm) cluster() reconfigure.Cluster {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.declared
}

// call is a call of Slurm's scripts. It does not arrive while the control host is down.
func (s *storm) call(r reconfigure.Request) {
	if s.deaf > 0 {
		s.deaf--
		return
	}
	s.submit(r)
}

// submit writes a request to the journal and starts a worker, like each call of the tool.
func (s *storm) submit(r reconfigure.Request) reconfigure.RequestID {
	made, err := s.book.Submit(context.Background(), r)
	for ; errors.Is(err, errAway); made, err = s.book.Submit(context.Background(), r) { // the caller tries again
		time.Sleep(time.Second)
	}
	if r = made; err != nil {
		s.complain("submit: %v", err)
	}
	s.work()
	return r.ID
}

// work starts a worker.
func (s *storm) work() {
	l := newLife(s.world, s.book.Open())
	l.pace, l.succeed, l.looks = 5*time.Second, s.work, s.looks
	s.lock.Lock()
	l.end, s.doom = s.doom, 0
	if s.half != "" {
		l.half = s.half
	}
	s.lives = append(s.lives, l)
	s.lock.Unlock()
	s.wait.Go(func() {
		err := l.work(context.Background(), s.cluster)
		if errors.Is(err, errKilled) {
			s.deaths.Add(1)
		}
		if err != nil && !errors.Is(err, errKilled) && !errors.Is(err, context.Canceled) {
			s.complain("a worker ended with: %v", err)
		}
	})
}

// requests returns all requests, newest first.
func (s *storm) requests(ctx context.Context) []reconfigure.Request {
	all, err := s.book.Requests(context.WithoutCancel(ctx), 1000)
	if err != nil {
		s.complain("requests: %v", err)
	}
	return all
}

// pass lets time pass, also for Slurm's timeouts.
func (s *storm) pass(d time.Duration) {
	const tick = time.Minute
	for ; d > 0; d -= tick {
		time.Sleep(min(d, tick))
		synctest.Wait()
		if nodes := s.world.CleanedInUse(); len(nodes) > 0 {
			s.complain("Slurm may start jobs on %v, whose disks were cleaned", nodes)
		}
		if there := s.there(); s.limit > 0 && there.Len() > s.limit {
			s.complain("%s are there, more than %d", there, s.limit)
		}
		if !s.away {
			s.queue.advance(s)
		}
		s.keepSpare()
		for node := range s.cluster().Nodes().All() {
			state := s.world.Node(node).State
			up, down := strings.Contains(state, "POWERING_UP"), strings.Contains(state, "POWERING_DOWN")
			switch since, ok := s.since[node]; {
			case !up && !down:
				delete(s.since, node)
			case !ok:
				s.since[node] = time.Now()
			case up && time.Since(since) > resumeTimeout:
				s.world.GivesUp(node)
			case down && time.Since(since) > suspendTimeout:
				s.world.PoweredDown(node)
			}
		}
	}
}

func (s *storm) each(d step, do func(string)) {
	for _, node := range d.nodes {
		do(node)
	}
}

// those returns the nodes of a step that are in one of these states.
func (s *storm) those(d step, states ...string) []string {
	return slices.DeleteFunc(slices.Clone(d.nodes), func(node string) bool {
		return !slices.Contains(states, s.world.Node(node).State)
	})
}

// need makes Slurm power up nodes for jobs, with one call.
func (s *storm) need(d step) {
	if s.keeps {
		s.world.Order(simulate.Lemon, d.nodes...)
	}
	if nodes := s.those(d, "IDLE+CLOUD+POWERED_DOWN"); len(nodes) > 0 {
		s.world.PowersUp(nodes...)
		r := ask(reconfigure.Resume, nodes...)
		r.Jobs = []reconfigure.Job{{ID: int64(d.n), Nodes: r.Nodes}}
		s.call(r)
	}
}

func (s *storm) end(d step) {
	s.queue.end(s, d.nodes)
	for _, node := range s.those(d, "ALLOCATED", "ALLOCATED+CLOUD", "ALLOCATED+DRAIN", "ALLOCATED+CLOUD+DRAIN",
		"ALLOCATED+CLOUD+DRAIN+POWER_DOWN") {
		if s.world.EndJob(node) {
			s.call(ask(reconfigure.Suspend, node))
		}
	}
}

// retire makes Slurm power down all nodes when their jobs have ended, as the comparison of the sources does with old
// nodes.
func (s *storm) retire() {
	for _, node := range s.those(step{nodes: s.cluster().Nodes().Names()}, "ALLOCATED+CLOUD") {
		_ = s.world.PowerDownASAP(context.Background(), nodeset.Of(node), reconfigure.AgedReason) // Slurm may be silent
	}
}

// giveUp makes Slurm power down nodes that are idle or DOWN, with one call.
func (s *storm) giveUp(d step) {
	if nodes := s.unkept(s.those(d, "IDLE+CLOUD", "DOWN+CLOUD")); len(nodes) > 0 {
		s.world.PowersDown(nodes...)
		s.call(ask(reconfigure.Suspend, nodes...))
	}
}

// powerDownForce powers down nodes that Slurm powers up, as an administrator may do (scontrol(1), power_down_force).
func (s *storm) powerDownForce(d step) {
	if nodes := s.those(d, "ALLOCATED+CLOUD+POWERING_UP"); len(nodes) > 0 {
		s.world.PowersDown(nodes...)
		s.call(ask(reconfigure.Suspend, nodes...))
	}
}

// drain drains a node as an administrator does, but keeps the reason of a cleaned node.
func (s *storm) drain(d step) {
	if !s.cleaned(d.nodes[0]) {
		s.world.Drained("disk is full", d.nodes[0])
	}
}

// powerDown powers nodes down as an administrator does (scontrol(1), power_down_force), also drained ones.
func (s *storm) powerDown(d step) {
	if nodes := s.those(d, "IDLE+CLOUD", "IDLE+CLOUD+DRAIN", "DOWN+CLOUD"); len(nodes) > 0 {
		s.world.SuspendsIdle(nodes...)
		s.call(ask(reconfigure.Suspend, nodes...))
	}
}

// cancelDrain ends drains of this tool on nodes whose jobs still run, like an administrator who does not want the
// update.
func (s *storm) cancelDrain(d step) {
	for _, node := range s.those(d, "ALLOCATED+DRAIN", "ALLOCATED+CLOUD+DRAIN", "ALLOCATED+CLOUD+DRAIN+POWER_DOWN") {
		s.world.Resumes(node)
	}
}

// setDown sets nodes DOWN as an administrator does, which requeues their jobs.
func (s *storm) setDown(d step) {
	for _, node := range s.those(d, "IDLE", "IDLE+CLOUD", "ALLOCATED", "ALLOCATED+CLOUD", "ALLOCATED+CLOUD+POWERING_UP") {
		s.world.SetsDown("it smells", node)
	}
}

// undrain ends the drain of a node as an administrator does, except drains of this tool and of cleaned nodes.
func (s *storm) undrain(node string) {
	n := s.world.Node(node)
	ours := strings.HasPrefix(n.Reason, simulate.ReasonPrefix) && !strings.Contains(n.Reason, "somebody else")
	if strings.Contains(n.State, "DRAIN") && !ours && !s.cleaned(node) {
		s.world.Resumes(node)
	}
}

// cleaned reports whether the reason in Slurm says that a node must not get jobs since its disk was cleaned.
func (s *storm) cleaned(node string) bool {
	return strings.Contains(s.world.Node(node).Reason, reconfigure.ImageReason)
}

func (s *storm) update(d step) {
	r := ask(reconfigure.Update, d.nodes...)
	r.DrainTimeout, r.Reimage = time.Hour, d.on
	s.submit(r)
}

// switches stops or starts instances that Slurm does not use, without Terraform.
func (s *storm) switches(d step, to reconfigure.Power) {
	for _, node := range s.those(d, "IDLE+CLOUD+POWERED_DOWN", "IDLE+CLOUD+POWERING_DOWN") {
		s.world.Switch(node, to)
	}
}

// boots reboots persistent instances that Slurm does not use, as an administrator does in the cloud.
func (s *storm) boots(d step) {
	for _, node := range s.those(d, "DOWN", "DOWN+DRAIN") {
		s.world.Switch(node, "")
	}
}

func (s *storm) image(d step) {
	r := ask(reconfigure.MakeImage, d.nodes[0])
	r.Image, r.DrainTimeout = fmt.Sprint("image-", len(s.requests(context.Background()))), time.Hour
	s.submit(r)
}

func (s *storm) reboot(d step) {
	if nodes := s.those(d, "IDLE", "IDLE+CLOUD"); len(nodes) > 0 {
		s.world.Reboots(nodes...)
		r := ask(reconfigure.Update, nodes...)
		r.FromSlurm = true
		s.submit(r)
	}
}

// declare edits the declaration, and requests its number of persistent nodes.
func (s *storm) declare(d step) {
	image := "v1"
	if d.on {
		image = "v2"
	}
	c := s.stormy(1+d.n%3, image)
	s.lock.Lock()
	s.declared = c
	s.lock.Unlock()
	s.world.Declare(c)
	r := ask(reconfigure.Resize, c.Nodes().Names()...)
	r.DrainTimeout = time.Hour
	s.submit(r)
}

// kill kills the workers after some moments, and the next one too.
func (s *storm) kill(d step) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.doom = 1 + d.n*4
	for _, l := range s.lives {
		l.lock.Lock()
		if !l.dead && l.end == 0 {
			l.end = l.now + 1 + d.n*2
		}
		l.lock.Unlock()
	}
}

// killNow kills the active worker at once, together with Terraform.
func (s *storm) killNow(d step) {
	halves := []simulate.Half{simulate.Unwritten, simulate.Unknown, simulate.Tainted}
	time.Sleep(time.Duration(d.n) * 777 * time.Millisecond)
	s.lock.Lock()
	s.half = halves[d.n%len(halves)]
	lives := slices.Clone(s.lives)
	s.lock.Unlock()
	for _, l := range lives {
		l.killAs(s.half)
	}
}

// stop ends the workers gracefully. Waiting requests need another worker.
func (s *storm) stop(d step) {
	time.Sleep(time.Duration(d.n) * 777 * time.Millisecond)
	s.lock.Lock()
	lives := slices.Clone(s.lives)
	s.lock.Unlock()
	for _, l := range lives {
		l.stop()
	}
	if d.on {
		s.work()
	}
}

var errAway = errors.New("the database does not answer")

// failJournal makes the journal unreachable for some minutes, fewer than a worker waits for it.
func (s *storm) failJournal(d step) {
	s.book.Fail(errAway)
	s.away = true
	s.pass(time.Duration(1+d.n) * 20 * time.Second)
	s.book.Fail(nil)
	s.away = false
	s.pass(time.Minute) // so that the next step is another failure
}

// slow makes an action take d.n minutes for some nodes: forever if d.n is large, and a second if the step is off.
func (s *storm) slow(what simulate.Doing, d step) {
	took := time.Duration(d.n) * time.Minute
	switch {
	case d.n > 9:
		took = simulate.Forever
	case !d.on:
		took = time.Second
	}
	s.world.Takes(what, took, d.nodes...)
}

func (s *storm) fault(d step) {
	switch {
	case !d.on:
		s.world.Clear(d.fault)
	case slices.Contains(clusterFaults(), d.fault):
		s.world.Order(d.fault)
	default:
		s.world.Order(d.fault, d.nodes[0])
	}
}

// settle ends all faults, kills and jobs, calls once more, and gives the requests enough time.
func (s *storm) settle(ctx context.Context) {
	for _, f := range slices.Concat(nodeFaults(), stopFaults(), clusterFaults(), []simulate.Fault{simulate.NoFirst}) {
		s.world.Clear(f)
	}
	s.world.Takes(simulate.Registering, 0)
	s.world.Takes(simulate.Booting, 0)
	for _, node := range s.cluster().Nodes().Names() {
		s.world.Takes(simulate.Building, time.Second, node)
		s.world.Takes(simulate.Removing, time.Second, node)
		s.world.Takes(simulate.Switching, time.Second, node)
	}
	s.world.Unstick()
	s.doom, s.deaf = 0, 0
	for _, l := range s.lives {
		l.lock.Lock()
		l.end = 0
		l.lock.Unlock()
	}
	all := step{nodes: s.cluster().Nodes().Names()}
	s.end(all)
	s.pass(time.Minute) // until workers that were asked to stop have ended
	deaths := s.deaths.Load()
	s.submit(ask(reconfigure.Suspend))
	for range 100 {
		s.pass(5 * time.Minute)
		s.queue.free(s)
		if died := s.deaths.Load(); died > deaths { // the last call came while this worker ran
			deaths = died
			s.work()
		}
		s.end(all) // more jobs have started
		if waiting, _ := s.book.Pending(ctx); len(waiting) == 0 && s.queue.empty() {
			return
		}
	}
	waiting, _ := s.book.Pending(ctx)
	s.complain("%d requests have no outcome: %+v; jobs that have not ended: %v", len(waiting), waiting, s.queue)
}

// check checks the result of the storm, and the journal.
func (s *storm) check(ctx context.Context) {
	if lost := s.world.Lost(); len(lost) > 0 {
		s.complain("the jobs on %v were lost", lost)
	}
	if n := s.world.Thwarted(); n > 0 {
		s.complain("%d nodes were powered down while jobs waited for them", n)
	}
	if doubled := s.world.Doubled(); len(doubled) > 0 {
		s.complain("%v got a second instance", doubled)
	}
	if shared := s.world.Shared(); len(shared) > 0 {
		s.complain("jobs shared instances: %v", shared)
	}
	if reused := s.world.Reused(); len(reused) > 0 {
		s.complain("%v were given to further jobs", reused)
	}
	if clashes := s.world.Clashes(); len(clashes) > 0 {
		s.complain("%v", clashes)
	}
	for _, r := range s.requests(ctx) {
		o, ok, _ := s.book.Outcome(ctx, r.ID)
		if !ok {
			s.complain("request %s has no outcome", r.ID)
			continue
		}
		s.replay(ctx, r, o)
	}
}

// mayLeaveDown reports whether a cloud node may be left DOWN after a step: Slurm refuses to take it back, or it was
// persistent when it failed.
func mayLeaveDown(d step) bool {
	return d.on && (d.fault == simulate.SlurmRefuses || d.fault == simulate.SlurmSilent) || d.what == "declare"
}

// noneIsDown checks that the tool handed back each cloud node that it set DOWN.
func (s *storm) noneIsDown() {
	c := s.cluster()
	for node := range c.Nodes().Difference(c.Persistent()).All() {
		if n := s.world.Node(node); strings.Contains(n.State, "DOWN+CLOUD") &&
			strings.HasPrefix(n.Reason, simulate.ReasonPrefix) {
			s.complain("%s was left %s: %s", node, n.State, n.Reason)
		}
	}
}

// replay compares the journal's events with the verdicts: the last event of a node must agree with its verdict.
func (s *storm) replay(ctx context.Context, r reconfigure.Request, o reconfigure.Outcome) {
	events, _ := s.book.Events(ctx, r.ID, 0)
	// A request may have several plans. A node with a verdict may be in a later plan for another request.
	type place struct {
		plan int64
		node string
	}
	last := map[place]reconfigure.Level{}
	for _, e := range events {
		p := place{e.Plan, e.Node}
		if len(r.Deferred)+len(r.Verdicts) == 0 {
			p.plan = 0
		}
		if e.Level != reconfigure.Note {
			last[p] = e.Level
		}
	}
	ends := func(node string, with reconfigure.Level) bool {
		for p, level := range last {
			if p.node == node && level == with {
				return true
			}
		}
		return false
	}
	told := map[reconfigure.Status]reconfigure.Level{
		reconfigure.StatusDone: reconfigure.Done, reconfigure.StatusFailed: reconfigure.Failed,
		reconfigure.StatusRefused: reconfigure.Failed,
	}
	for _, v := range o.Verdicts {
		// A caller gets no events of other nodes that change for its request.
		theirs := r.Nodes.Empty() || r.Nodes.Contains(v.Node)
		if want := told[v.Status]; theirs && want != "" && !ends(v.Node, want) {
			s.complain("request %s: the verdict on %s is %q, but the journal ends otherwise: %v", r.ID, v.Node, v.Status, last)
		}
	}
	for node := range r.Nodes.All() {
		if n := len(
			slices.DeleteFunc(slices.Clone(o.Verdicts), func(v reconfigure.Verdict) bool { return v.Node != node }),
		); n != 1 && o.Error == "" {
			s.complain("request %s: there are %d verdicts on %s", r.ID, n, node)
		}
	}
}

// quiet requests only the persistent nodes, without any fault, and checks that nothing else remains.
func (s *storm) quiet(ctx context.Context) {
	c := s.cluster()
	for _, node := range c.Nodes().Names() {
		s.undrain(node)
	}
	resize := ask(reconfigure.Resize, c.Nodes().Names()...)
	resize.DrainTimeout = time.Hour
	s.must(ctx, resize)
	clouds := c.Nodes().Difference(c.Persistent())
	s.world.PowersDown(clouds.Names()...)
	s.must(ctx, reconfigure.Request{Mode: reconfigure.Suspend, Nodes: clouds})
	if s.idle != "" {
		s.atRest(clouds)
		s.idle = reconfigure.IdleDelete
		c.Groups = slices.Clone(c.Groups)
		c.Groups[0].WhenIdle = s.idle
		s.lock.Lock()
		s.declared = c
		s.lock.Unlock()
		s.world.Declare(c)
		s.must(ctx, reconfigure.Request{Mode: reconfigure.Suspend, Nodes: clouds})
	}
	var lost []string // whose instance is gone from the cloud: `reconfigure reconcile` proposes a reimage
	for node := range c.Persistent().All() {
		if n := s.world.Node(node); n.Instance.ID != "" && n.Made == (reconfigure.Spec{}) {
			lost = append(lost, node)
		}
	}
	if len(lost) > 0 {
		again := ask(reconfigure.Update, lost...)
		again.DrainTimeout, again.Reimage = time.Hour, true
		s.must(ctx, again)
	}
	repair := ask(reconfigure.Update, c.Persistent().Names()...)
	repair.DrainTimeout = time.Hour
	s.must(ctx, repair)
	for _, node := range c.Nodes().Names() { // also those whose disk was cleaned before
		s.undrain(node)
	}
	s.must(ctx, ask(reconfigure.Deploy))

	want := c.Persistent().Union(nodeset.Of("ctl"))
	for node := range c.Nodes().Union(want).All() {
		n := s.world.Node(node)
		is := n.Instance.Node != "" || n.Spec != reconfigure.Spec{}
		good := n.Instance.ID != "" && !n.Instance.Tainted && n.Made == n.Spec && (node == "ctl" || n.State == "IDLE")
		if is != want.Contains(node) || is && !good {
			s.complain("when all is quiet %s is %+v", node, n)
		}
	}
	names := map[string]bool{}
	for _, i := range s.world.Images() {
		if !i.Clean || names[i.Name] {
			s.complain("image %+v, of %v", i, names)
		}
		names[i.Name] = true
	}
	if orphans := s.world.Orphans(); len(orphans) > 0 {
		s.complain("when all is quiet there are orphans of %v", orphans)
	}
}

// atRest checks that idle nodes have no instance, or a stopped one on which the map of nodes, Terraform's state and the
// cloud agree, and that there are not too many stopped ones.
func (s *storm) atRest(nodes nodeset.NodeSet) {
	stopped := 0
	for node := range nodes.All() {
		n := s.world.Node(node)
		if n.Instance == (reconfigure.Instance{Node: node}) || n.Instance.Node == "" && n.Spec == (reconfigure.Spec{}) {
			continue
		}
		agree := n.Made == n.Spec && n.Instance.Made.Power == n.Made.Power
		if stopped++; !agree || n.Made.Power != s.idle.Power() || n.Instance.Tainted {
			s.complain("when all is quiet %s is %+v", node, n)
		}
	}
	if stopped > 2 {
		s.complain("%d nodes are stopped", stopped)
	}
}

// must submits a request, and checks that it is done.
func (s *storm) must(ctx context.Context, r reconfigure.Request) {
	id := s.submit(r)
	for range 3 {
		s.pass(10 * time.Minute)
		s.end(step{nodes: s.cluster().Nodes().Names()}) // also jobs that waited for their node
	}
	if o, ok, _ := s.book.Outcome(ctx, id); !ok || o.Code != reconfigure.CodeDone {
		s.complain("%s %s when all is quiet: %+v", r.Mode, r.Nodes, o)
	}
}
