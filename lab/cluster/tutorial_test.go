package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStepsOfTheTutorial(t *testing.T) {
	const page = "# T\n\n## Install\n\nText:\n\n    root# a b\n    one\n    …\n    two\n    eiffel$ c\n\nMore:\n\n" +
		"    not typed\n\n## Next\n\n    control$ d\n"
	got, err := stepsOf(page, "Install")
	if err != nil {
		t.Fatal(err)
	}
	want := []step{{asRootPrompt, "a b", []string{"one", "two"}}, {prompt: asUserPrompt, command: "c"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(step{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if steps, err := stepsOf(page, "Destroy"); err == nil {
		t.Errorf("steps of a section that is missing: %+v", steps)
	}
}

func TestPrintedLines(t *testing.T) {
	for _, tc := range []struct {
		out, line string
		want      bool
	}{
		{"request 3: done after 1m27s\n  replaced  node01\n", "request 12: done after 22s", true},
		{"request 3: done after 22s\n  replaced  node01\n", " replaced node01", true},
		{"request 3: failed after 22s\n", "request 3: done after 22s", false},
	} {
		if got := printed(tc.out, tc.line); got != tc.want {
			t.Errorf("%q in %q: %v", tc.line, tc.out, got)
		}
	}
}

// TestInstallHasTheCommandsOfTheTutorial compares the two pages of docs/start.
func TestInstallHasTheCommandsOfTheTutorial(t *testing.T) {
	var pages []string
	for _, name := range []string{Tutorial, "docs/start/install.md"} {
		text, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, string(text))
	}
	steps, err := stepsOf(pages[0], "Install")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		if !strings.Contains(pages[1], s.command) {
			t.Errorf("docs/start/install.md does not have %q", s.command)
		}
	}
}
