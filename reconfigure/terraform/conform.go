package terraform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-exec/tfexec"
	tfjson "github.com/hashicorp/terraform-json"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// errOldAttributes is the error of a saved plan that Terraform cannot print, since the state has attributes that the
// selected version of the provider does not have. An older version has written them. Terraform drops them when it
// refreshes a resource, but a plan with targets refreshes only some.
var errOldAttributes = errors.New("the state has attributes of an older version of the provider")

// readBack returns the plan in dir that savePlan has saved. If the state has attributes of an older version of the
// provider, it removes them from the state, and saves the plan again.
func (d *Driver) readBack(ctx context.Context, dir string, p reconfigure.Plan, args arguments, m module) (
	*tfjson.Plan, error,
) {
	saved, err := d.show(ctx, dir)
	if !errors.Is(err, errOldAttributes) {
		return saved, err
	}
	if err := d.conform(ctx); err != nil {
		return nil, fmt.Errorf("%w, which could not be removed: %w", errOldAttributes, err)
	}
	if _, _, err := d.savePlan(ctx, dir, p, args, m); err != nil {
		return nil, err
	}
	return d.show(ctx, dir)
}

// conform removes the attributes from this shard's state that the selected version of the provider does not have.
// Nothing else in it changes.
func (d *Driver) conform(ctx context.Context) error {
	var all *tfjson.ProviderSchemas
	if err := d.run(func(tf *tfexec.Terraform) (err error) {
		all, err = tf.ProvidersSchema(ctx)
		return err
	}); err != nil {
		return fmt.Errorf("terraform providers schema: %w", orDone(ctx, err))
	}
	kinds := map[string]*tfjson.Schema{}
	for _, provider := range all.Schemas {
		for kind, schema := range provider.ResourceSchemas {
			kinds[kind] = schema
		}
	}
	state, err := d.pull(ctx)
	if err != nil {
		return err
	}
	if err := state.conform(kinds); err != nil {
		return err
	}
	return d.push(ctx, state)
}

// conform removes the attributes that the schemas of the managed resources do not have.
func (s *stateFile) conform(kinds map[string]*tfjson.Schema) error {
	for _, r := range s.resources {
		schema := kinds[r.kind]
		if r.mode != string(tfjson.ManagedResourceMode) || schema == nil {
			continue
		}
		for n, i := range r.instances {
			raw, err := conformed(schema.Block, i["attributes"])
			if err == nil {
				r.instances[n], err = i.with("attributes", raw)
			}
			if err != nil {
				return fmt.Errorf("read Terraform's state: %s: %w", r.block(), err)
			}
		}
	}
	return nil
}

// conformed returns a value of a block's type without the attributes that the block does not have. The value is an
// object, a list of objects, or null.
func conformed(block *tfjson.SchemaBlock, value json.RawMessage) (json.RawMessage, error) {
	switch text := strings.TrimSpace(string(value)); {
	case strings.HasPrefix(text, "["):
		var all []json.RawMessage
		if err := json.Unmarshal(value, &all); err != nil {
			return nil, err
		}
		for n := range all {
			var err error
			if all[n], err = conformed(block, all[n]); err != nil {
				return nil, err
			}
		}
		return json.Marshal(all)
	case strings.HasPrefix(text, "{"):
		var object fields
		if err := json.Unmarshal(value, &object); err != nil {
			return nil, err
		}
		for name, inner := range object {
			nested := block.NestedBlocks[name]
			switch {
			case block.Attributes[name] != nil:
			case nested == nil:
				delete(object, name)
			default:
				var err error
				if object[name], err = conformed(nested.Block, inner); err != nil {
					return nil, err
				}
			}
		}
		return json.Marshal(object)
	}
	return value, nil
}
