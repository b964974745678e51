package libvirt

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"sync"

	rpc "github.com/digitalocean/go-libvirt"
	"github.com/digitalocean/go-libvirt/socket"
	"github.com/digitalocean/go-libvirt/socket/dialers"
	"golang.org/x/sync/errgroup"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/cloud"
	"github.com/eiffel-hpc/eiffel/reconfigure/cloud/placement"
)

var (
	errNoPorts  = errors.New("instances of libvirt have no ports")
	errNoImages = errors.New("reconfigure makes no images of libvirt's instances; use virt-builder(1)")
)

// Client asks the hosts of a table. It is safe for concurrent use, and reconnects after a connection has ended.
type Client struct {
	cloud.NoPorts
	cloud.NoMarks
	cloud.NoImages

	access reconfigure.Access
	table  Table
	tempo  cloud.Tempo
	hosts  []*host
}

// Open reads the table of hosts of an access. It does not connect: the first call for a host does.
func Open(_ context.Context, access reconfigure.Access) (*Client, error) {
	table, err := readTable(access.Dir, access.Cloud)
	if err != nil {
		return nil, err
	}
	c := &Client{
		NoPorts: cloud.NoPorts{Reason: errNoPorts}, NoImages: cloud.NoImages{Reason: errNoImages},
		access: access, table: table, tempo: cloud.UsualTempo(),
	}
	for i, h := range table.Hosts {
		c.hosts = append(c.hosts, &host{Host: h, shard: placement.Shard(i), pool: table.Pool})
	}
	return c, nil
}

// host is a host with its connection.
type host struct {
	Host
	shard, pool string

	lock    sync.Mutex
	libvirt *rpc.Libvirt
}

// address has the parts of a libvirt URI that are used.
type address struct {
	name   rpc.ConnectURI // the driver's URI
	dialer socket.Dialer
}

// parseURI parses a URI such as qemu:///system, qemu+unix:///system?socket=PATH, or
// qemu+ssh://USER@HOST:PORT/system?keyfile=PATH&knownhosts=PATH (libvirt's documentation, "Connection URIs").
func parseURI(text string) (address, error) {
	uri, err := url.Parse(text)
	if err != nil {
		return address{}, err
	}
	name := rpc.ConnectURI("qemu://" + uri.Path)
	options := uri.Query()
	switch uri.Scheme {
	case "qemu", "qemu+unix":
		if uri.Host != "" {
			return address{}, fmt.Errorf("uri %q: a host needs qemu+ssh", text)
		}
		var local []dialers.LocalOption
		if path := options.Get("socket"); path != "" {
			local = append(local, dialers.WithSocket(path))
		}
		return address{name, dialers.NewLocal(local...)}, nil
	case "qemu+ssh":
		ssh := []dialers.SSHOption{dialers.UseSSHUsername(uri.User.Username()), dialers.UseSSHPort(uri.Port())}
		if me, err := user.Current(); err == nil {
			ssh = append(ssh, dialers.WithSystemSSHDefaults(me))
		}
		if path := options.Get("keyfile"); path != "" {
			ssh = append(ssh, dialers.UseKeyFile(os.ExpandEnv(path)))
		}
		if path := options.Get("knownhosts"); path != "" {
			ssh = append(ssh, dialers.UseKnownHostsFile(os.ExpandEnv(path)))
		}
		if path := options.Get("socket"); path != "" {
			ssh = append(ssh, dialers.WithRemoteSocket(path))
		}
		return address{name, dialers.NewSSH(uri.Hostname(), ssh...)}, nil
	}
	return address{}, fmt.Errorf("uri %q is neither qemu:///system nor qemu+ssh://HOST/system", text)
}

// connection returns the open connection, or opens one.
func (h *host) connection() (*rpc.Libvirt, error) {
	h.lock.Lock()
	defer h.lock.Unlock()
	if h.libvirt != nil && h.libvirt.IsConnected() {
		return h.libvirt, nil
	}
	at, err := parseURI(h.URI)
	if err != nil {
		return nil, err
	}
	connected := rpc.NewWithDialer(streamDialer{at.dialer})
	if err := connected.ConnectToURI(at.name); err != nil {
		return nil, reconfigure.Classify(reconfigure.ClassCloud, fmt.Errorf("connect to %s: %w", h.URI, err))
	}
	h.libvirt = connected
	return connected, nil
}

// call calls do with a connection. The library does not support contexts: when ctx ends, call returns, and do may
// continue.
func call[T any](ctx context.Context, h *host, do func(*rpc.Libvirt) (T, error)) (T, error) {
	type answer struct {
		is  T
		err error
	}
	var none T
	if ctx.Err() != nil {
		return none, context.Cause(ctx)
	}
	answers := make(chan answer, 1)
	go func() {
		l, err := h.connection()
		if err != nil {
			answers <- answer{none, err}
			return
		}
		is, err := do(l)
		answers <- answer{is, h.failed(err)}
	}()
	select {
	case a := <-answers:
		return a.is, a.err
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}

// failed adds the host and the class to an error.
func (h *host) failed(err error) error {
	if err == nil {
		return nil
	}
	class := providerClass(err.Error())
	var said rpc.Error
	if !errors.As(err, &said) && class == reconfigure.ClassOther {
		class = reconfigure.ClassCloud // an error of the connection
	}
	return reconfigure.Classify(class, fmt.Errorf("%s: %w", h.URI, err))
}

// absent reports whether err says that libvirt does not have something.
func absent(err error) bool {
	var said rpc.Error
	if !errors.As(err, &said) {
		return false
	}
	switch rpc.ErrorNumber(said.Code) {
	case rpc.ErrNoDomain, rpc.ErrNoNetwork, rpc.ErrNoStoragePool, rpc.ErrNoStorageVol:
		return true
	}
	return false
}

// onAll calls do for all hosts at the same time, and returns the answers in their order.
func onAll[T any](ctx context.Context, c *Client, do func(*host, *rpc.Libvirt) (T, error)) ([]T, error) {
	answers := make([]T, len(c.hosts))
	group, ctx := errgroup.WithContext(ctx)
	for i, h := range c.hosts {
		group.Go(func() (err error) {
			answers[i], err = call(ctx, h, func(l *rpc.Libvirt) (T, error) { return do(h, l) })
			return err
		})
	}
	return answers, group.Wait()
}

// Resolve returns the current ids of the names of a source, or all errors in them. An image is a volume of the pool,
// and a network one of libvirt's; every host must have them. Their ids are the names, since those of libvirt differ
// between hosts.
func (c *Client) Resolve(ctx context.Context, s reconfigure.Source) reconfigure.Resolved {
	var problems []error
	class := reconfigure.ClassMissing
	flavor, known := c.table.Flavors.Find(s.Flavor)
	if !known {
		problems = append(problems, fmt.Errorf("flavor %q: not found in %s", s.Flavor, filepath.Join(c.access.Dir, File)))
	}
	for _, find := range []func(*host, *rpc.Libvirt) error{
		func(h *host, l *rpc.Libvirt) error {
			pool, err := l.StoragePoolLookupByName(h.pool)
			if err == nil {
				_, err = l.StorageVolLookupByName(pool, s.Image)
			}
			return named("image", s.Image, err)
		},
		func(_ *host, l *rpc.Libvirt) error {
			network, err := l.NetworkLookupByName(s.Network)
			if err != nil {
				return named("network", s.Network, err)
			}
			active, err := l.NetworkIsActive(network)
			if err == nil && active == 0 {
				err = reconfigure.Classify(reconfigure.ClassMissing, errors.New("it is not active"))
			}
			return named("network", s.Network, err)
		},
	} {
		_, err := onAll(ctx, c, func(h *host, l *rpc.Libvirt) (struct{}, error) { return struct{}{}, find(h, l) })
		if err != nil {
			problems = append(problems, err)
			if !absent(err) && reconfigure.ClassOf(err) != reconfigure.ClassMissing {
				class = reconfigure.ClassCloud
			}
		}
	}
	if len(problems) > 0 {
		return reconfigure.Resolved{Err: errors.Join(problems...).Error(), Class: class}
	}
	return reconfigure.Resolved{ImageID: s.Image, FlavorID: flavor.ID(), NetworkID: s.Network}
}

func named(kind, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %q: %w", kind, name, err)
}
