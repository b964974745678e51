// Command releasecheck runs the checks that take too long for `make test`, and writes docs/how-it-works/tested.md: what
// was tested, in which version, when, and with what result. With --only, it runs some suites or some of their packages,
// and replaces only their rows; with --run, it runs some of their tests and writes nothing.
//
// The suites need root and everything that lab/tools/cmd/install installs with all of its options. When this program is
// asked to end, it waits until the labs of the running suite have cleaned up.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/e2e/generation"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
	"github.com/eiffel-hpc/eiffel/lab/tools"
)

// page is the file for the results.
const page = "docs/how-it-works/tested.md"

// suite is the tests of one call of `go test`.
type suite struct {
	// name is for --only.
	name string
	// parts are the tested components.
	parts    []part
	packages []string
	// run selects tests of the packages; "" means all.
	run string
	// environ is the environment that the tests need.
	environ []string
	// partial reports whether --only omits some of the packages.
	partial bool
}

// part has the version of a Debian package, installed in the folder root or, with "", on this computer. Without a
// package, it has the version of this checkout.
type part struct{ name, packaged, root string }

// suites returns all suites. The packages hosts, machines and upgrade only have machines of Debian 12.
func suites() []suite {
	both := []string{"./lab/e2e/appliance", "./lab/e2e/attach", "./lab/e2e/attachtutorial", "./lab/e2e/campaign",
		"./lab/e2e/elsewhere", "./lab/e2e/failure", "./lab/e2e/grow", "./lab/e2e/loss", "./lab/e2e/release",
		"./lab/e2e/resize", "./lab/e2e/security", "./lab/e2e/update"}
	const full, large = generation.FullVariable + "=1", "EIFFEL_RELEASE_CHECK=1"
	const newest = "EIFFEL_PROVIDER=" + tools.NewestProviderVersion
	return []suite{
		{name: "conformance-labcloud", parts: []part{{name: "labcloud"}}, packages: []string{"./lab/labcloud"},
			run: "TestItAnswersAsOpenStackDoes"},
		{name: "conformance-openstack", packages: []string{"./lab/openstack"}, environ: []string{large},
			run: "TestItAnswersAsTheLabsChecksSay|TestItLeavesNothingWhenItIsKilled|TestWhichHostTheSchedulerChooses",
			parts: []part{
				{"Keystone", "keystone", ""}, {"Placement", "placement-api", ""}, {"Glance", "glance-api", ""},
				{"Neutron", "neutron-server", ""}, {"Nova, with its fake driver", "nova-api", ""},
			}},
		{name: "labcloud", parts: []part{{name: "a cluster on labcloud"}}, packages: []string{"./lab/e2e/clouds"},
			environ: []string{"EIFFEL_E2E_CLOUD=labcloud"}},
		{name: "provider-3", parts: []part{{name: "Terraform with the provider " + tools.NewestProviderVersion}},
			packages: []string{"./reconfigure/terraform"}, environ: []string{newest}},
		{name: "labcloud-provider-3", packages: []string{"./lab/e2e/clouds"},
			parts:   []part{{name: "a cluster on labcloud, with the provider " + tools.NewestProviderVersion}},
			environ: []string{"EIFFEL_E2E_CLOUD=labcloud", newest}},
		{name: "labcloud-tofu", parts: []part{{name: "a cluster on labcloud, with OpenTofu " + tools.TofuVersion}},
			packages: []string{"./lab/e2e/clouds"},
			environ:  []string{"EIFFEL_E2E_CLOUD=labcloud", tools.TofuVariable + "=1"}},
		{name: "openstack", parts: []part{{"a cluster on OpenStack (Nova)", "nova-api", ""}},
			packages: []string{"./lab/e2e/clouds"}, environ: []string{"EIFFEL_E2E_CLOUD=openstack"}},
		{name: "debian-12", parts: []part{{"a cluster on Debian 12 (Slurm)", "slurmctld", ".tools/image/systemd"}},
			packages: append([]string{"./lab/e2e/bookworm", "./lab/e2e/hosts", "./lab/e2e/machines", "./lab/e2e/upgrade"},
				both...),
			environ: []string{full}},
		{name: "debian-13", parts: []part{{"a cluster on Debian 13 (Slurm)", "slurmctld", ".tools/image/trixie"}},
			packages: append([]string{"./lab/e2e/trixie"}, both...),
			environ:  []string{full, harness.ReleaseVariable + "=" + harness.Trixie}},
		{name: "twenty-nodes", parts: []part{{name: "a cluster of 20 nodes"}}, packages: []string{"./lab/e2e/campaign"},
			environ: []string{large}},
		{name: "libvirt-client", parts: []part{{"libvirt", "libvirt-daemon", ""}}, run: "TestClient|TestARemoved",
			packages: []string{"./reconfigure/cloud/libvirt"}, environ: []string{"EIFFEL_LIBVIRT=1"}},
		{name: "libvirt", parts: []part{{"a cluster with libvirt, on emulated processors", "libvirt-daemon", ""}},
			packages: []string{"./lab/e2e/libvirt"}, environ: []string{"EIFFEL_LIBVIRT=1"}},
		{name: "vsphere-terraform", parts: []part{{name: "Terraform on a simulated vCenter"}}, run: "VSphere",
			packages: []string{"./reconfigure/terraform"}, environ: []string{"EIFFEL_VSPHERE=1"}},
		{name: "vsphere", parts: []part{{name: "a cluster in a simulated vCenter"}},
			packages: []string{"./lab/e2e/vsphere"}, environ: []string{"EIFFEL_VSPHERE=1"}},
	}
}

func main() {
	only := flag.String("only", "", "run these suites, or these packages of them, alone; the suites are "+names(suites()))
	run := flag.String("run", "", "run these tests alone, as \"go test -run\" does, and write nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := check(ctx, *only, *run); err != nil {
		fmt.Fprintln(os.Stderr, "releasecheck:", err)
		os.Exit(1)
	}
}

func names(all []suite) string {
	var words []string
	for _, s := range all {
		words = append(words, s.name)
	}
	return strings.Join(words, ", ")
}

// check runs suites, even after one has failed, and writes the results of each when it has ended.
func check(ctx context.Context, only, run string) error {
	chosen, err := choose(suites(), strings.FieldsFunc(only, func(r rune) bool { return r == ',' || r == ' ' }))
	if err != nil {
		return err
	}
	var errs []error
	for _, s := range chosen {
		s.run = cmp.Or(run, s.run)
		results, err := s.test(ctx)
		errs = append(errs, err)
		if ctx.Err() != nil {
			break // something ended it
		}
		if run == "" {
			errs = append(errs, s.write(results, time.Now()))
		}
	}
	return errors.Join(errs...)
}

// choose returns the suites that words name, with those of their packages whose folders words name. If words name no
// suite, or no folder, it selects all.
func choose(all []suite, words []string) ([]suite, error) {
	named := func(s suite) bool { return slices.Contains(words, s.name) }
	if slices.ContainsFunc(all, named) {
		all = slices.DeleteFunc(all, func(s suite) bool { return !named(s) })
		words = slices.DeleteFunc(words, func(w string) bool {
			return slices.ContainsFunc(all, func(s suite) bool { return s.name == w })
		})
	}
	var chosen []suite
	found := map[string]bool{}
	for _, s := range all {
		some := slices.DeleteFunc(slices.Clone(s.packages), func(p string) bool {
			found[path.Base(p)] = true
			return len(words) > 0 && !slices.Contains(words, path.Base(p))
		})
		s.packages, s.partial = some, len(some) < len(s.packages)
		if len(some) > 0 {
			chosen = append(chosen, s)
		}
	}
	for _, w := range words {
		if !found[w] {
			return nil, fmt.Errorf("%q is no package of %s, and no suite: these are %s", w, names(all), names(suites()))
		}
	}
	return chosen, nil
}

// test runs the suite and returns its scenarios with their results. The error says what failed.
func (s suite) test(ctx context.Context) ([]result, error) {
	fmt.Printf("--- %s\n", s.name)
	argv := []string{"test", "-json", "-count", "1", "-timeout", "240m", "-p", "2", "-run", s.run}
	cmd := exec.CommandContext(ctx, "go", append(argv, s.packages...)...)
	cmd.Env = append(os.Environ(), s.environ...)
	cmd.Stderr = os.Stderr
	// Its own process group, so that Ctrl-C reaches it once. At the end, `go test` waits for the processes that the
	// tests started.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	results, err := read(out, os.Stdout)
	if err = errors.Join(err, cmd.Wait()); err != nil {
		err = fmt.Errorf("suite %s: %w", s.name, err)
	}
	return results, err
}

// write writes the results to the page. It keeps the rows of scenarios that the run omitted.
func (s suite) write(results []result, now time.Time) error {
	if len(results) == 0 {
		return nil // the error of the run says why
	}
	former, err := os.ReadFile(page)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	whole := !s.partial && !slices.ContainsFunc(results, func(r result) bool { return r.outcome == unended })
	for _, p := range s.parts {
		version, err := p.version()
		if err != nil {
			return err
		}
		var rows []row
		for _, r := range results {
			rows = append(rows, row{p.name, version, r.scenario, now.UTC().Format(time.DateOnly), r.outcome})
		}
		former = replace(former, p.name, rows, whole)
	}
	return os.WriteFile(page, former, 0o644)
}

// version returns the version of a component.
func (p part) version() (string, error) {
	argv := []string{"git", "describe", "--always", "--exclude=*"}
	if p.packaged != "" {
		argv = []string{"dpkg-query", "--admindir=" + p.root + "/var/lib/dpkg", "--show",
			"--showformat=Debian's ${Version}", p.packaged}
	}
	out, err := exec.Command(argv[0], argv[1:]...).Output()
	if err != nil {
		return "", fmt.Errorf("version of %s: %s: %w", p.name, strings.Join(argv, " "), err)
	}
	return string(bytes.TrimSpace(out)), nil
}
