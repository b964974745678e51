package status

import (
	"strings"
	"testing"

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
