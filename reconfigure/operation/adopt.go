package operation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// adoptKnown adds servers to Terraform's state that the cloud has as asked, and that are tainted in the state, missing
// there, or there with another image: a worker or a Terraform that was killed has left them, or a run was interrupted. It
// returns the calls that are left.
func (t *attempt) adoptKnown(ctx context.Context, calls []*provisionCall) []*provisionCall {
	servers := map[string]reconfigure.Server{}
	plan := reconfigure.Plan{Desired: maps.Clone(t.state.Desired)}
	var rest, adopting []*provisionCall
	taken := map[*provisionCall]bool{} // whose instance was made for the request before
	for _, c := range calls {
		s, ok := t.finished(c.In)
		if taken[c] = ok; !ok {
			s, ok = t.adopted(c.In)
		}
		if ok && t.written(s) {
			said := "Terraform's state has instance " + s.ID + " as finished by now"
			if taken[c] {
				said = "instance " + s.ID + " was made for the request already"
				c.In.op.touched.Store(true)
			}
			t.note(c.In.op, said)
			c.In.op.waiting.Store(false)
			c.Finish(made{instance: instanceOf(s, c.In.change().Spec), taken: taken[c]}, nil)
			continue
		}
		if !ok {
			s, ok = t.adoptable(c.In)
		}
		if ok {
			servers[c.In.op.change.Node] = s
			plan.Changes = append(plan.Changes, c.In.change())
			if spec, makes := c.In.entry(); makes {
				plan.Desired[c.In.op.change.Node] = spec
			}
			adopting = append(adopting, c)
		} else if c.In.adopts() && t.unseen != nil {
			c.Finish(made{}, fmt.Errorf("it is unknown whether the cloud has its instance: %w", t.unseen))
		} else if c.In.adopts() {
			c.Finish(made{}, errors.New(
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
		node := c.In.op.change.Node
		switch {
		case adopted.Contains(node):
			c.In.op.waiting.Store(false)
			c.In.op.touched.Store(c.In.op.change.Action != reconfigure.Adopt)
			t.note(c.In.op, "Terraform's state has taken instance "+servers[node].ID+" for the finished one")
			c.Finish(made{instance: instanceOf(servers[node], c.In.change().Spec), taken: taken[c]}, nil)
		case c.In.adopts():
			c.Finish(made{}, notAdopted(failures[node], err))
		default:
			t.note(c.In.op, notAdopted(failures[node], err).Error())
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

// finished returns the finished instance that Terraform has made in the place of another one since the request: a
// worker that has died asked for it, and may not have configured it.
func (t *attempt) finished(p provision) (reconfigure.Server, bool) {
	if p.op == nil || p.remove || p.server != nil || p.change().Action != reconfigure.Replace || t.unseen != nil {
		return reconfigure.Server{}, false
	}
	node, spec := p.op.change.Node, p.change().Spec
	s, ok := t.whole(node, spec)
	return s, ok && t.state.Desired[node] == spec && s.Address != "" && s.Created.After(p.op.change.Since)
}

// whole returns the only server of a node, if Terraform's state has it as finished, and it is made of what was asked
// for.
func (t *attempt) whole(node string, spec reconfigure.Spec) (reconfigure.Server, bool) {
	known, servers := t.state.Instances[node], t.servers[node]
	if known.ID == "" || known.Tainted || len(servers) != 1 {
		return reconfigure.Server{}, false
	}
	s := servers[0]
	return s, s.ID == known.ID && asAsked(s, spec)
}

// written reports whether Terraform's state has the image and the flavor of a server that it has as finished. It has
// those of before where Terraform was killed after the cloud had rebuilt the server.
func (t *attempt) written(s reconfigure.Server) bool {
	is := t.state.Instances[s.Node].Made
	same := func(is, has string) bool { return is == "" || has == "" || is == has }
	return same(is.ImageID, s.ImageID) && same(is.FlavorID, s.FlavorID)
}

// adopted returns the instance of a call that only adopts, if Terraform's state has it as finished: a run that was
// under way when the plan was made has finished it since.
func (t *attempt) adopted(p provision) (reconfigure.Server, bool) {
	if p.op == nil || p.server != nil || !p.adopts() {
		return reconfigure.Server{}, false
	}
	node := p.op.change.Node
	return t.whole(node, t.state.Desired[node].Running())
}

// adoptable returns a server that is as a call asks for. For a node that is being made, the server must have been
// created since the request: Slurm waits for a newer boot.
func (t *attempt) adoptable(p provision) (reconfigure.Server, bool) {
	if p.op == nil || p.remove && p.server == nil {
		return reconfigure.Server{}, false
	}
	if p.server != nil {
		return *p.server, true
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

// adoptAll adds to Terraform's state the servers of an interrupted run that the cloud has as asked.
func (t *attempt) adoptAll(
	ctx context.Context, plan reconfigure.Plan, servers map[string]reconfigure.Server, cut []*delivery,
) {
	var (
		adopted  nodeset.NodeSet
		failures reconfigure.Failures
	)
	state, err := t.terraform.State(ctx)
	if err == nil { // else the map of nodes is unknown, and Adopt would write an empty one
		plan.Desired = state.Desired
		adopted, failures, err = t.terraform.Adopt(ctx, plan, servers)
	}
	for _, d := range cut {
		node := d.call.In.op.change.Node
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
