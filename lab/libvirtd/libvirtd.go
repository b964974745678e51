// Package libvirtd runs Debian's libvirt on this computer for tests: a daemon with its own files, sockets, network and
// storage pool, and an image for its virtual machines. QEMU emulates their processor, so that no virtualization is
// needed.
//
// The daemon has a separate mount namespace, since its folders are fixed. Its network is not in a namespace.
package libvirtd

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	rpc "github.com/digitalocean/go-libvirt"
	"github.com/digitalocean/go-libvirt/socket/dialers"
	"github.com/vishvananda/netlink"

	"github.com/eiffel-hpc/eiffel/lab/procs"
)

// The names of the network and of the storage pool.
const (
	Network = "cluster"
	Pool    = "eiffel"
)

// Config is the configuration of a daemon.
type Config struct {
	Name string // of the lab: its bridge is br-NAME, of up to 15 characters
	Dir  string // folder for all files; it is created
	// Gateway is the computer's address on the network, with the length of its prefix. The last half of the network has
	// the addresses of the machines.
	Gateway netip.Prefix
	// Accounts is a folder with the passwd and group of all users of the daemon; empty: those of the computer.
	Accounts string
}

// Daemon is a running libvirtd.
type Daemon struct {
	*rpc.Libvirt // a libvirt connection
	cfg          Config
	cmd          *exec.Cmd
}

//go:embed start.sh
var script string

// Start starts a daemon with a network and an empty storage pool. It first removes the remains of a killed daemon with
// the same folder. Close MUST be called. It needs root.
func Start(ctx context.Context, cfg Config) (_ *Daemon, err error) {
	d := &Daemon{cfg: cfg}
	if err := d.clean(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("start libvirtd: %w", err), d.Close())
		}
	}()
	for _, dir := range []string{"etc", "run", "lib", "cache", "log", "pool", "mark"} {
		if err := os.MkdirAll(d.file(dir), 0o755); err != nil {
			return nil, err
		}
	}
	err = errors.Join(
		os.WriteFile(d.file("etc", "libvirtd.conf"), []byte(daemonConf), 0o644),
		os.WriteFile(d.file("etc", "qemu.conf"), []byte(qemuConf), 0o644))
	if err != nil {
		return nil, err
	}
	log, err := os.Create(d.file("libvirtd.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	d.cmd = exec.Command("unshare", "--mount", "sh", "-c", script)
	d.cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DIR=" + cfg.Dir, "ACCOUNTS=" + cfg.Accounts}
	d.cmd.Stdout, d.cmd.Stderr = log, log
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	if err := d.connect(ctx); err != nil {
		text, _ := os.ReadFile(d.file("libvirtd.log"))
		return nil, fmt.Errorf("%w\n%s", err, text)
	}
	return d, errors.Join(d.makeNetwork(), d.makePool())
}

// The daemon and other processes of the computer must not use each other's resources.
const (
	daemonConf = `unix_sock_rw_perms = "0777"
auth_unix_rw = "none"
log_outputs = "3:stderr"
`
	qemuConf = `user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
namespaces = []
cgroup_controllers = []
stdio_handler = "file"
`
)

func (d *Daemon) file(elem ...string) string {
	return filepath.Join(append([]string{d.cfg.Dir}, elem...)...)
}

// Socket returns the path of the daemon's socket, which any user of the computer may use.
func (d *Daemon) Socket() string { return d.file("run", "libvirt-sock") }

// URI returns libvirt's URI of the daemon.
func (d *Daemon) URI() string { return "qemu+unix:///system?socket=" + d.Socket() }

// PoolDir is the folder of the storage pool.
func (d *Daemon) PoolDir() string { return d.file("pool") }

func (d *Daemon) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		l := rpc.NewWithDialer(dialers.NewLocal(dialers.WithSocket(d.Socket())))
		err := l.Connect()
		if err == nil {
			d.Libvirt = l
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it does not answer: %w", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (d *Daemon) bridge() string { return "br-" + d.cfg.Name }

// makeNetwork makes a network without firewall rules.
func (d *Daemon) makeNetwork() error {
	net := d.cfg.Gateway.Masked()
	first := net.Addr().As4()
	last := first
	size := uint32(1) << (32 - net.Bits())
	add := func(a [4]byte, n uint32) string {
		v := uint32(a[0])<<24 | uint32(a[1])<<16 | uint32(a[2])<<8 | uint32(a[3]) + n
		return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}).String()
	}
	mask := add([4]byte{}, -size)
	network, err := d.NetworkDefineXML(fmt.Sprintf(`<network>
  <name>%s</name>
  <bridge name="%s" stp="off"/>
  <forward mode="open"/>
  <dns enable="no"/>
  <ip address="%s" netmask="%s"><dhcp><range start="%s" end="%s"/></dhcp></ip>
</network>`, Network, d.bridge(), d.cfg.Gateway.Addr(), mask, add(first, size/2), add(last, size-2)))
	if err == nil {
		err = d.NetworkCreate(network)
	}
	if err != nil {
		return fmt.Errorf("make the network: %w", err)
	}
	return nil
}

func (d *Daemon) makePool() error {
	pool, err := d.StoragePoolDefineXML(fmt.Sprintf(
		`<pool type="dir"><name>%s</name><target><path>%s</path></target></pool>`, Pool, d.PoolDir()), 0)
	if err == nil {
		err = d.StoragePoolCreate(pool, 0)
	}
	if err != nil {
		return fmt.Errorf("make the storage pool: %w", err)
	}
	return nil
}

// AddImage puts a copy of a disk image into the pool. On a file system with clones it takes no space.
func (d *Daemon) AddImage(name, file string) error {
	to := filepath.Join(d.PoolDir(), name)
	if out, err := exec.Command("cp", "--reflink=auto", "--sparse=auto", file, to).CombinedOutput(); err != nil {
		return fmt.Errorf("add image %s: %w\n%s", name, err, out)
	}
	pool, err := d.StoragePoolLookupByName(Pool)
	if err == nil {
		err = d.StoragePoolRefresh(pool, 0)
	}
	return err
}

// Close ends the daemon, its machines and its network, and removes its files.
func (d *Daemon) Close() error {
	if d.Libvirt != nil {
		_ = d.Disconnect() // the daemon is killed below
	}
	err := d.clean()
	if d.cmd != nil && d.cmd.Process != nil {
		_ = d.cmd.Wait() // the signal ended it
	}
	return err
}

// Cleanup removes the remains of a killed daemon of a lab, and its folder, if there are any.
func Cleanup(name, dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return (&Daemon{cfg: Config{Name: name, Dir: dir}}).clean()
}

// clean removes the resources that a daemon with this folder has made.
func (d *Daemon) clean() error {
	mark := procs.MountPoint(func(path string) bool { return path == d.file("mark") })
	if _, err := procs.End(mark); err != nil {
		return fmt.Errorf("end libvirt in %s: %w", d.cfg.Dir, err)
	}
	if link, err := netlink.LinkByName(d.bridge()); err == nil {
		if err := netlink.LinkDel(link); err != nil {
			return fmt.Errorf("remove bridge %s: %w", d.bridge(), err)
		}
	}
	return os.RemoveAll(d.cfg.Dir)
}
