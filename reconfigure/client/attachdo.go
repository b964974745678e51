package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/ansible"
	"github.com/eiffel-hpc/eiffel/reconfigure/attach"
	"github.com/eiffel-hpc/eiffel/reconfigure/check"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
	"github.com/eiffel-hpc/eiffel/reconfigure/sleep"
)

// ErrRefused is the error of an attachment or a detachment whose plan has errors. Nothing was changed.
var ErrRefused = errors.New("nothing was changed, since the plan has errors")

// Attach carries out what PlanAttach shows, and returns the plan. It holds the lease meanwhile, so no worker acts. It
// may be repeated: after an error, after it was killed, and after an edit of the declaration.
func Attach(ctx context.Context, a *site.Adapters) (p attach.Plan, err error) {
	return p, leased(ctx, a, func(ctx context.Context) error {
		if err := repair(ctx, a); err != nil {
			return err
		}
		if p, err = PlanAttach(ctx, a); err != nil {
			return err
		}
		if strange := undeclared(ctx, a); !strange.Empty() {
			p.Report.Findings = append(p.Report.Findings, check.Finding{Check: "attach", Severity: check.Error,
				What: fmt.Sprintf("%s: there are instances, and no node group declares them", strange),
				Why:  "Slurm would forget them, and nothing would remove their instances",
				Change: fmt.Sprintf("declare them until `scontrol update nodename=%s state=power_down` has removed them",
					strange)})
			check.Sort(p.Report.Findings)
		}
		if p.Report.Worst() == check.Error {
			return ErrRefused
		}
		if err := learnHostKey(ctx, a); err != nil {
			return err
		}
		return carryOut(ctx, a, p)
	})
}

// undeclared returns the nodes with an instance that no group declares.
func undeclared(ctx context.Context, a *site.Adapters) nodeset.NodeSet {
	told, _, err := a.Site.NodeMap(a.Journal).Read(ctx)
	if err != nil {
		return nodeset.NodeSet{}
	}
	return withInstance(told).Difference(a.Site.Cluster.Nodes())
}

func withInstance(told map[string]reconfigure.Spec) nodeset.NodeSet {
	var names []string
	for node, spec := range told {
		if spec.HasInstance() {
			names = append(names, node)
		}
	}
	return nodeset.Of(names...)
}

// Detach removes what Attach has written, and returns the plan. It changes nothing while nodes have
// instances or jobs would end. It holds the lease meanwhile, and may be repeated.
func Detach(ctx context.Context, a *site.Adapters) (p attach.Plan, err error) {
	plan := func(ctx context.Context) error {
		if p, err = PlanDetach(ctx, a); err == nil && p.Report.Worst() == check.Error {
			err = ErrRefused
		}
		return err
	}
	if err := plan(ctx); errors.Is(err, ErrRefused) { // also while a worker acts
		return p, err
	}
	return p, leased(ctx, a, func(ctx context.Context) error {
		if err := repair(ctx, a); err != nil {
			return err
		}
		if err := plan(ctx); err != nil {
			return err
		}
		if err := learnHostKey(ctx, a); err != nil {
			return err
		}
		if err := carryOut(ctx, a, p); err != nil {
			return err
		}
		return forget(ctx, a)
	})
}

// PlanDetach plans the detachment. It changes nothing.
func PlanDetach(ctx context.Context, a *site.Adapters) (attach.Plan, error) {
	f, err := factsOf(ctx, attach.Facts{Cluster: a.Site.Cluster}, a.Site.OnControlNode)
	if err != nil {
		return attach.Plan{}, err
	}
	told, _, err := a.Site.NodeMap(a.Journal).Read(ctx)
	if err != nil {
		return attach.Plan{}, err
	}
	return attach.Detached(f, withInstance(told))
}

// patience is how long a command waits for a worker that has nothing to do any more.
const patience = 30 * time.Second

// leased calls do while this process has the lease.
func leased(ctx context.Context, a *site.Adapters, do func(context.Context) error) error {
	var release func() error
	for began := time.Now(); release == nil; {
		free, ok, err := a.Journal.Acquire(ctx)
		if err != nil {
			return err
		}
		if ok {
			release = free
			break
		}
		if time.Since(began) > patience {
			return fmt.Errorf("a worker acts, %s: wait until `reconfigure status` shows none, or stop its service, and "+
				"repeat the command", a.Journal.Holder(ctx))
		}
		if err := sleep.For(ctx, 250*time.Millisecond); err != nil {
			return err
		}
	}
	held, stop := a.Journal.WhileHeld(ctx)
	defer stop()
	return errors.Join(do(held), release())
}

// learnHostKey stores the host keys of the control node, read by a login that has checked them.
func learnHostKey(ctx context.Context, a *site.Adapters) error {
	control, err := a.Site.ExistingControl(ctx)
	if err != nil {
		return err
	}
	text, err := a.Site.OnControlNode(ctx, "sh", "-c", "cat /etc/ssh/ssh_host_*_key.pub")
	if err != nil {
		return err
	}
	var keys []string
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) >= 2 {
			keys = append(keys, strings.Join(words, " "))
		}
	}
	if err := a.Journal.KeepHostKeys(ctx, map[string][]string{control.Address: keys}); err != nil {
		return err
	}
	return a.Site.KnownHosts(a.Journal).Refresh(ctx)
}

// repair continues a change of slurm.conf that was killed. Until then slurmctld may be stopped, and then it answers
// nothing that a plan needs.
func repair(ctx context.Context, a *site.Adapters) error {
	unfinished := path.Join(path.Dir(a.Site.Cluster.Control.Existing.SlurmConf), ansible.AttachWork, "deploy")
	said, err := a.Site.OnControlNode(ctx, "sh", "-c",
		"if sudo -n test -e "+unfinished+"; then scontrol --version; fi")
	_, version, there := strings.Cut(strings.TrimSpace(string(said)), " ")
	if err != nil || !there {
		return err
	}
	return change(ctx, a, ansible.Attachment{Restart: attach.Restarts(version), Repair: true})
}

// carryOut changes the control node as planned.
func carryOut(ctx context.Context, a *site.Adapters, p attach.Plan) error {
	user, _, _ := strings.Cut(p.SlurmUser, "(")
	sum := sha256.Sum256([]byte(p.Own))
	return change(ctx, a, ansible.Attachment{SlurmUser: user, Text: p.Text(),
		Expect: hex.EncodeToString(sum[:]), Restart: p.Restart, Dangers: p.Dangers})
}

// change runs the playbook for a change of the control node.
func change(ctx context.Context, a *site.Adapters, how ansible.Attachment) error {
	control, err := a.Site.ExistingControl(ctx)
	if err != nil {
		return err
	}
	playbooks, err := a.Playbooks(ctx)
	if err != nil {
		return err
	}
	how.Line, how.Include = attach.Line, attach.File
	return playbooks.Attach(ctx, a.Site.Cluster, control, how)
}

// forget removes the keys of and for the control node from this host.
func forget(ctx context.Context, a *site.Adapters) error {
	control, err := a.Site.ExistingControl(ctx)
	if err != nil {
		return err
	}
	if err := a.Site.RevokeAll(ctx); err != nil {
		return err
	}
	if err := a.Journal.KeepHostKeys(ctx, map[string][]string{control.Address: nil}); err != nil {
		return err
	}
	if err := a.Site.KnownHosts(a.Journal).Refresh(ctx); err != nil {
		return err
	}
	key := a.Site.Cluster.Settings.SlurmKeyFile()
	for _, path := range []string{key + ".pub", key} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
