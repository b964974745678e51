package main

import (
	"math"
	"os/user"
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
	want := dir + " belongs to user nobody: call it as that user, not as root (sudo -u nobody …)"
	if got := notForRoot(".", 65534).Error(); got != want {
		t.Errorf("%s, not %s", got, want)
	}
	if got := notForRoot(dir, math.MaxUint32-7).Error(); !strings.Contains(got, "uid 4294967288: ") ||
		!strings.Contains(got, "sudo -u '#4294967288' ") {
		t.Error(got)
	}
}
