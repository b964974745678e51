package openstack

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// dir is the mount point of a cloud's tmpfs in its mount namespace.
const dir = "/mnt"

// patience is the time limit for a cloud's start on a busy machine.
const patience = 15 * time.Minute

// ready is the line which says that the cloud is ready for use.
const ready = "ready"

// KeepIfAsked does not return in a process that New started to run a cloud. TestMain MUST call it first.
func KeepIfAsked() {
	text := os.Getenv(keeperVariable)
	if text == "" {
		return
	}
	var s settings
	err := json.Unmarshal([]byte(text), &s)
	if err == nil {
		err = keep(s, os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// keep starts a cloud, carries out the orders in the lines of in, and returns when it has failed or in has ended. This
// process is the first of its PID namespace, so that all others end with it.
func keep(s settings, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	orders := make(chan string, 1) // orders come one at a time
	go func() {
		for lines := bufio.NewScanner(in); lines.Scan(); {
			orders <- lines.Text()
		}
		close(orders)
		cancel()
	}()
	r := newRunner(s)
	begin, end := context.WithTimeout(ctx, patience)
	defer end()
	if err := r.start(begin, out); err != nil {
		return errors.Join(err, r.lastErrors())
	}
	fmt.Fprintln(out, ready)
	for {
		select {
		case order, more := <-orders:
			if !more {
				return nil
			}
			if err := r.obey(ctx, order); err != nil {
				fmt.Fprintf(out, "%q\n", err.Error())
			} else {
				fmt.Fprintln(out, done)
			}
		case name := <-r.ended:
			return errors.Join(fmt.Errorf("%s has ended", name), r.lastErrors())
		}
	}
}

// done is the answer to a successful order. The answer to a failed one is the error.
const done = "done"

// obey carries out an order: a verb and its argument.
func (r *runner) obey(ctx context.Context, order string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	switch verb, what, _ := strings.Cut(order, " "); verb {
	case "kill":
		return r.kill(ctx, what)
	case "start":
		return r.again(ctx, what)
	case "host":
		return r.addHost(ctx, what)
	case "tokens":
		seconds, err := strconv.Atoi(what)
		if err != nil {
			return err
		}
		r.Tokens = seconds
		return errors.Join(r.writeFiles(), r.kill(ctx, "keystone"), r.again(ctx, "keystone"))
	case "errors":
		return r.lastErrors()
	}
	return fmt.Errorf("there is no order %q", order)
}

// stage is one step of the start.
type stage struct {
	name string
	run  func(context.Context) error
}

// start runs the stages of the start, and writes a line for each.
func (r *runner) start(ctx context.Context, out io.Writer) error {
	p := r.Ports
	for _, s := range []stage{
		{"files", func(context.Context) error { return r.prepare() }},
		{"MariaDB, RabbitMQ, memcached", r.startBase},
		{"tables", r.makeTables},
		{"Keystone", func(ctx context.Context) error {
			err := r.wsgi("keystone", p.Identity, "/usr/bin/keystone-wsgi-public")
			return errors.Join(err, r.await(ctx, p.Identity))
		}},
		{"users and endpoints", r.addIdentities},
		{"Placement, Glance, Neutron, Nova", r.startServices},
		{"a host for servers", func(ctx context.Context) error { return r.awaitHost(ctx, FirstHost) }},
		{"images, flavors, a network", r.addResources},
	} {
		begun := time.Now()
		if err := s.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Fprintf(out, "%s: %.0f s\n", s.name, time.Since(begun).Seconds())
	}
	return nil
}

// prepare mounts the file systems that the namespaces need, and writes the files.
func (r *runner) prepare() error {
	for _, m := range []struct {
		source, target, kind string
		flags                uintptr
	}{
		{"", "/", "", unix.MS_REC | unix.MS_PRIVATE},
		{"proc", "/proc", "proc", 0},
		{"tmpfs", r.Dir, "tmpfs", 0},
	} {
		if err := unix.Mount(m.source, m.target, m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	for _, sub := range []string{
		"log", "rabbitmq", "keystone/fernet-keys", "keystone/credential-keys", "glance/images", "neutron",
		"nova/instances",
	} {
		if err := os.MkdirAll(filepath.Join(r.Dir, sub), 0o755); err != nil {
			return err
		}
	}
	if err := r.writeFiles(); err != nil {
		return err
	}
	// nova-api reads it from its configuration folder.
	return os.Symlink("/etc/nova/api-paste.ini", filepath.Join(r.Dir, "etc/nova/api-paste.ini"))
}

// startBase starts the services in which the other services keep their data.
func (r *runner) startBase(ctx context.Context) error {
	for port := firstPort; port <= lastPort; port++ {
		if c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return errors.Join(fmt.Errorf("port %d of 127.0.0.1 is in use: end the other cloud", port), c.Close())
		}
	}
	if err := r.run(ctx, "mysql_install_db", "--no-defaults", "--user=root", "--datadir="+r.Dir+"/mysql",
		"--skip-test-db", "--auth-root-authentication-method=socket"); err != nil {
		return err
	}
	p := r.Ports
	err := errors.Join(
		r.service("mariadb", "mariadbd", "--defaults-file="+r.Dir+"/etc/my.cnf"),
		r.service("rabbitmq", "/usr/lib/rabbitmq/bin/rabbitmq-server"),
		r.service("memcached", "memcached", "-u", "nobody", "-l", "127.0.0.1", "-p", fmt.Sprint(p.Cache)),
	)
	if err != nil {
		return err
	}
	if err := r.await(ctx, p.Database, p.Cache); err != nil {
		return err
	}
	sql := []string{
		fmt.Sprintf("CREATE USER openstack@127.0.0.1 IDENTIFIED BY '%s'", r.Password),
		"GRANT ALL ON *.* TO openstack@127.0.0.1",
	}
	for _, name := range databases() {
		sql = append(sql, "CREATE DATABASE "+name)
	}
	if err := r.run(ctx, "mysql", "--no-defaults", "--user=root", "--socket="+r.Dir+"/mysql.sock",
		"--execute="+strings.Join(sql, ";")); err != nil {
		return err
	}
	return r.await(ctx, p.Queue)
}

// makeTables makes the tables of all services, and Keystone's first user and keys.
func (r *runner) makeTables(ctx context.Context) error {
	keystone := func(argv ...string) []string {
		return append([]string{"keystone-manage", r.config("keystone/keystone.conf")}, argv...)
	}
	nova := func(argv ...string) []string {
		return append([]string{"nova-manage", r.config("nova/nova.conf")}, argv...)
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, programs := range [][][]string{
		{
			keystone("db_sync"),
			keystone("fernet_setup", "--keystone-user", "root", "--keystone-group", "root"),
			keystone("credential_setup", "--keystone-user", "root", "--keystone-group", "root"),
			keystone("bootstrap", "--bootstrap-password", r.Password, "--bootstrap-region-id", "RegionOne",
				"--bootstrap-public-url", r.Identity(), "--bootstrap-internal-url", r.Identity(),
				"--bootstrap-admin-url", r.Identity()),
		},
		{
			nova("api_db", "sync"),
			nova("cell_v2", "map_cell0", "--database_connection", r.Database("nova_cell0")),
			nova("cell_v2", "create_cell", "--name", "cell1"),
			nova("db", "sync"),
		},
		{
			{"glance-manage", r.config("glance/glance-api.conf"), "db_sync"},
			{"placement-manage", r.config("placement/placement.conf"), "db", "sync"},
			{"neutron-db-manage", r.config("neutron/neutron.conf"), r.config("neutron/ml2.ini"), "upgrade", "heads"},
		},
	} {
		group.Go(func() error { return r.all(ctx, programs...) })
	}
	return group.Wait()
}

// startServices starts all services but Keystone. Nova's services end if their user is missing in Keystone.
func (r *runner) startServices(ctx context.Context) error {
	p := r.Ports
	err := errors.Join(
		r.wsgi("placement", p.Placement, "/usr/bin/placement-api"),
		r.service("glance", "glance-api", r.config("glance/glance-api.conf")),
		r.service("neutron", "neutron-server", r.config("neutron/neutron.conf"), r.config("neutron/ml2.ini")),
		r.service("nova-conductor", "nova-conductor", r.config("nova/nova.conf")),
		r.service("nova-scheduler", "nova-scheduler", r.config("nova/nova.conf")),
		r.startHost(FirstHost),
		r.wsgi("nova-api", p.Compute, "/usr/bin/nova-api-wsgi"),
	)
	return errors.Join(err, r.await(ctx, p.Placement, p.Image, p.Network, p.Compute))
}

// lastErrors returns the last lines with errors in the services' logs.
func (r *runner) lastErrors() error {
	logs, _ := filepath.Glob(filepath.Join(r.Dir, "log", "*")) // the pattern is valid
	var errs []error
	for _, file := range logs {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		var found []string
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, " ERROR ") || strings.Contains(line, " CRITICAL ") {
				found = append(found, line)
			}
		}
		if len(found) > 0 {
			errs = append(errs, fmt.Errorf("%s:\n%s", filepath.Base(file), tail(strings.Join(found, ""))))
		}
	}
	return errors.Join(errs...)
}
