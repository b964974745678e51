package config_test

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/eiffel-hpc/eiffel/reconfigure/config"
)

// TestDefaults reads a declaration with the required keys alone, and one that has the default of each other key.
// Ansible and Terraform read the same two files in their tests.
func TestDefaults(t *testing.T) {
	few, err := os.ReadFile("testdata/defaults/few.yml")
	if err != nil {
		t.Fatal(err)
	}
	all, err := os.ReadFile("testdata/defaults/all.yml")
	if err != nil {
		t.Fatal(err)
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	dir := directory(t, string(few))
	got, err := config.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	written := strings.NewReplacer("OWNER", me.Username, "DIRECTORY", dir).Replace(string(all))
	if err := os.WriteFile(filepath.Join(dir, config.File), []byte(written), 0o644); err != nil {
		t.Fatal(err)
	}
	want, err := config.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	want.Provider = got.Provider // package site has this default
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("with all defaults written and with none (-want +got):\n%s", diff)
	}
}

// Each key of the smallest declaration is required.
func TestRequiredKeys(t *testing.T) {
	text, err := os.ReadFile("testdata/defaults/few.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file yaml.Node
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	required := 0
	var visit func(at string, n *yaml.Node)
	visit = func(at string, n *yaml.Node) {
		for i, item := range n.Content {
			switch {
			case n.Kind == yaml.SequenceNode && i == 0:
				visit(at+"[0]", item)
			case n.Kind == yaml.MappingNode && i%2 == 0:
				key := strings.TrimPrefix(at+"."+item.Value, ".")
				if n.Content[i+1].Kind == yaml.ScalarNode {
					required++
				}
				whole := n.Content
				n.Content = append(append([]*yaml.Node{}, whole[:i]...), whole[i+2:]...)
				less, err := yaml.Marshal(&file)
				n.Content = whole
				if err != nil {
					t.Fatal(err)
				}
				if _, err := config.Load(directory(t, string(less))); err == nil ||
					!strings.Contains(err.Error(), fmt.Sprintf("%s: is missing", key)) {
					t.Errorf("without %s: %v", key, err)
				}
				visit(key, n.Content[i+1])
			}
		}
	}
	visit("", file.Content[0])
	if required > 10 {
		t.Errorf("%d keys are required", required)
	}
}
