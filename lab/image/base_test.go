package image_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/needs"
)

func TestTheBaseBehavesAsACloudImage(t *testing.T) {
	installed := needs.Tools(t, "../..")
	for _, pattern := range []string{"etc/ssh/ssh_host_*", "etc/munge/munge.key",
		"usr/sbin/policy-rc.d", "etc/rcS.d/S*"} {
		if found, _ := filepath.Glob(filepath.Join(installed.Image, pattern)); len(found) > 0 {
			t.Errorf("the image contains %v", found)
		}
	}
	enabled, err := filepath.Glob(filepath.Join(installed.Image, "etc/rc2.d/S*"))
	if err != nil || len(enabled) != 1 || !strings.HasSuffix(enabled[0], "ssh") {
		t.Errorf("enabled at boot: %v, %v; want ssh alone", enabled, err)
	}
	// Ansible regards a link to systemd as systemd.
	if info, err := os.Lstat(filepath.Join(installed.Image, "sbin/init")); err != nil || !info.Mode().IsRegular() {
		t.Errorf("/sbin/init: %v, %v", info, err)
	}
	for _, command := range []string{"id -u debian | grep -x 1000", "id -u alice | grep -x 2000", "visudo -c",
		"runuser -u debian -- sudo -n true"} {
		if out, err := exec.CommandContext(t.Context(), "chroot", installed.Image, "sh", "-c",
			command).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
	}
}
