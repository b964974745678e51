package terraform

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	fast "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/hashicorp/terraform-exec/tfexec"
	tfjson "github.com/hashicorp/terraform-json"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/sleep"
)

// stateFile is a state as `terraform state pull` prints it, in format 4, which Terraform has used since 0.12. Fields
// that this package does not know are not changed.
type stateFile struct {
	top       fields
	serial    uint64
	resources []*stateResource
}

// fields is a JSON object; only some of its fields are parsed.
type fields map[string]json.RawMessage

// stateResource has the objects of a block.
type stateResource struct {
	top                      fields
	module, mode, kind, name string
	instances                []fields
}

const stateFormat = 4

// errStateFormat is the error of a state in another format.
var errStateFormat = errors.New("the format of Terraform's state is not 4: this Terraform is not supported")

// parseState reads the output of `terraform state pull`, which is empty before the first apply.
func parseState(text []byte) (*stateFile, error) {
	s := &stateFile{top: fields{}}
	if len(bytes.TrimSpace(text)) == 0 {
		return s, nil
	}
	if err := json.Unmarshal(text, &s.top); err != nil {
		return nil, fmt.Errorf("read Terraform's state: %w", err)
	}
	var version int
	var resources []fields
	err := s.top.read(map[string]any{"version": &version, "serial": &s.serial, "resources": &resources})
	if err != nil {
		return nil, err
	}
	if version != stateFormat {
		return nil, errStateFormat
	}
	for _, top := range resources {
		r := &stateResource{top: top}
		if err := top.read(map[string]any{
			"module": &r.module, "mode": &r.mode, "type": &r.kind, "name": &r.name, "instances": &r.instances,
		}); err != nil {
			return nil, err
		}
		s.resources = append(s.resources, r)
	}
	return s, nil
}

// read parses fields into the targets, by name. Targets of missing fields are not changed.
func (f fields) read(targets map[string]any) error {
	for name, target := range targets {
		if raw, ok := f[name]; ok {
			if err := json.Unmarshal(raw, target); err != nil {
				return fmt.Errorf("read Terraform's state: %s: %w", name, err)
			}
		}
	}
	return nil
}

// with returns a copy with a field added or replaced.
func (f fields) with(name string, value any) (fields, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("change Terraform's state: %w", err)
	}
	changed := maps.Clone(f)
	if changed == nil {
		changed = fields{}
	}
	changed[name] = raw
	return changed, nil
}

// without returns a copy without a field.
func (f fields) without(name string) fields {
	changed := maps.Clone(f)
	delete(changed, name)
	return changed
}

// text returns a field that is a string; empty if it is not one.
func (f fields) text(name string) string {
	var value string
	_ = json.Unmarshal(f[name], &value) // a field of another type is ignored
	return value
}

// render returns the state as `terraform state push` reads it.
func (s *stateFile) render() ([]byte, error) {
	resources := []fields{}
	for _, r := range s.resources {
		if len(r.instances) == 0 {
			continue
		}
		top, err := r.top.with("instances", r.instances)
		if err != nil {
			return nil, err
		}
		resources = append(resources, top)
	}
	top, err := s.top.with("resources", resources)
	if err != nil {
		return nil, err
	}
	if top, err = top.with("serial", s.serial); err != nil {
		return nil, err
	}
	return json.MarshalIndent(top, "", "  ")
}

// statusTainted is the status of an unfinished object.
const statusTainted = "tainted"

// block returns the address of the block, without a key.
func (r *stateResource) block() string {
	parts := []string{r.kind, r.name}
	if r.module != "" {
		parts = slices.Insert(parts, 0, r.module)
	}
	return strings.Join(parts, ".")
}

// address returns the address of the object with a key; nil: the block has one object.
func (r *stateResource) address(key json.RawMessage) string {
	if key == nil {
		return r.block()
	}
	var name string
	if json.Unmarshal(key, &name) == nil {
		return instance(r.block(), name)
	}
	return r.block() + "[" + string(key) + "]"
}

// of returns the managed block at an address without a key; nil if the state has none.
func (s *stateFile) of(block string) *stateResource {
	i := slices.IndexFunc(s.resources, func(r *stateResource) bool {
		return r.mode == string(tfjson.ManagedResourceMode) && r.block() == block
	})
	if i < 0 {
		return nil
	}
	return s.resources[i]
}

// at returns the indexes of a node's objects in a block, the current one first.
func (r *stateResource) at(node string) []int {
	if r == nil {
		return nil
	}
	var found []int
	for n, i := range r.instances {
		if i.text("index_key") != node {
			continue
		}
		if i.text("deposed") == "" {
			found = slices.Insert(found, 0, n)
		} else {
			found = append(found, n)
		}
	}
	return found
}

// pull reads the state, so that it can be changed.
func (d *Driver) pull(ctx context.Context) (*stateFile, error) {
	return pulledAs(ctx, d, func(text []byte) (*stateFile, bool, error) {
		state, err := parseState(text)
		return state, err == nil && len(state.top) > 0, err
	})
}

// pulledAs reads the state, and parses its text. parse also reports whether there is a state in the text. Terraform's
// local back end empties its file before it writes it, and `terraform state pull` waits for no lock: if the file exists
// and has no state, an apply may be writing it, and pulledAs reads it again. If the file stays without a state,
// pulledAs repairs it.
func pulledAs[T any](ctx context.Context, d *Driver, parse func([]byte) (T, bool, error)) (T, error) {
	const tries, pause = 5, 50 * time.Millisecond
	for try := 1; ; try++ {
		state, there, err := pulledOnce(ctx, d, parse)
		if err == nil && there {
			return state, nil
		}
		if try == tries {
			restored, problem := d.repair()
			if restored {
				state, _, err = pulledOnce(ctx, d, parse)
				return state, err
			}
			return state, cmp.Or(problem, err)
		}
		if _, none := os.Stat(d.localState(d.cfg.Workspace)); none != nil {
			return state, err
		}
		if err := sleep.For(ctx, pause<<try); err != nil {
			return state, err
		}
	}
}

// pulledOnce reads the state, without a lock.
func pulledOnce[T any](ctx context.Context, d *Driver, parse func([]byte) (T, bool, error)) (T, bool, error) {
	if text, ok := d.readLocal(d.cfg.Workspace); ok {
		if state, there, err := parse(text); err == nil {
			return state, there, nil
		}
	}
	var text string
	err := d.beside(func(tf *tfexec.Terraform) (err error) {
		text, err = tf.StatePull(ctx)
		return err
	})
	if err != nil {
		var none T
		return none, false, fmt.Errorf("terraform state pull: %w", orDone(ctx, err))
	}
	return parse([]byte(text))
}

// listed returns the current managed resources in this shard's state in the type of terraform-json, without deposed
// objects: those that were replaced and not yet deleted. There are none if the workspace does not exist yet. The
// resources have the id, and those of the instances' block also the attributes that kinds.Read uses: large clusters have
// tens of megabytes of states.
func (d *Driver) listed(ctx context.Context, kinds reconfigure.RootModule) ([]*tfjson.StateResource, error) {
	return pulledAs(ctx, d, func(text []byte) ([]*tfjson.StateResource, bool, error) { return parseList(text, kinds) })
}

// parseList reads the output of `terraform state pull`, see listed. It reports whether there is a state.
func parseList(text []byte, kinds reconfigure.RootModule) (all []*tfjson.StateResource, there bool, err error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, false, nil
	}
	var state struct {
		Version   *int `json:"version"`
		Resources []struct {
			Module    string `json:"module"`
			Mode      string `json:"mode"`
			Type      string `json:"type"`
			Name      string `json:"name"`
			Instances []struct {
				Key        jsontext.Value `json:"index_key"`
				Deposed    string         `json:"deposed"`
				Status     string         `json:"status"`
				Attributes jsontext.Value `json:"attributes"`
			} `json:"instances"`
		} `json:"resources"`
	}
	if err := decode(text, &state); err != nil {
		return nil, false, fmt.Errorf("read Terraform's state: %w", err)
	}
	if state.Version == nil || *state.Version != stateFormat {
		return nil, false, errStateFormat
	}
	ids := []string{"id"}
	made := append(ids, kinds.Attributes...)
	for _, top := range state.Resources {
		if top.Mode != string(tfjson.ManagedResourceMode) {
			continue
		}
		r := &stateResource{module: top.Module, mode: top.Mode, kind: top.Type, name: top.Name}
		for _, i := range top.Instances {
			if i.Deposed != "" {
				continue
			}
			one := &tfjson.StateResource{
				Address: r.address(json.RawMessage(i.Key)), Mode: tfjson.ManagedResourceMode, Type: top.Type, Name: top.Name,
				Tainted: i.Status == statusTainted,
			}
			object := attributes{names: ids}
			if r.block() == kinds.InstanceBlock() {
				object.names = made
			}
			if len(i.Attributes) > 0 {
				if err := decode(i.Attributes, &object); err != nil {
					return nil, false, fmt.Errorf("read Terraform's state: %s: %w", one.Address, err)
				}
			}
			one.AttributeValues = object.values
			all = append(all, one)
		}
	}
	return all, true, nil
}

// attributes are those attributes of an object that have one of the names.
type attributes struct {
	names  []string
	values map[string]any
}

// UnmarshalJSONFrom skips all other attributes.
func (a *attributes) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	if from.PeekKind() != '{' {
		return fast.UnmarshalDecode(from, &a.values)
	}
	a.values = map[string]any{}
	if _, err := from.ReadToken(); err != nil {
		return err
	}
	for from.PeekKind() != '}' {
		token, err := from.ReadToken()
		if err != nil {
			return err
		}
		i := slices.Index(a.names, token.String())
		if i < 0 {
			if err := from.SkipValue(); err != nil {
				return err
			}
			continue
		}
		var value any
		if err := fast.UnmarshalDecode(from, &value); err != nil {
			return err
		}
		a.values[a.names[i]] = value
	}
	_, err := from.ReadToken()
	return err
}

// decode accepts what encoding/json accepts, and is several times as fast.
func decode(text []byte, into any) error {
	return fast.Unmarshal(text, into, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// push writes a state with the next serial. Terraform rejects it if another process has written that serial
// meanwhile.
func (d *Driver) push(ctx context.Context, s *stateFile) error {
	s.serial++
	text, err := s.render()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(d.cfg.PlanDir, previewPrefix) // readable by its owner only; sweep removes it
	if err != nil {
		return fmt.Errorf("terraform state push: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the next sweep tries again
	path := filepath.Join(dir, "pushed.tfstate")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return fmt.Errorf("terraform state push: %w", err)
	}
	err = d.writing(func(tf *tfexec.Terraform) error {
		return tf.StatePush(ctx, path, tfexec.LockTimeout(seconds(d.cfg.LockTimeout)))
	})
	if err != nil {
		return fmt.Errorf("terraform state push: %w", orDone(ctx, err))
	}
	return nil
}
