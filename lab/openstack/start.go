package openstack

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
)

// keeperVariable, in the environment, makes the test binary run a cloud: it has the settings.
const keeperVariable = "EIFFEL_LAB_OPENSTACK"

// Cloud is a running cloud. Its methods are safe for concurrent use.
type Cloud struct {
	cfg      labcloud.Config
	machines *machines
	keeper   *exec.Cmd
	stdin    io.WriteCloser
	said     *bufio.Scanner
	problems strings.Builder // of the keeper, set after its end
	listener *http.Server    // nil without machines

	ordering sync.Mutex // for one order at a time

	mu      sync.Mutex
	compute *gophercloud.ServiceClient
	last    []labcloud.Server
}

// New starts a cloud and waits until it can be used; that takes minutes on a busy machine. It uses the configuration's
// project, user, flavors, images, networks and lifetime of tokens. If there is a hypervisor, the cloud's servers are
// its machines. Log receives the steps of the start. Only one cloud can run at a time. Close, or the end of this
// process, ends the cloud and removes all of its files. Close MUST be called, also after ctx has ended.
func New(ctx context.Context, cfg labcloud.Config, h labcloud.Hypervisor) (_ *Cloud, err error) {
	if os.Getuid() != 0 {
		return nil, errors.New("an OpenStack needs root, for its namespaces")
	}
	log := cfg.Log
	cfg.Log = nil
	c := &Cloud{cfg: cfg}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close(context.WithoutCancel(ctx)))
		}
	}()
	var hypervisor string
	if h != nil {
		c.machines = newMachines(h)
		if c.listener, hypervisor, err = serve(c.machines); err != nil {
			return nil, err
		}
	}
	if c.keeper, err = newKeeper(newSettings(cfg, hypervisor)); err != nil {
		return nil, err
	}
	c.keeper.Stderr = &c.problems
	if c.stdin, err = c.keeper.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := c.keeper.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.keeper.Start(); err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = c.stdin.Close() })()
	for c.said = bufio.NewScanner(stdout); c.said.Scan(); {
		if c.said.Text() == ready {
			return c, nil
		}
		if log != nil {
			log.Info("OpenStack: " + c.said.Text())
		}
	}
	return nil, errors.Join(errors.New("the cloud has ended"), ctx.Err())
}

// Close ends the cloud. It returns an error if a service of the cloud ended before.
func (c *Cloud) Close(context.Context) error {
	var err error
	if c.keeper != nil && c.keeper.Process != nil {
		_ = c.stdin.Close() // if it ends before, the error is reported below
		if err = c.keeper.Wait(); err != nil {
			err = fmt.Errorf("the cloud: %w\n%s", err, c.problems.String())
		}
		c.keeper = nil
	}
	if c.listener != nil {
		err = errors.Join(err, c.listener.Close())
	}
	return err
}

// order makes the keeper carry out an order, and waits until it is done.
func (c *Cloud) order(words string) error {
	c.ordering.Lock()
	defer c.ordering.Unlock()
	if _, err := fmt.Fprintln(c.stdin, words); err != nil {
		return fmt.Errorf("%s: %w", words, err)
	}
	if !c.said.Scan() {
		return fmt.Errorf("%s: the cloud has ended", words)
	}
	if answer := c.said.Text(); answer != done {
		return fmt.Errorf("%s: %s", words, answer)
	}
	return nil
}

// Kill kills all processes of a service, "nova-api" or "nova-compute" for example, as a power loss does.
func (c *Cloud) Kill(service string) error { return c.order("kill " + service) }

// Restart starts a service that was killed. It returns when its port is open, if it has one.
func (c *Cloud) Restart(service string) error { return c.order("start " + service) }

// SetTokens restarts Keystone, which then issues tokens with this lifetime in seconds.
func (c *Cloud) SetTokens(seconds int) error { return c.order(fmt.Sprint("tokens ", seconds)) }

// Errors returns the last errors in the logs of the services.
func (c *Cloud) Errors() error { return c.order("errors") }

// ComputeAddress returns the address on which nova-api listens.
func ComputeAddress() string { return fmt.Sprintf("127.0.0.1:%d", thePorts().Compute) }

// Files returns clouds.yaml with the cloud under the given name, for the project's user.
func (c *Cloud) Files(name string) map[string][]byte {
	text, _ := json.Marshal(map[string]any{"clouds": map[string]any{name: map[string]any{ // JSON is YAML
		"auth_type": "password", "region_name": Region, "interface": "public", "identity_api_version": 3,
		"auth": map[string]string{
			"auth_url": url(thePorts().Identity, "/v3"), "username": c.cfg.User, "password": c.cfg.Password,
			"project_name": c.cfg.Project, "user_domain_name": "Default", "project_domain_name": "Default",
		},
	}}})
	return map[string][]byte{"clouds.yaml": text}
}

// Servers returns all servers of the project, oldest first. If Nova does not answer, it returns those of the last
// answer.
func (c *Cloud) Servers() []labcloud.Server {
	list, err := c.servers(context.Background())
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.last = list
	}
	return c.last
}

// client returns a client of Nova, which renews its login by itself.
func (c *Cloud) client(ctx context.Context) (*gophercloud.ServiceClient, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.compute != nil {
		return c.compute, nil
	}
	var err error
	c.compute, err = newCompute(ctx, Member(c.cfg))
	return c.compute, err
}

// newKeeper returns the command that runs a cloud until its standard input ends.
func newKeeper(s settings) (*exec.Cmd, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	keeper := exec.Command(os.Args[0])
	keeper.Env = append(os.Environ(), keeperVariable+"="+string(text))
	keeper.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true, // so that Ctrl-C does not end it before the test
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS,
	}
	return keeper, nil
}
