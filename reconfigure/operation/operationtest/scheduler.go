package operationtest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation"
)

// SchedulerSetup is a scheduler, with a node for the test.
type SchedulerSetup struct {
	Scheduler interface {
		operation.Scheduler
		PowerDownASAP(ctx context.Context, nodes nodeset.NodeSet, reason string) error
	}
	// Node is a cloud node that is powered down or idle, and that no job needs while the test runs.
	Node string
	// Silence stops the scheduler from answering until speak is called. Nil: this setup does not support it.
	Silence func() (speak func())
	// Occupy runs a job on the node until free is called, and waits until it runs.
	Occupy func() (free func())
	// Patience is the time limit for a change to appear, including SuspendTimeout.
	Patience time.Duration
}

// TestScheduler checks the contract of operation.Scheduler. At the end the node is powered down, and usable.
func TestScheduler(t *testing.T, h SchedulerSetup) {
	s := schedulerRule{t, h}
	s.step("every node that Slurm knows has a state", schedulerRule.states)
	s.step("no nodes are no call", schedulerRule.nobody)
	s.step("down carries our mark, and may be repeated", schedulerRule.down)
	s.step("a node that is handed back can be used again", schedulerRule.powerDown)
	s.step("a drain carries our mark, and may be taken back", schedulerRule.drain)
	s.step("a power down waits for the job, and stays when the drain is taken back", schedulerRule.powerDownASAP)
	s.step("a refused node keeps no other from being told", schedulerRule.partly)
	s.step("a context that is done", schedulerRule.done)
	if h.Silence != nil {
		s.step("silence is an error", schedulerRule.silent)
	}
}

type schedulerRule struct {
	*testing.T
	SchedulerSetup
}

func (s schedulerRule) step(name string, rule func(schedulerRule)) {
	s.Run(name, func(t *testing.T) { rule(schedulerRule{t, s.SchedulerSetup}) })
}

// noNode is a name that no node has.
const noNode = "no-such-node0"

func (s schedulerRule) states() {
	states := s.look()
	if _, ok := states[s.Node]; !ok {
		s.Errorf("%s is not among %v", s.Node, states)
	}
	for node, state := range states {
		if state.Node != node || state.Flags == 0 || len(state.Other) > 0 {
			s.Errorf("%s has state %+v", node, state)
		}
	}
}

func (s schedulerRule) nobody() {
	if err := s.Scheduler.Down(s.Context(), nodeset.NodeSet{}, "nobody"); err != nil {
		s.Errorf("down: %v", err)
	}
	if err := s.Scheduler.PowerDown(s.Context(), nodeset.NodeSet{}); err != nil {
		s.Errorf("power down: %v", err)
	}
}

func (s schedulerRule) down() {
	others := s.look()
	delete(others, s.Node)
	for range 2 {
		s.mustDown(nodeset.Of(s.Node))
	}
	s.until("DOWN", func(state reconfigure.NodeState) bool {
		return state.Down() && !state.Ready() && !state.Busy && strings.HasPrefix(state.Reason, reconfigure.ReasonPrefix+" ") &&
			strings.Contains(state.Reason, "conformance")
	})
	now := s.look()
	for node, was := range others {
		if !was.Down() && strings.Contains(now[node].Reason, "conformance") {
			s.Errorf("%s, which nobody named, was set down too: %+v", node, now[node])
		}
	}
}

func (s schedulerRule) powerDown() {
	for range 2 {
		if err := s.Scheduler.PowerDown(s.Context(), nodeset.Of(s.Node)); err != nil {
			s.Fatal(err)
		}
	}
	s.usable()
	if err := s.Scheduler.ClearReason(s.Context(), nodeset.Of(s.Node)); err != nil {
		s.Fatal(err)
	}
	s.until("without a reason", func(state reconfigure.NodeState) bool { return state.Reason == "" })
}

func (s schedulerRule) drain() {
	drained := func(state reconfigure.NodeState) bool {
		return state.Drained() && state.Ours() && state.Reason == reconfigure.ReasonPrefix+" conformance" && !state.Usable()
	}
	for range 2 {
		if err := s.Scheduler.Drain(s.Context(), nodeset.Of(s.Node), "conformance"); err != nil {
			s.Fatal(err)
		}
	}
	s.until("drained", drained)
	for range 2 {
		if err := s.Scheduler.Undrain(s.Context(), nodeset.Of(s.Node)); err != nil {
			s.Fatal(err)
		}
	}
	s.until("undrained and without a reason", func(state reconfigure.NodeState) bool {
		return !state.Drained() && state.Reason == ""
	})
	s.usable()
}

// powerDownASAP ends with a node that was powered down after its job.
func (s schedulerRule) powerDownASAP() {
	free := s.Occupy()
	for range 2 {
		if err := s.Scheduler.PowerDownASAP(s.Context(), nodeset.Of(s.Node), "conformance"); err != nil {
			s.Fatal(err)
		}
	}
	s.until("drained and about to be powered down, with its job", func(state reconfigure.NodeState) bool {
		return state.Drained() && state.Ours() && state.Has(reconfigure.NodePowerDown) && state.Running()
	})
	if err := s.Scheduler.Undrain(s.Context(), nodeset.Of(s.Node)); err != nil {
		s.Fatal(err)
	}
	s.until("about to be powered down, with its job", func(state reconfigure.NodeState) bool {
		return !state.Drained() && state.Has(reconfigure.NodePowerDown) && state.Running()
	})
	free()
	s.usable()
}

// partly calls each method with a node that exists and one that does not.
func (s schedulerRule) partly() {
	both := nodeset.Of(s.Node, noNode)
	if err := s.Scheduler.Down(s.Context(), both, "conformance"); err == nil {
		s.Error("a node that is not there was set down")
	}
	s.until("DOWN", func(state reconfigure.NodeState) bool { return state.Down() })
	if err := s.Scheduler.PowerDown(s.Context(), both); err == nil {
		s.Error("a node that is not there was powered down")
	}
	s.usable()
}

func (s schedulerRule) done() {
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	s.wantErrors(ctx)
	s.usable()
}

func (s schedulerRule) silent() {
	speak := s.Silence()
	s.wantErrors(s.Context())
	speak()
	s.usable()
}

func (s schedulerRule) wantErrors(ctx context.Context) {
	s.Helper()
	if states, err := s.Scheduler.States(ctx, nodeset.NodeSet{}); err == nil {
		s.Errorf("states: %v", states)
	}
	if err := s.Scheduler.Down(ctx, nodeset.Of(s.Node), "conformance"); err == nil {
		s.Error("down: no error")
	}
	if err := s.Scheduler.PowerDown(ctx, nodeset.Of(s.Node)); err == nil {
		s.Error("power down: no error")
	}
}

func (s schedulerRule) mustDown(nodes nodeset.NodeSet) {
	s.Helper()
	if err := s.Scheduler.Down(s.Context(), nodes, "conformance"); err != nil {
		s.Fatal(err)
	}
}

func (s schedulerRule) usable() {
	s.Helper()
	s.until("powered down, and usable", func(state reconfigure.NodeState) bool {
		return state.Has(reconfigure.NodeIdle|reconfigure.NodePoweredDown) &&
			!state.HasAny(reconfigure.NodeDown|reconfigure.NodePoweringDown) && !state.Busy
	})
}

func (s schedulerRule) look() map[string]reconfigure.NodeState {
	s.Helper()
	states, err := s.Scheduler.States(s.Context(), nodeset.NodeSet{})
	if err != nil {
		s.Fatal(err)
	}
	return states
}

// until polls, since Slurm does not report changes.
func (s schedulerRule) until(what string, met func(reconfigure.NodeState) bool) {
	s.Helper()
	for deadline := time.Now().Add(s.Patience); ; time.Sleep(100 * time.Millisecond) {
		state := s.look()[s.Node]
		if met(state) {
			return
		}
		if time.Now().After(deadline) {
			s.Fatalf("%s is not %s within %s, but %+v", s.Node, what, s.Patience, state)
		}
	}
}
