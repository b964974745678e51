package provision

import (
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Order is a task for Terraform: Make, Remove, Take or Forget for one node, or Shared.
type Order interface {
	target() *Target // nil: the order is for no single node
	plan() int64     // the number of the plan that it belongs to
}

// Target is the node of an order.
type Target struct {
	Change reconfigure.Change // in the form of Terraform's plan
	Entry  *reconfigure.Spec  // the node's entry in the map of nodes after the order; nil: none
	Jobs   []reconfigure.Job  // the jobs that wait for the node
	Plan   int64
	// Tentative reports whether the order is repeated in another way if the cloud has no room: the jobs that need the
	// node are not given up then.
	Tentative bool
}

func (t Target) target() *Target { return &t }
func (t Target) plan() int64     { return t.Plan }

// Make creates, replaces, starts or stops the node's instance, or corrects its entry in the map of nodes.
type Make struct{ Target }

// Remove removes the node's instance, and its port if no entry is left.
type Remove struct{ Target }

// Take imports an instance into Terraform's state as the node's finished one. It makes and removes nothing.
type Take struct {
	Target
	Server reconfigure.Server // zero: the one that the cloud has
}

// Forget removes the node's instance, and not its port, from Terraform's state. The cloud keeps both.
type Forget struct{ Target }

// Shared changes the shared resources, and the entries of the nodes without their own orders.
type Shared struct {
	Plan    int64
	Desired map[string]reconfigure.Spec // the map of nodes after the plan
	Changed nodeset.NodeSet             // the nodes with their own orders
	// Awaited returns the nodes whose orders must be in the same run and may still come. Nil: none.
	Awaited func() nodeset.NodeSet
}

func (s Shared) target() *Target { return nil }
func (s Shared) plan() int64     { return s.Plan }

// Event is the progress of an order: Begun, Appeared, Noted or LeftAlone.
type Event interface{ event() }

// Begun says that a run carries out the order, which no longer waits for one.
type Begun struct {
	Changes bool // parts of the instance may remain if the order fails
}

// Appeared says that the cloud has the order's instance, in any status.
type Appeared struct{ Server reconfigure.Server }

// Noted is a message for people.
type Noted struct{ Message string }

// LeftAlone says that the order was refused, so the instance stays as it is.
type LeftAlone struct{}

func (Begun) event()     {}
func (Appeared) event()  {}
func (Noted) event()     {}
func (LeftAlone) event() {}

// Result is the instance of an order that has succeeded; zero after Remove and Shared.
type Result struct {
	Instance reconfigure.Instance
	// Settled has Terraform's own verdict on an instance that was delivered before Terraform ended. Nil: it was good.
	Settled <-chan error
	Taken   bool // the instance was made for the request before the plan
}

// request is an order that waits for its result.
type request struct {
	Order
	tell  func(Event)
	again int // the number of interrupted runs that had it
}

func (r request) node() string               { return r.target().Change.Node }
func (r request) change() reconfigure.Change { return r.target().Change }
func (r request) note(message string)        { r.tell(Noted{message}) }

// takes reports whether the order only imports an instance.
func (r request) takes() bool {
	_, ok := r.Order.(Take)
	return ok
}

// enter puts the node's entry after the order into the map of nodes.
func (r request) enter(desired map[string]reconfigure.Spec) {
	if t := r.target(); t.Entry != nil {
		desired[t.Change.Node] = *t.Entry
	} else {
		delete(desired, t.Change.Node)
	}
}
