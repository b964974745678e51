package status

import (
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// TestTheTableCutsTheErrorsOfTerraform prints a report with a long error: shortened, in full, and without the cloud.
func TestTheTableCutsTheErrorsOfTerraform(t *testing.T) {
	prose := strings.Repeat("some prose ", 50) + "end"
	r := Report{Unreachable: []snapshot.Unreachable{
		{Source: snapshot.Cloud, Reason: "no such cloud"},
		{Source: snapshot.Terraform, Reason: "terraform init: exit status 1\n\n╷\n│ Error: no provider\n│\n│ " + prose + "\n╵"},
	}}
	for name, tc := range map[string]struct {
		layout Layout
		has    string
		hasNot string
	}{
		"brief":           {Layout{}, "terraform init: exit status 1 Error: no provider some prose", "end"},
		"with a hint":     {Layout{}, "… (-v prints all of it)\n", "│"},
		"in full":         {Layout{Verbose: true}, "end", "-v prints"},
		"with the cloud":  {Layout{}, "The cloud does not answer: no such cloud\n", "│"},
		"the cloud known": {Layout{CloudTold: true}, "Terraform does not answer", "no such cloud"},
	} {
		var b strings.Builder
		if err := r.Write(&b, tc.layout); err != nil {
			t.Fatal(err)
		}
		if said := b.String(); !strings.Contains(said, tc.has) || strings.Contains(said, tc.hasNot) {
			t.Errorf("%s: %s", name, said)
		}
	}
}

// TestAMissingCloudIsNamedOnce prints a report with requests that wait for the cloud that the caller names.
func TestAMissingCloudIsNamedOnce(t *testing.T) {
	const missing, other = `find cloud "lab": no clouds.yaml`, "image v1: there are two"
	waits := func(id reconfigure.RequestID, kind reconfigure.DeferralKind, why string) Request {
		p := NewRequest(reconfigure.Request{ID: id, Mode: reconfigure.Update, Deferred: []reconfigure.Deferral{
			{Request: id, Node: "n1", Kind: kind, Reason: why},
		}}, nil)
		p.State = p.deferral()
		return p
	}
	r := Report{
		Unreachable: []snapshot.Unreachable{{Source: snapshot.Cloud, Reason: missing}},
		Requests: []Request{
			waits(1, reconfigure.CloudUnreachable, "image v1: "+missing),
			waits(2, reconfigure.CannotPlan, missing),
			waits(3, reconfigure.CloudUnreachable, other),
		},
	}
	for told, want := range map[bool]int{true: 0, false: 3} {
		var b strings.Builder
		if err := r.Write(&b, Layout{CloudTold: told}); err != nil {
			t.Fatal(err)
		}
		said := b.String()
		if n := strings.Count(said, missing); n != want {
			t.Errorf("told %t: named %d times:\n%s", told, n, said)
		}
		for _, note := range []string{"Request 1 waits for the cloud, and will be retried", "will be retried: " + other} {
			if !strings.Contains(said, note) {
				t.Errorf("told %t: no %q:\n%s", told, note, said)
			}
		}
	}
}
