package client

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure/config"
)

func newSite() NewSite {
	return NewSite{Name: "small", Cloud: "cloud1", Address: "192.0.2.10", Image: "no", Network: "cluster: 1",
		LoginUser: "debian", PublicKey: "ssh-ed25519 AAAA me", Flavors: [2]string{"m1.medium", "24:00:00"}}
}

// TestMain makes the test binary make a site folder, of the checkout FROM if there is one, and kill itself before a
// step.
func TestMain(m *testing.M) {
	if dir := os.Getenv("MAKE_SITE_IN"); dir != "" {
		left, _ := strconv.Atoi(os.Getenv("STEPS"))
		step = func() {
			if left--; left < 0 {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		}
		n := newSite()
		n.PublicKey = ""
		make := func() error {
			_, err := MakeSite(dir, n)
			return err
		}
		if from := os.Getenv("FROM"); from != "" {
			make = func() error { return fromCheckout(from, dir) }
		}
		if err := make(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestANewDeclarationHasTheValues uses values that YAML reads as another type without quotes.
func TestANewDeclarationHasTheValues(t *testing.T) {
	n := newSite()
	n.PublicKey = ""
	dir := filepath.Join(t.TempDir(), "a", "small")
	if kept, err := MakeSite(dir, n); err != nil || len(kept) > 0 {
		t.Fatalf("%v, %v", kept, err)
	}
	c, err := config.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{c.Name, c.Cloud, c.Control.Image, c.Control.Network, c.LoginUser, c.Control.Flavor, c.Groups[1].Flavor}
	want := []string{n.Name, n.Cloud, n.Image, n.Network, n.LoginUser, n.Flavors[0], n.Flavors[1]}
	if diff := cmp.Diff(want, got); diff != "" || len(c.Groups) != 2 || len(c.Partitions) != 2 {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if lines := strings.Count(newSite().Declaration(), "\n"); lines > 25 {
		t.Errorf("the declaration has %d lines", lines)
	}
	if _, err := MakeSite(dir, n); !errors.Is(err, ErrSiteExists) {
		t.Errorf("a second call: %v", err)
	}
}

// TestAKilledInitLeavesNoDeclaration kills the process before each of its changes of the file system. all.yml must be
// whole or not there, and the next call completes the folder.
func TestAKilledInitLeavesNoDeclaration(t *testing.T) {
	n := newSite()
	n.PublicKey = ""
	steps := 0
	for killed := true; killed; steps++ {
		dir := filepath.Join(t.TempDir(), "small")
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), "MAKE_SITE_IN="+dir, fmt.Sprint("STEPS=", steps), "TMPDIR="+t.TempDir())
		out, err := cmd.CombinedOutput()
		status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
		killed = status.Signaled()
		if err != nil && !killed {
			t.Fatalf("%v\n%s", err, out)
		}
		text, err := os.ReadFile(filepath.Join(dir, config.SiteFile))
		if err == nil && string(text) != n.Declaration() {
			t.Errorf("killed before step %d: all.yml is %q", steps, text)
		}
		if _, again := MakeSite(dir, n); (again == nil) == (err == nil) {
			t.Errorf("killed before step %d: all.yml: %v; the next call: %v", steps, err, again)
		}
		want := map[string]bool{".gitignore": true, "README.md": true, "all.yml": true}
		found := map[string]bool{}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), ".all.yml") { // the file that the killed call has not linked
				found[e.Name()] = true
			}
		}
		if !maps.Equal(want, found) {
			t.Errorf("killed before step %d: the folder has %v", steps, found)
		}
	}
	if steps < 5 {
		t.Errorf("there were only %d steps", steps)
	}
}
