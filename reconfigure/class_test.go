package reconfigure_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"testing"

	_ "github.com/eiffel-hpc/eiffel/lab/sameseed"
	"github.com/eiffel-hpc/eiffel/reconfigure"
)

func TestClassOutlivesWrapping(t *testing.T) {
	bare := errors.New("it is so")
	capacity := reconfigure.Classify(reconfigure.ClassCapacity, bare)
	refusal := error(&reconfigure.Refusal{})
	for name, tc := range map[string]struct {
		err  error
		want reconfigure.Class
	}{
		"none":    {bare, reconfigure.ClassOther},
		"nil":     {nil, reconfigure.ClassOther},
		"its own": {capacity, reconfigure.ClassCapacity},
		"wrapped": {fmt.Errorf("node1: %w", fmt.Errorf("apply: %w", capacity)),
			reconfigure.ClassCapacity},
		"joined": {errors.Join(bare, capacity), reconfigure.ClassCapacity},
		"the outermost counts": {reconfigure.Classify(reconfigure.ClassUnknown, fmt.Errorf("apply: %w", capacity)),
			reconfigure.ClassUnknown},
		"a refusal":              {fmt.Errorf("preview: %w", refusal), reconfigure.ClassRefused},
		"a refusal stays itself": {reconfigure.Classify(reconfigure.ClassOther, refusal), reconfigure.ClassRefused},
	} {
		if got := reconfigure.ClassOf(tc.err); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
	if !errors.Is(capacity, bare) || capacity.Error() != "it is so" ||
		reconfigure.Classify(reconfigure.ClassQuota, nil) != nil {
		t.Errorf("the class changes the error: %v", capacity)
	}
}

func TestReasonBeginsWithItsClass(t *testing.T) {
	for _, tc := range []struct {
		class        reconfigure.Class
		reason, want string
	}{
		{reconfigure.ClassQuota, "12 of 12 instances are in use", "quota: 12 of 12 instances are in use"},
		{reconfigure.ClassRefused, "refused: Terraform's plan …", "refused: Terraform's plan …"},
		{reconfigure.ClassOther, "the disk is full", "the disk is full"},
		{"", "no node group declares it", "no node group declares it"},
	} {
		if got := tc.class.Said(tc.reason); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}

func TestWhatIsPublicHasNoAddresses(t *testing.T) {
	for words, want := range map[string]string{
		`Error creating OpenStack server: Request forbidden: [POST http://192.0.2.20/compute/v2.1/servers], error message: {"code":403}`: `Error ` +
			`creating OpenStack server: Request forbidden: the API, error message: {"code":403}`,
		`Get "https://[2001:db8::1]:5000/v3": dial tcp [2001:db8::1]:5000: connect: connection refused`: `Get the API: ` +
			`dial tcp: connect: connection refused`,
		`Post "http://c/v2": read tcp 192.0.2.1:1->192.0.2.20:80: read: connection reset by peer`: `Post the API: read ` +
			`tcp: read: connection reset by peer`,
		`wanted target 'ACTIVE'. last error: %!s(<nil>)`: `wanted target 'ACTIVE'`,
		`task "Start slurmd" failed: 10% done`:           `task "Start slurmd" failed: 10% done`,
	} {
		if got := reconfigure.Public(words); got != want {
			t.Errorf("%s\n got %s\nwant %s", words, got, want)
		}
	}
}

// The classes are read from the source, so that none is missing in Classes.
func TestClassesAreReadBack(t *testing.T) {
	source, err := os.ReadFile("class.go")
	if err != nil {
		t.Fatal(err)
	}
	constants := regexp.MustCompile(`(?m)^\tClass\w+ +Class = "(.*?)"`).FindAllStringSubmatch(string(source), -1)
	if len(constants) != len(reconfigure.Classes()) {
		t.Errorf("%d constants, and %d classes", len(constants), len(reconfigure.Classes()))
	}
	for _, c := range constants {
		class := reconfigure.Class(c[1])
		if !slices.Contains(reconfigure.Classes(), class) {
			t.Errorf("%s is not listed", class)
		}
		if got := reconfigure.ClassIn(class.Said("no: it fails")); got != class {
			t.Errorf("%s is read back as %s", class, got)
		}
	}
}
