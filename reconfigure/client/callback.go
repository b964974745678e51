package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// CallBack has the control node call the control hosts as Slurm does to resume nodes. The error says that none of them
// accepts the call; the warning, that one does and others before it do not.
func CallBack(ctx context.Context, a *site.Adapters) (warning string, err error) {
	name := a.Site.Cluster.Control.Name
	state, err := a.State(ctx, nodeset.Of(name))
	if err != nil {
		return "", err
	}
	if err := a.Site.KnownHosts(a.Journal).Refresh(ctx); err != nil {
		return "", err
	}
	accepted, problems, err := a.Scheduler(state.Instances[name]).CallBack(ctx)
	problems = text.OneLine(problems)
	const change = "correct control_host in all.yml (address, port, user, directory, host_key), and repeat " +
		"`reconfigure deploy`"
	switch {
	case err != nil:
		return "", fmt.Errorf("the cluster is deployed, but it is not known whether Slurm can call this host: %w", err)
	case !accepted:
		return "", errors.New("the cluster is deployed, but Slurm cannot resume nodes: " + problems + "; " + change)
	case problems != "":
		return problems + "; " + change, nil
	}
	return "", nil
}
