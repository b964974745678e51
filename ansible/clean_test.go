package site_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/needs"
)

// cleanNode runs the module clean_node on this computer.
func cleanNode(t *testing.T, arguments map[string]any, env ...string) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"ANSIBLE_MODULE_ARGS": arguments})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "arguments.json")
	write(t, file, string(text))
	cmd := exec.CommandContext(t.Context(), "/usr/bin/python3", "roles/image/library/clean_node.py", file)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestWhatIsRemovedIsOverwritten opens files before they are removed, so that it can read their blocks afterwards.
func TestWhatIsRemovedIsOverwritten(t *testing.T) {
	needs.Lab(t)
	dir := t.TempDir()
	open := func(name, content string) *os.File {
		t.Helper()
		write(t, filepath.Join(dir, name), content)
		file, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { file.Close() })
		return file
	}
	files := []*os.File{
		open("munge.key", "SECRET"), open("scripts/below/key", strings.Repeat("SECRET", 1<<18)), open("spool/job/script", "SECRET"),
	}
	sparse, err := os.OpenFile(filepath.Join(dir, "spool", "sparse"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer sparse.Close()
	if _, err := sparse.WriteAt([]byte("SECRET"), 32<<20); err != nil {
		t.Fatal(err)
	}
	files = append(files, sparse)
	linked := open("kept", "of the image")
	if err := os.Link(filepath.Join(dir, "kept"), filepath.Join(dir, "spool", "hard")); err != nil {
		t.Fatal(err)
	}
	pointed := open("pointed", "of the image")
	if err := os.Symlink(filepath.Join(dir, "pointed"), filepath.Join(dir, "spool", "symbolic")); err != nil {
		t.Fatal(err)
	}

	cleanNode(t, map[string]any{
		"paths":   []string{filepath.Join(dir, "munge.k*"), filepath.Join(dir, "scripts")},
		"folders": []string{filepath.Join(dir, "spool")},
	})
	for _, file := range files {
		content, err := io.ReadAll(io.NewSectionReader(file, 0, 64<<20))
		if err != nil || len(content) == 0 || bytes.Contains(content, []byte("S")) {
			t.Errorf("%s: %d bytes, %v: it was not overwritten", file.Name(), len(content), err)
		}
	}
	var there syscall.Stat_t
	if err := syscall.Fstat(int(sparse.Fd()), &there); err != nil || there.Blocks*512 > 1<<20 {
		t.Errorf("the sparse file has %d blocks (%v): its holes were filled", there.Blocks, err)
	}
	for _, file := range []*os.File{linked, pointed} {
		if content, err := io.ReadAll(file); string(content) != "of the image" {
			t.Errorf("%s has another name and %q (%v)", file.Name(), content, err)
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	for i := range left {
		left[i] = filepath.Base(left[i])
	}
	if want := []string{"kept", "pointed", "spool"}; err != nil || !slices.Equal(left, want) {
		t.Errorf("left are %q (%v), want %q", left, err, want)
	}
}

// TestNothingOfASecretIsOnTheDisk cleans a file system in an image file, and searches that file.
func TestNothingOfASecretIsOnTheDisk(t *testing.T) {
	needs.Lab(t)
	bare := t.TempDir() // PATH without fstrim
	for _, program := range []string{"mount", "umount"} {
		path, err := exec.LookPath(program)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(bare, program)); err != nil {
			t.Fatal(err)
		}
	}
	for name, path := range map[string]string{"with fstrim": os.Getenv("PATH"), "without fstrim": bare} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			disk, folder := filepath.Join(dir, "disk"), filepath.Join(dir, "mounted")
			run := func(argv ...string) {
				t.Helper()
				if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
					t.Fatalf("%q: %v\n%s", argv, err, out)
				}
			}
			run("mkdir", folder)
			run("truncate", "--size=32M", disk)
			run("mkfs.ext4", "-q", disk)
			run("mount", "-o", "loop", disk, folder)
			mounted := true
			unmount := func() {
				if mounted {
					run("umount", folder)
				}
				mounted = false
			}
			t.Cleanup(unmount)
			write(t, filepath.Join(folder, "key"), strings.Repeat("TODAY", 4096))
			write(t, filepath.Join(folder, "log", "log"), strings.Repeat("LINES", 4096))
			write(t, filepath.Join(folder, "older"), strings.Repeat("BEFORE", 4096))
			run("sync")
			run("rm", filepath.Join(folder, "older"))
			cleanNode(t, map[string]any{
				"paths": []string{filepath.Join(folder, "k*")}, "logs": filepath.Join(folder, "log"),
			}, "PATH="+path)
			unmount()
			text := read(t, disk)
			for _, secret := range []string{"TODAY", "LINES"} {
				if strings.Contains(text, secret) {
					t.Errorf("the disk has %s", secret)
				}
			}
			if older := strings.Contains(text, "BEFORE"); older != (path == bare) {
				t.Errorf("the disk still has removed data: %v", older)
			}
		})
	}
}

// TestLogsOfOtherFileSystemsStay mounts other file systems in the folder of the logs.
func TestLogsOfOtherFileSystemsStay(t *testing.T) {
	needs.Lab(t)
	logs := t.TempDir()
	for _, name := range []string{"shared", "journal", "below/shared"} {
		path := filepath.Join(logs, name)
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mount("none", path, "tmpfs", 0, ""); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := syscall.Unmount(path, 0); err != nil {
				t.Error(err)
			}
		})
		write(t, filepath.Join(path, "log"), "of others")
		write(t, filepath.Join(path, "log.1"), "of others")
	}
	write(t, filepath.Join(logs, "below", "log"), "of the node")
	write(t, filepath.Join(logs, "log.1"), "of the node")
	cleanNode(t, map[string]any{"logs": logs})
	for _, name := range []string{"shared", "journal", "below/shared"} {
		for _, log := range []string{"log", "log.1"} {
			if content := read(t, filepath.Join(logs, name, log)); content != "of others" {
				t.Errorf("%s/%s has %q", name, log, content)
			}
		}
	}
	if content := read(t, filepath.Join(logs, "below", "log")); content != "" {
		t.Errorf("the node's log has %q", content)
	}
	if _, err := os.Stat(filepath.Join(logs, "log.1")); !os.IsNotExist(err) {
		t.Errorf("the node's old log: %v", err)
	}
}
