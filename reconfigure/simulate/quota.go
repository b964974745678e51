package simulate

import (
	"context"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// each is the size of every instance of a World.
func each() reconfigure.Use { return reconfigure.Use{Instances: 1, Cores: 2, RAM: 1024} }

// Limit sets the quota of the project. Instances beyond it stay.
func (w *World) Limit(u reconfigure.Use) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.cloud.limit = u
}

// Room returns the quota and its use.
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
	w.advance()
	room := reconfigure.Room{
		Limit: w.cloud.limit, Used: w.used(), Flavors: map[string]reconfigure.Use{idOf(w.cluster.Control.Flavor): each()},
	}
	for _, g := range w.cluster.Groups {
		room.Flavors[idOf(g.Flavor)] = each()
	}
	return room, nil
}

func (w *World) used() reconfigure.Use {
	var used reconfigure.Use
	for range w.cloud.servers {
		used = used.Plus(each())
	}
	return used
}

// full reports whether another instance would exceed the limits.
func (w *World) full() bool {
	over := func(limit, used int) bool { return limit >= 0 && used > limit }
	limit, used := w.cloud.limit, w.used().Plus(each())
	return over(limit.Instances, used.Instances) || over(limit.Cores, used.Cores) || over(limit.RAM, used.RAM)
}
