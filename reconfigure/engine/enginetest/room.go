package enginetest

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine"
)

// each is what every instance of a World takes.
func each() reconfigure.Use { return reconfigure.Use{Instances: 1, Cores: 2, RAM: 1024} }

// Limit bounds what the project may use from now on; what there is more stays.
func (w *World) Limit(u reconfigure.Use) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.limit = u
}

// Room is what the limits leave.
func (w *World) Room(ctx context.Context) (reconfigure.Room, error) {
	defer w.happened(AfterRoom)
	w.lock.Lock()
	defer w.lock.Unlock()
	if err := ctx.Err(); err != nil {
		return reconfigure.Room{}, err
	}
	if w.ordered(CloudSilent) || w.ordered(LimitsHidden) {
		return reconfigure.Room{}, failure{LimitsHidden}
	}
	room := reconfigure.Room{Limit: w.limit, Used: w.used(), Flavors: map[string]reconfigure.Use{id(w.cluster.Control.Flavor): each()}}
	for _, g := range w.cluster.Groups {
		room.Flavors[id(g.Flavor)] = each()
	}
	return room, nil
}

func (w *World) used() reconfigure.Use {
	var used reconfigure.Use
	for _, m := range w.machines {
		if m.real() {
			used = used.Plus(each())
		}
	}
	for range w.orphans {
		used = used.Plus(each())
	}
	return used
}

// full tells whether the instances that there are exceed the limits: the last one cannot be.
func (w *World) full() bool {
	over := func(limit, used int) bool { return limit >= 0 && used > limit }
	used := w.used()
	return over(w.limit.Instances, used.Instances) || over(w.limit.Cores, used.Cores) || over(w.limit.RAM, used.RAM)
}

// SurveyorHarness is a cloud without instances, and what a test can do to it from outside.
type SurveyorHarness struct {
	Surveyor engine.Surveyor
	// Make makes an instance of a flavor of this id, which takes so much; it may belong to anybody.
	Make   func(node string)
	Flavor string
	Takes  reconfigure.Use
	// Limit bounds what the project may use. Negative is without limit.
	Limit func(reconfigure.Use)
}

// Surveyor holds an implementation to the contract of engine.Surveyor.
func Surveyor(t *testing.T, h SurveyorHarness) {
	want := func(limit, used reconfigure.Use) {
		t.Helper()
		room, err := h.Surveyor.Room(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]reconfigure.Use{limit, used, h.Takes}, []reconfigure.Use{room.Limit, room.Used, room.Takes(h.Flavor)}); diff != "" {
			t.Errorf("limit, use and flavor (-want +got):\n%s", diff)
		}
	}
	none := reconfigure.Use{Instances: -1, Cores: -1, RAM: -1}
	want(none, reconfigure.Use{})
	h.Make("node1")
	some := reconfigure.Use{Instances: 12, Cores: -1, RAM: 98304}
	h.Limit(some)
	h.Make("node2")
	want(some, h.Takes.Plus(h.Takes))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if room, err := h.Surveyor.Room(ctx); err == nil {
		t.Errorf("the context is done, and there is %+v", room)
	}
}
