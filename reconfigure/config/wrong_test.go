package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure/config"
)

func TestAProblemOfACallerHasItsLine(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "group_vars"), 0o755); err != nil {
		t.Fatal(err)
	}
	const text = "# comment\nprovider: aws\nnode_groups:\n  - name: a\n  - name: b\n    when_idle: stop\n"
	if err := os.WriteFile(filepath.Join(dir, config.File), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"provider":                 "group_vars/all.yml:2: provider: no",
		"node_groups[1].when_idle": "group_vars/all.yml:6: node_groups[1].when_idle: no",
		"node_groups[0].when_idle": "group_vars/all.yml:4: node_groups[0].when_idle: no",
		"node_groups[7].when_idle": "group_vars/all.yml:3: node_groups[7].when_idle: no",
		"slurm":                    "group_vars/all.yml:2: slurm: no",
	} {
		if got := config.Wrong(dir, path, "no").Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
