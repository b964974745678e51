package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/eiffel-hpc/eiffel/lab/libvirtd"
)

// libvirtFolder returns the folder of libvirtd inside a lab's folder.
func libvirtFolder(dir string) string { return filepath.Join(dir, "libvirt") }

// startLibvirt starts the lab's own libvirtd with the image of the nodes.
func (l *Lab) startLibvirt(ctx context.Context) error {
	daemon, err := libvirtd.Start(ctx, libvirtd.Config{
		Name: l.cfg.Name, Dir: libvirtFolder(l.Dir), Gateway: l.cfg.Gateway, Accounts: l.host("etc"),
	})
	if err != nil {
		return err
	}
	l.undo = append(l.undo, daemon.Close)
	hosts := fmt.Sprintf(`clouds:
  %s:
    pool: %s
    type: qemu
    hosts:
      - {uri: %q, cores: 8, memory: 8192}
    flavors:
      %s: {cores: 1, memory: 1024, disk: 4}
`, cloudName, libvirtd.Pool, daemon.URI(), FlavorSmall)
	return errors.Join(
		daemon.AddImage(ImageV1, l.cfg.Tools.Disk), os.MkdirAll(l.Site, 0o755),
		os.WriteFile(filepath.Join(l.Site, "libvirt.yaml"), []byte(hosts), 0o600))
}
