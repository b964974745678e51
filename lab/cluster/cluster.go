// Package cluster runs a whole cluster on one computer, for the demo and the end-to-end tests: an OpenStack-compatible
// cloud whose servers are namespaces, a control host, which is the computer itself in another mount namespace with its
// own user, and that user's cluster directory, from which reconfigure deploys real Slurm.
package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/image"
	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/lab/libvirtd"
	"github.com/eiffel-hpc/eiffel/lab/machine"
	"github.com/eiffel-hpc/eiffel/lab/tools"
)

// Password is the password of the lab's cloud: text that occurs nowhere else.
const Password = "the-password-of-the-cloud-of-the-lab"

// ControlNodeName is the name of the server that runs slurmctld.
const ControlNodeName = "ctl"

// Config is the configuration of a lab.
type Config struct {
	// Name identifies the lab on this computer: up to eleven of a-z, 0-9 and -.
	Name string
	// Gateway is the computer's address on the lab's network, with the length of its prefix.
	Gateway netip.Prefix
	// Checkout is the folder from which terraform/, ansible/ and slurmscripts/ are copied and reconfigure is built.
	Checkout string
	Tools    tools.Paths
	// Systemd is the base of the images if machines have systemd, and jobs of Slurm control groups; "" means
	// sysvinit, with Tools.Image.
	Systemd string
	// Libvirt makes the cloud libvirt on this computer. The nodes are virtual machines of the image ImageV1 and the
	// flavor FlavorSmall; Lab.Cloud and Lab.Host are nil.
	Libvirt bool
	// OtherCloud starts a cloud in place of labcloud; nil means labcloud.
	OtherCloud func(context.Context, labcloud.Config, *machine.Host) (Cloud, error)
	// Packages, if not "", makes the control host a machine of Systemd instead of this computer. It is the folder
	// of the packages that the machine installs: see [image.ControlHost].
	Packages string
	Groups   []NodeGroup
	// NodeEnviron is the environment of Lab.Command, in addition to the machine's; nil: Slurm is where the packages put
	// it.
	NodeEnviron []string
	// Partitions are Slurm's; nil means one with all groups.
	Partitions []Partition
	// Variables is the text of group_vars/cluster.yml if machines have sysvinit; "": for Slurm 22.05.
	Variables string
	// Log receives errors of the lab itself.
	Log *slog.Logger
}

// Cloud is a cloud that replaces labcloud. It has the same configuration, and its servers are machines of the lab.
type Cloud interface {
	// Servers returns all servers.
	Servers() []labcloud.Server
	// Files returns files for the cluster directory by name: clouds.yaml, or the file of another kind of cloud,
	// with one cloud of the given name; and the files that this file needs.
	Files(name string) map[string][]byte
	// Close ends the cloud. The hypervisor keeps the machines.
	Close(context.Context) error
}

// Lab is a running lab.
type Lab struct {
	Dir         string // all files of this lab
	Site        string // the cluster directory, in Dir
	Declaration Declaration
	Cloud       *labcloud.Cloud // nil with another cloud
	Images      *image.Store    // of the machines
	Host        *machine.Host
	Environ     []string // additional environment variables of the control host's user
	// Installation is how long the installation on a control host that is a machine took, from its packages on.
	Installation time.Duration

	cfg       Config
	other     Cloud  // nil with labcloud
	uid       int    // of the control host's user and group
	hostKey   string // public, of the control host's sshd
	publicKey string // of the key that is authorized on the nodes
	api       *http.Server
	handler   atomic.Pointer[http.Handler] // of the cloud's API
	sshd      *exec.Cmd
	undo      []func() error
}

// Start starts a lab with an empty cloud. The cluster is declared but not deployed. Close MUST be called.
func Start(ctx context.Context, cfg Config) (_ *Lab, err error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	l := &Lab{cfg: cfg}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("start lab %s: %w", cfg.Name, err), l.Close())
		}
	}()
	if l.Dir, err = newFolder(cfg.Name); err != nil {
		return nil, err
	}
	l.Site = siteFolder(l.Dir)
	start := l.startCloud
	if cfg.Libvirt {
		start = l.startLibvirt
	}
	steps := []func(context.Context) error{l.makeUser, start, l.makeSite, l.startControlHost}
	if l.hasMachine() {
		steps = []func(context.Context) error{l.startCloud, l.makeSite, l.bootControlHost}
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	if cfg.Partitions == nil {
		cfg.Partitions = []Partition{everything(cfg.Groups)}
	}
	return l, l.Declare(l.declaration(cfg.Groups, cfg.Partitions))
}

func everything(groups []NodeGroup) Partition {
	p := Partition{Name: "main", Default: true}
	for _, g := range groups {
		p.Groups = append(p.Groups, g.Name)
	}
	return p
}

// newFolder creates the lab's folder, named after the lab.
func newFolder(name string) (string, error) {
	if err := Cleanup(name); err != nil {
		return "", err
	}
	dir := folder(name)
	return dir, os.MkdirAll(dir, 0o755)
}

// Cleanup removes the files and processes of a lab that was killed. If the lab runs, it returns an error.
func Cleanup(name string) error {
	dir := folder(name)
	if err := machine.Cleanup(name, filepath.Join(dir, "machines")); err != nil {
		return err
	}
	if err := libvirtd.Cleanup(name, libvirtFolder(dir)); err != nil {
		return err
	}
	return errors.Join(endProcesses(dir), os.RemoveAll(dir))
}

// folder returns the lab's folder. It is not below /tmp, which may be a tmpfs, since it holds the disks of many nodes.
func folder(name string) string { return filepath.Join("/var/tmp", "eiffel-lab-"+name) }

// siteFolder returns the cluster directory of the lab in the folder dir.
func siteFolder(dir string) string { return filepath.Join(dir, "site") }

func (l *Lab) file(elem ...string) string {
	return filepath.Join(append([]string{l.Dir}, elem...)...)
}

// Close ends all processes that the lab started, including reconfigure's workers, and removes its files.
func (l *Lab) Close() error {
	var errs []error
	for i := len(l.undo) - 1; i >= 0; i-- {
		errs = append(errs, l.undo[i]())
	}
	l.undo = nil
	if l.Dir != "" {
		errs = append(errs, endProcesses(l.Dir), os.RemoveAll(l.Dir))
	}
	return errors.Join(errs...)
}

func (l *Lab) startCloud(ctx context.Context) error {
	images, err := l.images()
	if err != nil {
		return err
	}
	host, err := machine.New(machine.Config{Name: l.cfg.Name, Dir: l.file("machines"), Gateway: l.cfg.Gateway,
		Images: images, Log: l.cfg.Log})
	if err != nil {
		return err
	}
	l.Host, l.Images = host, images
	l.undo = append(l.undo, host.Close)
	cfg := labcloud.Config{
		Project: "lab", User: "lab", Password: Password,
		Networks: []labcloud.Network{l.network()},
		Flavors: []labcloud.Flavor{{Name: FlavorSmall, VCPUs: 2, RAM: 2048, Disk: 10},
			{Name: FlavorLarge, VCPUs: 4, RAM: 4096, Disk: 10}},
		Zones:   []string{ZoneUsual, ZoneOther},
		Images:  []labcloud.Image{{ID: ImageID(ImageV1), Name: ImageV1}, {ID: ImageID(ImageV2), Name: ImageV2}},
		Timings: labcloud.Timings{Build: time.Second, Rebuild: time.Second, Reboot: time.Second, Delete: time.Second},
		Log:     l.cfg.Log,
	}
	if l.cfg.OtherCloud != nil {
		return l.startOther(ctx, cfg)
	}
	if l.Cloud, err = labcloud.New(cfg, host); err != nil {
		return err
	}
	l.undo = append(l.undo, func() error { return l.Cloud.Close(context.Background()) })
	return l.serve()
}

// startOther starts a cloud other than labcloud.
func (l *Lab) startOther(ctx context.Context, cfg labcloud.Config) (err error) {
	if l.other, err = l.cfg.OtherCloud(ctx, cfg, l.Host); err != nil {
		return err
	}
	l.undo = append(l.undo, func() error { return l.other.Close(context.Background()) })
	return l.writeCloud(l.other.Files(cloudName))
}

// Servers returns the servers of the cloud.
func (l *Lab) Servers() []labcloud.Server {
	if l.other != nil {
		return l.other.Servers()
	}
	return l.Cloud.Servers()
}

// CloudsFile returns the path of the clouds.yaml of the cluster directory.
func (l *Lab) CloudsFile() string { return filepath.Join(l.Site, "clouds.yaml") }

// writeCloud writes the cloud's files to the cluster directory.
func (l *Lab) writeCloud(files map[string][]byte) error {
	errs := []error{os.MkdirAll(l.Site, 0o755)}
	for name, text := range files {
		errs = append(errs, os.WriteFile(filepath.Join(l.Site, name), text, 0o600))
	}
	return errors.Join(errs...)
}

// serve serves the cloud's API on loopback if only this computer needs it, otherwise on the lab's network.
func (l *Lab) serve() error {
	listener, err := net.Listen("tcp", l.apiAddress())
	if err != nil {
		return err
	}
	l.Interpose(nil)
	l.api = &http.Server{ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*l.handler.Load()).ServeHTTP(w, r) })}
	go func() {
		if err := l.api.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			l.cfg.Log.Error("the cloud's API ended", "error", err)
		}
	}()
	l.undo = append(l.undo, l.api.Close)
	url := "http://" + listener.Addr().String()
	if err := os.WriteFile(l.file(urlFile), []byte(url), 0o644); err != nil {
		return err
	}
	return l.writeCloud(map[string][]byte{filepath.Base(l.CloudsFile()): l.Cloud.CloudsYAML(cloudName, url)})
}

// Interpose makes a handler answer the calls of labcloud's API. The function gets the cloud's own handler.
// Interpose(nil) ends this.
func (l *Lab) Interpose(make func(http.Handler) http.Handler) {
	handler := l.Cloud.Handler()
	if make != nil {
		handler = make(handler)
	}
	l.handler.Store(&handler)
}

func (l *Lab) images() (*image.Store, error) {
	store, err := image.NewStore(l.file("images"), cmp.Or(l.cfg.Systemd, l.cfg.Tools.Image))
	if err != nil {
		return nil, err
	}
	for _, name := range []string{ImageV1, ImageV2} {
		if err := store.Add(ImageID(name), map[string]string{"/etc/image-release": name + "\n"}); err != nil {
			return nil, err
		}
	}
	if !l.hasMachine() {
		return store, nil
	}
	files, err := image.Archive(l.cfg.Packages)
	if err != nil {
		return nil, err
	}
	return store, store.Add(ControlHostName, files)
}

// ImageID returns an image id, a UUID as in Glance, that can be recognized in logs.
func ImageID(name string) string {
	return fmt.Sprintf("00000000-0000-4000-8000-%012x", []byte(name[len(name)-2:]))
}

// ProgramVariable is the environment variable with the path of this checkout's reconfigure, if it is built already.
const ProgramVariable = "EIFFEL_PROGRAM"

// programFolders are the folders of a checkout that a cluster directory needs.
var programFolders = []string{"terraform", "ansible", "slurmscripts"}

// makeSite creates the cluster directory, as in an administrator's checkout.
func (l *Lab) makeSite(ctx context.Context) error {
	for _, part := range programFolders {
		if err := os.CopyFS(filepath.Join(l.Site, part), os.DirFS(filepath.Join(l.cfg.Checkout, part))); err != nil {
			return err
		}
	}
	if built := os.Getenv(ProgramVariable); built != "" {
		program, err := os.ReadFile(built)
		if err != nil {
			return err
		}
		file := filepath.Join(l.Site, "bin", "reconfigure")
		return errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, program, 0o755), l.give(l.Site))
	}
	return l.build(ctx)
}

// build builds reconfigure into the cluster directory, and makes the user the owner of all files there.
func (l *Lab) build(ctx context.Context) error {
	build := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(l.Site, "bin", "reconfigure"),
		"./cmd/reconfigure")
	build.Dir = l.cfg.Checkout
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build reconfigure: %w\n%s", err, out)
	}
	return l.give(l.Site)
}

// ReplaceProgram replaces the program's files in the cluster directory by those of another checkout, as `git pull` and
// `make build` do. No worker may run.
func (l *Lab) ReplaceProgram(ctx context.Context, checkout string) error {
	for _, part := range programFolders {
		former := os.DirFS(filepath.Join(l.cfg.Checkout, part))
		err := fs.WalkDir(former, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			return os.Remove(filepath.Join(l.Site, part, name))
		})
		if err == nil {
			err = os.CopyFS(filepath.Join(l.Site, part), os.DirFS(filepath.Join(checkout, part)))
		}
		if err != nil {
			return err
		}
	}
	l.cfg.Checkout = checkout
	return l.build(ctx)
}

// Reconfigure returns a call of the tool by the control host's user.
func (l *Lab) Reconfigure(ctx context.Context, args ...string) *exec.Cmd {
	site := l.Directory()
	argv := []string{filepath.Join(site, "bin", "reconfigure"), "--dir", site}
	return l.OnControlHost(ctx, site, append(argv, args...)...)
}

// Command returns a command that runs as root in a node, as on its console.
func (l *Lab) Command(node string, argv ...string) *exec.Cmd {
	for _, s := range l.Servers() {
		if s.Name == node {
			if l.cfg.NodeEnviron != nil {
				argv = slices.Concat([]string{"env"}, l.cfg.NodeEnviron, argv)
			}
			return l.Host.Command(s.ID, argv...)
		}
	}
	return &exec.Cmd{Err: fmt.Errorf("the cloud has no server %s", node)}
}

// Terraform returns a call of Terraform in the root module, as an administrator would run it.
func (l *Lab) Terraform(ctx context.Context, args ...string) *exec.Cmd {
	return l.TerraformIn(ctx, filepath.Join(l.Directory(), "terraform", "openstack"), args...)
}

// TerraformIn is [Lab.Terraform] in another folder.
func (l *Lab) TerraformIn(ctx context.Context, dir string, args ...string) *exec.Cmd {
	argv := []string{"env", "OS_CLIENT_CONFIG_FILE=" + filepath.Join(l.Directory(), "clouds.yaml"), l.terraform()}
	return l.OnControlHost(ctx, dir, append(argv, args...)...)
}
