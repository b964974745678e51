package provision

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// adoptKnown adds servers to Terraform's state that the cloud has as requested, and that are tainted or missing in the
// state, or have another image there: a killed worker or Terraform, or an interrupted run, left them. It returns the
// remaining calls.
func (t *run) adoptKnown(ctx context.Context, calls []*call) []*call {
	servers := map[string]reconfigure.Server{}
	plan := reconfigure.Plan{Desired: maps.Clone(t.state.Desired)}
	var rest, adopting []*call
	taken := map[*call]bool{} // whose instance was already made for the request
	for _, c := range calls {
		s, ok := t.finished(c.In)
		if taken[c] = ok; !ok {
			s, ok = t.adopted(c.In)
		}
		if ok && t.written(s) {
			said := "Terraform's state has instance " + s.ID + " as finished by now"
			if taken[c] {
				said = "instance " + s.ID + " was made for the request already"
			}
			c.In.tell(Begun{Changes: taken[c]})
			c.In.note(said)
			c.Finish(Result{Instance: instanceOf(s, c.In.change().Spec), Taken: taken[c]}, nil)
			continue
		}
		if !ok {
			s, ok = t.adoptable(c.In)
			taken[c] = ok && !c.In.takes()
		}
		if ok {
			servers[c.In.node()] = s
			plan.Changes = append(plan.Changes, c.In.change())
			if entry := c.In.target().Entry; entry != nil {
				plan.Desired[c.In.node()] = *entry
			}
			adopting = append(adopting, c)
		} else if c.In.takes() && t.unseen != nil {
			c.Finish(Result{}, fmt.Errorf("it is unknown whether the cloud has its instance: %w", t.unseen))
		} else if c.In.takes() {
			c.Finish(Result{}, errors.New(
				"the cloud has no instance of it that is as Terraform was told: what is wrong with it must be fixed by hand",
			))
		} else {
			rest = append(rest, c)
		}
	}
	if len(servers) == 0 {
		return rest
	}
	adopted, failures, err := t.terraform.Adopt(ctx, plan, servers)
	for _, c := range adopting {
		node := c.In.node()
		switch {
		case adopted.Contains(node):
			c.In.tell(Begun{Changes: c.In.change().Action != reconfigure.Adopt})
			c.In.note("Terraform's state has taken instance " + servers[node].ID + " for the finished one")
			c.Finish(Result{Instance: instanceOf(servers[node], c.In.change().Spec), Taken: taken[c]}, nil)
		case c.In.takes():
			c.Finish(Result{}, notAdopted(failures[node], err))
		default:
			c.In.note(notAdopted(failures[node], err).Error())
			rest = append(rest, c)
		}
	}
	return rest
}

func notAdopted(failure, err error) error {
	if failure == nil {
		failure = err
	}
	if failure == nil {
		failure = errors.New("unknown why")
	}
	return errors.Join(errors.New("its instance could not be imported into the state"), failure)
}

// finished returns the finished instance that Terraform has made in place of another one since the request: a worker
// that has died requested it, and may not have configured it.
func (t *run) finished(p request) (reconfigure.Server, bool) {
	if _, makes := p.Order.(Make); !makes || p.change().Action != reconfigure.Replace || t.unseen != nil {
		return reconfigure.Server{}, false
	}
	node, spec := p.node(), p.change().Spec
	s, ok := t.whole(node, spec)
	return s, ok && t.state.Desired[node] == spec && s.Address != "" && s.Created.After(p.change().Since)
}

// whole returns the only server of a node, if Terraform's state has it as finished and it is made from the requested
// source.
func (t *run) whole(node string, spec reconfigure.Spec) (reconfigure.Server, bool) {
	known, servers := t.state.Instances[node], t.servers[node]
	if known.ID == "" || known.Tainted || len(servers) != 1 {
		return reconfigure.Server{}, false
	}
	s := servers[0]
	return s, s.ID == known.ID && asAsked(s, spec)
}

// written reports whether Terraform's state has the image and the flavor of a finished server. The state has the old
// ones if Terraform was killed after the cloud had rebuilt the server.
func (t *run) written(s reconfigure.Server) bool {
	is := t.state.Instances[s.Node].Made
	same := func(is, has string) bool { return is == "" || has == "" || is == has }
	return same(is.ImageID, s.ImageID) && same(is.FlavorID, s.FlavorID)
}

// adopted returns the instance of a call that only adopts, if Terraform's state has it as finished: a run in progress
// when the plan was made has finished it since.
func (t *run) adopted(p request) (reconfigure.Server, bool) {
	if take, ok := p.Order.(Take); !ok || take.Server.ID != "" {
		return reconfigure.Server{}, false
	}
	node := p.node()
	return t.whole(node, t.state.Desired[node].Running())
}

// adoptable returns a server that matches a call. For a node that is being made, the server must have been created
// since the request: Slurm waits for a newer boot.
func (t *run) adoptable(p request) (reconfigure.Server, bool) {
	switch order := p.Order.(type) {
	case Shared, Remove:
		return reconfigure.Server{}, false
	case Take:
		if order.Server.ID != "" {
			return order.Server, true
		}
	}
	change := p.change()
	known, there := t.state.Instances[change.Node]
	if there && !known.Tainted || len(t.servers[change.Node]) != 1 {
		return reconfigure.Server{}, false // it is finished already, or it is unknown which of several is meant
	}
	s := t.servers[change.Node][0]
	spec := change.Spec
	if change.Action == reconfigure.Adopt {
		spec = t.state.Desired[change.Node].Running()
	}
	switch change.Action {
	case reconfigure.Adopt:
		return s, asAsked(s, spec)
	case reconfigure.Create, reconfigure.Replace:
		return s, asAsked(s, spec) && s.Address != "" && s.Created.After(change.Since)
	}
	return reconfigure.Server{}, false
}

// adoptAll adds to Terraform's state the servers of an interrupted run that the cloud has as requested.
func (t *run) adoptAll(
	ctx context.Context, plan reconfigure.Plan, servers map[string]reconfigure.Server, cut []*delivery,
) {
	var (
		adopted  nodeset.NodeSet
		failures reconfigure.Failures
	)
	err := t.updating(ctx, func() error {
		state, err := t.terraform.State(ctx)
		if err != nil { // the map of nodes is unknown, and Adopt would write an empty one
			return err
		}
		plan.Desired = state.Desired
		adopted, failures, err = t.terraform.Adopt(ctx, plan, servers)
		return err
	})
	for _, d := range cut {
		node := d.call.In.node()
		if _, asked := servers[node]; !asked {
			continue
		}
		if adopted.Contains(node) {
			d.settled <- nil
			continue
		}
		d.settled <- notAdopted(failures[node], err)
	}
}

func trimmed(fault string) string { return strings.TrimSuffix(strings.TrimSpace(fault), ".") }
