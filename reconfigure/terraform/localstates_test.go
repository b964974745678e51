package terraform

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLocalStatesAreWhole has states that Terraform is writing, or was killed while it wrote them.
func TestLocalStatesAreWhole(t *testing.T) {
	const whole = `{"version": 4, "serial": 2, "resources": []}`
	shard := filepath.Join(stateFolder, "standard-0", "terraform.tfstate")
	one, both := map[string]string{shard: whole}, map[string]string{shard: whole, "terraform.tfstate": whole}
	for name, c := range map[string]struct {
		files map[string]string
		want  map[string]string
		fails string
	}{
		"no state":       {},
		"whole":          {files: both, want: both},
		"cut off":        {files: map[string]string{shard: whole[:20], shard + ".backup": whole}, want: one},
		"empty":          {files: map[string]string{shard: "", shard + ".backup": whole}, want: one},
		"without a copy": {files: map[string]string{shard: whole[:20]}, fails: "no whole state"},
		"another back end": {files: map[string]string{
			filepath.Join(".terraform", "terraform.tfstate"): "{}", "terraform.tfstate": whole,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for path, text := range c.files {
				path = filepath.Join(dir, path)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			states, err := LocalStates(t.Context(), dir)
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("%v", err)
				}
				return
			}
			got := map[string]string{}
			for path, text := range states {
				got[path] = string(text)
			}
			if err != nil || !maps.Equal(got, c.want) {
				t.Errorf("%v, want %v: %v", got, c.want, err)
			}
		})
	}
}
