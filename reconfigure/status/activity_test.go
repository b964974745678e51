package status

import (
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// event is an event of a plan, some minutes after noon.
func event(
	minute int,
	plan int64,
	node string,
	phase reconfigure.Phase,
	level reconfigure.Level,
	message ...string,
) reconfigure.Event {
	e := reconfigure.Event{
		ID:    int64(minute),
		Time:  utcNoon.Add(time.Duration(minute) * time.Minute),
		Plan:  plan,
		Node:  node,
		Phase: phase,
		Level: level,
	}
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
	deferred := func(mode reconfigure.Mode, d ...reconfigure.Deferral) reconfigure.Request {
		r := update
		r.Mode, r.Deferred = mode, d
		return r
	}
	jobs := func(node string) reconfigure.Deferral {
		return reconfigure.Deferral{
			Node:    node,
			Request: 1,
			Kind:    reconfigure.WaitsForJobs,
			Reason:  "its jobs have to end first",
		}
	}
	held := deferred(reconfigure.Update, jobs("a"))
	unplanned := deferred(
		reconfigure.Update,
		reconfigure.Deferral{Request: 1, Kind: reconfigure.CannotPlan, Reason: "no cloud"},
	)
	unknown := deferred(
		reconfigure.Suspend,
		reconfigure.Deferral{Node: "a", Request: 1, Kind: reconfigure.SlurmUnreachable},
	)
	mixed := deferred(
		reconfigure.Update,
		jobs("b"),
		reconfigure.Deferral{Node: "a", Request: 1, Kind: reconfigure.CloudUnreachable},
	)
	settled := deferred(reconfigure.Update, jobs("b"))
	settled.Verdicts = []reconfigure.Verdict{{Node: "a", Status: reconfigure.StatusDone}}
	deploy := reconfigure.Request{ID: 1, Mode: reconfigure.Deploy, Submitted: submitted}
	type requests = []Request
	for name, tc := range map[string]struct {
		past  Journal
		state State  // of the first request
		want  string // the change of node a
	}{
		"an operation of it is tried again": {
			Journal{
				Leader: leader,
				Pending: requests{
					NewRequest(update, []reconfigure.Event{
						event(1, 1, "a", boot, begun), event(2, 1, "a", boot, failed, "deaf"), event(3, 1, "a", apply, begun),
					}),
				},
			},
			AtWork, "apply 17m00s",
		},
		"an operation of an earlier plan goes on": {
			Journal{Leader: leader, Pending: requests{NewRequest(held, []reconfigure.Event{
				event(1, 1, "a", drain, begun), event(2, 1, "a", drain, done), event(9, 2, "a", apply, begun),
				event(10, 3, "b", apply, begun),
			})}}, AtWork, "apply 11m00s",
		},
		"nothing has begun": {
			Journal{Leader: leader, Pending: requests{NewRequest(update, nil)}}, Waits, "update waits 1h20m",
		},
		"a phase has begun": {
			Journal{
				Leader: leader,
				Pending: requests{
					NewRequest(update, []reconfigure.Event{
						event(1, 1, "a", apply, begun), event(3, 1, "a", apply, done), event(5, 1, "a", boot, begun),
					}),
				},
			},
			AtWork, "boot 15m00s",
		},
		"its steps do not count as beginnings": {
			Journal{
				Leader: leader,
				Pending: requests{
					NewRequest(update, []reconfigure.Event{
						event(1, 1, "a", apply, begun), event(3, 1, "a", apply, note, "10 s so far"),
					}),
				},
			},
			AtWork, "apply 19m00s",
		},
		"other nodes fail": {
			Journal{
				Leader: leader,
				Pending: requests{
					NewRequest(update, []reconfigure.Event{
						event(1, 1, "a", apply, begun), event(1, 1, "b", apply, begun), event(2, 1, "b", apply, failed, "no"),
					}),
				},
			},
			AtWork, "apply 19m00s",
		},
		"it has failed, and its batch goes on": {
			Journal{
				Leader: leader,
				Pending: requests{
					NewRequest(update, []reconfigure.Event{
						event(1, 1, "a", apply, begun), event(1, 1, "b", apply, begun), event(2, 1, "a", apply, failed, "no"),
					}),
				},
			},
			AtWork, "",
		},
		"its batch does nothing to it": {
			Journal{Leader: leader, Pending: requests{NewRequest(update, []reconfigure.Event{event(1, 1, "b", apply, begun)})}},
			AtWork, "",
		},
		"a note for a node that is not on its way": {
			Journal{
				Leader: leader,
				Pending: requests{
					NewRequest(update, []reconfigure.Event{
						event(1, 1, "b", apply, begun), event(2, 1, "a", apply, note, "not reached"),
					}),
				},
			},
			AtWork, "",
		},
		"the whole cluster is at work": {
			Journal{
				Leader: leader,
				Pending: requests{
					NewRequest(deploy, []reconfigure.Event{
						event(0, 1, "", apply, note, "Terraform plans"), event(10, 1, "a", apply, begun),
					}),
				},
			},
			AtWork, "apply 10m00s",
		},
		"the whole cluster waits, which names no node": {
			Journal{Leader: leader, Pending: requests{NewRequest(deploy, nil)}}, Waits, "",
		},
		"the worker has died": {
			Journal{Pending: requests{NewRequest(update, []reconfigure.Event{event(1, 1, "a", boot, begun)})}}, Interrupted,
			"interrupted at boot 19m00s",
		},
		"the worker has died, and another one does something else first": {
			Journal{
				Leader: leader, Since: utcNoon.Add(2 * time.Minute),
				Pending: requests{NewRequest(update, []reconfigure.Event{event(1, 1, "a", boot, begun)})},
				Last:    map[string]reconfigure.Event{"c": event(2, 2, "c", apply, begun)},
			}, Waits, "update waits 1h20m",
		},
		"another batch has begun meanwhile": {
			Journal{
				Leader: leader, Since: utcNoon,
				Pending: requests{NewRequest(update, []reconfigure.Event{event(1, 1, "a", boot, begun)})},
				Last:    map[string]reconfigure.Event{"c": event(2, 2, "c", apply, begun)},
			}, AtWork, "boot 19m00s",
		},
		"jobs must end": {
			Journal{Pending: requests{
				NewRequest(held, []reconfigure.Event{event(1, 1, "a", drain, begun), event(2, 1, "a", drain, done)}),
			}},
			WaitsForJobs, "waits for jobs 19m00s",
		},
		"jobs must end, somebody else had drained it": {
			Journal{Pending: requests{NewRequest(held, nil)}}, WaitsForJobs, "waits for jobs 1h20m",
		},
		"jobs must end while a worker does something else": {
			Journal{
				Leader: leader,
				Pending: requests{
					NewRequest(held, []reconfigure.Event{event(1, 1, "a", drain, begun), event(2, 1, "a", drain, done)}),
				},
				Last: map[string]reconfigure.Event{"c": event(2, 2, "c", apply, begun)},
			}, WaitsForJobs, "waits for jobs 19m00s",
		},
		"jobs have ended on another node": {
			Journal{
				Leader: leader,
				Pending: requests{
					NewRequest(held, []reconfigure.Event{
						event(1, 1, "a", drain, begun), event(2, 1, "a", drain, done), event(9, 2, "b", apply, begun),
					}),
				},
			},
			AtWork, "waits for jobs 19m00s",
		},
		"a note from the batch for another node": {
			Journal{Leader: leader, Pending: requests{NewRequest(held, []reconfigure.Event{
				event(1, 1, "a", drain, begun), event(2, 1, "a", drain, done), event(9, 2, "b", apply, begun),
				event(10, 2, "a", apply, note, "not reached"),
			})}}, AtWork, "waits for jobs 19m00s",
		},
		"jobs have ended": {
			Journal{
				Leader: leader,
				Pending: requests{
					NewRequest(held, []reconfigure.Event{
						event(1, 1, "a", drain, begun), event(2, 1, "a", drain, done), event(9, 2, "a", apply, begun),
					}),
				},
			},
			AtWork, "apply 11m00s",
		},
		"it cannot be planned": {
			Journal{Pending: requests{NewRequest(unplanned, nil)}}, CannotBePlanned, "update cannot be planned 1h20m",
		},
		"it is unknown whether it has jobs": {
			Journal{Pending: requests{NewRequest(unknown, nil)}}, WaitsForSlurm, "suspend waits for Slurm 1h20m",
		},
		"the cloud does not answer for it, and another node has jobs": {
			Journal{Pending: requests{NewRequest(mixed, nil)}}, WaitsForCloud, "update waits for the cloud 1h20m",
		},
		"it cannot be planned again, after it was drained": {
			Journal{Pending: requests{
				NewRequest(unplanned, []reconfigure.Event{event(1, 1, "a", drain, begun), event(2, 1, "a", drain, done)}),
			}},
			CannotBePlanned, "update cannot be planned 19m00s",
		},
		"it has its verdict, the others wait for jobs": {
			Journal{Pending: requests{
				NewRequest(settled, []reconfigure.Event{event(1, 1, "a", apply, begun), event(2, 1, "a", apply, done)}),
			}},
			WaitsForJobs, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			pending := tc.past.Requests()
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
	one := func(id reconfigure.RequestID, state State) Request {
		p := NewRequest(reconfigure.Request{ID: id, Nodes: nodeset.Of("a")}, nil)
		if state.Deferred() {
			p.Deferred = []reconfigure.Deferral{{Node: "a", Kind: reconfigure.DeferralKind(state)}}
		}
		p.State = state
		if state == AtWork {
			p.at["a"] = place{stop: stop{phase: reconfigure.PhaseBoot, level: reconfigure.Begun}}
		}
		return p
	}
	for name, tc := range map[string]struct {
		requests []Request
		want     reconfigure.RequestID
	}{
		"the older of two":           {[]Request{one(1, Waits), one(2, Waits)}, 1},
		"the one at work":            {[]Request{one(1, Waits), one(2, WaitsForJobs), one(3, AtWork)}, 3},
		"deferred rather than waits": {[]Request{one(1, WaitsForJobs), one(2, Waits)}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := activities(tc.requests)["a"].Request; got != tc.want {
				t.Errorf("request %s, not %s", got, tc.want)
			}
		})
	}
}

func TestStoryHasTheReasonOrTheStep(t *testing.T) {
	for want, a := range map[string]Activity{
		"boot 1m00s (resume, request 7): 10 s so far": {
			State: AtWork, Phase: reconfigure.PhaseBoot, Step: "10 s\nso far",
		},
		"resume cannot be planned 1m00s (resume, request 7): the cloud does not answer": {
			State: CannotBePlanned, Reason: "the cloud does not answer",
		},
		"resume waits 1m00s (resume, request 7)": {State: Waits},
	} {
		a.Mode, a.Request, a.Since = reconfigure.Resume, 7, utcNoon
		if got := a.details(utcNoon.Add(time.Minute)); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
