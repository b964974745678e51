package terraform

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// variables is the content of the file with the map of nodes.
type variables struct {
	Nodes map[string]reconfigure.Spec `json:"nodes"`
}

func (d *Driver) desiredFile() string { return desiredFile(d.cfg.Dir) }

func desiredFile(dir string) string { return filepath.Join(dir, "nodes.auto.tfvars.json") }

// Desired is the map of nodes that Terraform was last told of; empty before the first apply.
func (d *Driver) Desired() (map[string]reconfigure.Spec, error) { return Desired(d.cfg.Dir) }

// Desired is the same for those who need nothing else of the root module in dir: it takes no Terraform.
func Desired(dir string) (map[string]reconfigure.Spec, error) {
	file := desiredFile(dir)
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]reconfigure.Spec{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the map of nodes: %w", err)
	}
	var v variables
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields() // what we would drop when we write it again is somebody else's
	if err := strict.Decode(&v); err != nil {
		return nil, fmt.Errorf("read the map of nodes in %s: %w", file, err)
	}
	if v.Nodes == nil {
		return nil, fmt.Errorf("read the map of nodes in %s: it has no nodes", file)
	}
	return v.Nodes, nil
}

// remember makes the map of nodes durable: the file is whole at any time, and so is the folder that names it.
func (d *Driver) remember(nodes map[string]reconfigure.Spec) error {
	if err := writeNodes(d.desiredFile(), nodes); err != nil {
		return fmt.Errorf("write the map of nodes: %w", err)
	}
	dir, err := os.Open(d.cfg.Dir)
	if err != nil {
		return fmt.Errorf("write the map of nodes: %w", err)
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil {
		return fmt.Errorf("write the map of nodes: %w", err)
	}
	return nil
}

func writeNodes(path string, nodes map[string]reconfigure.Spec) error {
	if nodes == nil {
		nodes = map[string]reconfigure.Spec{} // null is no map to Terraform
	}
	text, err := json.MarshalIndent(variables{Nodes: nodes}, "", "  ")
	if err != nil {
		return err
	}
	return renameio.WriteFile(path, append(text, '\n'), 0o644)
}
