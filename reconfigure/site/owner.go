package site

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// CheckOwner returns an error if root works in a directory that belongs to another user: it would leave files that the
// owner, and so Slurm's calls, cannot use. It returns nil if the directory cannot be read; Open reports that.
func CheckOwner(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return nil
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if ok && os.Getuid() == 0 && owner.Uid != 0 {
		return notForRoot(dir, owner.Uid)
	}
	return nil
}

// notForRoot returns an error that names the folder and its owner, by the owner's name if it has one.
func notForRoot(dir string, uid uint32) error {
	if full, err := filepath.Abs(dir); err == nil {
		dir = full
	}
	number := strconv.FormatUint(uint64(uid), 10)
	name, sudo := "uid "+number, "'#"+number+"'"
	if owner, err := user.LookupId(number); err == nil {
		name, sudo = "user "+owner.Username, owner.Username
	}
	return fmt.Errorf("%s belongs to %s: run this as that user, not as root (sudo -u %s …)", dir, name, sudo)
}
