package journal

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAJournalOnANetworkFileSystemIsRefused(t *testing.T) {
	for magic, want := range map[int64]string{
		0x6969: "on NFS", 0xFE534D42: "on SMB", 0x0BD00BD0: "on Lustre", // as stat --file-system prints them
		0xEF53: "", 0x01021994: "", 0x58465342: "", 0x9123683E: "", // ext4, tmpfs, xfs, btrfs
	} {
		err := local("/state", func(_ string, found *unix.Statfs_t) error {
			found.Type = magic
			return nil
		})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "`state_directory`")) {
			t.Errorf("%x: %v", magic, err)
		}
	}
	unknown := func(string, *unix.Statfs_t) error { return unix.EIO }
	if err := local("/state", unknown); !errors.Is(err, unix.EIO) {
		t.Error(err)
	}
	if err := local(t.TempDir(), unix.Statfs); err != nil {
		t.Error(err)
	}
}
