package terraform

import (
	"github.com/eiffel-hpc/eiffel/reconfigure/cloud/openstack"
)

// The resources of the root module with which the tests run.
var (
	kinds         = openstack.Provider().Module
	instanceBlock = kinds.InstanceBlock()
	portBlock     = kinds.PortBlock()
	classes       = classifier(kinds.Class)
)
