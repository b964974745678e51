// Command matrix runs the end-to-end tests on each release of Debian that the project supports, and prints a table: the
// releases, the versions of what ran there, the scenarios and their outcomes. It needs root and `make tools-systemd`.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/eiffel-hpc/eiffel/lab/e2e/generation"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// release is a release of Debian, with the packages of tests that are run on it.
type release struct {
	name    string
	own     string   // the package whose nodes and control host are machines of this release
	others  []string // the packages with labs of their own
	environ []string // for these
}

func releases() []release {
	var both []string
	for _, name := range []string{"campaign", "failure", "grow", "resize", "security", "update"} {
		both = append(both, "./lab/e2e/"+name)
	}
	return []release{
		// Package hosts has machines of Debian 12 alone.
		{name: "Debian 12", own: "./lab/e2e/bookworm", others: append(slices.Clone(both), "./lab/e2e/hosts")},
		{name: "Debian 13", own: "./lab/e2e/trixie", others: both,
			environ: []string{harness.ReleaseVariable + "=" + harness.Trixie}},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(1)
	}
}

// run runs the tests of all releases, also after one that fails, and prints the table. With arguments it runs only
// packages that end in one of them.
func run(ctx context.Context, only []string) error {
	rows := [][]string{{"RELEASE", "SCENARIO", "OUTCOME", "SECONDS"}}
	versions := [][]string{{"RELEASE", "PART", "VERSION"}}
	var errs []error
	for _, r := range releases() {
		own, err := test(ctx, chosen([]string{r.own}, only), generation.FullVariable+"=1")
		others, otherErr := test(ctx, chosen(r.others, only), r.environ...)
		errs = append(errs, err, otherErr)
		for _, v := range own.versions {
			versions = append(versions, append([]string{r.name}, v...))
		}
		for _, row := range append(own.rows, others.rows...) {
			rows = append(rows, append([]string{r.name}, row...))
		}
	}
	if len(rows) == 1 && errors.Join(errs...) == nil {
		return fmt.Errorf("no tests ran: no package ends in one of %q", only)
	}
	for _, table := range [][][]string{versions, rows} {
		fmt.Println()
		errs = append(errs, text.Table(os.Stdout, table, 0))
	}
	return errors.Join(errs...)
}

func chosen(packages, only []string) []string {
	if len(only) == 0 {
		return packages
	}
	return slices.DeleteFunc(packages, func(p string) bool {
		return !slices.ContainsFunc(only, func(end string) bool { return strings.HasSuffix(p, end) })
	})
}

// results are the outcomes of tests in the order of their ends, and the versions that they note as attributes.
type results struct{ rows, versions [][]string }

// test runs the tests of packages, and prints those that fail. At Ctrl-C it waits for the end of `go test`, since labs
// clean up.
func test(ctx context.Context, packages []string, environ ...string) (results, error) {
	if len(packages) == 0 || ctx.Err() != nil {
		return results{}, ctx.Err()
	}
	argv := append([]string{"test", "-json", "-count", "1", "-timeout", "120m", "-p", "2"}, packages...)
	cmd := exec.Command("go", argv...)
	cmd.Env = append(os.Environ(), environ...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return results{}, err
	}
	if err := cmd.Start(); err != nil {
		return results{}, err
	}
	found, err := read(out, os.Stdout)
	if err = errors.Join(err, cmd.Wait()); err != nil {
		err = fmt.Errorf("%s: %w", strings.Join(packages, " "), err)
	}
	return found, err
}

// event is a line of `go test -json` (go doc test2json).
type event struct {
	Action, Package, Test, Key, Value, Output string
	Elapsed                                   float64
}

// read reads the events of tests. It writes the name of each test that ends, and what a failed one printed.
func read(in io.Reader, progress io.Writer) (results, error) {
	var all results
	printed := map[string]string{}
	parents := map[string]bool{}
	for lines := json.NewDecoder(in); ; {
		var e event
		if err := lines.Decode(&e); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			_, _ = io.Copy(io.Discard, in) // else `go test` would wait for a reader
			return all, err
		}
		name := e.Package[strings.LastIndex(e.Package, "/")+1:]
		if e.Test != "" {
			name += ": " + e.Test
		}
		switch e.Action {
		case "attr":
			all.versions = append(all.versions, []string{e.Key, e.Value})
		case "run":
			if i := strings.LastIndex(e.Test, "/"); i >= 0 {
				parents[e.Package+" "+e.Test[:i]] = true
			}
		case "output":
			printed[name] += e.Output
		case "pass", "fail", "skip":
			fmt.Fprintln(progress, e.Action, name)
			if e.Action == "fail" {
				fmt.Fprint(progress, printed[name])
			}
			// A package, and a test with subtests, has a row only if it fails by itself.
			if e.Action == "fail" || e.Test != "" && !parents[e.Package+" "+e.Test] {
				all.rows = append(all.rows, []string{name, e.Action, fmt.Sprintf("%.0f", e.Elapsed)})
			}
		}
	}
}
