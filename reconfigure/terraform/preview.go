package terraform

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/terraform-exec/tfexec"
	tfjson "github.com/hashicorp/terraform-json"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// abandoned is the age at which a preview that nobody applied is thrown away. Nothing applies one that old: the lead
// on a cluster is never held so long.
const abandoned = 24 * time.Hour

// Preview has Terraform plan ours, saves that plan, and lets it through only if it does nothing that ours does not
// name; else the error is a *reconfigure.Refusal. What Terraform cannot plan for the sake of single nodes is a
// *reconfigure.Unplannable. It changes neither cloud nor state nor the map of nodes. A *LockedError means that
// somebody else has the state locked. It may be retried.
func (d *Driver) Preview(ctx context.Context, p reconfigure.Plan) (preview reconfigure.Preview, err error) {
	if !p.Provisions() {
		return reconfigure.Preview{Plan: p}, nil
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
	preview, err = d.preview(ctx, ours, args, m)
	if err != nil {
		return reconfigure.Preview{}, err
	}
	preview.Plan = p
	return preview, nil
}

// preview saves Terraform's plan of a plan for this shard, if the fence lets it through.
func (d *Driver) preview(ctx context.Context, p reconfigure.Plan, args arguments, m module) (preview reconfigure.Preview, err error) {
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
	args.parallelism = min(args.parallelism, d.cfg.Parallelism)
	changes, err := d.allowed(ctx, dir, p, args, m)
	if err != nil {
		return reconfigure.Preview{}, err
	}
	return reconfigure.Preview{Plan: p, File: filepath.Join(dir, savedPlan), Changes: changes}, nil
}

// allowed saves Terraform's plan in dir, and has the fence judge it: by what Terraform says as it plans, if that lets
// it through, else by the saved plan itself, which tells more.
func (d *Driver) allowed(ctx context.Context, dir string, p reconfigure.Plan, args arguments, m module) (
	[]reconfigure.ResourceChange, error,
) {
	said, _, err := d.savePlan(ctx, dir, p, args, m)
	if err != nil {
		return nil, err
	}
	if theirs, ok := planned(said.events); ok {
		if changes, err := fence(theirs, p, m); err == nil {
			return changes, nil
		}
	}
	theirs, err := d.show(ctx, dir)
	if err != nil {
		return nil, err
	}
	return fence(theirs, p, m)
}

// Discard removes a preview that is not to be applied.
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
)

// sweep removes the previews that a dead worker, or one that changed its mind, left behind.
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

// arguments is what a `terraform plan` of ours differs in.
type arguments struct {
	targets, replace []string
	refresh          bool
	parallelism      int
}

// planArguments decides how Terraform is to plan p, and reports whether it needs to. Before is the map of nodes that it was last told of. Both are of one shard.
func planArguments(p reconfigure.Plan, before map[string]reconfigure.Spec, m module) (args arguments, needed bool) {
	args = arguments{
		// A removal does not need the cloud's word: what is gone is gone. Not to ask keeps it cheap, and possible where an instance is in a state that the
		// provider refuses to read.
		refresh: p.Shared || !p.Nodes(reconfigure.Create, reconfigure.Replace).Empty(),
	}
	provisioned := p.Nodes(reconfigure.Create, reconfigure.Replace, reconfigure.Remove)
	args.parallelism = parallelism(provisioned.Len())
	for node := range provisioned.All() {
		args.targets = append(args.targets, m.of(node)...)
		if change, _ := p.Of(node); change.Action == reconfigure.Replace && !differs(before, change) {
			args.replace = append(args.replace, instance(instanceBlock, node))
		}
	}
	switch {
	case p.Shared && len(p.Desired) == 0:
		// The whole shard goes, also what the module no longer speaks of and no target can name.
		args.targets = nil
		return args, true
	case !p.Shared || m.shard != reconfigure.DefaultShard:
		return args, len(args.targets) > 0 // without a target Terraform would plan for all there is
	}
	args.targets = append(args.targets, m.shared...)
	// A shared resource that refers to the control node, its floating IP, makes Terraform look at the same resources
	// of all nodes, unless some are targeted.
	for node, spec := range p.Desired {
		if spec.Group == reconfigure.ControlGroup {
			args.targets = append(args.targets, m.of(node)...)
		}
	}
	slices.Sort(args.targets)
	args.targets = slices.Compact(args.targets)
	return args, len(args.targets) > 0
}

// differs tells whether Terraform will see a new Spec and so renew the instance by itself. Where it was told of this
// Spec before, or of none, it may find nothing to do.
func differs(before map[string]reconfigure.Spec, c reconfigure.Change) bool {
	was, ok := before[c.Node]
	return ok && was.HasInstance() && was != c.Spec
}

// parallelism is how many resources Terraform may work on at a time: as many as nodes change, so that all of them
// wait for the cloud at once, but 50 at most, as each takes several MB. A node's resources depend on one another, so
// more would not help. Ten is Terraform's own default, and enough for what is shared.
func parallelism(nodes int) int { return min(max(10, nodes), 50) }

func (a arguments) options(dir string, lockTimeout time.Duration) []tfexec.PlanOption {
	options := []tfexec.PlanOption{
		tfexec.VarFile(filepath.Join(dir, "nodes.tfvars.json")),
		tfexec.Out(filepath.Join(dir, savedPlan)),
		tfexec.LockTimeout(seconds(lockTimeout)),
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
	return d.show(ctx, dir)
}

// savePlan saves Terraform's plan in dir. It returns what Terraform said, and whether the plan changes anything.
func (d *Driver) savePlan(ctx context.Context, dir string, p reconfigure.Plan, args arguments, m module) (said *stream, changes bool, err error) {
	known, err := d.shared(ctx, p.Shared)
	if err != nil {
		return nil, false, err
	}
	if err := writeFile(filepath.Join(dir, "nodes.tfvars.json"), newFile("", p.Desired, known)); err != nil {
		return nil, false, fmt.Errorf("terraform plan: %w", err)
	}
	said = &stream{}
	err = d.run(func(tf *tfexec.Terraform) (err error) {
		changes, err = tf.PlanJSON(ctx, said, args.options(dir, d.cfg.LockTimeout)...)
		return err
	})
	if err != nil {
		explained := said.explain(ctx, err)
		if culprits := culprits(said.errors(), m, p); ctx.Err() == nil && culprits != nil {
			explained = culprits
		}
		return nil, false, fmt.Errorf("terraform plan: %w", explained)
	}
	return said, changes, nil
}

// show reads a saved plan.
func (d *Driver) show(ctx context.Context, dir string) (saved *tfjson.Plan, err error) {
	err = d.run(func(tf *tfexec.Terraform) (err error) {
		saved, err = tf.ShowPlanFile(ctx, filepath.Join(dir, savedPlan))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("terraform show: %w", orDone(ctx, err))
	}
	return saved, nil
}

// culprits is the nodes of a plan for the sake of which Terraform could not plan; nil where it says anything that is
// not about one of them alone.
func culprits(found []tfjson.Diagnostic, m module, p reconfigure.Plan) *reconfigure.Unplannable {
	planned := p.Nodes(reconfigure.Create, reconfigure.Replace, reconfigure.Remove)
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
		bad.Failures[node] = told(sentences)
	}
	return bad
}
