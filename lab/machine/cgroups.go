package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// group is the control group of a machine with systemd, below the root of each hierarchy. This name identifies the
// groups of a killed lab. They are not below the group of the process that made them, since that group differs.
func group(lab, id string) string { return path.Join(linkName(lab), id) }

// hierarchies returns the mount points of the host's control group hierarchies; see cgroups(7).
func hierarchies() ([]string, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, fmt.Errorf("list hierarchies of control groups: %w", err)
	}
	var found []string
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 2 && (f[2] == "cgroup" || f[2] == "cgroup2") &&
			strings.HasPrefix(f[1], "/sys/fs/cgroup") {
			found = append(found, f[1])
		}
	}
	return found, nil
}

// removeGroups removes a group and those below it from each hierarchy. Its processes have ended or been killed. A
// missing group is success.
func removeGroups(name string) error {
	roots, err := hierarchies()
	errs := []error{err}
	for _, root := range roots {
		errs = append(errs, removeGroup(filepath.Join(root, name)))
	}
	return errors.Join(errs...)
}

func removeGroup(dir string) error {
	const limit = 5 * time.Second // a process leaves its group some time after its parent was told of its end
	for deadline := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		err := removeFolders(dir)
		if err == nil || !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return err
		}
	}
}

// removeFolders removes a folder and those below it, whose files the kernel removes.
func removeFolders(dir string) error {
	var folders []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			folders = append(folders, path)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("remove control group %s: %w", dir, err)
	}
	for _, folder := range slices.Backward(folders) {
		if err := unix.Rmdir(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove control group %s: %w", folder, err)
		}
	}
	return nil
}
