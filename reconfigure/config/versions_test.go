package config_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure/config"
)

// TestDeclarationsOfAllVersionsAreRead loads the declarations that earlier versions had in group_vars/all.yml and in
// their documents. Their nodes must keep their names, since another name is another instance.
func TestDeclarationsOfAllVersionsAreRead(t *testing.T) {
	t.Setenv("HOME", "/home/alice")
	want := map[string]string{
		"0.1/all.yml":    "eiffel: eiffel-control node[01-20], of them persistent: node[01-02]",
		"0.2/all.yml":    "eiffel: eiffel-control node[01-20], of them persistent: node[01-02]",
		"0.2/burst.yml":  "burst: burst-control big[01-20],node[01-04],small[01-40], of them persistent: node[01-04]",
		"0.2/grid.yml":   "grid: grid-control alma9-[001-100],cms-[001-100],deb12-[001-100], of them persistent: ",
		"0.2/laptop.yml": "laptop: laptop-control node[1-3], of them persistent: ",
		"0.2/own.yml":    "own: own-control node[01-40], of them persistent: node[01-02]",
		"0.2/single.yml": "single: single-control large[001-040],small[001-200], of them persistent: ",
		"0.2/warm.yml":   "warm: warm-control gpu[1-4],node[01-20], of them persistent: ",
	}
	root := filepath.Join("testdata", "versions")
	found, err := filepath.Glob(filepath.Join(root, "*", "*.yml"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, file := range found {
		name, err := filepath.Rel(root, file)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(directory(t, string(text)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got[name] = fmt.Sprintf("%s: %s %s, of them persistent: %s", c.Name, c.Control.Name, c.Nodes(), c.Persistent())
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTheDeclarationOfASiteIsInItsRoot edits all.yml in the root of a site folder.
func TestTheDeclarationOfASiteIsInItsRoot(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, config.SiteFile)
	if err := os.WriteFile(file, []byte(shipped(t)), 0o644); err != nil {
		t.Fatal(err)
	}
	edit, err := config.Prepare(dir, config.MinNodes{Group: "standard", From: 2, To: 3})
	if err != nil {
		t.Fatal(err)
	}
	if err := edit.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if c.Groups[0].Min != 3 {
		t.Errorf("min_nodes is %d, not 3", c.Groups[0].Min)
	}
	if err := os.WriteFile(file, []byte("nothing: 1"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = config.Load(dir)
	problems := problemsOf(t, err)
	if problems[0].File != config.SiteFile {
		t.Errorf("the problem is in %s, not in %s", problems[0].File, config.SiteFile)
	}
}

func TestTwoDeclarationsAreRefused(t *testing.T) {
	dir := directory(t, shipped(t))
	if err := os.WriteFile(filepath.Join(dir, config.SiteFile), []byte(shipped(t)), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := config.Load(dir)
	want := "all.yml:1: there is also group_vars/all.yml, and only one of the two is read: remove one of them"
	if got := problemsOf(t, err).Error(); got != want {
		t.Errorf("%s, not %s", got, want)
	}
}

func problemsOf(t *testing.T, err error) config.Problems {
	t.Helper()
	problems, ok := errors.AsType[*config.Problems](err)
	if !ok {
		t.Fatalf("the error is %v", err)
	}
	return *problems
}
