package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/image"
	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/lab/tools"
)

// A control host that is a machine of the lab has the release of the nodes, systemd, and everything that an
// administrator installs as in docs/start/tutorial.md, except Go and git: this computer builds the program.

const machineSite = "/opt/eiffel"

func (l *Lab) hasMachine() bool { return l.cfg.Packages != "" }

// Directory returns the path of the cluster directory on the control host.
func (l *Lab) Directory() string {
	if l.hasMachine() {
		return machineSite
	}
	return l.Site
}

// terraform returns the path of Terraform on the control host.
func (l *Lab) terraform() string {
	if l.hasMachine() {
		return tools.MachineTerraform
	}
	return l.terraformBinary()
}

// network returns the cloud's network. A control host that is a machine has the address above those of the servers.
func (l *Lab) network() labcloud.Network {
	n := labcloud.Network{Name: networkName, CIDR: l.cfg.Gateway.Masked(), Gateway: l.cfg.Gateway.Addr()}
	if l.hasMachine() {
		n.Last = l.machineAddress().Prev()
	}
	return n
}

// apiAddress returns the address at which the cloud's API listens.
func (l *Lab) apiAddress() string {
	if l.hasMachine() {
		return netip.AddrPortFrom(l.cfg.Gateway.Addr(), 0).String()
	}
	return "127.0.0.1:0"
}

func (l *Lab) machineAddress() netip.Addr {
	a := l.cfg.Gateway.Addr().As4()
	a[3] = 250
	return netip.AddrFrom4(a)
}

// bootControlHost boots the machine, which the cloud does not know, and installs what it needs. The machine has the
// cluster directory as a volume.
func (l *Lab) bootControlHost(ctx context.Context) error {
	l.Host.AddVolume(ControlHostName, l.Site, machineSite)
	err := l.Host.Boot(ctx, labcloud.Machine{
		ID: ControlHostName, Name: ControlHostName, ImageID: ControlHostName,
		Addresses: []labcloud.Address{{MAC: "fa:16:3e:00:00:fa", Gateway: l.cfg.Gateway.Addr(),
			Prefix: netip.PrefixFrom(l.machineAddress(), l.cfg.Gateway.Bits())}},
	})
	if err != nil {
		return err
	}
	if err := l.awaitControlHost(ctx); err != nil {
		return fmt.Errorf("control host: %w", err)
	}
	begun := time.Now()
	for _, step := range []func(context.Context) error{
		l.installPackages, l.followInstall, l.installTerraform, l.finishSite,
	} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("control host: %w", err)
		}
	}
	l.Installation = time.Since(begun)
	return nil
}

// awaitControlHost waits until systemd has started the machine.
func (l *Lab) awaitControlHost(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		out, err := l.Host.Command(ControlHostName, "systemctl", "is-system-running").Output()
		if state := strings.TrimSpace(string(out)); state == "running" || state == "degraded" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("systemd does not start: %q: %w", out, errors.Join(err, ctx.Err()))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (l *Lab) installPackages(context.Context) error {
	_, err := l.asRoot("apt-get update --quiet && DEBIAN_FRONTEND=noninteractive " +
		"apt-get install --yes --quiet --no-install-recommends " + strings.Join(image.ControlHost(), " "))
	return err
}

// followInstall runs the commands of the tutorial's first section.
func (l *Lab) followInstall(ctx context.Context) error {
	if err := l.Follow(ctx, Tutorial, "Install"); err != nil {
		return err
	}
	uid, err := l.asRoot("id -u " + User)
	if err != nil {
		return err
	}
	if l.uid, err = strconv.Atoi(uid); err != nil {
		return err
	}
	l.publicKey, err = l.asRoot("cat /home/eiffel/.ssh/id_ed25519.pub")
	return err
}

// installTerraform follows terraform/openstack/README.md for a site without internet.
func (l *Lab) installTerraform(context.Context) error {
	root, err := l.Host.Root(ControlHostName)
	if err != nil {
		return err
	}
	file, err := l.cfg.Tools.CopyTerraform(root, filepath.Join("home", User))
	return errors.Join(err, l.give(file))
}

// finishSite adds to the cluster directory the files that `make install-service` needs, and sets its owner.
func (l *Lab) finishSite(ctx context.Context) error {
	return errors.Join(
		copyTree(ctx, filepath.Join(l.cfg.Checkout, "systemd"), l.Site),
		copyTree(ctx, filepath.Join(l.cfg.Checkout, "Makefile"), l.Site),
		l.give(l.Site))
}

// copyTree copies a file or folder, and follows symbolic links.
func copyTree(ctx context.Context, from, to string) error {
	out, err := exec.CommandContext(ctx, "cp", "--recursive", "--dereference", from, to).CombinedOutput()
	if err != nil {
		return fmt.Errorf("copy %s: %w: %s", from, err, out)
	}
	return nil
}

// asRoot runs a shell command as root on a control host that is a machine, and returns its output.
func (l *Lab) asRoot(command string) (string, error) {
	out, err := l.Host.Command(ControlHostName, "sh", "-c", command).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", command, err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// onMachine is [Lab.OnControlHost] for a control host that is a machine.
func (l *Lab) onMachine(ctx context.Context, dir string, argv ...string) *exec.Cmd {
	words := []string{"setpriv", "--reuid=" + User, "--regid=" + User, "--init-groups", "--", "env", "-i",
		"--chdir=" + dir}
	inside := l.Host.Command(ControlHostName, slices.Concat(words, login(defaultPath), l.Environ, argv)...)
	cmd := exec.CommandContext(ctx, inside.Path, inside.Args[1:]...)
	cmd.Env, cmd.Err = inside.Env, errors.Join(inside.Err, cmd.Err)
	return cmd
}

// InstallService makes systemd run the worker on a control host that is a machine, as docs/guides/worker.md says, and
// declares it.
func (l *Lab) InstallService() error {
	if _, err := l.asRoot("make --directory=" + machineSite + " install-service"); err != nil {
		return err
	}
	l.Declaration.Reconfigure["worker"] = "systemd"
	return l.Declare(l.Declaration)
}

// OnControlHostAsRoot returns a command that runs as root on a control host that is a machine.
func (l *Lab) OnControlHostAsRoot(argv ...string) *exec.Cmd {
	return l.Host.Command(ControlHostName, argv...)
}
