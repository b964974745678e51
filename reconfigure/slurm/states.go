package slurm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// States is every node that Slurm knows, by name. Cloud nodes that are powered down are among them if slurm.conf has PrivateData=cloud. What it answers is
// good at the moment of the asking only. The error is ErrUnreachable unless the context ended.
func (c *Client) States(ctx context.Context) (map[string]reconfigure.NodeState, error) {
	nodes, err := c.nodes(ctx)
	if err != nil {
		return nil, unreachable(ctx, fmt.Errorf("ask for the nodes: %w", err))
	}
	suspended, err := c.suspended(ctx)
	if err != nil {
		return nil, unreachable(ctx, fmt.Errorf("ask for suspended jobs: %w", err))
	}
	states := make(map[string]reconfigure.NodeState, len(nodes))
	for _, n := range nodes {
		s := n.state()
		s.Busy = s.Busy || suspended.Contains(s.Node)
		states[s.Node] = s
	}
	return states, nil
}

// nodes asks the tool that lists nodes as JSON: scontrol where it can (not before 23.02), else sinfo, whose later releases list something else.
func (c *Client) nodes(ctx context.Context) ([]node, error) {
	var errs []error
	for _, words := range [][]string{{"scontrol", "show", "nodes", "--json"}, {"sinfo", "--json"}} {
		out, err := c.call(ctx, words[0], words[1:]...)
		if err == nil {
			var nodes []node
			if nodes, err = decode(out); err == nil {
				return nodes, nil
			}
			err = fmt.Errorf("%s: %w", words[0], err)
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// suspended is the nodes on which a suspended job waits to go on: it has given its CPUs back, so its node looks idle, but its processes are there.
func (c *Client) suspended(ctx context.Context) (nodeset.NodeSet, error) {
	out, err := c.call(ctx, "squeue", "--noheader", "--all", "--states=SUSPENDED", "--format=%N")
	if err != nil {
		return nodeset.NodeSet{}, err
	}
	lists := strings.Fields(string(out))
	if len(lists) == 0 {
		return nodeset.NodeSet{}, nil
	}
	return nodeset.Parse(lists...)
}

// decode reads a list of nodes. The tools exit with 0 when slurmctld does not answer: then the list is empty and there are errors.
func decode(out []byte) ([]node, error) {
	var document struct {
		Nodes  *[]node `json:"nodes"`
		Errors []struct {
			Error       string `json:"error"`
			Description string `json:"description"`
		} `json:"errors"`
	}
	if err := json.Unmarshal(out, &document); err != nil {
		return nil, fmt.Errorf("unexpected answer: %w", err)
	}
	var errs []error
	for _, e := range document.Errors {
		errs = append(errs, errors.New(strings.TrimSpace(e.Error+" "+e.Description)))
	}
	switch {
	case len(errs) > 0:
		return nil, errors.Join(errs...)
	case document.Nodes == nil:
		return nil, errors.New("the answer holds no list of nodes")
	}
	return *document.Nodes, nil
}

// node is a node as JSON, in the fields that we use: of 22.05 (v0.0.38), which has the flags apart from the base state, and of later releases.
type node struct {
	Name      string `json:"name"`
	State     words  `json:"state"`
	Flags     words  `json:"state_flags"`
	Reason    string `json:"reason"`
	Address   string `json:"address"`
	BootTime  number `json:"boot_time"`
	AllocCPUs number `json:"alloc_cpus"`
	// 22.05 has the flag apart here too.
	Next      words `json:"next_state_after_reboot"`
	NextFlags words `json:"next_state_after_reboot_flags"`
}

func (n node) state() reconfigure.NodeState {
	s := reconfigure.NodeState{Node: n.Name, Reason: n.Reason, Address: n.Address, Returns: slices.Contains(append(n.Next, n.NextFlags...), "RESUME")}
	s.Flags, s.Other = reconfigure.ParseNodeFlags(append(n.State, n.Flags...)...)
	if n.BootTime > 0 {
		s.Boot = time.Unix(int64(n.BootTime), 0)
	}
	const working = reconfigure.NodeAllocated | reconfigure.NodeMixed | reconfigure.NodeCompleting
	s.Busy = n.AllocCPUs > 0 || s.HasAny(working)
	return s
}

// words is a string or a list of them.
type words []string

func (w *words) UnmarshalJSON(text []byte) error {
	if bytes.HasPrefix(text, []byte(`"`)) {
		*w = make(words, 1)
		return json.Unmarshal(text, &(*w)[0])
	}
	return json.Unmarshal(text, (*[]string)(w))
}

// number is a plain number or, in later releases, an object that also says whether there is one; zero where there is none.
type number float64

func (n *number) UnmarshalJSON(text []byte) error {
	if !bytes.HasPrefix(text, []byte(`{`)) {
		return json.Unmarshal(text, (*float64)(n))
	}
	var object struct {
		Set    bool    `json:"set"`
		Number float64 `json:"number"`
	}
	if err := json.Unmarshal(text, &object); err != nil {
		return err
	}
	if object.Set {
		*n = number(object.Number)
	}
	return nil
}
