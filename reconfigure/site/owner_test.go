package site

import (
	"math"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
)

func TestRootIsToldWhoOwnsWhichFolder(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	if nobody.Uid != "65534" {
		t.Fatalf("nobody is uid %s", nobody.Uid)
	}
	want := dir + " belongs to user nobody: run this as that user, not as root (sudo -u nobody …)"
	if got := notForRoot(".", 65534).Error(); got != want {
		t.Errorf("%s, not %s", got, want)
	}
	if got := notForRoot(dir, math.MaxUint32-7).Error(); !strings.Contains(got, "uid 4294967288: ") ||
		!strings.Contains(got, "sudo -u '#4294967288' ") {
		t.Error(got)
	}
}

func TestOnlyRootIsRefusedInTheFolderOfAnother(t *testing.T) {
	if os.Getuid() != 0 {
		if testing.Short() {
			t.Skip("only root can give a folder to another user")
		}
		t.Fatal("run it as root: only root can give a folder to another user")
	}
	dir := t.TempDir()
	if err := CheckOwner(dir); err != nil {
		t.Errorf("a folder of root's: %v", err)
	}
	if err := CheckOwner(filepath.Join(dir, "none")); err != nil {
		t.Errorf("no folder: %v", err)
	}
	if err := os.Chown(dir, 65534, -1); err != nil {
		t.Fatal(err)
	}
	if err := CheckOwner(dir); err == nil || !strings.Contains(err.Error(), dir+" belongs to ") {
		t.Errorf("a folder of nobody's: %v", err)
	}
}
