package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/cloud/openstack"
)

// oneGroups has a node for each measurement, and one whose instance Terraform alone makes.
func oneGroups(s sizes) []cluster.NodeGroup {
	return []cluster.NodeGroup{cluster.Group("one", "one", 0, s.one+1)}
}

// one measures a job on one node without an instance, from sbatch to its first line, and a plain `terraform apply` of
// the same resource.
func (b *bench) one(ctx context.Context) (report, error) {
	about := "A job needs one node without an instance. The job itself writes the time of its first line. Compared with " +
		"`terraform apply` by hand of the instance of one node of the same group, whose port exists already. Medians. " +
		"What bounds each step from below:\n"
	for _, name := range steps {
		about += fmt.Sprintf("\n- **%s**: %s", name, floors[name])
	}
	r := report{about: about}
	lab, err := b.lab(ctx)
	if err != nil {
		return r, err
	}
	group := oneGroups(b.sizes)[0]
	nodes := numbered(group, 1, b.sizes.one)
	spare := numbered(group, b.sizes.one+1, b.sizes.one+1)[0]
	var came []split
	var alone []time.Duration
	for i, node := range nodes {
		s, err := lab.jobOn(ctx, node)
		if err != nil {
			return r, err
		}
		b.say("%s: registered after %s, first line after %s", node, seconds(s.up), seconds(s.first))
		came = append(came, s)
		if err := lab.settled(ctx); err != nil {
			return r, err
		}
		if i < b.sizes.floors {
			floor, err := lab.floor(ctx, node, spare)
			if err != nil {
				return r, fmt.Errorf("of Terraform alone: %w", err)
			}
			b.say("Terraform alone: %s", seconds(floor))
			alone = append(alone, floor)
		}
	}
	up := middle(came, func(s split) time.Duration { return s.up })
	line := middle(came, func(s split) time.Duration { return s.first })
	floor := median(alone)
	r.rows = []row{
		{
			what: "one node, sbatch to slurmd registered", measured: seconds(up),
			beside: "terraform apply of one server " + seconds(floor),
			ratio:  ratio(times(up, floor)), goal: "< 1", met: up < floor, value: up.Seconds(),
		},
		{
			what: "one node, sbatch to the job's first line", measured: seconds(line),
			beside: "slurmd registered " + seconds(up), ratio: ratio(times(line, up)), value: line.Seconds(),
		},
	}
	r.details = splitTable(came)
	return r, lab.release(ctx, nodes...)
}

func middle[T any](all []T, of func(T) time.Duration) time.Duration {
	var some []time.Duration
	for _, s := range all {
		some = append(some, of(s))
	}
	return median(some)
}

// median returns the median of times; with an even number, the smaller of the two in the middle.
func median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[(len(sorted)-1)/2]
}

// floor returns how long Terraform alone takes for an instance like another one of the group. It uses a copy of the
// root module with its state, so that the product does not see it, and removes the instance afterwards.
func (l *lab) floor(ctx context.Context, like, node string) (took time.Duration, err error) {
	module, err := l.copyModule(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(filepath.Dir(filepath.Dir(module)))) }()
	file, err := l.nodesFile(ctx, module, node)
	if err != nil {
		return 0, err
	}
	if err := giveInstance(file, like, node); err != nil {
		return 0, err
	}
	apply := l.TerraformIn(
		ctx, module, "apply", "-input=false", "-auto-approve", "-no-color",
		fmt.Sprintf("-target=openstack_compute_instance_v2.node[%q]", node),
	)
	begun := time.Now()
	out, err := apply.CombinedOutput()
	took = time.Since(begun)
	if err != nil {
		return 0, fmt.Errorf("%w\n%s", err, out)
	}
	var variables struct {
		ID string `json:"cluster_id"`
	}
	text, err := os.ReadFile(filepath.Join(module, variablesFile))
	if err = errors.Join(err, json.Unmarshal(text, &variables)); err != nil {
		return 0, err
	}
	client, err := openstack.New(ctx, openstack.Config{
		Cloud: l.Declaration.Cloud, CloudsFile: filepath.Join(l.Site, "clouds.yaml"), Cluster: l.Declaration.ClusterName,
		Identity: reconfigure.Identity{ID: variables.ID, Marked: true},
	})
	if err != nil {
		return 0, err
	}
	servers := l.Cloud.Servers()
	i := slices.IndexFunc(servers, func(s labcloud.Server) bool { return s.Name == node })
	if i < 0 {
		return 0, fmt.Errorf("no instance of %s was made by Terraform", node)
	}
	return took, client.RemoveServer(ctx, servers[i].ID, node, time.Now())
}

// copyModule copies the root module with its state, and the declaration that it reads.
func (l *lab) copyModule(ctx context.Context) (module string, err error) {
	dir := filepath.Join(l.Dir, "by-hand")
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(filepath.Join(dir, "terraform"), 0o755)); err != nil {
		return "", err
	}
	for _, part := range []string{"group_vars", "terraform/openstack"} {
		if out, err := exec.CommandContext(
			ctx, "cp", "-a", filepath.Join(l.Site, part), filepath.Join(dir, part),
		).CombinedOutput(); err != nil {
			return "", fmt.Errorf("copy %s: %w: %s", part, err, out)
		}
	}
	return filepath.Join(dir, "terraform", "openstack"), nil
}

// variablesFile has the nodes of the default workspace, in the root module.
const variablesFile = "nodes.auto.tfvars.json"

// nodesFile returns the file with the entry of a node in a copy of the root module, and selects the node's workspace.
func (l *lab) nodesFile(ctx context.Context, module, node string) (string, error) {
	files, err := filepath.Glob(filepath.Join(module, "nodes", "*.json"))
	if err != nil {
		return "", err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(text, []byte(strconv.Quote(node)+": {")) {
			continue
		}
		workspace := strings.TrimSuffix(filepath.Base(file), ".json")
		if out, err := l.TerraformIn(ctx, module, "workspace", "select", workspace).CombinedOutput(); err != nil {
			return "", fmt.Errorf("terraform workspace select %s: %w\n%s", workspace, err, out)
		}
		return file, nil
	}
	return filepath.Join(module, variablesFile), nil
}

// giveInstance changes the map of nodes in a file, so that a node with a kept port has an instance like another node.
func giveInstance(file, like, node string) error {
	return editMap(file, func(nodes, ports map[string]map[string]any) error {
		if nodes[like] == nil || ports[node] == nil {
			return fmt.Errorf("%s has no instance, or %s no kept port", like, node)
		}
		nodes[node] = nodes[like]
		delete(ports, node)
		return nil
	})
}

// changeSpec changes the entry of a node in the map of nodes in a file.
func changeSpec(file, node, key, value string) error {
	return editMap(file, func(nodes, _ map[string]map[string]any) error {
		if nodes[node] == nil {
			return fmt.Errorf("%s has no instance", node)
		}
		nodes[node][key] = value
		return nil
	})
}

// editMap edits the map of nodes in a file.
func editMap(file string, edit func(nodes, ports map[string]map[string]any) error) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var variables map[string]json.RawMessage
	var nodes, ports map[string]map[string]any
	err = json.Unmarshal(text, &variables)
	err = errors.Join(err, json.Unmarshal(variables["nodes"], &nodes), json.Unmarshal(variables["kept_ports"], &ports))
	if err == nil {
		err = edit(nodes, ports)
	}
	if err != nil {
		return err
	}
	for name, part := range map[string]any{"nodes": nodes, "kept_ports": ports} {
		if variables[name], err = json.Marshal(part); err != nil {
			return err
		}
	}
	if text, err = json.Marshal(variables); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}
