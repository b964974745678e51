package terraform

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-exec/tfexec"
	tfjson "github.com/hashicorp/terraform-json"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// putBackTimeout limits the time for restoring the state after the caller's context has ended.
const putBackTimeout = time.Minute

// Adopt adds servers to Terraform's state as finished, after the apply that made them was interrupted or killed. For
// each node, an entry that is tainted and has the id of the server is untainted; a missing entry is added with the
// attributes of Terraform's own plan and the ids of the server and its port. An entry that is not tainted gets the
// cloud's data of the server, since a killed Terraform may have rebuilt it. The proof is a plan over all of the
// nodes, with refresh, that has no change. If it has changes for a node, the node's entries are restored, and its
// failure lists the changes; the other nodes are adopted. Like Apply, it stores the map of nodes of the plan.
//
// The proof cannot tell two instances of the same spec apart: if an apply was to replace an instance by one of the
// same spec, the caller must check that the server is not the old one. A process that dies before the proof leaves
// the changed entries in the state; if they are wrong, the next plan has changes, and the fence refuses it.
//
// Where the root module has no RootModule.Finish, every server is a failure.
//
// On an error nothing is adopted and the state is unchanged; Adopt may be retried, also for nodes that were adopted
// before. If the state could not be restored, the error says so.
func (d *Driver) Adopt(ctx context.Context, p reconfigure.Plan, servers map[string]reconfigure.Server) (
	adopted nodeset.NodeSet, failures reconfigure.Failures, err error,
) {
	if len(servers) == 0 {
		return nodeset.NodeSet{}, nil, nil
	}
	m, err := d.read()
	if err != nil {
		return nodeset.NodeSet{}, nil, err
	}
	if m.kinds.Finish == nil {
		return nodeset.NodeSet{}, notAdopted(servers), nil
	}
	if err := d.keep(ctx, p); err != nil {
		return nodeset.NodeSet{}, nil, err
	}
	if err := d.sweep(); err != nil {
		return nodeset.NodeSet{}, nil, fmt.Errorf("adopt: %w", err)
	}
	state, err := d.pull(ctx)
	if err != nil {
		return nodeset.NodeSet{}, nil, fmt.Errorf("adopt: %w", err)
	}
	a := &adoption{
		Driver: d, module: m, desired: p.Desired, state: state,
		failures: reconfigure.Failures{}, before: map[string][]entry{},
	}
	defer func() {
		if err != nil {
			adopted, failures = nodeset.NodeSet{}, nil
			err = errors.Join(fmt.Errorf("adopt: %w", err), a.putBack(ctx, a.candidates))
		}
	}()
	if err := a.claim(ctx, servers); err != nil {
		return nodeset.NodeSet{}, nil, err
	}
	if a.changed {
		if err := a.push(ctx, a.state); err != nil {
			return nodeset.NodeSet{}, nil, err
		}
	}
	if err := a.prove(ctx); err != nil {
		return nodeset.NodeSet{}, nil, err
	}
	return nodeset.Of(a.candidates...), a.failures, nil
}

// notAdopted returns the failures of a cloud whose root module does not support adoption.
func notAdopted(servers map[string]reconfigure.Server) reconfigure.Failures {
	failures := reconfigure.Failures{}
	for node := range servers {
		failures[node] = errors.New("it cannot be adopted: this cloud's root module does not support it")
	}
	return failures
}

// adoption is one call of Adopt.
type adoption struct {
	*Driver
	module     module
	desired    map[string]reconfigure.Spec
	state      *stateFile
	candidates []string // the nodes without a failure so far, sorted
	behind     bool     // an entry of a candidate was added, or describes the instance before its rebuild or stop
	changed    bool     // the state was changed after it was read
	before     map[string][]entry
	failures   reconfigure.Failures
}

// entry is the entry of a node in a block before it was changed.
type entry struct {
	block string
	was   fields // nil: nothing
}

// claim changes the entries of the state, and finds the nodes that cannot be adopted.
func (a *adoption) claim(ctx context.Context, servers map[string]reconfigure.Server) error {
	var unknown []string
	for _, node := range slices.Sorted(maps.Keys(servers)) {
		server := servers[node]
		found, ok, err := a.state.has(a.module.kinds, node)
		if err != nil {
			return err
		}
		if reason := a.refuse(node, server, found, ok); reason != "" {
			a.failures[node] = errors.New(reason)
			continue
		}
		if !ok {
			unknown = append(unknown, node)
			continue
		}
		a.candidates = append(a.candidates, node)
		if !found.tainted {
			a.behind = a.behind || found.imageID != a.desired[node].ImageID || found.power != a.desired[node].Power
			continue
		}
		untainted := found.raw.without("status")
		server.PortID = "" // the state has it
		if untainted, err = a.finished(untainted, node, server); err != nil {
			return err
		}
		if err := a.set(a.module.kinds.InstanceBlock(), node, untainted); err != nil {
			return err
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	return a.enter(ctx, unknown, servers)
}

// refuse returns why a server cannot be adopted; empty if it may be.
func (a *adoption) refuse(node string, server reconfigure.Server, found object, known bool) string {
	_, declared := a.desired[node]
	switch {
	case !declared:
		return "it cannot be adopted: it is not in the map of nodes"
	case len(a.state.top) == 0:
		return "it cannot be adopted: Terraform has no state yet"
	case server.ID == "":
		return "it cannot be adopted: its server has no id"
	case server.Status != a.desired[node].Status():
		return fmt.Sprintf("it cannot be adopted: server %s is %s", server.ID, server.Status)
	case known && found.id != server.ID:
		return fmt.Sprintf("it cannot be adopted: Terraform's state has server %s instead of %s", found.id, server.ID)
	case known && found.deposed:
		return "it cannot be adopted: Terraform's state has an older server that is to be deleted"
	case known && otherPort(found.port, server.PortID):
		return otherPortReason(found.port, server.PortID)
	}
	return ""
}

// otherPort reports whether the port of a server differs from that in the state or the plan, if both are known. The
// provider does not read the port, so the proof does not find it.
func otherPort(planned, actual string) bool {
	return planned != "" && actual != "" && planned != actual
}

func otherPortReason(planned, actual string) string {
	return fmt.Sprintf("it cannot be adopted: its server has port %s instead of %s", actual, planned)
}

// object is the entry of a node in a block of the state.
type object struct {
	raw              fields
	id, port         string // port: the first port of an instance
	imageID          string
	power            reconfigure.Power
	tainted, deposed bool
}

// has returns the current object of a node's instance; false if there is none.
func (s *stateFile) has(kinds reconfigure.RootModule, node string) (object, bool, error) {
	r := s.of(kinds.InstanceBlock())
	at := r.at(node)
	if len(at) == 0 {
		return object{}, false, nil
	}
	raw := r.instances[at[0]]
	var attributes map[string]any
	if err := raw.read(map[string]any{"attributes": &attributes}); err != nil {
		return object{}, false, err
	}
	made := kinds.Read(attributes)
	return object{
		raw: raw, id: text(attributes["id"]), port: made.Port, imageID: made.ImageID, power: made.Power,
		tainted: raw.text("status") == statusTainted,
		deposed: len(at) > 1 || raw.text("deposed") != "",
	}, true, nil
}

// finished adds the attributes that the state of a finished instance has. Terraform would add them with its next
// refresh.
func (a *adoption) finished(raw fields, node string, server reconfigure.Server) (fields, error) {
	var attributes map[string]any
	numbers := json.NewDecoder(bytes.NewReader(raw["attributes"]))
	numbers.UseNumber() // a float64 would not hold all
	if err := numbers.Decode(&attributes); err != nil {
		return nil, fmt.Errorf("read Terraform's state: attributes: %w", err)
	}
	a.module.kinds.Finish(attributes, server, a.desired[node].NetworkID)
	return raw.with("attributes", attributes)
}

// set replaces a node's object in a block, or adds it, or removes it if it is nil. The block must exist.
func (a *adoption) set(block, node string, to fields) error {
	r := a.state.of(block)
	if r == nil {
		return fmt.Errorf("no %s in the state of Terraform", block)
	}
	was := entry{block: block}
	if at := r.at(node); len(at) > 0 {
		was.was = r.instances[at[0]]
	}
	a.before[node] = append(a.before[node], was)
	r.put(node, to)
	a.changed = true
	return nil
}

// put replaces a node's current object, or adds it, or removes it if it is nil.
func (r *stateResource) put(node string, to fields) {
	at := r.at(node)
	switch {
	case len(at) == 0 && to != nil:
		r.instances = append(r.instances, to)
	case len(at) > 0 && to == nil:
		r.instances = slices.Delete(r.instances, at[0], at[0]+1)
	case len(at) > 0:
		r.instances[at[0]] = to
	}
}

// enter adds the missing entries: the instance, and its port if that is missing too. The attributes are those that
// Terraform plans for their creation, with the ids from the cloud.
func (a *adoption) enter(ctx context.Context, unknown []string, servers map[string]reconfigure.Server) error {
	p := creation(a.desired, unknown)
	dir, err := os.MkdirTemp(a.cfg.PlanDir, previewPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the next sweep tries again
	planned, err := a.plan(ctx, dir, p, a.arguments(p), a.module)
	if bad := (*reconfigure.Unplannable)(nil); errors.As(err, &bad) {
		maps.Copy(a.failures, bad.Failures)
		rest := slices.DeleteFunc(unknown, func(node string) bool { return bad.Failures[node] != nil })
		if len(rest) == 0 {
			return nil
		}
		return a.enter(ctx, rest, servers)
	}
	if err != nil {
		return err
	}
	for _, node := range unknown {
		resources, server := created(planned, a.module, node), servers[node]
		if port := a.module.portOf(resources, node); otherPort(port, server.PortID) {
			a.failures[node] = errors.New(otherPortReason(port, server.PortID))
			continue
		}
		if a.module.makesPort(resources) && server.PortID == "" && a.cfg.Port != nil {
			if server.PortID, err = a.cfg.Port(ctx, server.ID); err != nil {
				a.failures[node] = fmt.Errorf("it cannot be adopted: its port is unknown: %w", err)
				continue
			}
		}
		if err := a.enterNode(node, server, resources); err != nil {
			return err
		}
		a.candidates = append(a.candidates, node)
		a.behind = true
	}
	slices.Sort(a.candidates)
	return nil
}

// portOf returns the port with which Terraform would create a node's instance; empty if it would make a port.
func (m module) portOf(planned []*tfjson.StateResource, node string) string {
	for _, r := range planned {
		if r.Address == instance(m.kinds.InstanceBlock(), node) {
			return m.kinds.Read(r.AttributeValues).Port
		}
	}
	return ""
}

// makesPort reports whether Terraform would create a node's port.
func (m module) makesPort(planned []*tfjson.StateResource) bool {
	return slices.ContainsFunc(planned, func(r *tfjson.StateResource) bool { return r.Type == m.kinds.Port })
}

// creation returns a plan that creates nodes.
func creation(desired map[string]reconfigure.Spec, nodes []string) reconfigure.Plan {
	p := reconfigure.Plan{Desired: desired}
	for _, node := range nodes {
		p.Changes = append(p.Changes, reconfigure.Change{Node: node, Action: reconfigure.Create, Spec: desired[node]})
	}
	return p
}

// arguments returns the arguments of a plan over the nodes of p only, with refresh.
func (a *adoption) arguments(p reconfigure.Plan) arguments {
	args, _ := planArguments(p, nil, a.module)
	args.parallelism, args.lockTimeout = min(args.parallelism, a.cfg.Parallelism), a.cfg.LockTimeout
	return args
}

// created returns the resources that Terraform would create for a node, with the attributes that are known before the
// apply.
func created(p *tfjson.Plan, m module, node string) []*tfjson.StateResource {
	creates := map[string]bool{}
	for _, rc := range p.ResourceChanges {
		creates[rc.Address] = rc.Change != nil && rc.Change.Actions.Create()
	}
	var found []*tfjson.StateResource
	if p.PlannedValues == nil || p.PlannedValues.RootModule == nil {
		return nil
	}
	for _, r := range p.PlannedValues.RootModule.Resources {
		if creates[r.Address] && slices.Contains(m.of(node), r.Address) {
			found = append(found, r)
		}
	}
	return found
}

// enterNode adds a node's instance, and its port. If Terraform would create more, the proof finds it.
func (a *adoption) enterNode(node string, server reconfigure.Server, planned []*tfjson.StateResource) error {
	for _, r := range planned {
		id := ""
		switch {
		case r.Address == instance(a.module.kinds.InstanceBlock(), node):
			id = server.ID
			a.module.kinds.Finish(r.AttributeValues, reconfigure.Server{PortID: server.PortID}, "")
		case r.Type == a.module.kinds.Port && server.PortID != "":
			id = server.PortID
		}
		if id == "" {
			continue
		}
		r.AttributeValues["id"] = id
		if err := a.add(node, r); err != nil {
			return err
		}
	}
	return nil
}

// add adds the entry of a resource. The plan lacks the dependencies and the provider's private data: they are copied
// from another object of the block.
func (a *adoption) add(node string, planned *tfjson.StateResource) error {
	r, err := a.blockOf(planned)
	if err != nil {
		return err
	}
	to := fields{}
	if len(r.instances) > 0 {
		to = fields{"private": r.instances[0]["private"], "dependencies": r.instances[0]["dependencies"]}
		maps.DeleteFunc(to, func(_ string, raw json.RawMessage) bool { return raw == nil })
	}
	for name, value := range map[string]any{
		"index_key": node, "schema_version": planned.SchemaVersion, "attributes": planned.AttributeValues,
	} {
		if to, err = to.with(name, value); err != nil {
			return err
		}
	}
	return a.set(r.block(), node, to)
}

// blockOf returns the block of a planned resource in the state, and adds it if it is missing.
func (a *adoption) blockOf(planned *tfjson.StateResource) (*stateResource, error) {
	if r := a.state.of(planned.Type + "." + planned.Name); r != nil {
		return r, nil
	}
	r := &stateResource{mode: string(tfjson.ManagedResourceMode), kind: planned.Type, name: planned.Name}
	r.top = fields{}
	for name, value := range map[string]string{
		"mode": r.mode, "type": r.kind, "name": r.name,
		"provider": fmt.Sprintf("provider[%q]", planned.ProviderName),
	} {
		var err error
		if r.top, err = r.top.with(name, value); err != nil {
			return nil, err
		}
	}
	a.state.resources = append(a.state.resources, r)
	return r, nil
}

// putBack restores the entries of some nodes, also after ctx has ended. It reads the state again, since Terraform sets
// the serial of a pushed state itself.
func (a *adoption) putBack(ctx context.Context, nodes []string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), putBackTimeout)
	defer cancel()
	if err := a.restore(ctx, nodes); err != nil {
		return fmt.Errorf("the unproven entries could not be restored in Terraform's state: %w", err)
	}
	return nil
}

func (a *adoption) restore(ctx context.Context, nodes []string) error {
	if !slices.ContainsFunc(nodes, func(node string) bool { return len(a.before[node]) > 0 }) {
		return nil
	}
	state, err := a.pull(ctx)
	if err != nil {
		return err
	}
	changed := false
	for _, node := range nodes {
		for _, was := range a.before[node] {
			changed = state.restore(was, node) || changed
		}
		delete(a.before, node)
	}
	if !changed {
		return nil
	}
	return a.push(ctx, state)
}

// restore restores an entry, and reports whether that changed the state.
func (s *stateFile) restore(was entry, node string) bool {
	r := s.of(was.block)
	at := r.at(node)
	if len(at) == 0 && was.was == nil || len(at) > 0 && reflect.DeepEqual(r.instances[at[0]], was.was) {
		return false
	}
	if r == nil { // another process has removed it
		return false
	}
	r.put(node, was.was)
	return true
}

// prove repeats the proof, each time without the nodes for which the last one had changes, until there are none.
func (a *adoption) prove(ctx context.Context) error {
	for len(a.candidates) > 0 {
		found, err := a.proof(ctx)
		if err != nil || len(found) == 0 {
			return err
		}
		maps.Copy(a.failures, found)
		bad := slices.DeleteFunc(slices.Clone(a.candidates), func(node string) bool { return found[node] == nil })
		a.candidates = slices.DeleteFunc(a.candidates, func(node string) bool { return found[node] != nil })
		if err := a.putBack(ctx, bad); err != nil {
			return err
		}
	}
	return nil
}

// proof returns the changes of one plan over all candidates, by node. If it has none, and an entry is behind, the plan
// is applied: it changes only the state, which then has all attributes of the refresh and the dependencies of the
// configuration.
func (a *adoption) proof(ctx context.Context) (reconfigure.Failures, error) {
	p := creation(a.desired, a.candidates)
	dir, err := os.MkdirTemp(a.cfg.PlanDir, previewPrefix)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the next sweep tries again
	said, changes, err := a.savePlan(ctx, dir, p, a.arguments(p), a.module)
	found, err := a.objections(said, changes, err)
	if err != nil || len(found) > 0 || !a.behind {
		return found, err
	}
	err = a.run(func(tf *tfexec.Terraform) error {
		return tf.Apply(ctx,
			tfexec.DirOrPlan(filepath.Join(dir, savedPlan)),
			tfexec.LockTimeout(seconds(a.cfg.LockTimeout)))
	})
	if err != nil {
		return nil, fmt.Errorf("terraform apply of a plan without changes: %w", orDone(ctx, err))
	}
	return nil, nil
}

// objections returns why candidates cannot be adopted, from the result of a plan over all of them.
func (a *adoption) objections(said *stream, changes bool, err error) (reconfigure.Failures, error) {
	bad := (*reconfigure.Unplannable)(nil)
	switch {
	case errors.As(err, &bad):
		return bad.Failures, nil
	case err != nil:
		return nil, err
	case changes:
		return a.differences(said.events), nil
	}
	return nil, nil
}

// differences returns the changes of a plan, by candidate. A change that belongs to no candidate counts for all of
// them.
func (a *adoption) differences(events []event) reconfigure.Failures {
	would := map[string][]string{}
	common := []string{}
	for _, e := range events {
		if e.Type != plannedChange {
			continue
		}
		address := e.Change.Resource.Address
		said := "Terraform would " + e.Change.Action + " " + address
		node, _ := a.module.owner(address, func(name string) bool { return slices.Contains(a.candidates, name) })
		if !slices.Contains(a.candidates, node) {
			common = append(common, said)
			continue
		}
		would[node] = append(would[node], said)
	}
	found := reconfigure.Failures{}
	for _, node := range a.candidates {
		said := slices.Concat(would[node], common)
		switch {
		case len(said) == 0 && len(would)+len(common) > 0:
			continue
		case len(said) == 0:
			said = []string{"Terraform would change something that is not a resource"}
		}
		found[node] = errors.New("it cannot be adopted: " + strings.Join(said, "; "))
	}
	return found
}
