package assets

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMain makes the test binary unpack the files of a test, and kill itself before a step.
func TestMain(m *testing.M) {
	unpackIn, putIn := os.Getenv("UNPACK_IN"), os.Getenv("PUT_IN")
	if unpackIn != "" || putIn != "" {
		left, _ := strconv.Atoi(os.Getenv("STEPS"))
		step = func() {
			if left--; left < 0 {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		}
		var err error
		if unpackIn != "" {
			_, err = unpack(context.Background(), unpackIn, two("new"))
		} else {
			err = moduleOf(putIn).Put(context.Background())
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func two(version string) map[string]string {
	return map[string]string{"a": version, "b/c": version, "b/empty": ""}
}

// TestFiles compares the files in the binary with those of the checkout, so that none is forgotten.
func TestFiles(t *testing.T) {
	root := filepath.Join("..", "..")
	want := map[string]string{}
	for _, top := range []string{"terraform", "ansible", "slurmscripts", "systemd"} {
		check(t, filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			generated := strings.HasPrefix(d.Name(), ".") || d.Name() == "__pycache__" || d.Name() == "nodes"
			if d.IsDir() && (generated || d.Name() == "testdata" || name == "ansible/files") {
				return fs.SkipDir
			}
			others := []string{".go", ".md", ".json", ".tfstate", ".backup"}
			if !d.Type().IsRegular() || generated || slices.Contains(others, filepath.Ext(name)) {
				return nil
			}
			text, err := os.ReadFile(path)
			want[name] = string(text)
			return err
		}))
	}
	if diff := cmp.Diff(want, Files()); diff != "" {
		t.Errorf("the binary's files differ from the checkout's (-checkout +binary):\n%s", diff)
	}
}

func TestUnpack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "program")
	u, err := Unpack(t.Context(), dir)
	check(t, err)
	again, err := Unpack(t.Context(), dir)
	check(t, err)
	if diff := cmp.Diff(u, again); diff != "" {
		t.Errorf("the second call has another result:\n%s", diff)
	}
	if diff := cmp.Diff(Files(), read(t, u.Dir)); diff != "" {
		t.Errorf("the folder has other files:\n%s", diff)
	}
}

func TestAChangedFolderIsUnpackedAnew(t *testing.T) {
	files := two("new")
	for name, change := range map[string]func(dir string) error{
		"another content": func(dir string) error { return replace(filepath.Join(dir, "a"), "mine") },
		"an empty file":   func(dir string) error { return replace(filepath.Join(dir, "a"), "") },
		"a missing file":  func(dir string) error { return os.Remove(filepath.Join(dir, "b", "c")) },
		"a further file":  func(dir string) error { return os.WriteFile(filepath.Join(dir, "b", "d"), nil, 0o644) },
		"a link": func(dir string) error {
			return os.Symlink("a", filepath.Join(dir, "d"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			u, err := unpack(t.Context(), dir, files)
			check(t, err)
			for range 2 { // the second time, there is a folder aside already
				check(t, change(u.Dir))
				changed := read(t, u.Dir)
				again, err := unpack(t.Context(), dir, files)
				check(t, err)
				if again.Dir != u.Dir || again.Aside == "" || again.Change == "" {
					t.Errorf("the result is %+v", again)
				}
				if diff := cmp.Diff(files, read(t, u.Dir)); diff != "" {
					t.Errorf("the folder was not unpacked anew:\n%s", diff)
				}
				if diff := cmp.Diff(changed, read(t, again.Aside)); diff != "" {
					t.Errorf("the folder aside has lost the change:\n%s", diff)
				}
			}
		})
	}
}

func TestPythonsCachesAreNoChange(t *testing.T) {
	dir := t.TempDir()
	u, err := unpack(t.Context(), dir, two("new"))
	check(t, err)
	check(t, os.MkdirAll(filepath.Join(u.Dir, "b", "__pycache__"), 0o755))
	check(t, os.WriteFile(filepath.Join(u.Dir, "b", "__pycache__", "c.pyc"), nil, 0o644))
	if again, err := unpack(t.Context(), dir, two("new")); err != nil || again.Aside != "" {
		t.Errorf("%+v, %v", again, err)
	}
}

func TestTheLastTwoVersionsStay(t *testing.T) {
	dir := t.TempDir()
	var dirs []string
	for i := range 4 {
		u, err := unpack(t.Context(), dir, two(fmt.Sprint(i)))
		check(t, err)
		dirs = append(dirs, filepath.Base(u.Dir))
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(dirs[2:])), names(t, dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestManyProcessesUnpackAtOnce(t *testing.T) {
	dir := t.TempDir()
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), "UNPACK_IN="+dir, "STEPS=1000")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	group.Wait()
	assertOnly(t, dir, name(two("new")))
}

// TestAKillLeavesNothingOrTheWhole kills the process before each of its changes of the file system: on the way to a
// first version, to a further one whose predecessor goes, and to one in place of a changed folder.
func TestAKillLeavesNothingOrTheWhole(t *testing.T) {
	current := name(two("new"))
	for situation, prepare := range map[string]func(dir string){
		"first": func(string) {},
		"further": func(dir string) {
			for _, v := range []string{"1", "2"} {
				_, err := unpack(t.Context(), dir, two(v))
				check(t, err)
			}
		},
		"changed": func(dir string) {
			for range 2 {
				u, err := unpack(t.Context(), dir, two("new"))
				check(t, err)
				check(t, replace(filepath.Join(u.Dir, "a"), "mine"))
			}
		},
	} {
		t.Run(situation, func(t *testing.T) {
			steps := 0
			for killed := true; killed; steps++ {
				dir := t.TempDir()
				prepare(dir)
				before := read(t, dir)
				killed = killBefore(t, steps, "UNPACK_IN="+dir)
				for _, folder := range names(t, dir) {
					if !version.MatchString(folder) {
						continue
					}
					whole := read(t, filepath.Join(dir, folder))
					unchanged := map[string]string{}
					for path, text := range before {
						if inside, ok := strings.CutPrefix(path, folder+"/"); ok {
							unchanged[inside] = text
						}
					}
					if !maps.Equal(whole, unchanged) && (folder != current || !maps.Equal(whole, two("new"))) {
						t.Errorf("killed before step %d: %s has only %v", steps, folder, whole)
					}
				}
				u, err := unpack(t.Context(), dir, two("new"))
				check(t, err)
				if diff := cmp.Diff(two("new"), read(t, u.Dir)); diff != "" {
					t.Errorf("killed before step %d: the next call did not unpack:\n%s", steps, diff)
				}
				for _, folder := range names(t, dir) {
					if strings.HasPrefix(folder, ".") && killed && folder != "" && leftBehind(t, dir) {
						t.Errorf("killed before step %d: %s is left", steps, folder)
					}
				}
			}
			if steps < 8 {
				t.Errorf("there were only %d steps", steps)
			}
		})
	}
}

// killBefore runs this program with a variable, and kills it before a step. It returns false if there is no such step.
func killBefore(t *testing.T, step int, variable string) bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), variable, fmt.Sprint("STEPS=", step))
	out, err := cmd.CombinedOutput()
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if err != nil && !status.Signaled() {
		t.Fatalf("%v\n%s", err, out)
	}
	return status.Signaled()
}

// leftBehind reports whether a further version leaves temporary folders of killed calls.
func leftBehind(t *testing.T, dir string) bool {
	t.Helper()
	_, err := unpack(t.Context(), dir, two("later"))
	check(t, err)
	return slices.ContainsFunc(names(t, dir), func(name string) bool { return strings.HasPrefix(name, ".") })
}

func assertOnly(t *testing.T, dir string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, names(t, dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	check(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func read(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	check(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		all[name] = string(text)
		return err
	}))
	return all
}

func replace(path, text string) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
