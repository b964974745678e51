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
	"syscall"

	"github.com/google/renameio/v2"
	"github.com/hashicorp/terraform-exec/tfexec"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// A shard is a workspace of the root module with its own state. Its name is that of the workspace, and empty for the
// default workspace.

// workspace returns Terraform's name of a shard.
func workspace(shard string) string {
	if shard == reconfigure.DefaultShard {
		return "default"
	}
	return shard
}

// launcher writes a program that runs Terraform in a shard's workspace, regardless of the selected one, and returns
// its path. TF_WORKSPACE selects the workspace for one run only, and terraform-exec removes it from the environment.
// If the file answer exists, the program prints it for `version -json`: terraform-exec asks for that once in each
// process, and a start of Terraform would delay each request.
func launcher(dir, binary, shard, answer string) (string, error) {
	path := filepath.Join(dir, "terraform-"+workspace(shard))
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
	script := fmt.Sprintf("#!/bin/sh\n[ \"$*\" = 'version -json' ] && cat %s 2>/dev/null && exit\nTF_WORKSPACE=%s exec "+
		"%s \"$@\"\n", quote(answer), quote(workspace(shard)), quote(binary))
	if was, err := os.ReadFile(path); err == nil && string(was) == script {
		return path, nil
	}
	// A process that starts meanwhile would inherit the open file, and running the launcher would fail: ETXTBSY of
	// execve(2).
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := renameio.WriteFile(path, []byte(script), 0o700); err != nil {
		return "", fmt.Errorf("terraform: %w", err)
	}
	return path, nil
}

// shardName matches the names that Cluster.Shard returns.
var shardName = regexp.MustCompile(`^[a-z][a-z0-9_]*-[0-9]+$`)

// Shards returns the shards that may have instances, sorted, the default one first: those of the map of nodes, and the
// existing workspaces, since an interrupted removal leaves an instance without an entry in the map.
func (d *Driver) Shards(ctx context.Context) ([]string, error) {
	nodes, _, err := d.nodes().Read(ctx)
	if err != nil {
		return nil, err
	}
	var workspaces []string
	// The launcher is not used: with TF_WORKSPACE Terraform prints more than the list.
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

// module reads the root module for a run in this shard. If the cluster has several, it must support that.
func (d *Driver) module(several bool) (module, error) {
	m, err := d.read()
	if err != nil {
		return module{}, err
	}
	m.shard = d.cfg.Workspace
	if several || d.cfg.Workspace != reconfigure.DefaultShard {
		return m, m.shards()
	}
	return m, nil
}

func (d *Driver) strayed(p reconfigure.Plan, all map[string]reconfigure.Spec) error {
	for node := range p.Provisioned().All() {
		spec, known := p.Desired[node]
		if !known {
			spec, known = all[node]
		}
		if known && spec.Shard != d.cfg.Workspace {
			return fmt.Errorf("%s belongs to the workspace %s, not to %s",
				node, workspace(spec.Shard), workspace(d.cfg.Workspace))
		}
	}
	left := reconfigure.InShard(p.Desired, reconfigure.DefaultShard)
	if d.cfg.Workspace != reconfigure.DefaultShard || !p.Shared || len(left) > 0 {
		return nil
	}
	if others := reconfigure.Shards(all)[1:]; len(others) > 0 {
		return fmt.Errorf("the workspaces %s have nodes that need the shared resources: they must be removed first",
			strings.Join(others, ", "))
	}
	return nil
}

// shared returns the values of the default workspace for this shard. They are read once, and again for a deploy, which
// may change them.
func (d *Driver) shared(ctx context.Context, deploy bool) (shared, error) {
	if d.cfg.Workspace == reconfigure.DefaultShard {
		return shared{}, nil
	}
	if d.known != (shared{}) && !deploy {
		return d.known, nil
	}
	if text, ok := d.readLocal(reconfigure.DefaultShard); ok {
		if found, err := sharedOf(d.cfg.Module.Group, string(text)); err == nil {
			d.known = found
			return found, nil
		}
	}
	var state string
	err := d.with(d.defaultLauncher, func(tf *tfexec.Terraform) (err error) {
		state, err = tf.StatePull(ctx)
		return err
	})
	if err != nil {
		return shared{}, fmt.Errorf("terraform state pull: %w", orDone(ctx, err))
	}
	found, err := sharedOf(d.cfg.Module.Group, state)
	if err != nil {
		return shared{}, fmt.Errorf("read the state of the default workspace: %w", err)
	}
	d.known = found
	return found, nil
}

// keep stores this shard's part of a plan's map of nodes.
func (d *Driver) keep(ctx context.Context, p reconfigure.Plan) error {
	known, err := d.shared(ctx, p.Shared)
	if err != nil {
		return err
	}
	nodes := map[string]reconfigure.Spec{}
	for node, spec := range reconfigure.InShard(p.Desired, d.cfg.Workspace) {
		nodes[node] = spec.Stored()
	}
	return d.nodes().keep(ctx, d.cfg.Workspace, nodes, known)
}

// sharedOf returns the shared values in the default workspace's state, as `terraform state pull` prints it: the id of
// the resource "cluster" of a type. There are none in an empty state, nor if the type is empty.
func sharedOf(group, state string) (shared, error) {
	if group == "" || strings.TrimSpace(state) == "" {
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
		is := r.Module == "" && r.Mode == "managed" && r.Type == group &&
			r.Name == "cluster"
		if is && len(r.Instances) > 0 {
			return shared{SecurityGroupID: r.Instances[0].Attributes.ID}, nil
		}
	}
	return shared{}, nil
}
