package nodeset_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

func TestValidNameAcceptsNamesValidInSlurmAndDNS(t *testing.T) {
	for _, name := range []string{
		"n", "n1", "n01", "1n", "a-1", "a--b", "node-01-ib0", "0xyz", "alle", strings.Repeat("a", 63),
		"n9223372036854775807",
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

func TestValidNameGivesTheReason(t *testing.T) {
	tests := []struct{ name, want string }{
		{"", `node name "" is empty`},
		{strings.Repeat("a", 64), `node name "` + strings.Repeat("a", 40) + `"… is longer than 63 bytes`},
		{"-n1", `node name "-n1" begins or ends with a hyphen`},
		{"n1-", `node name "n1-" begins or ends with a hyphen`},
		{
			"N1",
			`node name "N1" has the upper case letter 'N'; node names are in lower case, since DNS ignores case and ` +
				`Slurm does not`,
		},
		{"n1.cluster", `node name "n1.cluster" has '.', which is not a letter from a to z, a digit or a hyphen`},
		{"n[1-2]", `node name "n[1-2]" has '[', which is not a letter from a to z, a digit or a hyphen`},
		{"n 1", `node name "n 1" has the blank or control character ' '`},
		{"n\t", `node name "n\t" has the blank or control character '\t'`},
		{"n\xff", `node name "n\xff" has '�', which is not a letter from a to z, a digit or a hyphen`},
		{"all", `node name "all" is a word that Slurm reserves`},
		{"default", `node name "default" is a word that Slurm reserves`},
		{"localhost", `node name "localhost" is reserved for the loopback address`},
		{"12", `node name "12" is an IPv4 address to resolvers`},
		{"0x1f", `node name "0x1f" is an IPv4 address to resolvers`},
		{"n9223372036854775808", `node name "n9223372036854775808" ends in a number that is too large for Slurm`},
		{
			"n00099999999999999999999",
			`node name "n00099999999999999999999" ends in a number that is too large for Slurm`,
		},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, fmt.Sprint(nodeset.ValidName(tt.name))); diff != "" {
			t.Error(diff)
		}
	}
}
