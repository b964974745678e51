package libvirtd

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/eiffel-hpc/eiffel/lab/image"
)

//go:embed image/disk.sh
var diskScript string

// diskPackages are the packages of a disk image beyond Debian's essential ones: the kernel, the boot loader,
// cloud-init, and the packages that the playbooks would install, since the machines reach no mirror.
func diskPackages() []string {
	return []string{
		"systemd-sysv", "dbus", "libpam-systemd", "udev", "linux-image-cloud-amd64", "initramfs-tools", "extlinux",
		"cloud-init", "cloud-guest-utils", "netplan.io", "openssh-server", "sudo", "python3", "python3-apt", "munge",
		"slurmd", "slurmctld", "slurm-client", "nfs-common", "iproute2", "iputils-ping", "procps", "ca-certificates",
	}
}

// DiskIsCurrent reports whether the file is a disk image made by this package's recipe.
func DiskIsCurrent(file string) bool {
	found, err := os.ReadFile(file + ".recipe")
	if err != nil || string(found) != recipe() {
		return false
	}
	_, err = os.Stat(file)
	return err == nil
}

func recipe() string {
	sum := sha256.Sum256([]byte(diskScript + strings.Join(diskPackages(), ",")))
	return hex.EncodeToString(sum[:]) + "\n"
}

// BuildDisk makes a disk image like those for clouds: Debian 12 with cloud-init, whose machines print on a serial
// console. It needs root, mmdebstrap, extlinux, qemu-img, a loop device and the network, and about two minutes.
func BuildDisk(ctx context.Context, file string) error {
	sources, err := image.HostSources("bookworm")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(file), "disk-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cmd := exec.CommandContext(ctx, "unshare", "--mount", "sh", "-c", diskScript)
	cmd.Env = append(os.Environ(), "DIR="+dir, "PACKAGES="+strings.Join(diskPackages(), ","))
	cmd.Stdin = strings.NewReader(strings.Join(sources, "\n") + "\n")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		const keep = 4000
		return fmt.Errorf("build disk image: %w\n%s", err, out.Bytes()[max(0, out.Len()-keep):])
	}
	if err := os.Rename(filepath.Join(dir, "disk.qcow2"), file); err != nil {
		return err
	}
	return os.WriteFile(file+".recipe", []byte(recipe()), 0o644)
}
