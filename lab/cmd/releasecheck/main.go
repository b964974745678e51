// Command releasecheck runs the checks that take too long for `make test`, and writes docs/tested.md: what was tested,
// in which version, when, and with what outcome. With --only it runs one suite, and replaces its rows alone; with --run
// it runs a part of that suite, and writes nothing.
//
// The suites need root and what lab/tools/cmd/install installs with and without --openstack. When this program is told
// to end, or a suite is killed, it removes what the suite has left on this computer.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/openstack"
)

// page is what the outcomes are written to.
const page = "docs/tested.md"

// suite is a package of tests that is run on one cloud.
type suite struct {
	// name is for --only.
	name string
	// parts are what is tested, with the Debian package of each; without one it is this checkout.
	parts []part
	// pkg is the tests' package, run selects some of them, environment is what they need.
	pkg, run, environment string
	// lab is the name of the lab that the tests start, if they start one.
	lab string
	// real reports whether the tests start an OpenStack.
	real bool
}

type part struct{ name, packaged string }

func suites() []suite {
	return []suite{
		{name: "conformance-labcloud", parts: []part{{"labcloud", ""}}, pkg: "./lab/labcloud",
			run: "TestItAnswersAsOpenStackDoes"},
		{name: "conformance-openstack", pkg: "./lab/openstack", run: ".", environment: "EIFFEL_RELEASE_CHECK=1", real: true,
			parts: []part{
				{"Keystone", "keystone"}, {"Placement", "placement-api"}, {"Glance", "glance-api"},
				{"Neutron", "neutron-server"}, {"Nova, with its fake driver", "nova-api"},
			}},
		{name: "labcloud", parts: []part{{"a cluster on labcloud", ""}}, pkg: "./lab/e2e/clouds", run: ".",
			environment: "EIFFEL_E2E_CLOUD=labcloud", lab: "labcloud"},
		{name: "openstack", parts: []part{{"a cluster on OpenStack (Nova)", "nova-api"}}, pkg: "./lab/e2e/clouds", run: ".",
			environment: "EIFFEL_E2E_CLOUD=openstack", lab: "openstack", real: true},
	}
}

func main() {
	only := flag.String("only", "", "run this suite alone: "+names(suites()))
	run := flag.String("run", "", "with --only: run these tests of it alone, as \"go test -run\" does, and write nothing")
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

// check runs all suites, also after one that fails, and writes the outcomes of each when it has ended; or one suite
// only.
func check(ctx context.Context, only, run string) error {
	all := suites()
	if only != "" {
		all = slices.DeleteFunc(all, func(s suite) bool { return s.name != only })
	}
	if len(all) == 0 {
		return fmt.Errorf("there is no suite %q: want one of %s", only, names(suites()))
	}
	if only != "" && run != "" {
		all[0].run = run
		_, err := all[0].test(ctx)
		return err
	}
	var errs []error
	for _, s := range all {
		results, err := s.test(ctx)
		errs = append(errs, err, s.write(results, time.Now()))
	}
	return errors.Join(errs...)
}

// test runs the suite and returns its scenarios with their outcomes. The error says what has failed, also what the
// suite has left on this computer.
func (s suite) test(ctx context.Context) ([]result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	fmt.Printf("--- %s\n", s.name)
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-count", "1", "-timeout", "120m", "-run", s.run, s.pkg)
	cmd.Env = append(os.Environ(), s.environment)
	cmd.Stderr = os.Stderr
	// Its own group, so that Ctrl-C does not end parts of it: all of it is killed, and cleaned up then.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	results, err := read(out, os.Stdout)
	err = errors.Join(err, cmd.Wait(), ctx.Err())
	if err != nil {
		err = fmt.Errorf("suite %s: %w", s.name, err)
	}
	return results, errors.Join(err, s.clean())
}

// clean removes what the suite has left after a kill. Its processes, and a cloud, end soon after that by themselves.
func (s suite) clean() error {
	const limit = time.Minute
	for end := time.Now().Add(limit); ; time.Sleep(200 * time.Millisecond) {
		var err error
		if s.real {
			err = openstack.Left()
		}
		if err == nil && s.lab != "" {
			err = cluster.Cleanup(s.lab)
		}
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("suite %s: left after %s: %w", s.name, limit, err)
		}
	}
}

// write writes the results to the page, in the place of the suite's former ones.
func (s suite) write(results []result, now time.Time) error {
	if len(results) == 0 {
		results = []result{{scenario: "all of `" + s.pkg + "`", outcome: "did not run"}}
	}
	var rows []row
	for _, p := range s.parts {
		version, err := p.version()
		if err != nil {
			return err
		}
		for _, r := range results {
			rows = append(rows, row{p.name, version, r.scenario, now.UTC().Format(time.DateOnly), r.outcome})
		}
	}
	former, err := os.ReadFile(page)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(page, replace(former, rows), 0o644)
}

// version returns the version of what is tested: of its package, else the commit of this checkout.
func (p part) version() (string, error) {
	argv := []string{"git", "describe", "--always", "--exclude=*"}
	if p.packaged != "" {
		argv = []string{"dpkg-query", "--show", "--showformat=Debian's ${Version}", p.packaged}
	}
	out, err := exec.Command(argv[0], argv[1:]...).Output()
	if err != nil {
		return "", fmt.Errorf("version of %s: %s: %w", p.name, strings.Join(argv, " "), err)
	}
	return string(bytes.TrimSpace(out)), nil
}
