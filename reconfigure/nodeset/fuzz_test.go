package nodeset_test

import (
	"errors"
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", ",", "n", "n1", "n1,n01,n1", "node[01-04,07]", "n[8-11],n[08-11]", "n[001-3]", "n[9-010]", "n[1,03,002]",
		"r[1-2]n[01-03]", "n[1-2][3-4]x[5]",
		"[1-2]n[3-4]", "a-b-[1-2]", "n[98-101],m", "n[1-2", "n1-2]", "n[[1]]", "n[]", "n[-1]", "n[1-]", "n[3-1]",
		"n[1,,2]", "n[1-2]x", "a b", "n\n", "n[+1]",
		"n[0-8:2]", "N1", "all", "12", "0x1f", "-n", "n-", "n[1-65536]", "n[1-65537]", "r[1-300]n[1-300]",
		"n[18446744073709551615]", "n9223372036854775808",
		"n[00000000000000000000000000000000000000000000000000000000000000000000001]", "\xff", "ä[1-2]",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := nodeset.Parse(text)
		if err != nil {
			var refused *nodeset.ParseError
			if !errors.As(err, &refused) {
				t.Fatalf("%q: %T is no ParseError", text, err)
			}
			if refused.Hostlist != text || refused.Offset < 0 || refused.Offset > len(text) || refused.Reason == "" ||
				!s.Empty() {
				t.Fatalf("%q: %#v with the set %q", text, refused, s)
			}
			return
		}
		if s.Empty() || s.Len() > nodeset.MaxNodes {
			t.Fatalf("%q has %d nodes", text, s.Len())
		}
		for name := range s.All() {
			if err := nodeset.ValidName(name); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
		}
		again, err := nodeset.Parse(s.String())
		if err != nil {
			t.Fatalf("%q is written as %q: %v", text, s, err)
		}
		if !again.Equal(s) || again.String() != s.String() {
			t.Fatalf("%q is written as %q, which reads as %q", text, s, again)
		}
	})
}
