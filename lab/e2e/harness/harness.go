// Package harness has what the end-to-end tests share: the lab of a test package, and functions that act on it, wait
// and check.
package harness

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/procs"
	"github.com/eiffel-hpc/eiffel/lab/tools"
)

// Lab is the cluster that all tests of a package share, since its deployment takes longer than most tests. Each test
// leaves it with its cloud nodes powered down.
type Lab struct {
	*cluster.Lab
	// Deploy, if not nil, deploys the cluster in place of `reconfigure deploy`.
	Deploy func(context.Context) error

	name string
}

// Main deploys the lab, runs the tests, checks that the lab leaves nothing behind, and returns the exit code. Labs that
// run in parallel need different names and networks. change, if not nil, edits the lab's declaration. If this process
// is killed, another process cleans up.
func (l *Lab) Main(m *testing.M, cfg cluster.Config, change func(*cluster.Declaration)) (code int) {
	cluster.KeepIfAsked()
	code, err := l.run(m, cfg, change)
	if err != nil {
		fmt.Fprintf(os.Stderr, "lab %s: %v\n", cfg.Name, err)
		return 1
	}
	return code
}

func (l *Lab) run(m *testing.M, cfg cluster.Config, change func(*cluster.Declaration)) (code int, err error) {
	checkout, err := checkout()
	if err != nil {
		return 1, err
	}
	cfg.Checkout = checkout
	if cfg.Tools, err = tools.Find(checkout); err != nil {
		return 1, err
	}
	if cfg.OtherCloud == nil { // the release check is with Terraform and Ansible as they are
		cfg.Tools.Terraform, cfg.Tools.Ansible = cfg.Tools.QuickTerraform, cfg.Tools.QuickAnsible
	}
	if cfg.Systemd == "" && os.Getenv(ReleaseVariable) == Trixie {
		if change, err = onTrixie(&cfg, change); err != nil {
			return 1, err
		}
	}
	cfg.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	l.name = cfg.Name
	release, err := cluster.Keep(cfg.Name)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, release()) }()
	if l.Lab, err = cluster.Start(context.Background(), cfg); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, l.Close(), l.nothingLeft()) }()
	if change != nil {
		declared := l.Declaration
		change(&declared)
		if err := l.Declare(declared); err != nil {
			return 1, err
		}
	}
	if err := l.deploy(context.Background()); err != nil {
		return 1, fmt.Errorf("deploy: %w\n%s", err, l.WorkerLogs())
	}
	return m.Run(), nil
}

func (l *Lab) deploy(ctx context.Context) error {
	if l.Deploy != nil {
		return l.Deploy(ctx)
	}
	out, err := l.Reconfigure(ctx, "deploy").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// ReleaseVariable is the environment variable that names the Debian release of the machines in labs that do not choose
// one: [Trixie]; the default is Debian 12.
const ReleaseVariable = "EIFFEL_LAB_RELEASE"

// Trixie is Debian 13.
const Trixie = "trixie"

// onTrixie configures a lab for machines of Debian 13. Its declaration need not match the hardware of this computer.
// Machines with systemd get more time to boot: on two busy cores, a dozen of them need longer than the time that
// suffices with sysvinit.
func onTrixie(cfg *cluster.Config, change func(*cluster.Declaration)) (func(*cluster.Declaration), error) {
	installed, err := tools.FindSystemd(cfg.Checkout)
	cfg.Systemd = installed.Trixie
	return func(d *cluster.Declaration) {
		d.Slurm.Extra["SlurmdParameters"] = "config_overrides"
		d.Reconfigure["boot_timeout"] = 75
		if change != nil {
			change(d)
		}
	}, err
}

// checkout returns the closest parent of the test's folder that has go.mod.
func checkout() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("there is no go.mod above the test's folder")
		}
		dir = parent
	}
}

// nothingLeft checks that the lab has left nothing behind: processes, also those in other sessions, mounts, the network
// link, files.
func (l *Lab) nothingLeft() error {
	var errs []error
	if _, err := os.Stat(l.Dir); err == nil {
		errs = append(errs, fmt.Errorf("%s is still there", l.Dir))
	}
	if out, err := exec.Command("ip", "link", "show", "lab-"+l.name).CombinedOutput(); err == nil {
		errs = append(errs, fmt.Errorf("the lab's network is still there: %s", out))
	}
	left, err := procs.Find(procs.Any(procs.Environment(l.named), procs.Mount(l.named)))
	errs = append(errs, err)
	for _, p := range left {
		errs = append(errs, fmt.Errorf("a process is left: %s", p))
	}
	return errors.Join(errs...)
}

// named reports whether a text contains the path of the lab's folder or of a file in it. Another path with the same
// beginning does not count.
func (l *Lab) named(text string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(text,
		func(r rune) bool { return strings.ContainsRune(" ,:=", r) }), func(word string) bool {
		return word == l.Dir || strings.HasPrefix(word, l.Dir+"/")
	})
}
