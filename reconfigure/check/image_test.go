package check_test

import (
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure/check"
)

func goodNode() check.NodeFacts {
	return check.NodeFacts{
		Image: "base", Node: "node01", NFS: true, Control: "22.05.8", Versions: map[string]string{
			"munge": "munge-0.5.15 (2022-06-22)", "slurmd": "slurm-wlm 22.05.8", "python3": "Python 3.11.2",
			"sshd": "OpenSSH_9.2p1", "sudo": "Sudo version 1.9.13p3", "cloud-init": "/usr/bin/cloud-init 22.4.2",
			"nfs": "mount.nfs: (linux nfs-utils 2.6.2)",
		},
	}
}

func TestImageIsChecked(t *testing.T) {
	with := func(part, version string) func(*check.NodeFacts) {
		return func(f *check.NodeFacts) { f.Versions[part] = version }
	}
	for name, tc := range map[string]struct {
		change func(*check.NodeFacts)
		want   string // severity and what of each finding
	}{
		"good":                  {func(*check.NodeFacts) {}, ""},
		"no slurmd":             {with("slurmd", ""), "warning: slurmd is not installed"},
		"no Python":             {with("python3", ""), "error: python3 is not installed"},
		"no cloud-init":         {with("cloud-init", ""), "warning: cloud-init is not installed"},
		"no NFS":                {with("nfs", ""), "warning: nfs is not installed"},
		"no NFS, and no shares": {func(f *check.NodeFacts) { f.Versions["nfs"], f.NFS = "", false }, ""},
		"an old Python":         {with("python3", "Python 3.6.8"), "warning: python3 is 3.6.8"},
		"another patch":         {with("slurmd", "slurm 22.05.11"), "note: slurmd is 22.05.11, and slurmctld 22.05.8"},
		"older":                 {with("slurmd", "slurm 20.11.9"), "warning: slurmd is 20.11.9, and slurmctld 22.05.8"},
		"too old":               {with("slurmd", "slurm 20.02.7"), "error: slurmd is 20.02.7, and slurmctld 22.05.8"},
		"newer":                 {with("slurmd", "slurm 24.11.5"), "error: slurmd is 24.11.5, and slurmctld 22.05.8"},
		"three releases older": {func(f *check.NodeFacts) {
			f.Versions["slurmd"], f.Control = "slurm 23.02.1", "24.11.5"
		}, "warning: slurmd is 23.02.1, and slurmctld 24.11.5"},
		"of a coming release": {func(f *check.NodeFacts) {
			f.Versions["slurmd"], f.Control = "slurm 24.11.5", "25.11.0"
		}, "warning: slurmd is 24.11.5, and slurmctld 25.11.0"},
		"slurmctld is silent": {func(f *check.NodeFacts) { f.Control = "" }, ""},
	} {
		facts := goodNode()
		facts.Versions = maps.Clone(facts.Versions)
		tc.change(&facts)
		var got []string
		for _, f := range check.Image(facts).Findings {
			if f.Why == "" || f.Change == "" {
				t.Errorf("%s: %+v", name, f)
			}
			got = append(got, fmt.Sprintf("%s: %s", f.Severity, f.What))
		}
		if diff := cmp.Diff(tc.want, strings.Join(got, "\n")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestNodeThatDoesNotAnswerIsUnknown(t *testing.T) {
	r := check.ImageReports{check.Image(check.NodeFacts{Image: "base", Node: "node01", Err: errors.New("no route")})}
	if found := (*check.FoundError)(nil); !errors.As(r.Err(), &found) || found.Report.Worst() != check.Warning {
		t.Errorf("error %v", r.Err())
	}
	var b strings.Builder
	if err := r.Write(&b); err != nil || !strings.Contains(b.String(), "node node01 does not answer") {
		t.Errorf("error %v\n%s", err, b.String())
	}
}

// TestNodeScriptFindsWhatIsThere runs the script on this computer, which has python3 but not all of the other programs.
func TestNodeScriptFindsWhatIsThere(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sh", "-s")
	cmd.Stdin = strings.NewReader(check.NodeScript)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	versions := check.ParseVersions(string(out))
	if !strings.HasPrefix(versions["python3"], "Python 3.") || len(versions) != 7 {
		t.Errorf("found %q in\n%s", versions, out)
	}
}
