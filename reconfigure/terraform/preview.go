package terraform

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/terraform-exec/tfexec"
	tfjson "github.com/hashicorp/terraform-json"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// abandoned is the age at which a preview that was not applied is removed. No operation applies such an old one.
const abandoned = 24 * time.Hour

// lockAnswer is how long a preview waits for the lock of the state. Most runs of Terraform by hand take less time.
const lockAnswer = 10 * time.Second

// Preview has Terraform plan the changes of p in this shard, and saves that plan. If it has changes that p does not
// name, the error is a *reconfigure.Refusal. If Terraform cannot plan because of single nodes, it is a
// *reconfigure.Unplannable. It changes neither cloud nor state nor the map of nodes, except that attributes of an older
// version of the provider may be removed from the state. A *LockedError, with reconfigure.ClassLocked, means that
// another process has locked the state. Preview returns it after lockAnswer instead of the lock timeout, since
// Terraform names the holder only when it gives up. Preview may be retried.
func (d *Driver) Preview(ctx context.Context, p reconfigure.Plan) (preview reconfigure.Preview, err error) {
	if !p.Provisions() {
		return reconfigure.Preview{Plan: p}, nil
	}
	if d.unready != nil {
		return reconfigure.Preview{}, d.unready
	}
	all, _, err := d.nodes().Read(ctx)
	if err != nil {
		return reconfigure.Preview{}, err
	}
	if err := d.strayed(p, all); err != nil {
		return reconfigure.Preview{}, fmt.Errorf("terraform plan: %w", err)
	}
	ours := p
	ours.Desired = reconfigure.InShard(p.Desired, d.cfg.Workspace)
	m, err := d.module(len(reconfigure.Shards(all)) > 1 || len(reconfigure.Shards(p.Desired)) > 1)
	if err != nil {
		return reconfigure.Preview{}, err
	}
	args, needed := planArguments(ours, reconfigure.InShard(all, d.cfg.Workspace), m)
	if !needed {
		return reconfigure.Preview{Plan: p}, nil
	}
	if p.KeptPorts {
		state, err := d.listed(ctx, m.kinds)
		if err != nil {
			return reconfigure.Preview{}, fmt.Errorf("terraform plan: %w", err)
		}
		args.targets = append(args.targets, keptTargets(missingPorts(state, ours.Desired, m), m)...)
	}
	preview, err = d.preview(ctx, ours, args, m)
	if err != nil {
		return reconfigure.Preview{}, err
	}
	preview.Plan = p
	return preview, nil
}

// PreviewAll has Terraform plan all resources of this shard while no node is to change. It returns the changes of
// shared resources. A change of a node's resource, or one that the fence does not know, is a *reconfigure.Refusal. It
// changes neither cloud nor state nor the map of nodes, and may be retried.
func (d *Driver) PreviewAll(ctx context.Context) ([]reconfigure.ResourceChange, error) {
	if d.unready != nil {
		return nil, d.unready
	}
	all, _, err := d.nodes().Read(ctx)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	m, err := d.module(len(reconfigure.Shards(all)) > 1)
	if err != nil {
		return nil, err
	}
	ours := reconfigure.Plan{Shared: true, Desired: reconfigure.InShard(all, d.cfg.Workspace)}
	preview, err := d.preview(ctx, ours, arguments{refresh: true, parallelism: parallelism(len(ours.Desired))}, m)
	if err != nil {
		return nil, err
	}
	return preview.Changes, d.Discard(preview)
}

// preview saves Terraform's plan for a plan of this shard if the fence accepts it.
func (d *Driver) preview(ctx context.Context, p reconfigure.Plan, args arguments,
	m module) (preview reconfigure.Preview, err error) {
	if err := d.sweep(); err != nil {
		return reconfigure.Preview{}, fmt.Errorf("terraform plan: %w", err)
	}
	dir, err := os.MkdirTemp(d.cfg.PlanDir, previewPrefix)
	if err != nil {
		return reconfigure.Preview{}, fmt.Errorf("terraform plan: %w", err)
	}
	defer func() {
		if err != nil {
			os.RemoveAll(dir) //nolint:errcheck // the next sweep tries again
		}
	}()
	args.parallelism, args.lockTimeout = min(args.parallelism, d.cfg.Parallelism), min(d.cfg.LockTimeout, lockAnswer)
	preview, err = d.allowed(ctx, dir, p, args, m)
	if err != nil {
		return reconfigure.Preview{}, err
	}
	preview.Plan, preview.File = p, filepath.Join(dir, savedPlan)
	return preview, nil
}

// allowed saves Terraform's plan in dir, and checks it with the fence: by the events of the plan or, if the fence
// does not accept those, by the saved plan, which has more details.
func (d *Driver) allowed(ctx context.Context, dir string, p reconfigure.Plan, args arguments, m module) (
	preview reconfigure.Preview, err error,
) {
	said, _, err := d.savePlan(ctx, dir, p, args, m)
	if err != nil {
		return preview, err
	}
	preview.Behind = slices.ContainsFunc(said.events, func(e event) bool { return e.Type == resourceDrift })
	if theirs, ok := planned(said.events); ok {
		if preview.Changes, err = fence(theirs, p, m); err == nil {
			return preview, nil
		}
	}
	theirs, err := d.readBack(ctx, dir, p, args, m)
	if err != nil {
		return preview, err
	}
	preview.Changes, err = fence(theirs, p, m)
	return preview, ofStopped(err, p)
}

// ofStopped converts a refusal that concerns only nodes that the plan starts or stops to an Unplannable: their
// instances differ in more than their power state, and the rest of the plan can continue without them.
func ofStopped(err error, p reconfigure.Plan) error {
	refusal := (*reconfigure.Refusal)(nil)
	if !errors.As(err, &refusal) {
		return err
	}
	power := p.Nodes(reconfigure.Start, reconfigure.Stop)
	bad := &reconfigure.Unplannable{Failures: reconfigure.Failures{}}
	for _, c := range refusal.Changes {
		if !power.Contains(c.Node) {
			return err
		}
		one := &reconfigure.Refusal{Changes: []reconfigure.ResourceChange{c}}
		if was, ok := bad.Failures[c.Node].(*reconfigure.Refusal); ok {
			one.Changes = append(was.Changes, c)
		}
		bad.Failures[c.Node] = one
	}
	return bad
}

// Discard removes a preview that is not applied.
func (d *Driver) Discard(p reconfigure.Preview) error {
	if p.File == "" {
		return nil
	}
	if err := os.RemoveAll(filepath.Dir(p.File)); err != nil {
		return fmt.Errorf("discard a preview: %w", err)
	}
	return nil
}

const (
	previewPrefix = "preview-"
	savedPlan     = "tfplan"
	variablesFile = "nodes.tfvars.json"
)

// sweep removes old previews, for example of a worker that died.
func (d *Driver) sweep() error {
	left, err := filepath.Glob(filepath.Join(d.cfg.PlanDir, previewPrefix+"*"))
	if err != nil {
		return err
	}
	for _, dir := range left {
		if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()) > abandoned {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

type arguments struct {
	targets, replace []string
	refresh          bool
	parallelism      int
	lockTimeout      time.Duration
}

// planArguments returns the arguments for a plan, and reports whether Terraform must plan at all. Before is the map
// of nodes of the last apply. Plan and map are those of one shard.
func planArguments(p reconfigure.Plan, before map[string]reconfigure.Spec, m module) (args arguments, needed bool) {
	args = arguments{
		// A removal needs no refresh where removing a missing resource succeeds. Without a refresh it is cheaper, and
		// also works if an instance is in a status that the provider cannot read.
		refresh: p.Shared || m.kinds.RefreshRemovals || !p.Provisioned().Equal(p.Nodes(reconfigure.Remove)),
	}
	provisioned := p.Provisioned()
	args.parallelism = parallelism(provisioned.Len())
	for node := range provisioned.All() {
		args.targets = append(args.targets, m.of(node)...)
		if change, _ := p.Of(node); change.Action == reconfigure.Replace &&
			(!differs(before, change) || moves(before, change)) {
			args.replace = append(args.replace, instance(m.kinds.ReplaceBlock(), node))
		}
	}
	switch {
	case p.Shared && len(p.Desired) == 0:
		// The whole shard is removed, also resources that are no longer in the module, which cannot be targets.
		args.targets = nil
		return args, true
	case !p.Shared || m.shard != reconfigure.DefaultShard:
		return args, len(args.targets) > 0 // without targets Terraform would plan all resources
	}
	args.targets = append(args.targets, m.shared...)
	// A shared resource may refer to the control node, as its floating IP does. For such a resource Terraform plans
	// the instances of all nodes, unless some are targets.
	for node, spec := range p.Desired {
		if spec.Group == reconfigure.ControlGroup {
			args.targets = append(args.targets, m.of(node)...)
		}
	}
	slices.Sort(args.targets)
	args.targets = slices.Compact(args.targets)
	return args, len(args.targets) > 0
}

// differs reports whether the Spec of a change differs from that of the last apply, so that Terraform itself replaces
// the instance. If they are equal, Terraform may find nothing to do. A stopped instance would only be started, or
// started before it is rebuilt.
func differs(before map[string]reconfigure.Spec, c reconfigure.Change) bool {
	was, ok := before[c.Node]
	return ok && was.HasInstance() && !was.Stopped() && was != c.Spec
}

// moves reports whether a change places the instance elsewhere. Only its creation uses the placement, so the root
// module ignores a change of it, and a rebuild would leave the instance where it is.
func moves(before map[string]reconfigure.Spec, c reconfigure.Change) bool {
	return !c.Spec.Admits(before[c.Node].Placement)
}

// parallelism returns how many resources Terraform may change at a time: one for each node, so that all nodes wait
// for the cloud at the same time. More have no effect, since a node's resources depend on one another. The maximum is
// 50, since each takes several MB. The minimum is 10, Terraform's default, which suffices for the shared resources.
func parallelism(nodes int) int { return min(max(10, nodes), 50) }

func (a arguments) options(dir string) []tfexec.PlanOption {
	options := []tfexec.PlanOption{
		tfexec.VarFile(filepath.Join(dir, variablesFile)),
		tfexec.Out(filepath.Join(dir, savedPlan)),
		tfexec.LockTimeout(seconds(a.lockTimeout)),
		tfexec.Parallelism(a.parallelism),
		tfexec.Refresh(a.refresh),
	}
	for _, address := range a.targets {
		options = append(options, tfexec.Target(address))
	}
	for _, address := range a.replace {
		options = append(options, tfexec.Replace(address))
	}
	return options
}

func seconds(d time.Duration) string { return strconv.Itoa(int(d.Seconds())) + "s" }

// plan saves Terraform's plan in dir and reads it back.
func (d *Driver) plan(ctx context.Context, dir string, p reconfigure.Plan, args arguments, m module) (
	*tfjson.Plan, error,
) {
	if _, _, err := d.savePlan(ctx, dir, p, args, m); err != nil {
		return nil, err
	}
	return d.readBack(ctx, dir, p, args, m)
}

// savePlan saves Terraform's plan in dir. It returns Terraform's events, and whether the plan changes anything.
func (d *Driver) savePlan(ctx context.Context, dir string, p reconfigure.Plan, args arguments, m module) (said *stream,
	changes bool, err error) {
	if err := d.writeVariables(ctx, dir, p); err != nil {
		return nil, false, err
	}
	said = &stream{class: d.cfg.Module.Class}
	err = d.run(func(tf *tfexec.Terraform) (err error) {
		changes, err = tf.PlanJSON(ctx, said, args.options(dir)...)
		return err
	})
	d.tofu = slices.ContainsFunc(said.events, func(e event) bool { return e.Tofu != "" })
	if wasKilled(ctx, err) { // the next one may not be
		err = fmt.Errorf("terraform plan: %w: %w", errKilled, err)
		return nil, false, reconfigure.Classify(reconfigure.ClassUnknown, err)
	}
	if err != nil {
		explained := said.explain(ctx, err)
		if culprits := culprits(said.errors(), m, p); ctx.Err() == nil && culprits != nil {
			explained = culprits
		}
		return nil, false, fmt.Errorf("terraform plan: %w", explained)
	}
	return said, changes, nil
}

// writeVariables writes the file with the variables of a plan into dir.
func (d *Driver) writeVariables(ctx context.Context, dir string, p reconfigure.Plan) error {
	known, err := d.shared(ctx, p.Shared)
	if err != nil {
		return err
	}
	id, err := d.nodes().ClusterID(ctx)
	if err != nil {
		return err
	}
	variables := newFile(p.Desired)
	variables.Shard, variables.ClusterID, variables.Shared = d.cfg.Workspace, id, known
	if err := writeFile(filepath.Join(dir, variablesFile), variables); err != nil {
		return fmt.Errorf("terraform plan: %w", err)
	}
	return nil
}

// show reads the plan that is saved in dir. It returns errOldAttributes if conform must be called first.
func (d *Driver) show(ctx context.Context, dir string) (saved *tfjson.Plan, err error) {
	err = d.run(func(tf *tfexec.Terraform) (err error) {
		saved, err = tf.ShowPlanFile(ctx, filepath.Join(dir, savedPlan))
		return err
	})
	if err == nil {
		return saved, nil
	}
	err = fmt.Errorf("terraform show: %w", orDone(ctx, err))
	if strings.Contains(err.Error(), "unsupported attribute") {
		err = fmt.Errorf("%w: %w", errOldAttributes, err)
	}
	return nil, err
}

// culprits returns the nodes of p because of which Terraform could not plan; nil if any error belongs to something
// else.
func culprits(found []tfjson.Diagnostic, m module, p reconfigure.Plan) *reconfigure.Unplannable {
	planned := p.Provisioned()
	said := map[string][]string{}
	for _, d := range found {
		node, known := m.owner(d.Address, planned.Contains)
		if !known || !planned.Contains(node) {
			return nil
		}
		said[node] = append(said[node], sentence(d))
	}
	if len(said) == 0 {
		return nil
	}
	bad := &reconfigure.Unplannable{Failures: reconfigure.Failures{}}
	for node, sentences := range said {
		bad.Failures[node] = classifier(m.kinds.Class).told(sentences)
	}
	return bad
}
