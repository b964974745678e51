package status

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// update writes the golden files anew.
var update = flag.Bool("update", false, "write the golden files anew")

// golden compares a text with a file in testdata, which -update rewrites.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func TestOutcomeForPeople(t *testing.T) {
	const (
		quota = "Error creating OpenStack server: Request forbidden: " +
			"[POST http://192.0.2.20/compute/v2.1/servers], error message: Quota exceeded for instances: " +
			"Requested 1, but already used 10 of 10 instances"
		fence = "refused: Terraform's plan has 1 change(s) that nobody asked for, so nothing was changed:\n" +
			"  node node01: would rebuild openstack_compute_instance_v2.node[\"node01\"] (image_id)"
	)
	submitted := time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)
	r := reconfigure.Request{ID: 7, Mode: reconfigure.Resume, Submitted: submitted}
	classed := func(v reconfigure.Verdict, class reconfigure.Class) reconfigure.Verdict {
		v.Class = class
		return v
	}
	verdict := func(
		node string, action reconfigure.Action, status reconfigure.Status, phase reconfigure.Phase, reason string,
	) reconfigure.Verdict {
		return reconfigure.Verdict{Node: node, Action: action, Status: status, Phase: phase, Reason: reason}
	}
	var text strings.Builder
	for _, o := range []reconfigure.Outcome{
		{Code: reconfigure.CodeDone, Verdicts: []reconfigure.Verdict{
			verdict("node03", reconfigure.Create, reconfigure.StatusDone, "", ""),
			verdict("node04", reconfigure.Create, reconfigure.StatusDone, "", ""),
			verdict("node05", reconfigure.Reboot, reconfigure.StatusDone, "", ""),
			verdict("node06", reconfigure.Remove, reconfigure.StatusDone, "", ""),
		}},
		{Code: reconfigure.CodeDone},
		{
			Code:     reconfigure.CodeDone,
			Verdicts: []reconfigure.Verdict{verdict("node03", "", reconfigure.StatusUnchanged, "", "")},
		},
		{Code: reconfigure.CodePartial, Verdicts: []reconfigure.Verdict{
			verdict("node03", reconfigure.Create, reconfigure.StatusDone, "", ""),
			classed(
				verdict("node04", reconfigure.Create, reconfigure.StatusFailed, reconfigure.PhaseApply, quota),
				reconfigure.ClassQuota,
			),
			classed(
				verdict("node05", reconfigure.Create, reconfigure.StatusFailed, reconfigure.PhaseApply, quota),
				reconfigure.ClassQuota,
			),
			classed(
				verdict(
					"node06", reconfigure.Configure, reconfigure.StatusFailed, reconfigure.PhaseConfigure,
					"could not be reached: \x1b[31mno route\x1b[0m to host",
				),
				reconfigure.ClassSSH,
			),
			verdict("node99", "", reconfigure.StatusRejected, reconfigure.PhasePlan, "no node group declares it"),
		}},
		{Code: reconfigure.CodeRefused, Verdicts: []reconfigure.Verdict{
			classed(
				verdict("node03", reconfigure.Remove, reconfigure.StatusRefused, reconfigure.PhaseApply, fence),
				reconfigure.ClassRefused,
			),
		}},
		{Code: reconfigure.CodeFailed, Error: "the cloud does not answer"}, // the error of the call reports these
	} {
		o.Request, o.Finished = r.ID, submitted.Add(72*time.Second)
		if err := WriteOutcome(&text, r, o, 80); err != nil {
			t.Fatal(err)
		}
		text.WriteString("\n")
	}
	golden(t, "outcomes.txt", text.String())
}
