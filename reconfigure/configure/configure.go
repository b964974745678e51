// Package configure has the nodes of an attached cluster configured in the site's way, and not by the playbooks: by
// their image, or by a command of the site.
//
// The contract of the command: it is started in the cluster directory for all nodes that wait, one run at a time. Its
// standard input is one line of JSON (Task). For each node whose result it knows it prints one line of JSON (Result) to
// its standard output; other lines are for the log, as is standard error. A node without a line is configured if the
// command ends with exit status 0; otherwise it has no result, and the command is started again for it.
package configure

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/process"
)

// Done is called with the result of a node, once.
type Done = func(node string, seen reconfigure.Configured, err error)

// Image configures nodes that their image configures. It does nothing: slurmd registers, or does not.
type Image struct{}

// Configure reports success for all nodes at once. It never fails.
func (Image) Configure(
	_ context.Context, _ reconfigure.Cluster, _ map[string]reconfigure.Instance, extent reconfigure.Extent,
	_ func(node, message string), done Done,
) (reconfigure.Failures, error) {
	for node := range extent.Changed.All() {
		done(node, reconfigure.Configured{}, nil)
	}
	return reconfigure.Failures{}, nil
}

// Sums returns no checksums, so no node counts as configured before.
func (Image) Sums(reconfigure.Cluster, map[string]reconfigure.Instance, nodeset.NodeSet) (map[string]string, error) {
	return map[string]string{}, nil
}

// Wait returns at once: the image need not have sshd.
func (Image) Wait(context.Context, reconfigure.Instance, bool) error { return nil }

// Known reports that a boot needs no host key.
func (Image) Known(context.Context, reconfigure.Instance) (bool, error) { return true, nil }

// Task is what the command is told.
type Task struct {
	Cluster    string `json:"cluster"`
	Control    string `json:"control_node"` // the declared host
	User       string `json:"login_user"`
	Key        string `json:"private_key_file"`
	KnownHosts string `json:"known_hosts"` // the file with the host keys of the nodes, in the format of sshd(8)
	Nodes      []Node `json:"nodes"`
}

// Node is a node to configure. Its sshd answers.
type Node struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Group   string `json:"group"`
}

// Result is a line of the command's output.
type Result struct {
	Node   string `json:"node"`
	Status string `json:"status"` // Configured or Failed
	// Message says why the node failed; on a node that is configured it is ignored.
	Message string `json:"message"`
}

// The values of Result.Status.
const (
	Configured = "configured"
	Failed     = "failed"
)

// Command configures nodes by a command of the site.
type Command struct {
	Image      // its Sums; Wait and Known are those of SSH
	Argv       []string
	Dir        string
	Env        []string
	KnownHosts string
	Log        io.Writer
}

// grace is how long the command may take to end after an interrupt.
const grace = 20 * time.Second

// Configure runs the command for the changed compute nodes. A node without a result has reconfigure.ClassAnsible, and
// may be retried. An error means that the command could not be started, or that ctx ended.
func (c Command) Configure(
	ctx context.Context, cluster reconfigure.Cluster, instances map[string]reconfigure.Instance,
	extent reconfigure.Extent, watch func(node, message string), done Done,
) (reconfigure.Failures, error) {
	task := Task{Cluster: cluster.Name, Control: cluster.Control.Name, User: cluster.LoginUser,
		Key: cluster.PrivateKeyFile, KnownHosts: c.KnownHosts}
	results := &results{open: map[string]bool{}, failures: reconfigure.Failures{}, done: done, log: c.Log}
	for node := range extent.Changed.All() {
		g, _ := cluster.GroupOf(node)
		if node == cluster.Control.Name {
			done(node, reconfigure.Configured{}, nil)
			continue
		}
		results.open[node] = true
		task.Nodes = append(task.Nodes, Node{node, instances[node].Address, g.Name})
		watch(node, "the site's command: "+c.Argv[0])
	}
	if len(task.Nodes) == 0 {
		return reconfigure.Failures{}, nil
	}
	told, err := json.Marshal(task)
	if err != nil {
		return nil, err
	}
	err = process.Run(ctx, process.Cmd{Path: c.Argv[0], Args: c.Argv[1:], Dir: c.Dir, Env: c.Env,
		Stdin: bytes.NewReader(append(told, '\n')), Stdout: results, Stderr: &locked{out: c.Log}, Grace: grace})
	var ended *process.Error
	if err != nil && (ctx.Err() != nil || !errors.As(err, &ended)) {
		return nil, fmt.Errorf("control_node.configure: %w", err)
	}
	return results.end(err), nil
}

// results reads the command's output.
type results struct {
	lock     sync.Mutex
	rest     []byte          // of a line without its end
	open     map[string]bool // nodes without a result
	failures reconfigure.Failures
	done     Done
	log      io.Writer
}

// longest limits a line without an end.
const longest = 1 << 20

func (r *results) Write(text []byte) (int, error) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.rest = append(r.rest, text...)
	for {
		line, rest, whole := bytes.Cut(r.rest, []byte("\n"))
		if !whole {
			if len(r.rest) > longest {
				r.rest = nil
			}
			return len(text), nil
		}
		r.hear(line)
		r.rest = rest
	}
}

// hear reports the result in a line, if it has one of a node that waits.
func (r *results) hear(line []byte) {
	var said Result
	if err := json.Unmarshal(line, &said); err != nil || !r.open[said.Node] ||
		said.Status != Configured && said.Status != Failed {
		fmt.Fprintf(r.log, "%s\n", line)
		return
	}
	delete(r.open, said.Node)
	if said.Status == Configured {
		r.done(said.Node, reconfigure.Configured{}, nil)
		return
	}
	if said.Message == "" {
		said.Message = "it printed no message"
	}
	err := reconfigure.Classify(reconfigure.ClassPlaybook, errors.New("the site's command: "+said.Message))
	r.failures[said.Node] = err
	r.done(said.Node, reconfigure.Configured{}, err)
}

// end reports the results of the nodes without a line.
func (r *results) end(failed error) reconfigure.Failures {
	r.lock.Lock()
	defer r.lock.Unlock()
	if len(r.rest) > 0 {
		r.hear(r.rest)
		r.rest = nil
	}
	for node := range r.open {
		var err error
		if failed != nil {
			err = reconfigure.Classify(reconfigure.ClassAnsible,
				fmt.Errorf("the site's command ended without a result of the node: %w", failed))
			r.failures[node] = err
		}
		r.done(node, reconfigure.Configured{}, err)
	}
	return r.failures
}

// locked is a writer for standard error.
type locked struct {
	lock sync.Mutex
	out  io.Writer
}

func (l *locked) Write(text []byte) (int, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.out.Write(text)
}
