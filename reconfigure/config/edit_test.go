package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	_ "github.com/eiffel-hpc/eiffel/lab/sameseed"
	"github.com/eiffel-hpc/eiffel/reconfigure/config"
)

// change prepares an edit and makes it.
func change(t testing.TB, dir string, m config.MinNodes) error {
	edit, err := config.Prepare(dir, m)
	if err != nil {
		return err
	}
	return edit.Write(t.Context())
}

// says returns the declaration in a cluster directory.
func says(t testing.TB, dir string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, config.File))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// minimum returns min_nodes of the shipped group.
func minimum(t testing.TB, dir string) int {
	t.Helper()
	cluster, err := config.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return cluster.Groups[0].Min
}

// spelt is the shipped declaration with some text replaced. § stands for the number.
func spelt(t testing.TB, replacements ...string) string {
	t.Helper()
	s := shipped(t)
	for _, pair := range append([][2]string{{"min_nodes: 2\n", "min_nodes: §\n"}}, pairs(replacements)...) {
		if !strings.Contains(s, pair[0]) {
			t.Fatalf("%q is not in the declaration", pair[0])
		}
		s = strings.ReplaceAll(s, pair[0], pair[1])
	}
	return s
}

func pairs(all []string) [][2]string {
	var result [][2]string
	for i := 0; i < len(all); i += 2 {
		result = append(result, [2]string{all[i], all[i+1]})
	}
	return result
}

// A key that the group lacks is added behind the group's name.
func TestAnEditAddsAMissingKey(t *testing.T) {
	for name, c := range map[string]struct{ replace, with, want string }{
		"as it is shipped":    {"min_nodes: 2\n", "\n", "a letter first; not a name that Ansible uses already\n    min_nodes: 9\n"},
		"a group's anchor":    {"  - name: standard", "  - &g\n    name: standard", "Ansible uses already\n    min_nodes: 9\n"},
		"flow style":          {"node_groups:\n", "node_groups:\n  - {name: standard, flavor: f, max_nodes: 20}\n#", "{name: standard, min_nodes: 9, flavor: f"},
		"a quoted name":       {"node_groups:\n", "node_groups:\n  - {name: \"standard\", flavor: f, max_nodes: 20}\n#", "{name: \"standard\", min_nodes: 9, flavor: f"},
		"Windows' line ends":  {"\n", "\r\n", "Ansible uses already\r\n    min_nodes: 9\r\n"},
		"the name at the end": {"  - name: standard", "  - flavor: f\n    name: standard", "Ansible uses already\n    min_nodes: 9\n"},
	} {
		t.Run(name, func(t *testing.T) {
			declaration := regexp.MustCompile(`(?m)^    min_nodes: 2\n`).ReplaceAllString(shipped(t), "")
			if strings.Contains(c.with, "flavor: f") {
				declaration = strings.Replace(declaration, "    flavor: m1.large\n", "", 1)
			}
			if strings.Contains(c.with, "{name") {
				head, rest, _ := strings.Cut(declaration, "node_groups:\n")
				_, tail, _ := strings.Cut(rest, "\npartitions:\n")
				declaration = head + "node_groups:\n" + "\npartitions:\n" + tail
			}
			declaration = strings.ReplaceAll(declaration, c.replace, c.with)
			dir := directory(t, declaration)
			if minimum(t, dir) != 0 {
				t.Fatal("the group has persistent nodes")
			}
			if err := change(t, dir, config.MinNodes{Group: "standard", From: 0, To: 9}); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(says(t, dir), c.want) || minimum(t, dir) != 9 {
				t.Errorf("%q is not in\n%s", c.want, says(t, dir))
			}
		})
	}
}

func TestAnEditChangesNothingButTheNumber(t *testing.T) {
	for name, replacements := range map[string][]string{
		"as it is shipped":     {},
		"a comment behind it":  {"min_nodes: §", "min_nodes: §  # two, not min_nodes: 2"},
		"many blanks":          {"min_nodes: §", "min_nodes:      §   "},
		"on a line of its own": {"min_nodes: §", "min_nodes:\n      # here\n      §"},
		"a quoted key":         {"min_nodes: §", `"min_nodes": §`},
		"an explicit key":      {"min_nodes: §", "? min_nodes\n    : §"},
		"flow style": {"min_nodes: §", "min_nodes: 1", "partitions:\n  - name: main\n",
			"  - {name: wide, prefix: w, width: 2, image: größer, flavor: f, network: \"größer\", max_nodes: 9, " +
				"min_nodes: §}\npartitions:\n  - name: main\n"},
		"two groups of the same numbers": {"min_nodes: §", "min_nodes: 2", "partitions:\n  - name: main\n",
			"  - name: wide\n    prefix: w\n    width: 2\n    image: i\n    flavor: f\n    network: n\n    " +
				"max_nodes: 20\n    min_nodes: §\npartitions:\n  - name: main\n"},
		"a group's anchor": {"  - name: standard", "  - &g\n    name: standard"},
		"an anchor beside it": {"width: 2 ", "width: &two 2 ", "name: standard ", "name: &name standard ",
			"groups: [standard]", "groups: [*name]"},
		"Windows' line ends": {"\n", "\r\n"},
		"old line ends":      {"\n", "\r"},
		"rare line ends":     {"node_groups:", "# one\u2028# two\u0085# three\u2029node_groups:"},
		"a byte order mark":  {"# The one declaration", "\ufeff# The one declaration"},
		"a document's start and end": {"cluster_name: eiffel", "---\ncluster_name: eiffel", "until SSH answers\n",
			"until SSH answers\n...\n"},
		"no line end at the end": {"until SSH answers\n", "until SSH answers"},
	} {
		t.Run(name, func(t *testing.T) {
			declaration := spelt(t, replacements...)
			if strings.Count(declaration, "§") != 1 {
				t.Fatalf("the number stands %d times in the declaration", strings.Count(declaration, "§"))
			}
			group := "standard"
			if strings.Contains(declaration, "name: wide") {
				group = "wide"
			}
			dir := directory(t, strings.Replace(declaration, "§", "2", 1))
			for _, m := range []config.MinNodes{{Group: group, From: 2, To: 9}, {Group: group, From: 9, To: 0}} {
				if err := change(t, dir, m); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(strings.Replace(declaration, "§", strconv.Itoa(m.To), 1),
					says(t, dir)); diff != "" {
					t.Errorf("%v (-want +got):\n%s", m, diff)
				}
			}
			if _, err := config.Load(dir); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestANumberThatIsNotPlainIsNotEdited(t *testing.T) {
	for name, replacements := range map[string][]string{
		"an anchor":        {"min_nodes: §", "min_nodes: &n 2", "max_nodes: 20", "max_nodes: *n"},
		"an unused anchor": {"min_nodes: §", "min_nodes: &n 2"},
		"an alias":         {"min_nodes: §", "min_nodes: *n", "width: 2 ", "width: &n 2 "},
		"a tag":            {"min_nodes: §", "min_nodes: !!int 2"},
		"a group that is an alias": {"min_nodes: §", "min_nodes: 2", "  - name: standard",
			"  - *g\n  - &g\n    name: standard"},
	} {
		t.Run(name, func(t *testing.T) {
			declaration := spelt(t, replacements...)
			dir := directory(t, declaration)
			err := change(t, dir, config.MinNodes{Group: "standard", From: 2, To: 3})
			if err == nil {
				t.Fatal("there is no error")
			}
			var problems *config.Problems
			if !errors.As(err, &problems) &&
				!strings.Contains(err.Error(), "write 3 there by hand, then run `reconfigure resize standard`") {
				t.Errorf("%q does not say what to do", err)
			}
			if diff := cmp.Diff(declaration, says(t, dir)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAWrongEditIsNotMade(t *testing.T) {
	for name, c := range map[string]struct {
		declaration string
		edit        config.MinNodes
		want        string
	}{
		"more than the maximum": {shipped(t), config.MinNodes{Group: "standard", From: 2, To: 21},
			"21 is above max_nodes 20"},
		"less than nothing": {shipped(t), config.MinNodes{Group: "standard", From: 2, To: -1},
			"-1 is not between 0 and"},
		"a broken declaration": {strings.Replace(shipped(t), "cloud: openstack", "clowd: openstack", 1),
			config.MinNodes{Group: "standard", From: 2, To: 3}, "did you mean cloud?"},
		"another number than known": {shipped(t), config.MinNodes{Group: "standard", From: 4, To: 3},
			"was changed at the same time"},
		"a group that is gone": {shipped(t), config.MinNodes{Group: "gpu", From: 2, To: 3},
			"was changed at the same time"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := directory(t, c.declaration)
			if err := change(t, dir, c.edit); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %q", err, c.want)
			}
			if diff := cmp.Diff(c.declaration, says(t, dir)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnEditKeepsModeOwnerAndLink(t *testing.T) {
	dir := directory(t, shipped(t))
	link, file := filepath.Join(dir, config.File), filepath.Join(dir, "elsewhere.yml")
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 { // only root may change the owner
		uid, gid = 4711, 4712
	}
	if err := errors.Join(os.Rename(link, file), os.Symlink("../elsewhere.yml", link), os.Chmod(file, 0o664),
		os.Chown(file, uid, gid)); err != nil {
		t.Fatal(err)
	}
	if err := change(t, dir, config.MinNodes{Group: "standard", From: 2, To: 3}); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(link); to != "../elsewhere.yml" {
		t.Errorf("the link leads to %q: %v", to, err)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	if info.Mode() != 0o664 || int(owner.Uid) != uid || int(owner.Gid) != gid {
		t.Errorf("the file is %v of %d:%d, want 0664 of %d:%d", info.Mode(), owner.Uid, owner.Gid, uid, gid)
	}
	if got := minimum(t, dir); got != 3 {
		t.Errorf("min_nodes is %d", got)
	}
	for folder, want := range map[string]int{dir: 2, filepath.Dir(link): 1} {
		if left, err := os.ReadDir(folder); err != nil || len(left) != want {
			t.Errorf("%s contains %v: %v", folder, left, err)
		}
	}
}

func TestAConcurrentChangeIsNotLost(t *testing.T) {
	dir := directory(t, shipped(t))
	edit, err := config.Prepare(dir, config.MinNodes{Group: "standard", From: 2, To: 3})
	if err != nil {
		t.Fatal(err)
	}
	theirs := strings.Replace(shipped(t), "max_nodes: 20", "max_nodes: 30", 1)
	if err := os.WriteFile(filepath.Join(dir, config.File), []byte(theirs), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := edit.Write(t.Context()); err == nil || !strings.Contains(err.Error(), "nothing was written") {
		t.Errorf("the error is %v", err)
	}
	if diff := cmp.Diff(theirs, says(t, dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Many goroutines edit at once, each its own group, and retry after a conflict.
func TestNoneOfManyEditsIsLost(t *testing.T) {
	const edits = 4
	all := make([]pool, 5)
	for i := range all {
		all[i] = pool{name: "g" + strconv.Itoa(i), prefix: string(rune('a'+i)) + "-", width: 1, max: edits}
	}
	dir := directory(t, declared(t, all))
	var callers sync.WaitGroup
	for i, p := range all {
		callers.Go(func() {
			for n := 0; n < edits; {
				err := change(t, dir, config.MinNodes{Group: p.name, From: n, To: n + 1})
				if err == nil {
					n++
				} else if !strings.Contains(err.Error(), "try again") {
					t.Error(err)
					return
				}
				if cluster, err := config.Load(dir); err != nil || cluster.Groups[i].Min != n {
					t.Errorf("min_nodes of %s is no longer %d: %v", p.name, n, err)
					return
				}
			}
		})
	}
	callers.Wait()
}

func TestAnyGroupCanBeEdited(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		all := pools(rt)
		dir := directory(t, declared(t, all))
		i := rapid.IntRange(0, len(all)-1).Draw(rt, "group")
		to := rapid.IntRange(0, all[i].max).Draw(rt, "to")
		if err := change(t, dir, config.MinNodes{Group: all[i].name, From: all[i].min, To: to}); err != nil {
			rt.Fatal(err)
		}
		all[i].min = to
		if diff := cmp.Diff(declared(t, all), says(t, dir)); diff != "" {
			rt.Fatalf("(-want +got):\n%s", diff)
		}
	})
}
