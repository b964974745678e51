package vsphere

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/session"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/cloud"
)

var (
	errNoPorts  = errors.New("instances of vSphere have no ports")
	errNoImages = errors.New("reconfigure makes no images of vSphere's instances; clone one to a template in vCenter")
)

// Client asks a vCenter. It is safe for concurrent use. It logs in at the first call, and again after vCenter has
// ended the session.
type Client struct {
	cloud.NoPorts
	cloud.NoMarks
	cloud.NoImages

	access reconfigure.Access
	table  Table
	tempo  cloud.Tempo

	lock    sync.Mutex
	session *login
}

// login is a session, with its datacenter.
type login struct {
	*govmomi.Client
	datacenter *object.Datacenter
	finder     *find.Finder
}

// Open reads the entry of an access.
func Open(_ context.Context, access reconfigure.Access) (*Client, error) {
	table, err := readTable(access.Dir, access.Cloud)
	if err != nil {
		return nil, err
	}
	return &Client{
		NoPorts: cloud.NoPorts{Reason: errNoPorts}, NoImages: cloud.NoImages{Reason: errNoImages},
		access: access, table: table, tempo: cloud.UsualTempo(),
	}, nil
}

// open returns the session, or begins one.
func (c *Client) open(ctx context.Context) (*login, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.session != nil {
		return c.session, nil
	}
	at := soap.NewClient(&url.URL{Scheme: "https", Host: c.table.Server, Path: vim25.Path}, c.table.Insecure)
	if file := trusted(c.access.Dir); file != "" {
		pool, err := certificates(file)
		if err != nil {
			return nil, err
		}
		at.DefaultTransport().TLSClientConfig.RootCAs = pool
	}
	vim, err := vim25.NewClient(ctx, at)
	if err != nil {
		return nil, err
	}
	client := &govmomi.Client{Client: vim, SessionManager: session.NewManager(vim)}
	if err := client.Login(ctx, url.UserPassword(c.table.User, c.table.Password)); err != nil {
		return nil, fmt.Errorf("log in as %s: %w", c.table.User, err)
	}
	finder := find.NewFinder(vim, false)
	datacenter, err := finder.Datacenter(ctx, c.table.Datacenter)
	if err != nil {
		return nil, err
	}
	c.session = &login{client, datacenter, finder.SetDatacenter(datacenter)}
	return c.session, nil
}

// certificates returns the system's certificates and those of a file.
func certificates(file string) (*x509.CertPool, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate in PEM", file)
	}
	return pool, nil
}

// forget drops a session that has ended.
func (c *Client) forget(ended *login) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.session == ended {
		c.session = nil
	}
}

// ask calls do with a session, and a second time if vCenter has ended the session meanwhile.
func ask[T any](ctx context.Context, c *Client, do func(*login) (T, error)) (T, error) {
	for again := false; ; again = true {
		var answer T
		l, err := c.open(ctx)
		if err == nil {
			answer, err = do(l)
		}
		switch {
		case err == nil:
			return answer, nil
		case ctx.Err() != nil:
			return answer, context.Cause(ctx)
		case fault.Is(err, &types.NotAuthenticated{}) && !again:
			c.forget(l)
			continue
		}
		return answer, c.failed(err)
	}
}

// failed adds the server and the class to an error.
func (c *Client) failed(err error) error {
	if notFound(err) {
		return reconfigure.Classify(reconfigure.ClassMissing, err)
	}
	class := providerClass(err.Error())
	if !soap.IsSoapFault(err) && !soap.IsVimFault(err) && class == reconfigure.ClassOther {
		class = reconfigure.ClassCloud // an error of the connection
	}
	return reconfigure.Classify(class, fmt.Errorf("vCenter %s: %w", c.table.Server, err))
}

// notFound reports whether a name has no match, or several.
func notFound(err error) bool {
	_, none := errors.AsType[*find.NotFoundError](err)
	_, many := errors.AsType[*find.MultipleFoundError](err)
	return none || many
}

// gone reports whether an object has been removed.
func gone(err error) bool { return fault.Is(err, &types.ManagedObjectNotFound{}) }

// Resolve returns the current ids of the names of a source, or all errors in them. An image is a template or another
// virtual machine, by its name or its path in the inventory.
func (c *Client) Resolve(ctx context.Context, s reconfigure.Source) reconfigure.Resolved {
	var problems []error
	class := reconfigure.ClassMissing
	wrong := func(kind, name string, err error) {
		if err == nil {
			return
		}
		problems = append(problems, fmt.Errorf("%s %q: %w", kind, name, err))
		if reconfigure.ClassOf(err) != reconfigure.ClassMissing {
			class = reconfigure.ClassCloud
		}
	}
	flavor, known := c.table.Flavors.Find(s.Flavor)
	if !known {
		problems = append(problems, fmt.Errorf("flavor %q: not found in %s", s.Flavor, filepath.Join(c.access.Dir, File)))
	}
	image, err := ask(ctx, c, func(l *login) (template, error) { return l.template(ctx, s.Image) })
	wrong("image", s.Image, err)
	if err == nil && known && flavor.Disk < image.disk && c.table.Clone != "linked" {
		wrong("flavor", s.Flavor,
			unusable("its disk has %d GiB, and that of image %s has %d", flavor.Disk, s.Image, image.disk))
	}
	network, err := ask(ctx, c, func(l *login) (string, error) {
		found, err := l.finder.Network(ctx, s.Network)
		if err != nil {
			return "", err
		}
		return found.Reference().Value, nil
	})
	wrong("network", s.Network, err)
	if len(problems) > 0 {
		return reconfigure.Resolved{Err: errors.Join(problems...).Error(), Class: class}
	}
	return reconfigure.Resolved{ImageID: image.id(), FlavorID: flavor.ID(), NetworkID: network}
}

func unusable(format string, values ...any) error {
	return reconfigure.Classify(reconfigure.ClassMissing, fmt.Errorf(format, values...))
}

// template has the properties that a clone must share with its source.
type template struct {
	uuid, guest, firmware, bus string
	disk                       int    // GiB
	format                     string // thin, lazy or eager: how its disk is allocated
}

// id is the id of an image. The root module parses it: Terraform's provider needs these attributes of a clone in its
// configuration.
func (t template) id() string {
	return strings.Join([]string{t.uuid, t.guest, t.firmware, t.bus, strconv.Itoa(t.disk), t.format}, ",")
}

// template returns the template with a name.
func (l *login) template(ctx context.Context, name string) (template, error) {
	found, err := l.finder.VirtualMachine(ctx, name)
	if err != nil {
		return template{}, err
	}
	var vm mo.VirtualMachine
	if err := l.RetrieveOne(ctx, found.Reference(), []string{"config"}, &vm); err != nil {
		return template{}, err
	}
	if vm.Config == nil {
		return template{}, unusable("vCenter cannot read its configuration")
	}
	return templateOf(*vm.Config)
}

// busOf returns the provider's name of the type of a SCSI controller; empty if the provider does not know the type.
func busOf(controller types.BaseVirtualDevice) string {
	switch controller.(type) {
	case *types.ParaVirtualSCSIController:
		return "pvscsi"
	case *types.VirtualLsiLogicController:
		return "lsilogic"
	case *types.VirtualLsiLogicSASController:
		return "lsilogic-sas"
	}
	return ""
}

// templateOf reads the configuration of a template. It must have one disk, on a SCSI bus, as Terraform's provider
// requires.
func templateOf(config types.VirtualMachineConfigInfo) (template, error) {
	devices := object.VirtualDeviceList(config.Hardware.Device)
	disks := devices.SelectByType((*types.VirtualDisk)(nil))
	if len(disks) != 1 {
		return template{}, unusable("it has %d disks, but an image must have one", len(disks))
	}
	disk := disks[0].(*types.VirtualDisk)
	bus := busOf(devices.FindByKey(disk.ControllerKey))
	if bus == "" {
		return template{}, unusable("its disk is on no SCSI controller")
	}
	const gib = 1 << 30
	size := cmp.Or(disk.CapacityInBytes, disk.CapacityInKB<<10)
	format := "lazy"
	if backing, ok := disk.Backing.(*types.VirtualDiskFlatVer2BackingInfo); ok {
		switch {
		case backing.ThinProvisioned != nil && *backing.ThinProvisioned:
			format = "thin"
		case backing.EagerlyScrub != nil && *backing.EagerlyScrub:
			format = "eager"
		}
	}
	return template{
		config.Uuid, config.GuestId, cmp.Or(config.Firmware, "bios"), bus, int((size + gib - 1) / gib), format,
	}, nil
}
