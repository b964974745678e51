package status

import (
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// event is an event of a batch, some minutes after noon.
func event(minute int, batch int64, node string, phase reconfigure.Phase, level reconfigure.Level, message ...string) reconfigure.Event {
	e := reconfigure.Event{ID: int64(minute), Time: utcNoon.Add(time.Duration(minute) * time.Minute), Batch: batch, Node: node, Phase: phase, Level: level}
	for _, m := range message {
		e.Message = m
	}
	return e
}

func TestWhatIsDoneWithANode(t *testing.T) {
	const (
		apply, boot, drain        = reconfigure.PhaseApply, reconfigure.PhaseBoot, reconfigure.PhaseDrain
		begun, done, failed, note = reconfigure.Begun, reconfigure.Done, reconfigure.Failed, reconfigure.Note
		leader                    = "process 4711"
		ago                       = -time.Hour
	)
	submitted := utcNoon.Add(ago)
	update := reconfigure.Request{ID: 1, Mode: reconfigure.Update, Nodes: nodeset.Of("a", "b"), Submitted: submitted}
	held, settled := update, update
	held.Held, settled.Held = true, true
	held.Deferred = []reconfigure.Deferral{{Node: "a", Request: 1, Reason: "its jobs have to end first"}}
	putOff := held
	putOff.Deferred = []reconfigure.Deferral{{Request: 1, Reason: "the cloud does not answer"}}
	veiled := held
	veiled.Mode, veiled.Deferred = reconfigure.Suspend, []reconfigure.Deferral{{Node: "a", Request: 1, Reason: "Slurm does not answer", Veiled: true}}
	settled.Verdicts = []reconfigure.Verdict{{Node: "a", Status: reconfigure.StatusDone}}
	deploy := reconfigure.Request{ID: 1, Mode: reconfigure.Deploy, Submitted: submitted}
	type requests = []pendingRequest
	again := reconfigure.Request{ID: 1, Mode: reconfigure.Resume, Nodes: nodeset.Of("a", "b"), Submitted: submitted, Held: true}
	again.Deferred = []reconfigure.Deferral{{Node: "a", Request: 1, Reason: "tried once more on a fresh instance: no-ssh: deaf", Tries: 1}}
	for name, tc := range map[string]struct {
		past  past
		state standing // of the first request
		want  string   // what is done with node a
	}{
		"it is to be tried once more": {
			past{pending: requests{newPendingRequest(again, []reconfigure.Event{event(1, 1, "a", boot, begun), event(2, 1, "a", boot, failed, "deaf")})}}, standsAgain, "resume again 1h20m",
		},
		"nothing has begun": {
			past{leader: leader, pending: requests{newPendingRequest(update, nil)}}, standsWaiting, "update waits 1h20m",
		},
		"a phase has begun": {
			past{leader: leader, pending: requests{newPendingRequest(update, []reconfigure.Event{event(1, 1, "a", apply, begun), event(3, 1, "a", apply, done), event(5, 1, "a", boot, begun)})}},
			standsAtWork, "boot 15m00s",
		},
		"its steps do not count as beginnings": {
			past{leader: leader, pending: requests{newPendingRequest(update, []reconfigure.Event{event(1, 1, "a", apply, begun), event(3, 1, "a", apply, note, "10 s so far")})}},
			standsAtWork, "apply 19m00s",
		},
		"other nodes fail": {
			past{leader: leader, pending: requests{newPendingRequest(update, []reconfigure.Event{event(1, 1, "a", apply, begun), event(1, 1, "b", apply, begun), event(2, 1, "b", apply, failed, "no")})}},
			standsAtWork, "apply 19m00s",
		},
		"it has failed, and its batch goes on": {
			past{leader: leader, pending: requests{newPendingRequest(update, []reconfigure.Event{event(1, 1, "a", apply, begun), event(1, 1, "b", apply, begun), event(2, 1, "a", apply, failed, "no")})}},
			standsAtWork, "",
		},
		"its batch does nothing to it": {
			past{leader: leader, pending: requests{newPendingRequest(update, []reconfigure.Event{event(1, 1, "b", apply, begun)})}}, standsAtWork, "",
		},
		"a note for a node that is not on its way": {
			past{leader: leader, pending: requests{newPendingRequest(update, []reconfigure.Event{event(1, 1, "b", apply, begun), event(2, 1, "a", apply, note, "not reached")})}}, standsAtWork, "",
		},
		"the whole cluster is at work": {
			past{leader: leader, pending: requests{newPendingRequest(deploy, []reconfigure.Event{event(0, 1, "", apply, note, "Terraform plans"), event(10, 1, "a", apply, begun)})}},
			standsAtWork, "apply 10m00s",
		},
		"the whole cluster waits, which names no node": {
			past{leader: leader, pending: requests{newPendingRequest(deploy, nil)}}, standsWaiting, "",
		},
		"the worker has died": {
			past{pending: requests{newPendingRequest(update, []reconfigure.Event{event(1, 1, "a", boot, begun)})}}, standsCutShort, "cut short at boot 19m00s",
		},
		"the worker has died, and another one does something else first": {
			past{
				leader: leader, since: utcNoon.Add(2 * time.Minute),
				pending: requests{newPendingRequest(update, []reconfigure.Event{event(1, 1, "a", boot, begun)})},
				last:    map[string]reconfigure.Event{"c": event(2, 2, "c", apply, begun)},
			}, standsWaiting, "update waits 1h20m",
		},
		"another batch has begun meanwhile": {
			past{
				leader: leader, since: utcNoon,
				pending: requests{newPendingRequest(update, []reconfigure.Event{event(1, 1, "a", boot, begun)})},
				last:    map[string]reconfigure.Event{"c": event(2, 2, "c", apply, begun)},
			}, standsAtWork, "boot 19m00s",
		},
		"jobs must end": {
			past{pending: requests{newPendingRequest(held, []reconfigure.Event{event(1, 1, "a", drain, begun), event(2, 1, "a", drain, done)})}}, standsHeld, "waits for jobs 19m00s",
		},
		"jobs must end, somebody else had drained it": {
			past{pending: requests{newPendingRequest(held, nil)}}, standsHeld, "waits for jobs 1h20m",
		},
		"jobs must end while a worker does something else": {
			past{
				leader:  leader,
				pending: requests{newPendingRequest(held, []reconfigure.Event{event(1, 1, "a", drain, begun), event(2, 1, "a", drain, done)})},
				last:    map[string]reconfigure.Event{"c": event(2, 2, "c", apply, begun)},
			}, standsHeld, "waits for jobs 19m00s",
		},
		"jobs have ended on another node": {
			past{leader: leader, pending: requests{newPendingRequest(held, []reconfigure.Event{event(1, 1, "a", drain, begun), event(2, 1, "a", drain, done), event(9, 2, "b", apply, begun)})}},
			standsAtWork, "waits for jobs 19m00s",
		},
		"a note from the batch for another node": {
			past{leader: leader, pending: requests{newPendingRequest(held, []reconfigure.Event{
				event(1, 1, "a", drain, begun), event(2, 1, "a", drain, done), event(9, 2, "b", apply, begun), event(10, 2, "a", apply, note, "not reached"),
			})}}, standsAtWork, "waits for jobs 19m00s",
		},
		"jobs have ended": {
			past{leader: leader, pending: requests{newPendingRequest(held, []reconfigure.Event{event(1, 1, "a", drain, begun), event(2, 1, "a", drain, done), event(9, 2, "a", apply, begun)})}},
			standsAtWork, "apply 11m00s",
		},
		"it cannot be planned": {
			past{pending: requests{newPendingRequest(putOff, nil)}}, standsPutOff, "update put off 1h20m",
		},
		"nobody can tell whether it has jobs": {
			past{pending: requests{newPendingRequest(veiled, nil)}}, standsPutOff, "suspend put off 1h20m",
		},
		"it cannot be planned again, after it was drained": {
			past{pending: requests{newPendingRequest(putOff, []reconfigure.Event{event(1, 1, "a", drain, begun), event(2, 1, "a", drain, done)})}}, standsPutOff, "update put off 19m00s",
		},
		"it has its verdict, the others wait for jobs": {
			past{pending: requests{newPendingRequest(settled, []reconfigure.Event{event(1, 1, "a", apply, begun), event(2, 1, "a", apply, done)})}}, standsHeld, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			pending := tc.past.standings()
			if pending[0].State != tc.state {
				t.Errorf("the request %s, not %s", pending[0].State, tc.state)
			}
			got := ""
			if a, ok := activities(pending)["a"]; ok {
				got = a.words(utcNoon.Add(20 * time.Minute))
			}
			if got != tc.want {
				t.Errorf("node a: %q, not %q", got, tc.want)
			}
		})
	}
}

func TestTheRequestNearestToItsEndCounts(t *testing.T) {
	one := func(id reconfigure.RequestID, state standing) pendingRequest {
		p := newPendingRequest(reconfigure.Request{ID: id, Nodes: nodeset.Of("a")}, nil)
		p.State = state
		if state == standsAtWork {
			p.at["a"] = place{stop: stop{phase: reconfigure.PhaseBoot, level: reconfigure.Begun}}
		}
		return p
	}
	for name, tc := range map[string]struct {
		requests []pendingRequest
		want     reconfigure.RequestID
	}{
		"the older of two":       {[]pendingRequest{one(1, standsWaiting), one(2, standsWaiting)}, 1},
		"the one at work":        {[]pendingRequest{one(1, standsWaiting), one(2, standsHeld), one(3, standsAtWork)}, 3},
		"held rather than waits": {[]pendingRequest{one(1, standsHeld), one(2, standsWaiting)}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := activities(tc.requests)["a"].Request; got != tc.want {
				t.Errorf("request %s, not %s", got, tc.want)
			}
		})
	}
}

func TestStoryHasTheReasonOrTheStep(t *testing.T) {
	for want, a := range map[string]activity{
		"boot 1m00s (resume, request 7): 10 s so far":                         {State: standsAtWork, Phase: reconfigure.PhaseBoot, Step: "10 s\nso far"},
		"resume put off 1m00s (resume, request 7): the cloud does not answer": {State: standsPutOff, Reason: "the cloud does not answer"},
		"resume waits 1m00s (resume, request 7)":                              {State: standsWaiting},
	} {
		a.Mode, a.Request, a.Since = reconfigure.Resume, 7, utcNoon
		if got := a.story(utcNoon.Add(time.Minute)); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
