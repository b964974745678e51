package reconfigure

// Use is the amount of a project's quota that instances use. RAM is in MiB.
type Use struct{ Instances, Cores, RAM int }

// Plus returns the sum.
func (u Use) Plus(v Use) Use {
	return Use{u.Instances + v.Instances, u.Cores + v.Cores, u.RAM + v.RAM}
}

// Room is a project's quota, and how much of it is used by all instances of the project. A negative limit means no
// limit.
type Room struct {
	Limit, Used Use
	Flavors     map[string]Use // use of one instance, by the id of its flavor
	// Shards has the room of each shard if it is separate, for example for a host; nil: all shards share the room.
	Shards map[string]Room
}

// In returns the room for the instances of a shard.
func (r Room) In(shard string) Room {
	if own, apart := r.Shards[shard]; apart {
		return own
	}
	return r
}

// Takes returns the use of one more instance. For an unknown flavor it counts the instance, but no cores and no RAM.
func (r Room) Takes(flavorID string) Use {
	if use, ok := r.Flavors[flavorID]; ok {
		return use
	}
	return Use{Instances: 1}
}
