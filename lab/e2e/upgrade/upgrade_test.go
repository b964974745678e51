// Package upgrade_test tests on a lab that clusters of earlier versions are taken over by this one, while jobs run.
package upgrade_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gofrs/flock"
	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/generation"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
	"github.com/eiffel-hpc/eiffel/lab/needs"
)

func TestMain(m *testing.M) {
	cluster.KeepIfAsked()
	os.Exit(m.Run())
}

// fixtureVariable is the environment variable with the folder to which the sites of the earlier versions are copied
// before the upgrade, for the tests of package client.
const fixtureVariable = "EIFFEL_FIXTURES"

// earlier is a version with the commit from which it is built.
type earlier struct {
	version, commit string
	stops           bool // it stops idle nodes
}

func TestUpgrade(t *testing.T) {
	for _, from := range []earlier{
		{version: "0.1", commit: "89eeb66dd2849569921b007313244884dd9ea63b"},
		{version: "0.2", commit: "5f6521ae380dbf2bd0f4bef300bfeb5559cf291f", stops: true},
	} {
		t.Run(from.version, func(t *testing.T) {
			if !generation.Full() {
				t.Skip("only `make matrix` upgrades a cluster; the tests of package client open the files of " + from.version)
			}
			upgraded(t, from)
		})
	}
}

// upgraded deploys a cluster with an earlier version: two nodes run jobs, one is idle, and one is stopped. Then it
// replaces the program, and checks that the jobs and their instances stay, and that each kind of request works.
func upgraded(t *testing.T, from earlier) {
	root := filepath.Join("..", "..", "..")
	tools := needs.Tools(t, root)
	files := checkout(t, root, from.commit)
	release, err := cluster.Keep("upgrade")
	check(t, err)
	t.Cleanup(func() { check(t, release()) })
	burst := cluster.Group("burst", "b", 0, 1)
	if from.stops {
		burst.WhenIdle = "stop"
	}
	started, err := cluster.Start(t.Context(), cluster.Config{
		Name: "upgrade", Gateway: netip.MustParsePrefix("10.81.0.1/24"), Checkout: files, Tools: tools,
		Groups: []cluster.NodeGroup{cluster.Group("standard", "node", 2, 4), burst},
	})
	check(t, err)
	l := &harness.Lab{Lab: started}
	t.Cleanup(func() { check(t, l.Close()) })

	l.Do(t, "deploy")
	jobs := []string{l.Job(t, "--nodelist=node01", harness.Until), l.Job(t, "--nodelist=node03", harness.Until)}
	fixtures := os.Getenv(fixtureVariable)
	if from.stops || fixtures != "" {
		l.AwaitJob(t, l.Job(t, "--nodelist=b01", "--wrap=true"), "COMPLETED")
		l.Eventually(t, harness.IdlePatience, func() (bool, string) {
			state, err := l.NodeState("b01")
			s, there := l.Server("b01")
			down := strings.Contains(state, "POWERED_DOWN") && there == from.stops && (!there || s.Status == "SHUTOFF")
			return down, fmt.Sprintf("b01 is %s, its instance is %q (%v)", state, s.Status, err)
		})
	}
	for _, job := range jobs {
		l.AwaitJob(t, job, "RUNNING")
	}
	awaitWorker(t, l)
	if fixtures != "" {
		keep(t, l.Site, filepath.Join(fixtures, from.version))
	}

	running := []string{"node01", "node02", "node03", cluster.ControlNodeName}
	before := l.Identities(t, running...)
	earlierProgram := filepath.Join(l.Directory(), "bin", "earlier")
	check(t, os.Rename(filepath.Join(l.Site, "bin", "reconfigure"), filepath.Join(l.Site, "bin", "earlier")))
	check(t, l.ReplaceProgram(t.Context(), root))
	out := l.Do(t, "plan", "upgrade")
	if !strings.Contains(out, "no change of an instance") {
		t.Errorf("plan upgrade:\n%s", out)
	}
	l.Do(t, "deploy")
	l.AssertRunning(t, jobs...)
	if diff := cmp.Diff(before, l.Identities(t, running...)); diff != "" {
		t.Errorf("instances changed (-before +after):\n%s", diff)
	}
	if out := l.Do(t, "plan", "upgrade"); !strings.Contains(out, "There is nothing to do.") {
		t.Errorf("plan upgrade after the deploy:\n%s", out)
	}
	former := l.OnControlHost(t.Context(), l.Directory(), earlierProgram, "--dir", l.Directory(), "status")
	if said, err := former.CombinedOutput(); err == nil || !strings.Contains(string(said), "newer") {
		t.Errorf("the earlier program reads the newer journal: %v\n%s", err, said)
	}
	l.Do(t, "update", "node02")
	onBurst := l.Job(t, "--nodelist=b01", "--wrap=true")
	l.AwaitJob(t, onBurst, "COMPLETED")
	l.AssertRunning(t, jobs...)
	for _, node := range []string{"node01", "node03"} {
		l.LetGo(t, node)
	}
	for _, job := range jobs {
		l.AwaitJob(t, job, "COMPLETED")
	}
	l.AssertNeverRestarted(t, append(jobs, onBurst)...)
	l.Eventually(t, harness.IdlePatience, func() (bool, string) {
		_, there := l.Server("node03")
		return !there, "node03 is not removed"
	})
	l.AwaitNothingWaits(t)
	l.AssertTerraformIsClean(t)
}

// checkout returns a folder with the files of a commit. The test is skipped if Git does not have the commit.
func checkout(t *testing.T, root, commit string) string {
	t.Helper()
	archive, err := exec.CommandContext(t.Context(), "git", "-C", root, "archive", commit).Output()
	if err != nil {
		t.Skipf("Git cannot read commit %s: %v", commit, err)
	}
	dir := t.TempDir()
	extract := exec.CommandContext(t.Context(), "tar", "-x", "-C", dir)
	extract.Stdin = bytes.NewReader(archive)
	if out, err := extract.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// awaitWorker waits until no worker of an earlier version runs. It does not open the journal, which would migrate it.
func awaitWorker(t *testing.T, l *harness.Lab) {
	t.Helper()
	lock := flock.New(filepath.Join(l.StateDir(), "lead.lock"))
	l.Eventually(t, harness.IdlePatience, func() (bool, string) {
		free, err := lock.TryLock()
		return free, fmt.Sprintf("a worker runs (%v)", err)
	})
	check(t, lock.Unlock())
}

// keep copies what a site has besides the program's files.
func keep(t *testing.T, site, to string) {
	t.Helper()
	check(t, os.RemoveAll(to))
	program := []string{"ansible", "bin", "slurmscripts", ".terraform", "log", "plans", "ansible-tmp"}
	check(t, filepath.WalkDir(site, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(site, path)
		if err != nil {
			return err
		}
		switch base := filepath.Base(path); {
		case d.IsDir() && slices.Contains(program, base):
			return fs.SkipDir
		case !d.Type().IsRegular(), slices.Contains([]string{".tf", ".md", ".yaml"}, filepath.Ext(name)):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		check(t, os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o755))
		return os.WriteFile(filepath.Join(to, name), text, 0o644)
	}))
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
