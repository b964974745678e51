package simulate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// server is an instance in the cloud.
type server struct {
	id, node, address string
	spec              reconfigure.Spec
	created           time.Time
	active            time.Time // the time at which it is ACTIVE or in ERROR
	gone              time.Time // the time at which its deletion ends; zero: it is not being deleted
	power             reconfigure.Power
	powers            time.Time         // the time at which the cloud has started or stopped it; zero: no change
	next              reconfigure.Power // its power state after that
	fault             reconfigure.Fault // the cause of its ERROR
	up                bool              // it is ACTIVE
	started           time.Time         // its last boot in the cloud
	boots             int
	booted            time.Time // its last boot as slurmd reports it: no two boots have the same time
	configured        bool
	slurmd            bool      // slurmd has registered since the boot
	silent            bool      // after a start by the cloud, slurmd does not start at boot
	clean             bool      // its disk was cleaned for an image
	lemon             bool      // it never answers
	aside             bool      // it is kept while another one is made for its node
	mark              string    // on its disk: the run of the job to which it was allocated
	left              time.Time // the time at which a run of a job ended on its disk
	disks             int       // the number of times its disk was made anew
	console           string    // since the last boot: as with QEMU, a boot truncates it
	key               string    // the host key of its disk
	shown             bool      // the console shows the host key: cloud-init prints it once for each disk
	printed           bool      // a boot of the disk has ended, so that a later one does not print the key
}

// never is the end of an action that takes forever.
func never() time.Time { return time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) }

// after returns the time after d; never if d is Forever.
func after(d time.Duration) time.Time {
	if d == Forever {
		return never()
	}
	return time.Now().Add(d)
}

func (w *World) server(id string) *server {
	for _, s := range w.cloud.servers {
		if s.id == id {
			return s
		}
	}
	return nil
}

// serversOf returns the instances of a node, the oldest first, without those that are set aside.
func (w *World) serversOf(node string) []*server {
	return slices.DeleteFunc(slices.Clone(w.cloud.servers), func(s *server) bool { return s.node != node || s.aside })
}

// create makes the cloud begin to create an instance.
func (w *World) create(node string, spec reconfigure.Spec) *server {
	if slices.ContainsFunc(w.serversOf(node), func(s *server) bool { return s.gone.IsZero() }) {
		w.cloud.doubled = append(w.cloud.doubled, node)
	}
	n := w.number()
	s := &server{
		id: fmt.Sprint("instance-", n), node: node, address: fmt.Sprintf("192.0.2.%d", n), spec: spec,
		created: time.Now(), active: after(w.span(Building, node)),
	}
	w.cloud.servers = append(w.cloud.servers, s)
	if s.lemon = w.struck(Lemon, node); s.lemon {
		w.orders.faults[Lemon] = w.orders.faults[Lemon].Difference(nodeset.Of(node))
	}
	return s
}

// start makes an instance ACTIVE, and boots it. slurmd starts if it was configured before, so that tests of reboots
// need no playbooks, but not on an instance that was stopped.
func (w *World) start(s *server, at time.Time) {
	w.stop(s)
	s.up, s.power, s.powers = true, "", time.Time{}
	s.boots++
	s.started = at
	s.booted = time.Unix(max(at.Unix(), w.cloud.lastBoot+1), 0)
	w.cloud.lastBoot = s.booted.Unix()
	s.console = fmt.Sprintf("%s of %s: booted at %d\n", s.id, s.node, w.cloud.lastBoot)
	if key := fmt.Sprintf("key of %s, disk %d", s.id, s.disks); s.key != key {
		s.key, s.printed = key, false
	}
	s.shown = !s.printed
	if s.configured && !s.silent || w.struck(StartsByItself, s.node) {
		w.startSlurmd(s, at)
	}
}

func (w *World) startSlurmd(s *server, at time.Time) {
	if n := w.slurm.nodes[s.node]; n != nil && !w.struck(NeverRegisters, s.node) {
		n.registers, n.server = at.Add(w.span(Registering, s.node)), s
	}
}

// stop ends all programs on an instance.
func (w *World) stop(s *server) {
	boots := w.span(Booting, s.node)
	s.printed = s.printed || s.up && boots != Forever && time.Since(s.started) >= boots
	if n := w.slurm.nodes[s.node]; n != nil && n.server == s {
		w.lose(s.node)
		n.registers = time.Time{}
	}
	s.slurmd, s.up = false, false
}

// switches makes the cloud begin to start or stop an instance.
func (w *World) switches(s *server, to reconfigure.Power) {
	s.next, s.powers = to, after(w.span(Switching, s.node))
}

// power ends the start or the stop of an instance.
func (w *World) power(s *server, at time.Time) {
	s.power, s.powers = s.next, time.Time{}
	if s.power == "" {
		s.silent = true
		w.start(s, at)
	} else {
		w.stop(s)
	}
}

// Switch starts or stops a node's instance in the cloud, as an administrator may do by hand.
func (w *World) Switch(node string, to reconfigure.Power) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.advance()
	for _, s := range w.serversOf(node) {
		s.next = to
		w.power(s, time.Now())
	}
}

// delete makes the cloud begin to delete an instance, and stops it at once.
func (w *World) delete(s *server) {
	w.stop(s)
	if s.gone.IsZero() {
		s.gone = after(w.span(Removing, s.node))
	}
}

// remove ends the deletion of an instance.
func (w *World) remove(s *server) {
	w.stop(s)
	w.cloud.servers = slices.DeleteFunc(w.cloud.servers, func(other *server) bool { return other == s })
}

func (w *World) status(s *server) reconfigure.ServerStatus {
	switch {
	case s.failed() && !time.Now().Before(s.active):
		return reconfigure.ServerFailed
	case s.up && w.struck(NotActive, s.node):
		return reconfigure.ServerStopped
	case s.power != "":
		return reconfigure.Spec{Power: s.power}.Status()
	case s.up || !s.gone.IsZero():
		return reconfigure.ServerActive // Nova keeps this status while it deletes an instance
	case s.boots > 0:
		return "REBUILD"
	}
	return reconfigure.ServerBuilding
}

// Resolve resolves the sources that the cluster declares.
func (w *World) Resolve(ctx context.Context, s reconfigure.Source) reconfigure.Resolved {
	w.lock.Lock()
	defer w.lock.Unlock()
	if err := ctx.Err(); err != nil {
		return reconfigure.Resolved{Err: err.Error()}
	}
	declared := s == w.cluster.Control.Source
	for _, g := range w.cluster.Groups {
		declared = declared || slices.Contains(g.Sources(), s)
	}
	if !declared {
		return reconfigure.Resolved{
			Err:   fmt.Sprintf("image %q, flavor %q or network %q: not found", s.Image, s.Flavor, s.Network),
			Class: reconfigure.ClassMissing,
		}
	}
	return reconfigure.Resolved{ImageID: idOf(s.Image), FlavorID: idOf(s.Flavor), NetworkID: idOf(s.Network),
		Placement: s.Placement}
}

// cloudAnswers returns an error if the cloud does not answer.
func (w *World) cloudAnswers(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if w.ordered(CloudSilent) {
		return failure{CloudSilent}
	}
	w.advance()
	return nil
}

// Servers returns only the instances of these nodes; without nodes it returns all. As in Nova's list, those in ERROR
// have no fault.
func (w *World) Servers(ctx context.Context, nodes nodeset.NodeSet) (map[string][]reconfigure.Server, error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if err := w.cloudAnswers(ctx); err != nil {
		return nil, err
	}
	all := map[string][]reconfigure.Server{}
	for _, s := range w.cloud.servers {
		if !nodes.Empty() && !nodes.Contains(s.node) || w.struck(NotListed, s.node) && w.recorded(s) {
			continue
		}
		all[s.node] = append(all[s.node], w.view(s))
	}
	return all, nil
}

// recorded reports whether Terraform's state has the instance. The list always has an instance with an unrecorded id:
// no one could ask for it by its id, and a second instance would be made in any case.
func (w *World) recorded(s *server) bool {
	r := w.terraform.state[s.node]
	return r != nil && r.id == s.id
}

// Server returns an instance by its id.
func (w *World) Server(ctx context.Context, id string) (reconfigure.Server, bool, error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if err := w.cloudAnswers(ctx); err != nil {
		return reconfigure.Server{}, false, err
	}
	s := w.server(id)
	if s == nil {
		return reconfigure.Server{}, false, nil
	}
	return w.view(s), true, nil
}

func (w *World) view(s *server) reconfigure.Server {
	return reconfigure.Server{
		ID: s.id, Node: s.node, Status: w.status(s), Address: s.address, PortID: "port-of-" + s.id,
		ImageID: s.spec.ImageID, FlavorID: s.spec.FlavorID, Group: s.spec.Group, Created: s.created, Host: w.host(s),
		Aside: s.aside,
	}
}

// placing is the time until the cloud names the host of a new instance, if that is not ACTIVE before.
const placing = 5 * time.Second

// NameHosts makes the cloud name the hosts of instances, each of which has its own.
func (w *World) NameHosts() {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.cloud.hosts = true
}

// host returns the host of an instance, if the cloud names hosts; empty until it has found one.
func (w *World) host(s *server) string {
	if !w.cloud.hosts || s.failed() || time.Now().Before(s.active) && time.Since(s.created) < placing {
		return ""
	}
	return "host-of-" + s.id
}

// failed reports whether an instance ends in ERROR.
func (s *server) failed() bool { return s.fault.Words != "" }

// Fault returns the cloud's fault of an instance in ERROR.
func (w *World) Fault(ctx context.Context, id string) (reconfigure.Fault, error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if err := w.cloudAnswers(ctx); err != nil {
		return reconfigure.Fault{}, err
	}
	s := w.server(id)
	if s == nil {
		return reconfigure.Fault{}, fmt.Errorf("there is no instance %q", id)
	}
	if w.status(s) != reconfigure.ServerFailed {
		return reconfigure.Fault{}, nil
	}
	return s.fault, nil
}

// Reboot boots an instance again.
func (w *World) Reboot(ctx context.Context, id string) error {
	w.lock.Lock()
	defer w.lock.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	w.advance()
	s := w.server(id)
	switch {
	case s == nil:
		return fmt.Errorf("there is no instance %q", id)
	case w.struck(RebootFails, s.node):
		return failure{RebootFails}
	}
	w.log("reboot", nodeset.Of(s.node))
	w.ends(s)
	w.start(s, time.Now())
	return nil
}

// Console returns the boots of the instance, and the printed text.
func (w *World) Console(ctx context.Context, id string, lines int) (string, error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if err := w.cloudAnswers(ctx); err != nil {
		return "", err
	}
	s := w.server(id)
	if s == nil {
		return "", fmt.Errorf("there is no instance %q", id)
	}
	all := strings.SplitAfter(strings.TrimSuffix(s.console, "\n"), "\n")
	if lines > 0 {
		all = all[max(0, len(all)-lines):]
	}
	return strings.Join(all, "") + "\n", nil
}

// ends records the end of a boot that Slurm waits for.
func (w *World) ends(s *server) {
	if n := w.slurm.nodes[s.node]; n != nil && n.waits() && n.accepts(s) {
		w.cloud.ended = append(w.cloud.ended, s.node)
	}
}

// Ended returns the nodes whose instance was rebooted or removed although it was booted after Slurm's call, in order.
func (w *World) Ended() []string {
	w.lock.Lock()
	defer w.lock.Unlock()
	return slices.Clone(w.cloud.ended)
}

// RemoveServer deletes an instance without Terraform, even one that Terraform knows.
func (w *World) RemoveServer(ctx context.Context, id, name string, before time.Time) error {
	s, err := w.removal(ctx, id, name, before)
	if s == nil || err != nil {
		return err
	}
	timeout := time.NewTimer(w.spanOf(ProviderTimeout))
	defer timeout.Stop()
	gone := time.NewTimer(time.Until(s.gone))
	defer gone.Stop()
	select {
	case <-gone.C:
		return nil
	case <-timeout.C:
		return fmt.Errorf("instance %s still exists", id)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// removal begins to delete an instance; it returns nil if there is none.
func (w *World) removal(ctx context.Context, id, name string, before time.Time) (*server, error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w.advance()
	s := w.server(id)
	switch {
	case s == nil:
		return nil, nil
	case s.node != name || !s.created.Before(before):
		return nil, fmt.Errorf("instance %s is not removed", id)
	case w.struck(NeverRemoved, s.node):
		return nil, fmt.Errorf("instance %s: %w", id, failure{NeverRemoved})
	}
	w.ends(s)
	what := "delete orphan"
	if r := w.terraform.state[s.node]; r != nil && r.id == id {
		what = "delete"
	}
	w.log(what, nodeset.Of(s.node))
	w.delete(s)
	return s, nil
}

// IDs returns the id of each node's newest instance.
func (w *World) IDs() map[string]string {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.advance()
	all := map[string]string{}
	for _, s := range w.cloud.servers {
		all[s.node] = s.id
	}
	return all
}

// Orphans returns the nodes of the instances that are missing in Terraform's state, once for each instance, sorted.
func (w *World) Orphans() []string {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.advance()
	var nodes []string
	for _, s := range w.cloud.servers {
		if r := w.terraform.state[s.node]; r == nil || r.id != s.id {
			nodes = append(nodes, s.node)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// Doubled returns the nodes that got a second instance, in order.
func (w *World) Doubled() []string {
	w.lock.Lock()
	defer w.lock.Unlock()
	return slices.Clone(w.cloud.doubled)
}

// Print prints on an instance's console.
func (w *World) Print(id, text string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if s := w.server(id); s != nil {
		s.console += text
	}
}

// Boots returns how often an instance was booted.
func (w *World) Boots(id string) int {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.advance()
	if s := w.server(id); s != nil {
		return s.boots
	}
	return 0
}
