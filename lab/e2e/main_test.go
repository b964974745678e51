// Package e2e_test runs the whole product on a lab: real slurmctld and slurmd, real SSH, real Terraform with the real provider, real Ansible.
package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/lab/tools"
)

// lab is the one cluster of all tests here: to deploy it takes longer than most of them. Each test leaves it with its cloud nodes powered down.
var lab *cluster.Lab

func TestMain(m *testing.M) {
	code, err := testOnLab(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "end to end:", err)
		code = 1
	}
	os.Exit(code)
}

func testOnLab(m *testing.M) (code int, err error) {
	checkout, err := filepath.Abs("../..")
	if err != nil {
		return 1, err
	}
	paths, err := tools.Find(checkout)
	if err != nil {
		return 1, err
	}
	standard := cluster.Group("standard", "node", 2, 6)
	burst := cluster.Group("burst", "b", 0, 2)
	wide := cluster.Group("wide", "w", 0, 16)
	lab, err = cluster.Start(context.Background(), cluster.Config{
		Name: "e2e", Gateway: netip.MustParsePrefix("10.62.0.1/24"), Checkout: checkout, Tools: paths,
		Groups: []cluster.NodeGroup{standard, burst, wide},
		Partitions: []cluster.Partition{
			{Name: "main", Groups: []string{"standard", "burst"}, Default: true},
			{Name: "burst", Groups: []string{"burst"}},
			{Name: "wide", Groups: []string{"wide"}},
		},
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, lab.Close(), nothingLeft()) }()
	if out, err := lab.Reconfigure(context.Background(), "deploy").CombinedOutput(); err != nil {
		return 1, fmt.Errorf("deploy: %w\n%s\n%s", err, out, workerLogs())
	}
	return m.Run(), nil
}

// nothingLeft looks for what a lab could leave behind: processes, also those that left their session, mounts, the network link, files.
func nothingLeft() error {
	var errs []error
	if _, err := os.Stat(lab.Dir); err == nil {
		errs = append(errs, fmt.Errorf("%s is still there", lab.Dir))
	}
	if out, err := exec.Command("ip", "link", "show", "lab-e2e").CombinedOutput(); err == nil {
		errs = append(errs, fmt.Errorf("the lab's network is still there: %s", out))
	}
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	errs = append(errs, err)
	for _, file := range files {
		environ, _ := os.ReadFile(file) // a process that has just ended has none
		mounts, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "mounts"))
		if strings.Contains(string(environ)+string(mounts), lab.Dir) {
			cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
			errs = append(errs, fmt.Errorf("process %s is left: %q", filepath.Base(filepath.Dir(file)), cmdline))
		}
	}
	return errors.Join(errs...)
}

// workerLogs is what the worker and its children wrote, for the report of a failure.
func workerLogs() string {
	var all strings.Builder
	files, _ := filepath.Glob(filepath.Join(lab.StateDir(), "log", "*"))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		const last = 4000
		fmt.Fprintf(&all, "== %s\n%s\n", filepath.Base(file), text[max(0, len(text)-last):])
	}
	return all.String()
}

// eventually waits until a condition holds; what it last said is told when it never does.
func eventually(t *testing.T, patience time.Duration, condition func() (ok bool, said string)) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		ok, said := condition()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s\n%s\n%s", patience, said, slurmLogs(), workerLogs())
		}
		time.Sleep(300 * time.Millisecond)
	}
}

func slurmLogs() string {
	out, _ := lab.Command(cluster.ControlNodeName, "sh", "-c", "sinfo -N -l; squeue; tail -n 40 /var/log/slurm/*.log").CombinedOutput()
	return string(out)
}

const (
	jobPatience  = 4 * time.Minute
	idlePatience = 3 * time.Minute
)

// job submits a batch job; its output goes nowhere.
func job(t *testing.T, args ...string) string {
	t.Helper()
	id, err := lab.Submit(append(args, "--output=/dev/null")...)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func awaitJob(t *testing.T, id, state string) {
	t.Helper()
	eventually(t, jobPatience, func() (bool, string) {
		got, err := lab.JobState(id)
		return got == state, fmt.Sprintf("job %s is %s, not %s (%v)", id, got, state, err)
	})
}

// awaitQuiet waits until no cloud node has an instance, and Slurm would use every node again.
func awaitQuiet(t *testing.T) {
	t.Helper()
	for _, group := range lab.Declaration.NodeGroups {
		for i := group.MinNodes + 1; i <= group.MaxNodes; i++ {
			node := fmt.Sprintf("%s%0*d", group.Prefix, group.Width, i)
			eventually(t, idlePatience, func() (bool, string) {
				state, err := lab.NodeState(node)
				_, there := server(node)
				return state == "IDLE+CLOUD+POWERED_DOWN" && !there, fmt.Sprintf("%s is %s, has an instance: %v (%v)", node, state, there, err)
			})
		}
	}
}

func server(node string) (labcloud.Server, bool) {
	for _, s := range lab.Cloud.Servers() {
		if s.Name == node {
			return s, true
		}
	}
	return labcloud.Server{}, false
}

// reconfigure calls the tool, and answers what it printed and its exit code.
func reconfigure(t *testing.T, args ...string) (output string, code int) {
	t.Helper()
	cmd := lab.Reconfigure(t.Context(), args...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("reconfigure %v: %v", args, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// assertTerraformIsClean has Terraform plan everything, as an administrator would by hand, who waits for his turn: it must not want to change anything.
func assertTerraformIsClean(t *testing.T) {
	t.Helper()
	out, err := lab.Terraform(t.Context(), "plan", "-input=false", "-no-color", "-detailed-exitcode", "-lock-timeout=2m").CombinedOutput()
	if err != nil {
		t.Errorf("a plan by hand is not clean: %v\n%s", err, out)
	}
}

func order(t *testing.T, f labcloud.Fault) {
	t.Helper()
	id, err := lab.Cloud.Faults().Add(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, ordered := range lab.Cloud.Faults().List() {
			if ordered.ID == id && ordered.Hits == 0 {
				t.Errorf("the fault %+v was never met: the test shows nothing", ordered)
			}
		}
		lab.Cloud.Faults().Clear(id)
	})
}

// identity is all of an instance that must not change unasked.
type identity struct{ ID, Image, Flavor, Boot string }

func identities(t *testing.T, nodes ...string) map[string]identity {
	t.Helper()
	all := map[string]identity{}
	for _, node := range nodes {
		s, ok := server(node)
		if !ok {
			t.Fatalf("%s has no instance", node)
		}
		boot, err := lab.Command(node, "stat", "-c", "%Y", "/proc/1").Output()
		if err != nil {
			t.Fatalf("boot time of %s: %v", node, err)
		}
		all[node] = identity{s.ID, s.Image, s.Flavor, strings.TrimSpace(string(boot))}
	}
	return all
}
