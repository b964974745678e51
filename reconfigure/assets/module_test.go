package assets

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// moduleOf is the module of a site folder.
func moduleOf(site string) Module {
	return Module{
		Dir: filepath.Join(site, "terraform", "openstack"), Name: "openstack", Own: filepath.Join(site, "terraform"),
		Files: map[string]string{"site.auto.tfvars.json": "{}"}, Links: map[string]string{"clouds.yaml": "../../clouds.yaml"},
	}
}

// states are files that Terraform writes to the folder, and that Put must not change.
func states() map[string]string {
	return map[string]string{
		"terraform.tfstate": "state", "nodes/cpu-0.json": "nodes", "nodes.auto.tfvars.json": "nodes",
		".terraform/lock": "data", ".terraform.lock.hcl": "providers", "terraform.tfstate.d/cpu-0/terraform.tfstate": "state",
	}
}

func writeAll(t *testing.T, dir string, mode os.FileMode, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check(t, os.WriteFile(path, []byte(text), mode))
	}
}

// content returns the files and links in a folder of a module, without those of Terraform's.
func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return all
	}
	check(t, err)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if target, err := os.Readlink(path); err == nil {
			all[e.Name()] = "→ " + target
		} else if !e.IsDir() {
			text, err := os.ReadFile(path)
			check(t, err)
			all[e.Name()] = string(text)
		}
	}
	for name := range states() {
		delete(all, name)
	}
	return all
}

// wholeModule is the content that Put leaves.
func wholeModule(own ...string) map[string]string {
	all := map[string]string{"site.auto.tfvars.json": "{}", "clouds.yaml": "→ ../../clouds.yaml"}
	for path, text := range Files() {
		if name, ok := strings.CutPrefix(path, "terraform/openstack/"); ok {
			all[name] = text
		}
	}
	for _, name := range own {
		all["site_"+name] = "→ ../" + name
	}
	return all
}

// former makes the folder of a former version, which had one file more and others of another text, with states.
func former(t *testing.T, site string) {
	t.Helper()
	dir := moduleOf(site).Dir
	writeAll(t, dir, 0o444, map[string]string{
		"main.tf": "former", "variables.tf": Files()["terraform/openstack/variables.tf"], "gone.tf": "former",
		"site.auto.tfvars.json": "{}",
	})
	check(t, os.Symlink("../former.tf", filepath.Join(dir, "site_former.tf")))
	writeAll(t, dir, 0o644, states())
}

func TestPut(t *testing.T) {
	site := t.TempDir()
	former(t, site)
	writeAll(t, site, 0o644, map[string]string{
		"terraform/dns.tf": "", "terraform/main.tf": "", "terraform/README.md": "", "terraform/own/main.tf": "",
	})
	m := moduleOf(site)
	differs, err := m.Differs()
	check(t, err)
	if !differs {
		t.Error("the folder of a former version does not differ")
	}
	check(t, m.Put(t.Context()))
	if diff := cmp.Diff(wholeModule("dns.tf", "main.tf"), content(t, m.Dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, want := range states() {
		if got, err := os.ReadFile(filepath.Join(m.Dir, name)); err != nil || string(got) != want {
			t.Errorf("%s has now %q, %v", name, got, err)
		}
	}
	before, err := os.Stat(filepath.Join(m.Dir, "main.tf"))
	check(t, err)
	if differs, err := m.Differs(); err != nil || differs {
		t.Errorf("it differs again: %v, %v", differs, err)
	}
	check(t, m.Put(t.Context()))
	after, err := os.Stat(filepath.Join(m.Dir, "main.tf"))
	check(t, err)
	if !os.SameFile(before, after) {
		t.Error("the second call has written main.tf again")
	}
}

// TestOwnFilesChangeWhileTerraformRuns: Terraform must not be refused.
func TestOwnFilesChangeWhileTerraformRuns(t *testing.T) {
	site := t.TempDir()
	m := moduleOf(site)
	writeAll(t, site, 0o644, map[string]string{"terraform/a.tf": ""})
	check(t, m.Put(t.Context()))
	check(t, os.Remove(filepath.Join(site, "terraform", "a.tf")))
	writeAll(t, site, 0o644, map[string]string{"terraform/dns.tf": "", "terraform/volumes.tf": ""})
	step = func() {
		if _, err := os.Stat(filepath.Join(m.Dir, Unready)); err == nil {
			t.Error("Terraform would have been refused")
		}
		if _, err := os.Lstat(filepath.Join(m.Dir, "site_a.tf")); err != nil {
			if _, err := os.Lstat(filepath.Join(m.Dir, "site_volumes.tf")); err != nil {
				t.Error("the former file was removed before the new ones were there")
			}
		}
	}
	defer func() { step = func() {} }()
	check(t, m.Put(t.Context()))
	if diff := cmp.Diff(wholeModule("dns.tf", "volumes.tf"), content(t, m.Dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPutChangesNoFileOfOthers(t *testing.T) {
	for name, c := range map[string]struct{ file, want string }{
		"in the way":        {"main.tf", "main.tf was not written by this program, and differs from its file: move it to "},
		"of a former place": {"backend.tf", "backend.tf is not one of the program's files: move it to "},
	} {
		t.Run(name, func(t *testing.T) {
			site := t.TempDir()
			m := moduleOf(site)
			writeAll(t, m.Dir, 0o644, map[string]string{c.file: "mine"})
			if err := m.Put(t.Context()); err == nil || !strings.Contains(err.Error(), c.want+m.Own) {
				t.Errorf("the error is %v", err)
			}
			if diff := cmp.Diff(map[string]string{c.file: "mine"}, content(t, m.Dir)); diff != "" {
				t.Errorf("the folder was changed:\n%s", diff)
			}
		})
	}
	t.Run("of the same text", func(t *testing.T) { // a checkout that becomes a site folder
		site := t.TempDir()
		m := moduleOf(site)
		writeAll(t, m.Dir, 0o644, map[string]string{"main.tf": Files()["terraform/openstack/main.tf"]})
		check(t, m.Put(t.Context()))
		if diff := cmp.Diff(wholeModule(), content(t, m.Dir)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// TestAKillLeavesNoModuleThatTerraformRuns kills the process before each of its changes of the file system. The folder
// must then be the former one, the new one, or one with which Terraform refuses to run.
func TestAKillLeavesNoModuleThatTerraformRuns(t *testing.T) {
	for situation, prepare := range map[string]func(site string){
		"first": func(string) {},
		"further": func(site string) {
			former(t, site)
			writeAll(t, site, 0o644, map[string]string{"terraform/dns.tf": ""})
		},
	} {
		t.Run(situation, func(t *testing.T) {
			steps := 0
			for killed := true; killed; steps++ {
				site := t.TempDir()
				prepare(site)
				m := moduleOf(site)
				before := content(t, m.Dir)
				want := wholeModule()
				if situation == "further" {
					want = wholeModule("dns.tf")
				}
				killed = killBefore(t, steps, "PUT_IN="+site)
				after := content(t, m.Dir)
				maps.DeleteFunc(after, func(name, _ string) bool { return strings.HasPrefix(name, ".") })
				_, refused := after[Unready]
				empty := !slices.ContainsFunc(slices.Collect(maps.Keys(after)), IsTerraforms)
				if !refused && !empty && !maps.Equal(after, before) && !maps.Equal(after, want) {
					t.Errorf("killed before step %d: Terraform would run with %v", steps, slices.Sorted(maps.Keys(after)))
				}
				check(t, m.Put(t.Context()))
				if diff := cmp.Diff(want, content(t, m.Dir)); diff != "" {
					t.Errorf("killed before step %d: the next call has left:\n%s", steps, diff)
				}
			}
			if steps < 8 {
				t.Errorf("there were only %d steps", steps)
			}
		})
	}
}
