package openstack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// runner starts programs in a cloud's folder.
type runner struct {
	settings
	// environment is the environment of all programs.
	environment []string
	// ended receives the name of each service that ends unexpectedly.
	ended chan string
	// services has the started services by name.
	services map[string]*service
}

// service is a program that runs until the cloud ends or the program is killed.
type service struct {
	argv   []string
	pid    int
	killed atomic.Bool
	ended  chan struct{}
}

func newRunner(s settings) *runner {
	p := s.Ports
	etc := filepath.Join(s.Dir, "etc")
	r := &runner{settings: s, ended: make(chan string, 16), services: map[string]*service{}}
	r.environment = append(os.Environ(),
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8",
		"HOME="+s.Dir, "PYTHONPATH="+filepath.Join(etc, "python"), "EIFFEL_LAB_HYPERVISOR="+s.Hypervisor,
		"OS_KEYSTONE_CONFIG_DIR="+filepath.Join(etc, "keystone"),
		"OS_PLACEMENT_CONFIG_DIR="+filepath.Join(etc, "placement"),
		"OS_NOVA_CONFIG_DIR="+filepath.Join(etc, "nova"),
		"RABBITMQ_NODENAME=openstack@localhost", fmt.Sprint("RABBITMQ_NODE_PORT=", p.Queue),
		"RABBITMQ_NODE_IP_ADDRESS=127.0.0.1", fmt.Sprint("RABBITMQ_DIST_PORT=", p.QueuePeers),
		"RABBITMQ_SERVER_START_ARGS=-kernel inet_dist_use_interface {127,0,0,1}",
		"ERL_EPMD_ADDRESS=127.0.0.1", fmt.Sprint("ERL_EPMD_PORT=", p.Erlang),
		"RABBITMQ_MNESIA_BASE="+filepath.Join(s.Dir, "rabbitmq"), "RABBITMQ_LOG_BASE="+filepath.Join(s.Dir, "log"),
		"RABBITMQ_PID_FILE="+filepath.Join(s.Dir, "rabbitmq.pid"),
		"RABBITMQ_CONFIG_FILE="+filepath.Join(etc, "rabbitmq.conf"),
		"RABBITMQ_ENABLED_PLUGINS_FILE="+filepath.Join(etc, "rabbitmq_plugins"),
	)
	return r
}

// config returns the option for a configuration file.
func (r *runner) config(file string) string {
	return "--config-file=" + filepath.Join(r.Dir, "etc", file)
}

// run runs a program to its end. The error has the end of its output.
func (r *runner) run(ctx context.Context, name string, argv ...string) error {
	cmd := exec.CommandContext(ctx, name, argv...)
	cmd.Env, cmd.Dir = r.environment, r.Dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w:\n%s", name, strings.Join(argv, " "), err, tail(string(out)))
	}
	return nil
}

// all runs programs one after the other.
func (r *runner) all(ctx context.Context, programs ...[]string) error {
	for _, p := range programs {
		if err := r.run(ctx, p[0], p[1:]...); err != nil {
			return err
		}
	}
	return nil
}

// service starts a program that keeps running. Its output is in a file in the folder log.
func (r *runner) service(name string, argv ...string) error {
	out, err := os.Create(r.logFile(name))
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = r.environment, r.Dir, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	s := &service{argv: argv, pid: cmd.Process.Pid, ended: make(chan struct{})}
	r.services[name] = s
	go func() {
		_ = cmd.Wait() // its output has the reason
		close(s.ended)
		if !s.killed.Load() {
			r.ended <- name
		}
	}()
	return nil
}

// kill kills all processes of a service, as a power loss does, and waits until its port is closed.
func (r *runner) kill(ctx context.Context, name string) error {
	s, ok := r.services[name]
	if !ok {
		return fmt.Errorf("there is no service %q", name)
	}
	s.killed.Store(true)
	if err := syscall.Kill(-s.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill %s: %w", name, err)
	}
	<-s.ended
	port, ok := r.port(name)
	if !ok {
		return nil
	}
	return r.until(ctx, "the end of "+name, func() bool { return !answers(port) })
}

// again starts a killed service.
func (r *runner) again(ctx context.Context, name string) error {
	s, ok := r.services[name]
	if !ok {
		return fmt.Errorf("there is no service %q", name)
	}
	if err := r.service(name, s.argv...); err != nil {
		return err
	}
	if port, ok := r.port(name); ok {
		return r.await(ctx, port)
	}
	return nil
}

// port returns the port of a service that may be killed, if it has one.
func (r *runner) port(name string) (int, bool) {
	port, ok := map[string]int{"keystone": r.Ports.Identity, "nova-api": r.Ports.Compute}[name]
	return port, ok
}

// wsgi starts a service under uWSGI, with the options of Debian's files for it.
func (r *runner) wsgi(name string, port int, program string) error {
	return r.service(name, "uwsgi_python3", "--plugins", "python3", "--master", "--die-on-term", "--lazy-apps",
		"--http-socket", fmt.Sprintf("127.0.0.1:%d", port), "--processes", "2", "--enable-threads", "--thunder-lock",
		"--buffer-size", "65535", "--rem-header", "Content-Length", "--add-header", "Connection: close",
		"--disable-logging", "--need-app", "--wsgi-file", program)
}

func (r *runner) logFile(name string) string { return filepath.Join(r.Dir, "log", name+".out") }

// await waits until each of the ports answers. It is an error if a service ends before.
func (r *runner) await(ctx context.Context, ports ...int) error {
	for _, port := range ports {
		if err := r.until(ctx, fmt.Sprintf("port %d", port), func() bool { return answers(port) }); err != nil {
			return err
		}
	}
	return nil
}

// answers reports whether a process listens on a port.
func answers(port int) bool {
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}

// until polls a condition until it holds, ctx ends or a service ends.
func (r *runner) until(ctx context.Context, what string, holds func() bool) error {
	for tick := time.NewTicker(200 * time.Millisecond); !holds(); {
		select {
		case name := <-r.ended:
			out, _ := os.ReadFile(r.logFile(name)) // without it, the name is the message
			return fmt.Errorf("%s has ended:\n%s", name, tail(string(out)))
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}

// tail returns the end of a text.
func tail(text string) string {
	const most = 2000
	return text[max(0, len(text)-most):]
}
