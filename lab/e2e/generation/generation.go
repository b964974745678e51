// Package generation has the tests that run on each release of Debian, with its Slurm, Ansible, systemd and Python. The
// nodes and the control host are machines of that release.
package generation

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
	"github.com/eiffel-hpc/eiffel/lab/tools"
)

// FullVariable is the environment variable that makes the tests run in full on each release.
const FullVariable = "EIFFEL_MATRIX"

// Full reports whether the tests run in full, as those of `make matrix` do.
func Full() bool { return os.Getenv(FullVariable) != "" }

// OnlyFull skips a test, which would make `make test` too long, unless the tests run in full.
func OnlyFull(t *testing.T) {
	t.Helper()
	if !Full() {
		t.Skip("only `make matrix` runs this test")
	}
}

// Generation is a release of Debian, and its differences.
type Generation struct {
	name     string // of the lab
	gateway  string
	base     func(tools.Paths) string
	packages func(tools.Paths) string
	// parameters are further SlurmctldParameters.
	parameters []string
	// brief omits what does not depend on the release.
	brief bool
	// newer is set for releases other than Debian 12, which other packages also test.
	newer bool
}

// Bookworm returns Debian 12: Slurm 22.05, Ansible 2.14, systemd 252, Python 3.11.
func Bookworm() Generation {
	return Generation{
		name: "bookworm", gateway: "10.67.0.1/24",
		base:     func(p tools.Paths) string { return p.Systemd },
		packages: func(p tools.Paths) string { return p.SystemdArchive },
	}
}

// Trixie returns Debian 13: Slurm 24.11, Ansible 2.19, systemd 257, Python 3.13.
func Trixie() Generation {
	return Generation{
		name: "trixie", gateway: "10.70.0.1/24", newer: true, brief: !Full(),
		base:       func(p tools.Paths) string { return p.Trixie },
		packages:   func(p tools.Paths) string { return p.TrixieArchive },
		parameters: []string{fromController},
	}
}

// Boots gives the machines of a lab the release, with systemd. Its control host is one of them.
func (g Generation) Boots(cfg *cluster.Config) error {
	installed, err := tools.FindSystemd("../../..")
	cfg.Systemd, cfg.Packages = g.base(installed), g.packages(installed)
	return err
}

// fromController has slurmctld, not the node's slurmd, run RebootProgram.
const fromController = "reboot_from_controller"

// Lab is the cluster of a generation.
type Lab struct {
	harness.Lab
	of Generation
}

// Main deploys the lab from its control host, runs the tests and returns the exit code.
func (l *Lab) Main(m *testing.M, of Generation) (code int) {
	l.of = of
	l.Deploy = func(ctx context.Context) error { return l.Follow(ctx, cluster.Tutorial, "Deploy") }
	cfg := cluster.Config{
		Name: of.name, Gateway: netip.MustParsePrefix(of.gateway),
		Groups: []cluster.NodeGroup{cluster.Group("standard", "node", 1, 2)},
	}
	if err := of.Boots(&cfg); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return l.Lab.Main(m, cfg, func(d *cluster.Declaration) {
		d.Slurm.Launch = "at_once"
		d.Slurm.ControllerParameters = append(slices.Clone(d.Slurm.ControllerParameters), of.parameters...)
	})
}

// scenario is a test for all releases.
type scenario struct {
	name string
	run  func(*Lab, *testing.T)
	// in selects the releases on which it runs.
	in coverage
}

// coverage selects the releases on which a scenario runs.
type coverage int

const (
	// everywhere is for tests that depend on the release.
	everywhere coverage = iota
	// inFull is for tests that do not depend on the release: a brief run omits them.
	inFull
	// newer is for tests that other packages run on Debian 12; newerInFull is the same for full runs.
	newer
	newerInFull
)

// runs reports whether a scenario runs on a release.
func (g Generation) runs(s scenario) bool {
	switch s.in {
	case inFull:
		return !g.brief
	case newer:
		return g.newer
	case newerInFull:
		return g.newer && !g.brief
	}
	return true
}

// scenarios returns all scenarios in their order.
func scenarios() []scenario {
	return []scenario{
		{"services are units", (*Lab).servicesAreUnits, everywhere},
		{"the worker is a service of systemd", (*Lab).theWorkerIsAService, everywhere},
		{"settings fit the release", (*Lab).settingsFitTheRelease, everywhere},
		{"a second deploy changes nothing", (*Lab).theSecondDeployChangesNothing, inFull},
		{"job, node, suspend", (*Lab).aJobOnACloudNode, everywhere},
		{"a job outlives its launch program", (*Lab).aJobOutlivesItsLaunchProgram, inFull},
		{"all parts of a job are launched", (*Lab).allPartsOfAJobAreLaunched, inFull},
		{"jobs are launched without the control host", (*Lab).theControlHostIsAway, inFull},
		{"a job that exceeds its memory is killed", (*Lab).aJobThatExceedsItsMemoryIsKilled, everywhere},
		{"a job has its cores only", (*Lab).aJobHasItsCoresOnly, everywhere},
		{"after a plain reboot slurmd waits for the playbooks", (*Lab).afterAPlainRebootSlurmdWaits, inFull},
		{"scontrol and its JSON, states and reasons", (*Lab).slurmConforms, newer},
		{"scontrol reboot", (*Lab).rebootBySlurm, everywhere},
		{"scontrol reboot for a reimage", (*Lab).reimageBySlurm, everywhere},
		{"scontrol reboot, by the other one of slurmctld and slurmd", (*Lab).rebootTheOtherWay, newerInFull},
		{"each job of a partition has a fresh instance", (*Lab).eachJobHasAFreshInstance, newerInFull},
		{"the tutorial", (*Lab).tutorial, inFull},
	}
}

// Run runs each scenario as a test.
func (l *Lab) Run(t *testing.T) {
	for _, s := range scenarios() {
		if l.of.runs(s) {
			t.Run(s.name, func(t *testing.T) {
				t.Attr("scenario", s.name)
				s.run(l, t)
			})
		}
	}
}
