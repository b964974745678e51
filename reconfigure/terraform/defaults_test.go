package terraform

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestDefaults has the root module for OpenStack read the declarations of package config's test of that name: the one
// with the required keys alone, and the one that has the defaults of all others.
func TestDefaults(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	c.open() // initializes the folder
	values := func(declaration string) string {
		c.Helper()
		c.write("group_vars/all.yml", repository(t, "reconfigure/config/testdata/defaults/"+declaration))
		cmd := exec.CommandContext(t.Context(), c.cfg.Binary, "console")
		cmd.Dir, cmd.Env = c.cfg.Dir, append(os.Environ(), c.cfg.Environ...)
		cmd.Stdin = strings.NewReader("jsonencode([local.control, local.key, local.public, local.allowed, local.patience])\n")
		said, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		return string(said)
	}
	want, got := values("all.yml"), values("few.yml")
	if want != got || !strings.Contains(want, `\"name\":\"two-halves-control\"`) {
		t.Errorf("with all keys %s\nwith the required ones %s", want, got)
	}
}

// TestDefaultsInTheModules finds keys that may be missing in the text of all modules. Not all of their providers are
// at hand in this test.
func TestDefaultsInTheModules(t *testing.T) {
	var all map[string]any
	if err := yaml.Unmarshal([]byte(repository(t, "reconfigure/config/testdata/defaults/all.yml")), &all); err != nil {
		t.Fatal(err)
	}
	modules, err := filepath.Glob("../../terraform/*/main.tf")
	if err != nil || len(modules) != 3 {
		t.Fatalf("%d modules: %v", len(modules), err)
	}
	uses := regexp.MustCompile(`(try\()?local\.cluster\.(\w+)\.(\w+)(?:, ("?[^,)"]*"?)\))?`)
	for _, module := range modules {
		text, err := os.ReadFile(module)
		if err != nil {
			t.Fatal(err)
		}
		found := uses.FindAllStringSubmatch(string(text), -1)
		if len(found) == 0 {
			t.Errorf("%s reads nothing of the declaration", module)
		}
		for _, use := range found {
			section, _ := all[use[2]].(map[string]any)
			want := "[]" // of a list that only an attached cluster may declare
			if value, ok := section[use[3]]; ok {
				want = fmt.Sprintf("%#v", value)
			}
			if use[1] == "" || use[4] != want {
				t.Errorf("%s: %s, want try(…, %s)", module, use[0], want)
			}
		}
	}
}
