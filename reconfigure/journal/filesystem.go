package journal

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// NetworkFileSystem names a network file system by its number (statfs(2), linux/magic.h); false for any other.
func NetworkFileSystem(magic int64) (name string, ok bool) {
	name, ok = map[uint32]string{
		unix.NFS_SUPER_MAGIC:  "NFS",
		unix.SMB_SUPER_MAGIC:  "SMB",
		unix.SMB2_SUPER_MAGIC: "SMB",
		unix.CIFS_SUPER_MAGIC: "SMB",
		unix.AFS_SUPER_MAGIC:  "AFS",
		unix.AFS_FS_MAGIC:     "AFS",
		unix.CEPH_SUPER_MAGIC: "CephFS",
		unix.V9FS_MAGIC:       "9P",
		0x0BD00BD0:            "Lustre", // lustre/include/uapi/linux/lustre/lustre_idl.h
		0x47504653:            "GPFS",   // coreutils, src/stat.c
		0x19830326:            "BeeGFS", // coreutils, src/stat.c
	}[uint32(magic)]
	return name, ok
}

// local returns an error for a folder on a network file system. There, SQLite's write-ahead mode has no shared memory
// (https://sqlite.org/wal.html), so two hosts would damage the database; and whether other hosts see a lock depends
// on the mount.
func local(dir string, statfs func(string, *unix.Statfs_t) error) error {
	var found unix.Statfs_t
	if err := statfs(dir, &found); err != nil {
		return fmt.Errorf("check the file system of %s: %w", dir, err)
	}
	if name, ok := NetworkFileSystem(int64(found.Type)); ok {
		return fmt.Errorf("folder %s is on %s, where SQLite and locks are not safe: name a folder on a local disk as "+
			"`state_directory` of `reconfigure` in all.yml, or a PostgreSQL database as `journal`", dir, name)
	}
	return nil
}
