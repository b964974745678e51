package terraform

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/hashicorp/terraform-exec/tfexec"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// A shard is a workspace of the root module with a state of its own. Its name is the workspace's, and that of the
// default workspace is empty.

// workspace is what Terraform calls a shard.
func workspace(shard string) string {
	if shard == reconfigure.DefaultShard {
		return "default"
	}
	return shard
}

// launcher writes the program that runs Terraform in a shard's workspace, whichever one somebody has selected by
// hand, and is its path. TF_WORKSPACE is how Terraform is told for one run only, and terraform-exec takes it out of
// any environment.
func launcher(dir, binary, shard string) (string, error) {
	path := filepath.Join(dir, "terraform-"+workspace(shard))
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
	script := fmt.Sprintf("#!/bin/sh\nTF_WORKSPACE=%s exec %s \"$@\"\n", quote(workspace(shard)), quote(binary))
	if was, err := os.ReadFile(path); err == nil && string(was) == script {
		return path, nil
	}
	if err := renameio.WriteFile(path, []byte(script), 0o700); err != nil {
		return "", fmt.Errorf("terraform: %w", err)
	}
	return path, nil
}

// shardName is what the names of shards look like that Cluster.Shard gives.
var shardName = regexp.MustCompile(`^[a-z][a-z0-9_]*-[0-9]+$`)

// Shards is the shards that may have instances, in order, the default one first: those of the map of nodes, and the
// workspaces that there are, since a removal that was cut short leaves an instance without an entry in the map.
func (d *Driver) Shards(ctx context.Context) ([]string, error) {
	nodes, _, err := d.nodes().Read(ctx)
	if err != nil {
		return nil, err
	}
	var workspaces []string
	// Not by a launcher: with TF_WORKSPACE Terraform says more than the list.
	err = d.with(d.cfg.Binary, func(tf *tfexec.Terraform) (err error) {
		workspaces, _, err = tf.WorkspaceList(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("terraform workspace list: %w", orDone(ctx, err))
	}
	shards := reconfigure.Shards(nodes)
	for _, name := range workspaces {
		if shardName.MatchString(name) {
			shards = append(shards, name)
		}
	}
	slices.Sort(shards)
	return slices.Compact(shards), nil
}

// module reads the root module for a run in this shard. In a cluster that has several it must be fit for that.
func (d *Driver) module(several bool) (module, error) {
	m, err := readModule(d.cfg.Dir)
	if err != nil {
		return module{}, err
	}
	m.shard = d.cfg.Workspace
	if several || d.cfg.Workspace != reconfigure.DefaultShard {
		return m, m.shards()
	}
	return m, nil
}

// strayed is why a plan is not for this shard; nil where it is. All is the map of nodes as it was last kept, of all
// shards.
func (d *Driver) strayed(p reconfigure.Plan, all map[string]reconfigure.Spec) error {
	for node := range p.Nodes(reconfigure.Create, reconfigure.Replace, reconfigure.Remove).All() {
		spec, known := p.Desired[node]
		if !known {
			spec, known = all[node]
		}
		if known && spec.Shard != d.cfg.Workspace {
			return fmt.Errorf("%s belongs to the workspace %s, and not to %s",
				node, workspace(spec.Shard), workspace(d.cfg.Workspace))
		}
	}
	left := reconfigure.InShard(p.Desired, reconfigure.DefaultShard)
	if d.cfg.Workspace != reconfigure.DefaultShard || !p.Shared || len(left) > 0 {
		return nil
	}
	if others := reconfigure.Shards(all)[1:]; len(others) > 0 {
		return fmt.Errorf("the workspaces %s have nodes that need what is shared: they go first", strings.Join(others, ", "))
	}
	return nil
}

// shared is what this shard is told of the default one. It is read once, and again for a deploy, which may have made
// it anew.
func (d *Driver) shared(ctx context.Context, deploy bool) (shared, error) {
	if d.cfg.Workspace == reconfigure.DefaultShard {
		return shared{}, nil
	}
	if d.known != (shared{}) && !deploy {
		return d.known, nil
	}
	var state string
	err := d.with(d.defaultLauncher, func(tf *tfexec.Terraform) (err error) {
		state, err = tf.StatePull(ctx)
		return err
	})
	if err != nil {
		return shared{}, fmt.Errorf("terraform state pull: %w", orDone(ctx, err))
	}
	found, err := sharedOf(state)
	if err != nil {
		return shared{}, fmt.Errorf("read the state of the default workspace: %w", err)
	}
	d.known = found
	return found, nil
}

// keep has this shard's part of a plan's map of nodes kept.
func (d *Driver) keep(ctx context.Context, p reconfigure.Plan) error {
	known, err := d.shared(ctx, p.Shared)
	if err != nil {
		return err
	}
	return d.nodes().keep(ctx, d.cfg.Workspace, reconfigure.InShard(p.Desired, d.cfg.Workspace), known)
}

// sharedOf finds what the shards share in the default workspace's state, as `terraform state pull` gives it; nothing
// of it in an empty one.
func sharedOf(state string) (shared, error) {
	if strings.TrimSpace(state) == "" {
		return shared{}, nil
	}
	var found struct {
		Resources []struct {
			Module, Mode, Type, Name string
			Instances                []struct {
				Attributes struct{ ID string }
			}
		}
	}
	if err := json.Unmarshal([]byte(state), &found); err != nil {
		return shared{}, err
	}
	for _, r := range found.Resources {
		is := r.Module == "" && r.Mode == "managed" && r.Type == "openstack_networking_secgroup_v2" && r.Name == "cluster"
		if is && len(r.Instances) > 0 {
			return shared{SecurityGroupID: r.Instances[0].Attributes.ID}, nil
		}
	}
	return shared{}, nil
}
