package reconfigure

// Use is what instances take of a project's quota.
type Use struct{ Instances, Cores, RAM int } // RAM in MiB

// Plus is both together.
func (u Use) Plus(v Use) Use {
	return Use{u.Instances + v.Instances, u.Cores + v.Cores, u.RAM + v.RAM}
}

// Room is how much of a project's quota there is, and how much of it is taken, by whomever. A negative limit is none, as in Nova's API.
type Room struct {
	Limit, Used Use
	Flavors     map[string]Use // what one instance of a flavor takes, by id
}

// Takes is what one more instance takes. Of a flavor that is not known it is counted as one instance, and nothing else is.
func (r Room) Takes(flavorID string) Use {
	if use, ok := r.Flavors[flavorID]; ok {
		return use
	}
	return Use{Instances: 1}
}
