package nodeset_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

func parse(t testing.TB, hostlist string) nodeset.NodeSet {
	t.Helper()
	s, err := nodeset.Parse(hostlist)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStringIsCanonical(t *testing.T) {
	tests := []struct {
		rule  string
		names string
		want  string
	}{
		{"neighbours fold", "node01 node02 node03 node04 node07", "node[01-04,07]"},
		{"order and repeats do not matter", "n3 n1 n2 n1", "n[1-3]"},
		{"one number takes no brackets", "n5", "n5"},
		{"a range may grow by a digit", "n8 n9 n10 n99 n100", "n[8-10,99-100]"},
		{"a padded range outgrows its width", "n098 n099 n100 n999 n1000", "n[098-100,999-1000]"},
		{"widths are different names", "n1 n01 n2 n02", "n[1-2,01-02]"},
		{"the same number at other widths stays apart", "n8 n9 n08 n09 n10 n11", "n[8-9,08-11]"},
		{"9 does not lead to 010", "n9 n010", "n[9,010]"},
		{"9 does not lead to 100", "n9 n100", "n[9,100]"},
		{"11 does not lead to 120", "n11 n120", "n[11,120]"},
		{"12 does not lead to 23", "n12 n23", "n[12,23]"},
		{"19 does not lead to 30, nor to 21", "n19 n21 n30", "n[19,21,30]"},
		{"zero is a number", "n0 n00 n1", "n[0-1,00]"},
		{"a name may be its prefix alone", "n n1 n2", "n,n[1-2]"},
		{"only the last number folds", "r2n1 r2n2 r10n1 r1n1", "r1n1,r2n[1-2],r10n1"},
		{"text after a number does not fold", "n1-ib0 n2-ib0 n1-ib n2-ib", "n1-ib,n1-ib0,n2-ib,n2-ib0"},
		{"longer names do not split a range", "n1 n1a n1x1 n2", "n[1-2],n1a,n1x1"},
		{"numbers in prefixes compare as numbers", "a10b a9b a09b", "a9b,a09b,a10b"},
		{"hyphen, digit, letter", "na1 n01 n-1", "n01,n-1,na1"},
		{
			"the largest number",
			"n9223372036854775806 n9223372036854775807",
			"n[9223372036854775806-9223372036854775807]",
		},
		{"nothing", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			s := nodeset.Of(strings.Fields(tt.names)...)
			if got := s.String(); got != tt.want {
				t.Errorf("Of(%s).String() = %q, want %q", tt.names, got, tt.want)
			}
			if tt.want != "" && !parse(t, tt.want).Equal(s) {
				t.Errorf("Parse(%q) = %q, want the same set", tt.want, parse(t, tt.want))
			}
		})
	}
}

func TestNamesAreInNaturalOrder(t *testing.T) {
	want := []string{"m1", "n", "n1", "n2", "n10", "n007", "r1n1", "r1n10", "r2n1", "r10n1"}
	got := nodeset.Of("r10n1", "n10", "n007", "r2n1", "n", "r1n10", "m1", "n2", "r1n1", "n1").Names()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestOfExpandsNoBrackets(t *testing.T) {
	want := []string{"n[1-2]"}
	if diff := cmp.Diff(want, nodeset.Of("n[1-2]").Names()); diff != "" {
		t.Error(diff)
	}
}

func TestSetsAreImmutable(t *testing.T) {
	given := []string{"n2", "n1"}
	s := nodeset.Of(given...)
	given[0] = "x"
	s.Names()[0] = "y"
	if got := s.String(); got != "n[1-2]" {
		t.Errorf("a change of the caller's slice changed the set: %s", got)
	}
	if diff := cmp.Diff([]string{"x", "n1"}, given); diff != "" {
		t.Errorf("Of changed its argument: %s", diff)
	}
}

func TestTheZeroValueIsTheOnlyEmptySet(t *testing.T) {
	n1 := nodeset.Of("n1")
	empty := map[string]nodeset.NodeSet{
		"zero":        {},
		"of nothing":  nodeset.Of(),
		"of no names": nodeset.Of([]string{}...),
		"difference":  n1.Difference(n1),
		"intersect":   n1.Intersect(nodeset.Of("n2")),
		"union":       nodeset.NodeSet{}.Union(nodeset.NodeSet{}),
	}
	type field struct {
		Nodes nodeset.NodeSet `json:",omitzero"`
	}
	for how, s := range empty {
		if !s.Empty() || s.Len() != 0 || s.Contains("") || s.String() != "" || !s.Equal(nodeset.NodeSet{}) {
			t.Errorf("%s: %q is not empty", how, s)
		}
		if got, err := json.Marshal(field{s}); err != nil || string(got) != "{}" {
			t.Errorf("%s: with omitzero: %s, %v", how, got, err)
		}
	}
}

func TestASetIsAJSONString(t *testing.T) {
	type field struct{ Nodes nodeset.NodeSet }
	for _, names := range [][]string{nil, {"n1"}, {"n1", "n2", "m"}} {
		want := field{nodeset.Of(names...)}
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if quoted := `{"Nodes":"` + want.Nodes.String() + `"}`; string(text) != quoted {
			t.Errorf("marshalled as %s, want %s", text, quoted)
		}
		var got field
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestUnmarshalReplacesTheSetUnlessItFails(t *testing.T) {
	s := nodeset.Of("old")
	if err := s.UnmarshalText([]byte("n[1-")); err == nil {
		t.Error("an unclosed bracket is no error")
	}
	if got := s.String(); got != "old" {
		t.Errorf("after an error the set is %q", got)
	}
	if err := s.UnmarshalText(nil); err != nil || !s.Empty() {
		t.Errorf("the empty text gives %q, %v", s, err)
	}
}

func TestASetIsALogAttribute(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	log.Info("x", "nodes", nodeset.Of("n1", "n2"))
	if !strings.Contains(out.String(), "nodes=n[1-2]") {
		t.Error(out.String())
	}
}
