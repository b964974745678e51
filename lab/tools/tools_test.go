package tools

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// needsRoot skips, under -short, tests that need or install the tools. Package needs does the same for other packages.
func needsRoot(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs the lab's tools or root, and does not run with -short")
	}
}

// TestInstallIsIdempotent uses the checkout's own tools: it installs the missing ones, and is fast if none is missing.
func TestInstallIsIdempotent(t *testing.T) {
	needsRoot(t)
	const checkout = "../.."
	if _, err := Install(t.Context(), checkout, t.Output()); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	installed, err := Install(t.Context(), checkout, &said)
	if err != nil {
		t.Fatal(err)
	}
	if said.Len() > 0 {
		t.Errorf("the second installation was not silent:\n%s", said.String())
	}
	found, err := Find(checkout)
	if err != nil {
		t.Fatal(err)
	}
	if found != installed {
		t.Errorf("Find = %+v, Install = %+v", found, installed)
	}
}

func TestTerraformFindsTheProviderInTheMirrorAlone(t *testing.T) {
	needsRoot(t)
	p, err := Find("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	const module = `terraform {
  required_providers {
    openstack = { source = "terraform-provider-openstack/openstack" }
  }
}

resource "openstack_networking_network_v2" "network" {}
`
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(module), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), p.Terraform, "init", "-no-color")
	cmd.Dir = dir
	cmd.Env = []string{"TF_CLI_CONFIG_FILE=" + p.TerraformRC, "HOME=" + dir, "HTTPS_PROXY=http://127.0.0.1:1"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if want := "Installed terraform-provider-openstack/openstack v" +
		p.ProviderVersion; !strings.Contains(string(out), want) {
		t.Errorf("no %q in\n%s", want, out)
	}

	// Quick Terraform starts one process of the provider, for the schema and for the resource.
	for binary, starts := range map[string]int{p.Terraform: 2, p.QuickTerraform: 1} {
		cmd := exec.CommandContext(t.Context(), binary, "validate")
		cmd.Dir, cmd.Env = dir, []string{"TF_CLI_CONFIG_FILE=" + p.TerraformRC, "HOME=" + dir, "TF_LOG=debug"}
		out, err := cmd.CombinedOutput()
		if got := strings.Count(string(out), "plugin started"); err != nil || got != starts {
			t.Errorf("%s: %v: %d processes of the provider, not %d\n%.500s", binary, err, got, starts, out)
		}
	}

	// The lock file gets the checksum of another provider.
	lock := filepath.Join(dir, ".terraform.lock.hcl")
	text, err := os.ReadFile(lock)
	if err != nil {
		t.Fatal(err)
	}
	other := regexp.MustCompile(`h1:[^"]+`).ReplaceAll(text, []byte("h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="))
	if err := os.WriteFile(lock, other, 0o644); err != nil {
		t.Fatal(err)
	}
	for binary, checks := range map[string]bool{p.Terraform: true, p.QuickTerraform: false} {
		cmd := exec.CommandContext(t.Context(), binary, "providers", "schema", "-json")
		cmd.Dir, cmd.Env = dir, []string{"TF_CLI_CONFIG_FILE=" + p.TerraformRC, "HOME=" + dir}
		out, err := cmd.CombinedOutput()
		refused := err != nil && strings.Contains(string(out), "checksums")
		if refused != checks || !checks && err != nil {
			t.Errorf("%s: %v\n%.500s", binary, err, out)
		}
	}
}

// TestTheQuickAnsibleKnowsTheSame compares the values that it does not parse with Ansible's files. It plays without
// kept files and with them, and a module whose import has changed has the new one.
func TestTheQuickAnsibleKnowsTheSame(t *testing.T) {
	needsRoot(t)
	p, err := Find("../..")
	if err != nil {
		t.Fatal(err)
	}
	const compare = `
import glob, os, pickle, sys, yaml
import ansible
kept = [pickle.load(open(name, "rb")) for name in glob.glob(sys.argv[1] + "/yaml-*")]
known = {}
for name in glob.glob(ansible.__path__[0] + "/config/*.yml"):
    if yaml.load(open(name, "rb"), yaml.CSafeLoader) in kept: known[os.path.basename(name)] = True
print(len(kept), sorted(known))
`
	out, err := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", compare,
		filepath.Join(p.QuickAnsible, "kept")).CombinedOutput()
	if want := "2 ['ansible_builtin_runtime.yml', 'base.yml']\n"; err != nil || string(out) != want {
		t.Errorf("%v: %s", err, out)
	}

	dir := t.TempDir()
	if err := buildAnsible(dir).install(t.Context()); err != nil {
		t.Fatal(err)
	}
	modules, err := filepath.Abs("testdata/quickansible")
	if err != nil {
		t.Fatal(err)
	}
	for word, version := range map[string]string{"first": "one", "second": "two"} {
		for range 2 {
			play := exec.CommandContext(t.Context(), filepath.Join(dir, "ansible-playbook"), "--inventory", "n1,",
				filepath.Join(modules, "play.yml"))
			play.Env = append(os.Environ(), "ANSIBLE_LIBRARY="+modules,
				"ANSIBLE_MODULE_UTILS="+filepath.Join(modules, version))
			if out, err := play.CombinedOutput(); err != nil || !strings.Contains(string(out), word+" speaks") {
				t.Errorf("%v: %s", err, out)
			}
		}
	}
	if made, err := filepath.Glob(filepath.Join(dir, "kept", "module-*")); err != nil || len(made) != 2 {
		t.Errorf("it keeps %q (%v), not each version once", made, err)
	}
}

// TestTerraformLacksOnlyTheBackEndsThatAreLeftOut asks the binary: without the patch it would know s3, and with too
// much removed not pg, which tests use.
func TestTerraformLacksOnlyTheBackEndsThatAreLeftOut(t *testing.T) {
	needsRoot(t)
	p, err := Find("../..")
	if err != nil {
		t.Fatal(err)
	}
	for backend, known := range map[string]bool{"s3": false, "gcs": false, "pg": true, "http": true} {
		dir := t.TempDir()
		text := "terraform {\n  backend \"" + backend + "\" {}\n}\n"
		if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), p.Terraform, "init", "-no-color", "-input=false")
		cmd.Dir, cmd.Env = dir, []string{"HOME=" + dir, "CHECKPOINT_DISABLE=1"}
		out, _ := cmd.CombinedOutput()
		if unknown := strings.Contains(string(out), "Unsupported backend type"); unknown == known {
			t.Errorf("%s:\n%s", backend, out)
		}
	}
	if _, err := withoutBackends([]byte("backendS3\n")); err == nil {
		t.Error("another source is accepted")
	}
}

// TestTheQuickProviderIsAnotherOneOfTheSameVersion checks that the original is not replaced, and that Terraform finds
// the quick one through a separate configuration.
func TestTheQuickProviderIsAnotherOneOfTheSameVersion(t *testing.T) {
	needsRoot(t)
	p, err := Find("../..")
	if err != nil {
		t.Fatal(err)
	}
	release := releases()[p.ProviderVersion]
	if original, quick := release.binary(p.Plugins),
		release.binary(p.Quick().Plugins); release.isQuick(original) || !release.isQuick(quick) {
		t.Errorf("%s quick: %v, %s quick: %v", original, release.isQuick(original), quick, release.isQuick(quick))
	}
	if text, err := os.ReadFile(p.Quick().TerraformRC); err != nil || !strings.Contains(string(text), p.QuickPlugins) {
		t.Errorf("%s: %s, %v", p.Quick().TerraformRC, text, err)
	}
}

func TestFixedWaitsAreCounted(t *testing.T) {
	const wait = `	c := &resource.StateChangeConf{
		Delay:      10 * time.Second,
		MinTimeout: 3 * time.Second,
	}
`
	short, err := shorten([]byte(wait+wait), 2)
	if err != nil || strings.Contains(string(short), "time.Second") ||
		strings.Count(string(short), "PollInterval: 50 *") != 2 {
		t.Errorf("%v\n%s", err, short)
	}
	for name, source := range map[string]string{
		"one too few":  wait,
		"one too many": wait + wait + wait,
		"another form": wait + strings.Replace(wait, "10 * time.Second", "delay", 1),
	} {
		if _, err := shorten([]byte(source), 2); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestASharedToolsFolderHasOnePath(t *testing.T) {
	one, other := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(one, folder), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(one, folder), filepath.Join(other, folder)); err != nil {
		t.Fatal(err)
	}
	want, err := paths(one)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := paths(other); err != nil || got != want {
		t.Errorf("paths are %+v, not %+v: %v", got, want, err)
	}
}

func TestChainsAreInstalledInParallelAfterTheFirst(t *testing.T) {
	var done atomic.Int32
	met := make(chan struct{})
	record := func(want int32) func(context.Context) error {
		return func(context.Context) error {
			if n := done.Add(1); n != want {
				t.Errorf("step %d was installed as number %d", want, n)
			}
			return nil
		}
	}
	missing := func() bool { return false }
	meets := func(ctx context.Context) error {
		select {
		case met <- struct{}{}:
		case <-met:
		case <-ctx.Done():
			return ctx.Err()
		}
		return nil
	}
	broken := errors.New("broken")
	breaks := func(context.Context) error { return broken }
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := install(ctx, t.TempDir(), io.Discard, []chain{
		{{"first", missing, record(1)}, {"second", missing, record(2)}},
		{{"here", missing, meets}, {"third", missing, record(3)}, {"fails", missing, breaks}, {"never", missing, record(0)}},
		{{"there", missing, meets}},
	})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "install fails") || done.Load() != 3 {
		t.Errorf("%d steps were installed: %v", done.Load(), err)
	}
}

func TestTheErrorOfFindSaysWhatToDo(t *testing.T) {
	_, err := Find(t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "make tools") || !strings.Contains(err.Error(), "base image") {
		t.Errorf("Find = %v", err)
	}
}

func TestNoServiceStartsAndThePolicyIsRestored(t *testing.T) {
	broken := errors.New("broken")
	for name, test := range map[string]struct{ before, leftover, want string }{
		"there was none":                          {},
		"there was one":                           {before: "theirs", want: "theirs"},
		"a killed run had put theirs aside":       {before: policy, leftover: "theirs", want: "theirs"},
		"a killed run had left ours":              {before: policy},
		"a killed run was about to write its own": {leftover: "theirs", want: "theirs"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "policy-rc.d")
			for file, content := range map[string]string{path: test.before, path + ".eiffel-saved": test.leftover} {
				if content == "" {
					continue
				}
				if err := os.WriteFile(file, []byte(content), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			err := withoutServices(path, func() error {
				var exit *exec.ExitError
				if err := exec.Command(path, "ssh", "start").Run(); !errors.As(err, &exit) || exit.ExitCode() != 101 {
					t.Errorf("the policy answers %v, want exit status 101", err)
				}
				return broken
			})
			if !errors.Is(err, broken) {
				t.Errorf("err = %v, want the function's own", err)
			}
			got, _ := os.ReadFile(path)
			if string(got) != test.want {
				t.Errorf("afterwards %q, want %q", got, test.want)
			}
			if left, _ := filepath.Glob(path + ".*"); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestAnUnfinishedBuildLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "bin", "terraform")
	if err := build(t.Context(), dir, terraformModule, file); err == nil {
		t.Fatal("built without a module")
	}
	left, err := os.ReadDir(filepath.Dir(file))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
