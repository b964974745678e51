package operation

import (
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/provision"
)

// instance is the node's instance, as the operation knows it.
type instance struct {
	reconfigure.Instance // the zero value: none
	origin               origin
	finished             bool         // Terraform has not tainted it
	settled              <-chan error // Terraform's own verdict on a change that was delivered before it; nil: it is known
	cleaned              bool         // the disk was or may have been cleaned for an image, and is not made anew yet
}

// origin says where an instance comes from.
type origin string

const (
	originFound   origin = "found"   // it was there before the plan, or there was none
	originMissing origin = "missing" // the cloud does not have it any more: another is made
	originMade    origin = "made"    // the operation has made, started or stopped it
	originTaken   origin = "taken"   // it was made, or booted, for the request before the plan
	originRemoved origin = "removed" // the operation has removed it; Terraform may not have noticed that
)

// make records that Terraform has made, started or stopped the instance.
func (i *instance) make(r provision.Result) {
	i.Instance, i.settled, i.finished, i.origin = r.Instance, r.Settled, true, originMade
	if r.Taken {
		i.origin = originTaken
	}
}

// remove records that the instance is removed.
func (i *instance) remove() {
	i.Instance, i.finished, i.origin = reconfigure.Instance{}, false, originRemoved
}
