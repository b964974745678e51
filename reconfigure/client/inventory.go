package client

import (
	"context"

	"github.com/eiffel-hpc/eiffel/reconfigure/ansible"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
	"github.com/eiffel-hpc/eiffel/reconfigure/sitefiles"
)

// Inventory returns Ansible's inventory of the instances in Terraform's state. It also updates the known hosts that
// Ansible's ssh commands use.
func Inventory(ctx context.Context, a *site.Adapters) ([]byte, error) {
	state, err := a.State(ctx, nodeset.NodeSet{})
	if err != nil {
		return nil, err
	}
	files, err := sitefiles.Read(a.Site.Dir)
	if err != nil {
		return nil, err
	}
	text, err := ansible.Inventory(a.Site.Cluster, state.Instances, files)
	if err != nil {
		return nil, err
	}
	return text, a.Site.KnownHosts(a.Journal).Refresh(ctx)
}
