package site

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/assets"
)

// TestABackupOfACheckoutHasTheSitesFiles has the program's files as they are, and one that was edited.
func TestABackupOfACheckoutHasTheSitesFiles(t *testing.T) {
	dir := t.TempDir()
	const edited = "ansible/site.yml"
	own := []string{
		edited, "group_vars/all.yml", "group_vars/cluster.yml", "clouds.yaml", "power/switch.sh", "notes",
		"ansible/group_vars/group_gpu.yml", "ansible/files/site/prolog.0.all", "terraform/openstack/dns.tf",
	}
	others := []string{
		"README.md", "go.mod", "cmd/x.go", "bin/reconfigure", "dist/x", ".git/config", "terraform/openstack/.terraform/x",
		"terraform/openstack/terraform.tfstate.backup", "terraform/openstack/nodes/s-1.json", "inventory.json",
		"terraform/openstack/nodes.auto.tfvars.json", ".reconfigure.json", "var/journal.db", "ansible/embed.go",
		"ansible/testdata/x",
	}
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for path, text := range assets.Files() {
		write(path, text)
	}
	for _, path := range append(slices.Clone(own), others...) {
		write(path, "ours")
	}
	if err := os.Symlink(filepath.Join(dir, "nowhere"), filepath.Join(dir, "broken")); err != nil {
		t.Fatal(err)
	}
	s := Site{Dir: dir, Cluster: reconfigure.Cluster{Settings: reconfigure.Settings{StateDir: filepath.Join(dir, "var")}}}
	got, err := s.ownFiles()
	slices.Sort(own)
	slices.Sort(got)
	if diff := cmp.Diff(own, got); diff != "" || err != nil {
		t.Errorf("(-want +got):\n%s%v", diff, err)
	}
}
