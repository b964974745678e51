package ansible

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/apenella/go-ansible/v2/pkg/execute"
	"github.com/apenella/go-ansible/v2/pkg/playbook"
	"golang.org/x/sync/errgroup"

	"github.com/eiffel-hpc/eiffel/reconfigure/process"
)

// grace is how long Ansible may take to end its own processes after an interrupt.
const grace = 20 * time.Second

// executor replaces go-ansible's executor, whose errors contain the environment, which passes our standard input on,
// and which on a cancellation kills only ansible-playbook, not its child processes.
type executor struct {
	*Runner
	scratch  scratch
	playbook string
	limit    string    // a pattern of hosts; empty: all
	ofSite   bool      // the playbook is the site's: no ansible.cfg, roles and variables are ours
	ready    *prepared // the process that runs the playbook; nil: Execute starts one
}

var _ execute.Executor = executor{}

func (e executor) Execute(ctx context.Context) error {
	if e.ready != nil {
		return e.ready.run(ctx)
	}
	c, err := e.command()
	if err != nil {
		return err
	}
	return process.Run(ctx, c)
}

// listen returns the events of the process.
func (e executor) listen() (stream, error) {
	if e.ready != nil {
		return e.ready.events, nil
	}
	return listen(e.scratch.events())
}

func (e executor) command() (process.Cmd, error) {
	options := &playbook.AnsiblePlaybookOptions{Inventory: e.scratch.inventory(), Limit: e.limit}
	dir := filepath.Join(e.program(), "ansible")
	switch {
	case e.ofSite:
		dir = filepath.Dir(e.playbook)
	case e.ready != nil:
		options.ExtraVarsFile = []string{"@" + e.scratch.pipe()}
	default:
		options.ExtraVarsFile = []string{"@" + e.scratch.vars()}
	}
	argv, err := playbook.NewAnsiblePlaybookCmd(
		playbook.WithBinary(e.Binary), playbook.WithPlaybooks(e.playbook), playbook.WithPlaybookOptions(options),
	).Command()
	if err != nil {
		return process.Cmd{}, fmt.Errorf("build Ansible's command line: %w", err)
	}
	log := &shared{Writer: e.Log}
	return process.Cmd{
		Path: argv[0], Args: argv[1:], Dir: dir, Env: e.environment(),
		Stdout: log, Stderr: log, Grace: grace,
	}, nil
}

// environment returns the caller's environment without Ansible's settings, so that a run does not depend on the caller.
func (e executor) environment() []string {
	var env []string
	for _, entry := range e.Env {
		if !strings.HasPrefix(entry, "ANSIBLE_") && !strings.HasPrefix(entry, "LC_ALL=") {
			env = append(env, entry)
		}
	}
	switch {
	case e.ofSite:
		// These two take precedence over ansible.cfg, which the site may have beside the playbook.
		env = append(env, "ANSIBLE_CALLBACKS_ENABLED=reconfigure_events",
			"ANSIBLE_CALLBACK_PLUGINS="+filepath.Join(e.program(), "ansible", "callback_plugins"))
	case e.Program != "":
		// The playbooks' own roles come first. The empty roles, in whose place a site may have others, come last.
		env = append(env, "ANSIBLE_ROLES_PATH="+filepath.Join(e.Dir, "ansible", "roles")+":"+
			filepath.Join(e.Program, "ansible", "empty_roles"))
	}
	if !e.ofSite {
		env = append(env, "ANSIBLE_CONFIG="+filepath.Join(e.program(), "ansible", "ansible.cfg"))
	}
	return append(env,
		"LC_ALL=C.UTF-8", // Ansible needs a UTF-8 locale to start
		"ANSIBLE_HOME="+e.scratch.home,
		"ANSIBLE_LOCAL_TEMP="+e.scratch.dir,
		"ANSIBLE_SSH_CONTROL_PATH_DIR="+e.scratch.sockets.Path,
		"ANSIBLE_NOCOLOR=1",
		"RECONFIGURE_EVENTS="+e.scratch.events(),
	)
}

// shared is a writer for both outputs of a program.
type shared struct {
	io.Writer
	lock sync.Mutex
}

func (s *shared) Write(p []byte) (int, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.Writer.Write(p)
}

// endMasters ends the SSH connections whose sockets are in the folder: Ansible leaves them open for its next task. It
// ends them even if ctx has ended.
func endMasters(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	sockets, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list open SSH connections: %w", err)
	}
	var group errgroup.Group
	group.SetLimit(8)
	for _, socket := range sockets {
		group.Go(func() error {
			path := filepath.Join(dir, socket.Name())
			args := []string{"-F", "/dev/null", "-o", "ControlPath=" + path, "-O", "exit", "any"}
			err := process.Run(ctx, process.Cmd{Path: "ssh", Args: args})
			if ended := (*process.Error)(nil); errors.As(err, &ended) && ended.Err == nil {
				return nil // the connection has ended
			}
			return err
		})
	}
	return group.Wait()
}
