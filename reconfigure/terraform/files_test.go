package terraform

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclparse"

	"github.com/eiffel-hpc/eiffel/lab/tools"
)

// program writes an executable that reports a version as terraform and tofu do.
func program(t *testing.T, dir, name, version string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho '{\"terraform_version\": \""+version+"\"}'\n"),
		0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBinaryIsTheFirstSuitableOne(t *testing.T) {
	path, downloads := t.TempDir(), t.TempDir()
	t.Setenv("PATH", path)
	find := func(configured string) string {
		t.Helper()
		got, err := findBinary(t.Context(), configured, downloads)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	program(t, path, "terraform", "1.4.7")
	tofu := program(t, path, "tofu", "1.6.0")
	if got := find(""); got != tofu {
		t.Errorf("with a terraform that is too old: %s", got)
	}
	untested := program(t, path, "terraform", "1.11.4")
	if got := find(""); got != untested {
		t.Errorf("with only an untested release: %s", got)
	}
	kept := program(t, downloads, "terraform", "1.5.0")
	if got := find(""); got != kept {
		t.Errorf("with one that was downloaded before: %s", got)
	}
	program(t, path, "terraform", "1.11.4")
	if got := find(""); got != kept {
		t.Errorf("with one on PATH that is not tested: %s", got)
	}
	newer := program(t, path, "terraform", "1.5.7")
	if got := find(""); got != newer {
		t.Errorf("with one that fits: %s", got)
	}
	if got := find(tofu); got != tofu {
		t.Errorf("with one that is configured: %s", got)
	}
	for name, configured := range map[string]string{
		"too old": program(t, t.TempDir(), "terraform", "1.4.7"), "not there": filepath.Join(path, "nothing"),
		"relative": "terraform", "mute": program(t, t.TempDir(), "terraform", ""),
	} {
		_, err := findBinary(t.Context(), configured, downloads)
		if err == nil {
			err = checkBinary(t.Context(), configured)
		}
		if err == nil {
			t.Errorf("a configured one that is %s is taken", name)
		}
	}
}

// TestWhatIsInstalledIsWhatIsTested compares the default versions of a site with those that the tests use.
func TestWhatIsInstalledIsWhatIsTested(t *testing.T) {
	if got := download(t.TempDir()).Version.String(); got != tools.TerraformVersion {
		t.Errorf("Terraform %s is downloaded, and the tests run with %s", got, tools.TerraformVersion)
	}
	parsed, problems := hclparse.NewParser().ParseHCLFile(filepath.Join(root(t), "terraform", "openstack", "versions.tf"))
	if problems.HasErrors() {
		t.Fatal(problems)
	}
	type provider struct {
		Source  string `cty:"source"`
		Version string `cty:"version"`
	}
	var found struct {
		Terraform struct {
			Rest      hcl.Body `hcl:",remain"`
			Providers struct {
				Openstack provider `hcl:"openstack"`
			} `hcl:"required_providers,block"`
		} `hcl:"terraform,block"`
		Rest hcl.Body `hcl:",remain"`
	}
	if problems := gohcl.DecodeBody(parsed.Body, nil, &found); problems.HasErrors() {
		t.Fatal(problems)
	}
	want := ">= " + tools.ProviderVersion + ", <= " + tools.NewestProviderVersion
	if got := found.Terraform.Providers.Openstack.Version; got != want {
		t.Errorf("the module admits provider %q, and the tests run with %q", got, want)
	}
}

func TestErrorOfAMissingBinary(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // no download
	_, err := findBinary(ctx, "", t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "all.yml") {
		t.Errorf("%v", err)
	}
}

func TestModuleIsInitializedOnceUntilItChanges(t *testing.T) {
	c := newCluster(t, nil)
	starts := filepath.Join(c.dir, "starts")
	binary := c.cfg.Binary
	c.write("terraform.sh", "#!/bin/sh\necho \"$@\" >> "+starts+"\nexec "+binary+" \"$@\"\n")
	c.cfg.Binary = filepath.Join(c.dir, "terraform.sh")
	c.must(os.Chmod(c.cfg.Binary, 0o755))
	d := c.open()
	first, err := d.fingerprint()
	c.must(err)
	marker := filepath.Join(c.cfg.Dir, ".terraform", "eiffel.sum")
	old := time.Now().Add(-time.Hour)
	initialized := func() bool {
		c.Helper()
		c.must(os.Chtimes(marker, old, old))
		d = c.open()
		info, err := os.Stat(marker)
		c.must(err)
		return !info.ModTime().Equal(old)
	}
	c.must(os.Remove(starts))
	if initialized() {
		t.Error("a module that is as it was is initialized again")
	}
	version := func() string {
		c.Helper()
		v, _, err := d.lane.Version(t.Context(), false)
		c.must(err)
		return v.String()
	}
	if v := version(); v != downloaded {
		t.Errorf("version %s", v)
	}
	if text, err := os.ReadFile(starts); err == nil {
		t.Errorf("for a module that is as it was Terraform is started:\n%s", text)
	}
	c.write("terraform.sh", "#!/bin/sh\n[ \"$*\" = 'version -json' ] && echo '{\"terraform_version\":\"1.5.8\"}' && exit\nexec "+
		binary+" \"$@\"\n")
	if !initialized() {
		t.Error("a module is not initialized again for another binary")
	}
	if v := version(); v != "1.5.8" {
		t.Errorf("version %s of another binary", v)
	}
	c.write("terraform/openstack/own.tf", `resource "terraform_data" "own" { for_each = var.nodes }`)
	if !initialized() {
		t.Error("a module that has another file is not")
	}
	c.must(os.Remove(filepath.Join(c.cfg.Dir, lockFile)))
	if !initialized() {
		t.Error("a module without lock file is not")
	}
	if now, err := d.fingerprint(); err != nil || now == first {
		t.Errorf("fingerprint: %s, %v", now, err)
	}
}

func TestErrorOfAnUnreachableRegistry(t *testing.T) {
	c := newCluster(t, nil)
	c.write("terraformrc", "provider_installation {\n  filesystem_mirror {\n    path = \""+t.TempDir()+"\"\n  }\n}\n")
	_, err := Open(t.Context(), c.cfg)
	if err == nil || !strings.Contains(err.Error(), "TF_CLI_CONFIG_FILE") || !strings.Contains(err.Error(), c.cfg.Dir) {
		t.Errorf("%v", err)
	}
}

func TestOnlyAbandonedPreviewsAreSwept(t *testing.T) {
	d := &Driver{cfg: Config{PlanDir: t.TempDir()}}
	fresh, abandonedOne, other := filepath.Join(d.cfg.PlanDir, "preview-1"), filepath.Join(d.cfg.PlanDir, "preview-2"),
		filepath.Join(d.cfg.PlanDir, "init.lock")
	for path, age := range map[string]time.Duration{fresh: 0, abandonedOne: 2 * abandoned, other: 2 * abandoned} {
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Now().Add(-age), time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.sweep(); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(d.cfg.PlanDir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{other, fresh}, left); diff != "" {
		t.Error(diff)
	}
}
