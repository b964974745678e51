package nodeset_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

func TestParseExpands(t *testing.T) {
	tests := []struct {
		rule     string
		hostlist []string
		want     string // in canonical order
	}{
		{"a name", []string{"n1"}, "n1"},
		{"a name without a number", []string{"login"}, "login"},
		{"names by comma", []string{"n1,m2"}, "m2 n1"},
		{"several arguments", []string{"n1", "n[3-4],n2"}, "n1 n2 n3 n4"},
		{"repeats fold", []string{"n1,n[1-2]", "n2"}, "n1 n2"},
		{"a range", []string{"n[8-11]"}, "n8 n9 n10 n11"},
		{"a padded range", []string{"n[08-11]"}, "n08 n09 n10 n11"},
		{"a padded range outgrows its width", []string{"n[98-101]"}, "n98 n99 n100 n101"},
		{"the first number's width counts", []string{"n[001-3]"}, "n001 n002 n003"},
		{"the last number's width does not", []string{"n[9-010]"}, "n9 n10"},
		{"each range has its own width", []string{"n[1,03,002]"}, "n1 n03 n002"},
		{"a range of one", []string{"n[1-1]"}, "n1"},
		{"ranges need not be in order", []string{"n[3,1-2]"}, "n1 n2 n3"},
		{"several brackets", []string{"r[1-2]n[01-03]"}, "r1n01 r1n02 r1n03 r2n01 r2n02 r2n03"},
		{"brackets side by side", []string{"n[1-2][3-4]"}, "n13 n14 n23 n24"},
		{"digits before a bracket", []string{"n0[8-10]"}, "n08 n09 n010"},
		{"digits between brackets", []string{"n[1-2]0[8-10]"}, "n108 n109 n208 n209 n1010 n2010"},
		{"brackets first", []string{"[1-2]n[3-4]"}, "1n3 1n4 2n3 2n4"},
		{"hyphens in names", []string{"a-b-[1-2],a-b-c"}, "a-b-1 a-b-2 a-b-c"},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			s, err := nodeset.Parse(tt.hostlist...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Fields(tt.want), s.Names()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseRejects(t *testing.T) {
	long := strings.Repeat("a", 63)
	tests := []struct {
		rule     string
		hostlist []string
		offset   int
		reason   string
	}{
		{"nothing", nil, 0, "a node name is missing"},
		{"an empty text", []string{""}, 0, "a node name is missing"},
		{"an empty element", []string{"a,,b"}, 2, "a node name is missing"},
		{"an empty element at the start", []string{",a"}, 0, "a node name is missing"},
		{"an empty element at the end", []string{"a,"}, 2, "a node name is missing"},
		{"an empty argument", []string{"a", "", "b"}, 2, "a node name is missing"},
		{"a blank", []string{"a b"}, 1, "node name has the blank or control character ' '"},
		{"a blank around", []string{" a"}, 0, "node name has the blank or control character ' '"},
		{"a newline", []string{"n[1-2]\n"}, 6, `node name has the blank or control character '\n'`},
		{"a zero byte", []string{"a\x00"}, 1, `node name has the blank or control character '\x00'`},
		{
			"an upper case letter",
			[]string{"n1,Node2"},
			3,
			"node name has the upper case letter 'N'; node names are in lower case, since DNS ignores case and Slurm " +
				"does not",
		},
		{
			"another character",
			[]string{"n_1"},
			1,
			"node name has '_', which is not a letter from a to z, a digit or a hyphen",
		},
		{
			"a letter of more than one byte",
			[]string{"nä"},
			1,
			"node name has 'ä', which is not a letter from a to z, a digit or a hyphen",
		},
		{"an option", []string{"--all"}, 0, `node name "--all" begins or ends with a hyphen`},
		{"a name that would end in a hyphen", []string{"n1,a-"}, 3, `node name "a-" begins or ends with a hyphen`},
		{"a reserved word", []string{"n1,all"}, 3, `node name "all" is a word that Slurm reserves`},
		{"numbers alone", []string{"[1-3]"}, 0, `node name "1" is an IPv4 address to resolvers`},
		{"an unclosed bracket", []string{"n[1-2"}, 1, "this bracket is not closed"},
		{"an unclosed bracket after a hyphen", []string{"n[1-"}, 1, "this bracket is not closed"},
		{"an unclosed bracket after a comma", []string{"n[1,"}, 1, "this bracket is not closed"},
		{"a bracket over two arguments", []string{"n[1", "2]"}, 1, "this bracket is not closed"},
		{"an unopened bracket", []string{"n1-2]"}, 4, "this bracket is not opened"},
		{"a bracket closed twice", []string{"n[1-2]]"}, 6, "this bracket is not opened"},
		{"a bracket in brackets", []string{"n[[1-2]]"}, 2, "found '[' in brackets instead of a number"},
		{"empty brackets", []string{"n[]"}, 2, "found ']' in brackets instead of a number"},
		{"an empty range", []string{"n[1,,2]"}, 4, "found ',' in brackets instead of a number"},
		{"an empty range at the end", []string{"n[1,]"}, 4, "found ']' in brackets instead of a number"},
		{"a range without an end", []string{"n[1-]"}, 4, "found ']' in brackets instead of a number"},
		{"a range without a start", []string{"n[-1]"}, 2, "found '-' in brackets instead of a number"},
		{"letters in brackets", []string{"n[a-b]"}, 2, "found 'a' in brackets instead of a number"},
		{"a blank in brackets", []string{"n[1, 2]"}, 4, "found ' ' in brackets instead of a number"},
		{"a sign in brackets", []string{"n[+1]"}, 2, "found '+' in brackets instead of a number"},
		{
			"a step",
			[]string{"n[0-8:2]"},
			5,
			"found ':' in brackets instead of a comma, a hyphen or the closing bracket",
		},
		{
			"a range of three",
			[]string{"n[1-2-3]"},
			5,
			"found '-' in brackets instead of a comma, a hyphen or the closing bracket",
		},
		{"a descending range", []string{"n[1,7-3]"}, 4, "the range is descending"},
		{
			"text after the last bracket",
			[]string{"n[1-2]-ib"},
			6,
			"text after the last bracket: a name with brackets must end in one",
		},
		{
			"digits after the last bracket",
			[]string{"n[1-2]0,m"},
			6,
			"text after the last bracket: a name with brackets must end in one",
		},
		{
			"a number that overflows in Slurm",
			[]string{"n[18446744073709551616]"},
			2,
			"a number that is too large for Slurm",
		},
		{
			"a range that crashes Slurm",
			[]string{"n[18446744073709551614-18446744073709551615]"},
			2,
			"a number that is too large for Slurm",
		},
		{
			"a name whose number overflows in Slurm",
			[]string{"n18446744073709551616"},
			0,
			`node name "n18446744073709551616" ends in a number that is too large for Slurm`,
		},
		{"a long name", []string{"n1", long + "a"}, 3, "node name is longer than 63 bytes"},
		{"a bracket that makes a name long", []string{long + "[1-2]"}, 63, "node name is longer than 63 bytes"},
		{
			"a width that makes a name long",
			[]string{"n[" + strings.Repeat("0", 70) + "]"},
			1,
			"node name is longer than 63 bytes",
		},
		{
			"one of several ranges that makes a name long",
			[]string{long[1:] + "[10,1]"},
			62,
			"node name is longer than 63 bytes",
		},
		{"an end that makes a name long", []string{long[1:] + "[9-10]"}, 62, "node name is longer than 63 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			want := &nodeset.ParseError{Hostlist: strings.Join(tt.hostlist, ","), Offset: tt.offset, Reason: tt.reason}
			checkRefused(t, want, tt.hostlist...)
		})
	}
}

func checkRefused(t *testing.T, want *nodeset.ParseError, hostlist ...string) {
	t.Helper()
	s, err := nodeset.Parse(hostlist...)
	var got *nodeset.ParseError
	if !errors.As(err, &got) {
		t.Fatalf("Parse(%q) = %q, %v, want a ParseError", hostlist, s, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !s.Empty() {
		t.Errorf("the set is not empty beside the error: %q", s)
	}
}

func TestParseAcceptsMaxNodes(t *testing.T) {
	for _, hostlist := range []string{"n[1-65536]", "n[0-65535]", "r[1-256]n[1-256]", "a,n[2-65536]"} {
		if got := parse(t, hostlist).Len(); got != nodeset.MaxNodes {
			t.Errorf("%s has %d nodes, want %d", hostlist, got, nodeset.MaxNodes)
		}
	}
}

func TestParseRejectsTooManyNodesBeforeItExpandsThem(t *testing.T) {
	tests := []struct {
		hostlist string
		offset   int
	}{
		{"n[1-65537]", 2},
		{"n[0-9223372036854775807]", 2},
		{"n[1-65535,70000,70001]", 16},
		{"r[1-300]n[1-300]", 10},
		{"r[1-65536]n[1-2]", 12},
		{"r[1-256]s[1-256]n[1,2]", 20},
		{"a[1-9223372036854775807]b[1-9223372036854775807]", 2},
		{strings.Repeat("n[0-9]", 10) + "[0-9]", 26}, // ten to the fourth fit
	}
	for _, tt := range tests {
		t.Run(tt.hostlist, func(t *testing.T) {
			want := &nodeset.ParseError{Hostlist: tt.hostlist, Offset: tt.offset, Reason: "more than 65536 names"}
			checkRefused(t, want, tt.hostlist)
			allocations := testing.AllocsPerRun(1, func() { _, _ = nodeset.Parse(tt.hostlist) })
			if allocations > 100 {
				t.Errorf("%.0f allocations for an error", allocations)
			}
		})
	}
}

func TestParseCountsNamesOverAllElements(t *testing.T) {
	for _, tt := range []struct {
		first, second string
		offset        int
	}{
		{"n[1-65536]", "m", 11},
		{"n[1-65536]", "n1", 11}, // a repeat counts
		{"n[1-65536]", "m[1-2]", 11},
		{"n[1-65535]", "m[1-2]", 13},
		{"n[1-65530]", "r[1-2]m[1-4]", 19},
	} {
		want := &nodeset.ParseError{
			Hostlist: tt.first + "," + tt.second,
			Offset:   tt.offset,
			Reason:   "more than 65536 names",
		}
		checkRefused(t, want, tt.first, tt.second)
	}
}

func TestParseErrorQuotesThePartAroundTheOffset(t *testing.T) {
	tests := []struct{ hostlist, want string }{
		{"n[1-", `hostlist "n[1-", offset 1: this bracket is not closed`},
		{
			strings.Repeat("node1,", 100) + "x y," + strings.Repeat("node1,", 100) + "n",
			`hostlist …"e1,node1,node1,node1,node1,node1,node1,x y,node1,node1,node1,node1,node1,node1,n"…, offset ` +
				`601: ` +
				`node name has the blank or control character ' '`,
		},
	}
	for _, tt := range tests {
		_, err := nodeset.Parse(tt.hostlist)
		if diff := cmp.Diff(tt.want, fmt.Sprint(err)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestParseReadsALargeSet(t *testing.T) {
	var names []string
	for i := range 4000 {
		names = append(names, fmt.Sprintf("n%05d", 7*i))
	}
	s := parse(t, strings.Join(names, ","))
	if diff := cmp.Diff(names, slices.Collect(s.All())); diff != "" {
		t.Error(diff)
	}
	if !parse(t, s.String()).Equal(s) {
		t.Error("String and Parse do not agree")
	}
}
