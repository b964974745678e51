package terraform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/hashicorp/terraform-exec/tfexec"
	tfjson "github.com/hashicorp/terraform-json"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Existing has what the cloud has of a shard.
type Existing struct {
	Servers map[string]reconfigure.Server // the nodes' instances with the ids of their ports, by node
	Ports   map[string]string             // ids of the ports of nodes without an instance, by node
	// Shared returns the ids of those shared resources that exist, by address. Nil: none is imported.
	Shared func(ctx context.Context, planned []reconfigure.SharedResource) (map[string]string, error)
}

// Recovered is the result of Recover for a shard.
type Recovered struct {
	Nodes    nodeset.NodeSet      // their instances or kept ports are in the state, and a plan changes nothing
	Failures reconfigure.Failures // of the other nodes: their resources are not in the state, unless they were before
	Shared   []string             // addresses of the shared resources in the state, sorted
	// Rest are the changes of shared resources that Terraform would still make, in words. The next deploy makes them.
	Rest []string
}

// Recover imports a shard whose state and map of nodes are lost: it stores the map, and enters what exists into the
// state with the attributes of Terraform's own plan and the ids of the cloud, as Adopt does: `terraform import` would
// lose the port of an instance, and a plan would then replace the instance. Terraform then refreshes the entries. The
// proof is a plan without a change; the entries of a node that has changes are removed again. Recover makes and removes
// nothing in the cloud, and does not import resources that the site has added to the root module.
//
// The default shard must come first, since the others need its security group. Recover may be repeated, also after a
// kill: what is in the state is not entered again.
func (d *Driver) Recover(ctx context.Context, desired map[string]reconfigure.Spec, is Existing) (Recovered, error) {
	done, err := d.recover(ctx, reconfigure.InShard(desired, d.cfg.Workspace), is)
	if err != nil {
		err = fmt.Errorf("import the state of the workspace %s: %w", workspace(d.cfg.Workspace), err)
	}
	return done, err
}

func (d *Driver) recover(
	ctx context.Context, desired map[string]reconfigure.Spec, is Existing,
) (done Recovered, err error) {
	m, err := d.module(false)
	if err != nil {
		return done, err
	}
	if m.kinds.Finish == nil {
		return done, errors.New("this cloud's root module does not support it")
	}
	if err := d.keep(ctx, reconfigure.Plan{Desired: desired, Shared: true}); err != nil {
		return done, err
	}
	if err := d.sweep(); err != nil {
		return done, err
	}
	state, err := d.pull(ctx)
	if err != nil {
		return done, err
	}
	dir, err := os.MkdirTemp(d.cfg.PlanDir, previewPrefix)
	if err != nil {
		return done, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the next sweep tries again
	r := &recovery{is: is, dir: dir, adoption: adoption{
		Driver: d, module: m, desired: desired, state: state,
		failures: reconfigure.Failures{}, before: map[string][]entry{},
	}}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.putBack(ctx, r.candidates))
		}
	}()
	if err := r.enterAll(ctx); err != nil {
		return done, err
	}
	if err := r.refresh(ctx); err != nil {
		return done, err
	}
	if err := r.proveAll(ctx); err != nil {
		return done, err
	}
	return Recovered{nodeset.Of(r.candidates...), r.failures, r.sharedEntries(), r.rest}, nil
}

// recovery is one call of Recover. Its candidates are all nodes of the shard without a failure so far, also those
// without an instance.
type recovery struct {
	adoption
	is   Existing
	dir  string // of the plans
	rest []string
}

// enterAll adds what exists and is missing in the state.
func (r *recovery) enterAll(ctx context.Context) error {
	if len(r.state.top) == 0 {
		r.state.top = fields{
			"version": json.RawMessage("4"), "outputs": json.RawMessage("{}"),
			"lineage": json.RawMessage(`"` + uuid.NewString() + `"`),
		}
		r.changed = true
	}
	missing, err := r.sift()
	if err != nil {
		return err
	}
	planned, err := r.planMissing(ctx)
	if err != nil {
		return err
	}
	entered, err := r.enterShared(ctx, planned)
	if err != nil {
		return err
	}
	if entered && len(missing) > 0 { // the attributes of a port have the id of the security group
		if err := r.push(ctx, r.state); err != nil {
			return err
		}
		if planned, err = r.planMissing(ctx); err != nil {
			return err
		}
	}
	for _, node := range missing {
		if r.failures[node] != nil {
			continue
		}
		server := r.is.Servers[node]
		if server.ID == "" {
			server.PortID = r.is.Ports[node]
		}
		if err := r.enterNode(node, server, created(planned, r.module, node)); err != nil {
			return err
		}
	}
	if !r.changed {
		return nil
	}
	return r.push(ctx, r.state)
}

// sift finds the candidates, and returns those that the state lacks.
func (r *recovery) sift() (missing []string, err error) {
	for _, node := range slices.Sorted(maps.Keys(r.desired)) {
		if !r.desired[node].HasInstance() {
			r.candidates = append(r.candidates, node)
			if len(r.state.of(r.module.kinds.PortBlock()).at(node)) == 0 {
				missing = append(missing, node)
			}
			continue
		}
		found, known, err := r.state.has(r.module.kinds, node)
		if err != nil {
			return nil, err
		}
		server, there := r.is.Servers[node]
		switch reason := r.refuse(node, server, found, known); {
		case !there:
			r.failures[node] = errors.New("it has no instance in the cloud")
			continue
		case reason != "":
			r.failures[node] = errors.New(reason)
			continue
		case !known && server.PortID == "":
			r.failures[node] = errors.New("the port of its instance does not belong to the cluster")
			continue
		case !known:
			missing = append(missing, node)
		case found.tainted:
			r.failures[node] = errors.New("it is unfinished in Terraform's state")
			continue
		}
		r.candidates = append(r.candidates, node)
	}
	return missing, nil
}

// planMissing returns Terraform's plan for the candidates and the shared resources, without the nodes because of which
// Terraform cannot plan.
func (r *recovery) planMissing(ctx context.Context) (*tfjson.Plan, error) {
	for {
		p, args := creation(r.desired, r.candidates), r.targets()
		if len(args.targets) == 0 { // without targets Terraform would plan all resources
			return &tfjson.Plan{}, nil
		}
		planned, err := r.plan(ctx, r.dir, p, args, r.module)
		if bad := (*reconfigure.Unplannable)(nil); errors.As(err, &bad) {
			r.fail(bad.Failures)
			continue
		}
		return planned, err
	}
}

func (r *recovery) fail(found reconfigure.Failures) {
	maps.Copy(r.failures, found)
	r.candidates = slices.DeleteFunc(r.candidates, func(node string) bool { return found[node] != nil })
}

// targets returns the arguments of a plan over the candidates and the shared resources. Resources that the site has
// added for each node are no targets: they are not imported.
func (r *recovery) targets() arguments {
	args := arguments{refresh: true, parallelism: parallelism(len(r.candidates)), lockTimeout: r.cfg.LockTimeout}
	args.parallelism = min(args.parallelism, r.cfg.Parallelism)
	for _, node := range r.candidates {
		if block := r.module.kinds.PortBlock(); block != "" {
			args.targets = append(args.targets, instance(block, node))
		}
		if r.desired[node].HasInstance() {
			args.targets = append(args.targets, instance(r.module.kinds.InstanceBlock(), node))
		}
	}
	if r.cfg.Workspace == reconfigure.DefaultShard {
		args.targets = append(args.targets, r.module.shared...)
	}
	return args
}

// enterShared adds the shared resources that exist, and reports whether there are any.
func (r *recovery) enterShared(ctx context.Context, p *tfjson.Plan) (entered bool, err error) {
	if r.cfg.Workspace != reconfigure.DefaultShard || r.is.Shared == nil ||
		p.PlannedValues == nil || p.PlannedValues.RootModule == nil {
		return false, nil
	}
	creates := map[string]bool{}
	for _, rc := range p.ResourceChanges {
		creates[rc.Address] = rc.Change != nil && rc.Change.Actions.Create()
	}
	var missing []*tfjson.StateResource
	var asked []reconfigure.SharedResource
	for _, one := range p.PlannedValues.RootModule.Resources {
		if creates[one.Address] && slices.Contains(r.module.shared, one.Type+"."+one.Name) {
			missing = append(missing, one)
			asked = append(asked, reconfigure.SharedResource{
				Address: one.Address, Type: one.Type, Attributes: one.AttributeValues,
			})
		}
	}
	if len(asked) == 0 {
		return false, nil
	}
	ids, err := r.is.Shared(ctx, asked)
	if err != nil {
		return false, err
	}
	for _, one := range missing {
		id := ids[one.Address]
		if id == "" {
			continue
		}
		one.AttributeValues["id"] = id
		to := fields{}
		for name, value := range map[string]any{
			"schema_version": one.SchemaVersion, "attributes": one.AttributeValues, "index_key": one.Index,
		} {
			if value == nil {
				continue
			}
			if to, err = to.with(name, value); err != nil {
				return entered, err
			}
		}
		block, err := r.blockOf(one)
		if err != nil {
			return entered, err
		}
		block.instances = append(block.instances, to)
		r.changed, entered = true, true
	}
	return entered, nil
}

// sharedEntries returns the addresses of the shared resources in the state, sorted.
func (r *recovery) sharedEntries() (all []string) {
	for _, found := range r.state.resources {
		if found.mode != string(tfjson.ManagedResourceMode) || !slices.Contains(r.module.shared, found.block()) {
			continue
		}
		for _, i := range found.instances {
			all = append(all, found.address(i["index_key"]))
		}
	}
	slices.Sort(all)
	return all
}

// refresh has Terraform read the entries from the cloud. It changes only the state.
func (r *recovery) refresh(ctx context.Context) error {
	args := r.targets()
	if len(args.targets) == 0 {
		return nil
	}
	if err := r.writeVariables(ctx, r.dir, creation(r.desired, r.candidates)); err != nil {
		return err
	}
	options := []tfexec.ApplyOption{
		tfexec.RefreshOnly(true), tfexec.VarFile(filepath.Join(r.dir, variablesFile)),
		tfexec.LockTimeout(seconds(args.lockTimeout)), tfexec.Parallelism(args.parallelism),
	}
	for _, address := range args.targets {
		options = append(options, tfexec.Target(address))
	}
	err := r.writing(func(tf *tfexec.Terraform) error { return tf.Apply(ctx, options...) })
	if err != nil {
		return fmt.Errorf("terraform apply -refresh-only: %w", orDone(ctx, err))
	}
	return nil
}

// proveAll removes the entries of the nodes for which a plan has changes.
func (r *recovery) proveAll(ctx context.Context) error {
	for len(r.candidates) > 0 {
		args := r.targets()
		said, changes, err := r.savePlan(ctx, r.dir, creation(r.desired, r.candidates), args, r.module)
		if bad := (*reconfigure.Unplannable)(nil); errors.As(err, &bad) {
			if err := r.putBack(ctx, slices.Collect(maps.Keys(bad.Failures))); err != nil {
				return err
			}
			r.fail(bad.Failures)
			continue
		}
		if err != nil || !changes {
			return err
		}
		found, rest := r.divide(said.events)
		r.rest = rest
		if err := r.putBack(ctx, slices.Collect(maps.Keys(found))); err != nil {
			return err
		}
		r.fail(found)
		return nil
	}
	return nil
}

// divide divides the changes of a plan into those of nodes and those of shared resources.
func (r *recovery) divide(events []event) (nodes reconfigure.Failures, rest []string) {
	would := map[string][]string{}
	for _, e := range events {
		if e.Type != plannedChange || e.Change.Action == actionRead {
			continue
		}
		address := e.Change.Resource.Address
		said := "Terraform would " + e.Change.Action + " " + address
		node, _ := r.module.owner(address, func(name string) bool { return slices.Contains(r.candidates, name) })
		if slices.Contains(r.candidates, node) {
			would[node] = append(would[node], said)
		} else {
			rest = append(rest, said)
		}
	}
	nodes = reconfigure.Failures{}
	for node, said := range would {
		nodes[node] = errors.New(strings.Join(said, "; "))
	}
	slices.Sort(rest)
	return nodes, rest
}
