package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure/assets"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
)

func fromCheckout(from, dir string) error {
	s, err := site.Open(from)
	if err != nil {
		return err
	}
	plan, err := PlanFromCheckout(context.Background(), s, dir)
	if err != nil {
		return err
	}
	return plan.Do(context.Background())
}

// checkoutInUse returns a checkout with the journal and the states of a former cluster, and with files of its own.
func checkoutInUse(t *testing.T) string {
	t.Helper()
	former := openFormer(t, formers[1])
	must(t, former.WithJournal(t.Context(), func(*journal.Journal) error { return nil })) // with today's schema
	must(t, os.Remove(former.StateFile(fmt.Sprint("journal.db.SCHEMA-", formers[1].schema))))
	dir := former.Dir
	own := map[string]string{
		"clouds.yaml": "secret", "ansible/roles/scratch/tasks/main.yml": "[]", "ansible/files/site/motd": "hello",
		"host_vars/node01.yml": "a: 1", "terraform/openstack/own.tf": "# mine", "slurmscripts/.gitkeep": "",
	}
	for path, text := range assets.Files() {
		if strings.HasPrefix(path, "terraform/openstack/") {
			own[path] = text
		}
	}
	for path, text := range own {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, path), []byte(text), 0o600))
	}
	declaration := filepath.Join(dir, "group_vars", "all.yml")
	text, err := os.ReadFile(declaration)
	must(t, err)
	var lines []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(strings.TrimSpace(line), "directory: ") {
			lines = append(lines, line)
		}
	}
	must(t, os.WriteFile(declaration, []byte(strings.Join(lines, "")), 0o644))
	return dir
}

// requestsOf returns the number of requests in the journal of a cluster directory, and an error if Terraform would not
// find its state or the declaration.
func requestsOf(t *testing.T, dir string) (int, error) {
	t.Helper()
	s, err := site.Open(dir)
	if err != nil {
		return 0, err
	}
	module := s.RootModule()
	if _, err := os.Stat(filepath.Join(module, "terraform.tfstate")); err != nil {
		return 0, err
	}
	// Terraform runs in the folder that the path leads to: the two dots are of that one.
	declared := module + "/../../group_vars/all.yml"
	if _, err := os.Stat(filepath.Join(module, "site.auto.tfvars.json")); err == nil {
		declared = module + "/../../all.yml"
	}
	if _, err := os.Stat(declared); err != nil {
		return 0, err
	}
	if !exists(s.StateFile("journal.db")) {
		return 0, errors.New("there is no journal")
	}
	count := 0
	err = s.IfJournal(t.Context(), func(log *journal.Journal) error {
		requests, err := log.Requests(t.Context(), 99)
		count = len(requests)
		return err
	})
	return count, err
}

// TestAKilledInitFromLeavesACheckoutInUse kills `init --from` before each of its steps, and repeats it.
func TestAKilledInitFromLeavesACheckoutInUse(t *testing.T) {
	for steps := 0; ; steps++ {
		from, dir := checkoutInUse(t), filepath.Join(t.TempDir(), "site")
		run := exec.CommandContext(t.Context(), os.Args[0])
		run.Env = append(os.Environ(), "TMPDIR="+t.TempDir(), "MAKE_SITE_IN="+dir, "FROM="+from,
			fmt.Sprintf("STEPS=%d", steps))
		out, err := run.CombinedOutput()
		if err != nil && len(out) > 0 {
			t.Fatalf("step %d: %v\n%s", steps, err, out)
		}
		if n, err := requestsOf(t, from); n != 3 || err != nil {
			t.Errorf("step %d: the checkout has %d requests: %v", steps, n, err)
		}
		if err != nil && exists(filepath.Join(dir, "group_vars")) || !exists(filepath.Join(dir, "all.yml")) {
			if err := fromCheckout(from, dir); err != nil {
				t.Fatalf("step %d: repeated: %v", steps, err)
			}
		}
		for _, place := range []string{from, dir} {
			if n, err := requestsOf(t, place); n != 3 || err != nil {
				t.Errorf("step %d: %s has %d requests: %v", steps, place, n, err)
			}
		}
		if err == nil {
			whole(t, from, dir)
			return
		}
	}
}

// whole checks the files of a finished site folder.
func whole(t *testing.T, from, dir string) {
	t.Helper()
	var names []string
	for _, name := range slices.Sorted(maps.Keys(files(t, dir))) {
		if !strings.HasPrefix(name, "state/") {
			names = append(names, name)
		}
	}
	want := []string{".gitignore", "README.md", "all.yml", "ansible/files/site/motd",
		"ansible/group_vars/cluster.yml", "ansible/host_vars/node01.yml", "ansible/roles/scratch/tasks/main.yml",
		"clouds.yaml", "terraform/openstack/.terraform.lock.hcl", "terraform/openstack/clouds.yaml",
		"terraform/openstack/main.tf", "terraform/openstack/nodes.auto.tfvars.json",
		"terraform/openstack/site.auto.tfvars.json", "terraform/openstack/site_own.tf",
		"terraform/openstack/terraform.tfstate", "terraform/openstack/variables.tf",
		"terraform/openstack/versions.tf", "terraform/own.tf"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	for _, link := range []string{"state", "terraform/openstack", "group_vars/all.yml"} {
		target, err := os.Readlink(filepath.Join(from, link))
		if err != nil || !within(target, dir) {
			t.Errorf("%s of the checkout leads to %q: %v", link, target, err)
		}
	}
	s, err := site.Open(dir)
	must(t, err)
	if s.Checkout() {
		t.Error("the site folder is a checkout")
	}
	if err := s.RootModuleUpToDate(); err != nil {
		t.Errorf("the root module: %v", err)
	}
}

func TestWhatCannotBecomeASiteFolderIsRefused(t *testing.T) {
	replaced := func(path, was, is string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			file := filepath.Join(dir, path)
			text, err := os.ReadFile(file)
			must(t, err)
			must(t, os.WriteFile(file, []byte(strings.Replace(string(text), was, is, 1)), 0o644))
		}
	}
	const declaration = "group_vars/all.yml"
	for name, c := range map[string]struct {
		change func(t *testing.T, dir string)
		want   string
	}{
		"a site folder": {func(t *testing.T, dir string) { must(t, os.RemoveAll(filepath.Join(dir, "slurmscripts"))) },
			"is no checkout"},
		"changed files": {replaced("terraform/openstack/main.tf", "locals {", "# mine\nlocals {"), "main.tf differs"},
		"a key in the checkout": {replaced(declaration, "private_key_file: ~/.ssh/", "private_key_file: keys/"),
			"private_key_file is in the checkout"},
		"its directory": {func(t *testing.T, dir string) {
			replaced(declaration, "control_host:\n", "control_host:\n    directory: "+dir+"\n")(t, dir)
		}, "remove the key"},
		"an absolute state_directory": {func(t *testing.T, dir string) {
			replaced(declaration, "state_directory: state", "state_directory: "+filepath.Join(dir, "state"))(t, dir)
		}, "write a relative one"},
		"a journal of an earlier version": {func(t *testing.T, dir string) {
			former := openFormer(t, formers[0])
			must(t, os.Rename(former.StateFile("journal.db"), filepath.Join(dir, "state", "journal.db")))
		}, "upgrade the checkout first"},
		"a worker": {func(t *testing.T, dir string) {
			s, err := site.Open(dir)
			must(t, err)
			log, err := s.Journal(t.Context())
			must(t, err)
			t.Cleanup(func() { must(t, log.Close()) })
			release, ok, err := log.Acquire(t.Context())
			if !ok || err != nil {
				t.Fatalf("the lease: %v, %v", ok, err)
			}
			t.Cleanup(func() { must(t, release()) })
		}, "a worker runs"},
	} {
		t.Run(name, func(t *testing.T) {
			from, dir := checkoutInUse(t), filepath.Join(t.TempDir(), "site")
			c.change(t, from)
			if err := fromCheckout(from, dir); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v", err)
			}
			if exists(dir) {
				t.Errorf("there is a site folder")
			}
		})
	}
}
