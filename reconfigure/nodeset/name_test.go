package nodeset_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

func TestValidNameTakesWhatSlurmAndDNSTake(t *testing.T) {
	for _, name := range []string{
		"n", "n1", "n01", "1n", "a-1", "a--b", "node-01-ib0", "0xyz", "alle", strings.Repeat("a", 63), "n9223372036854775807",
		"n000000000000000000000000001", "n99999999999999999999999x1",
	} {
		if err := nodeset.ValidName(name); err != nil {
			t.Error(err)
		}
		if got := parse(t, name).Names(); len(got) != 1 || got[0] != name {
			t.Errorf("Parse(%q) = %q", name, got)
		}
	}
}

func TestValidNameSaysWhatIsWrong(t *testing.T) {
	tests := []struct{ name, want string }{
		{"", `node name "" is empty`},
		{strings.Repeat("a", 64), `node name "` + strings.Repeat("a", 40) + `"… is longer than 63 bytes`},
		{"-n1", `node name "-n1" begins or ends with a hyphen`},
		{"n1-", `node name "n1-" begins or ends with a hyphen`},
		{"N1", `node name "N1" has the upper case letter 'N', which Slurm tells from lower case and DNS does not`},
		{"n1.cluster", `node name "n1.cluster" has '.', which is no letter of a to z, digit or hyphen`},
		{"n[1-2]", `node name "n[1-2]" has '[', which is no letter of a to z, digit or hyphen`},
		{"n 1", `node name "n 1" has the blank or control character ' '`},
		{"n\t", `node name "n\t" has the blank or control character '\t'`},
		{"n\xff", `node name "n\xff" has '�', which is no letter of a to z, digit or hyphen`},
		{"all", `node name "all" is a word that Slurm reserves`},
		{"default", `node name "default" is a word that Slurm reserves`},
		{"localhost", `node name "localhost" means every machine itself`},
		{"12", `node name "12" is an IPv4 address to resolvers`},
		{"0x1f", `node name "0x1f" is an IPv4 address to resolvers`},
		{"n9223372036854775808", `node name "n9223372036854775808" ends in a number that Slurm cannot count to`},
		{"n00099999999999999999999", `node name "n00099999999999999999999" ends in a number that Slurm cannot count to`},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, fmt.Sprint(nodeset.ValidName(tt.name))); diff != "" {
			t.Error(diff)
		}
	}
}
