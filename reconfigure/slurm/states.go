package slurm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// fewNodes is the maximum number of nodes that are asked for by name. For more nodes, a list of all is cheaper.
const fewNodes = 200

// States returns the states of the given nodes that Slurm knows, by name; of all nodes if the set is empty. The
// answer may have other nodes too. It includes powered-down cloud nodes if slurm.conf has PrivateData=cloud, and
// always from 23.02 on. One command in one login reads it. The error is ErrUnreachable unless the context ended.
func (c *Client) States(ctx context.Context, nodes nodeset.NodeSet) (map[string]reconfigure.NodeState, error) {
	known, few := c.lister.Load(), ""
	if nodes.Len() <= fewNodes && !c.listsAll.Load() {
		few = nodes.String()
	}
	out, err := c.run(ctx, statesCommand(known, few))
	if err != nil {
		return nil, unreachable(ctx, fmt.Errorf("ask for the nodes: %w", err))
	}
	listed, err := parseListing(out)
	if err != nil && few != "" {
		states, err := c.States(ctx, nodeset.NodeSet{})
		if err == nil { // this release does not accept names together with --json
			c.listsAll.Store(true)
		}
		return states, err
	}
	if err != nil {
		c.lister.CompareAndSwap(known, nil) // Slurm may have been upgraded meanwhile
		return nil, unreachable(ctx, fmt.Errorf("ask for the nodes: %w", err))
	}
	c.lister.CompareAndSwap(known, &listed.by)
	states := make(map[string]reconfigure.NodeState, len(listed.nodes))
	for i := range listed.nodes {
		s := listed.nodes[i].state()
		if listed.suspended.Contains(s.Node) {
			s.Busy, s.IdleSince = true, time.Time{}
		}
		states[s.Node] = s
	}
	if c.config.LaunchAtOnce {
		c.launch(ctx, c.arrivals.of(states))
	}
	return states, nil
}

// A line of the answer that begins with dashes names the part that follows. JSON has no such line, nor has a list of
// nodes.
const (
	mark      = "-- "
	squeue    = "squeue"
	completed = "completed"
)

// statesCommand returns a command of slurm_commands.py. The command lists nodes, with the first tool that supports it,
// and the nodes of suspended jobs. Its exit status is not 0 if the last tool or squeue fails. few is a hostlist of the
// nodes; empty: all. Only scontrol can list single nodes.
func statesCommand(known *lister, few string) []string {
	words := []string{"states", string(byScontrol), string(bySinfo)}
	if known != nil {
		words = []string{"states", string(*known)}
	}
	if few != "" && words[1] == string(byScontrol) {
		words[1] += " " + few
	}
	return words
}

// listing is the output of the tools.
type listing struct {
	by    lister
	nodes []node
	// a suspended job has released its CPUs, so its node looks idle, but its processes still exist
	suspended nodeset.NodeSet
}

func parseListing(out []byte) (listing, error) {
	parts := map[string][]byte{}
	var l listing
	for _, part := range bytes.Split(out, []byte("\n"+mark))[1:] {
		what, text, _ := bytes.Cut(part, []byte("\n"))
		if word := string(what); word == string(byScontrol) || word == string(bySinfo) {
			l.by = lister(word) // the last lister that began
		}
		parts[string(what)] = text
	}
	if _, ok := parts[completed]; !ok {
		return listing{}, errors.New("the answer is incomplete")
	}
	var err error
	if l.nodes, err = decode(parts[string(l.by)]); err != nil {
		return listing{}, err
	}
	if lists := strings.Fields(string(parts[squeue])); len(lists) > 0 {
		if l.suspended, err = nodeset.Parse(lists...); err != nil {
			return listing{}, fmt.Errorf("suspended jobs: %w", err)
		}
	}
	return l, nil
}

// slurmName matches the names of nodes of slurm_commands.py. Some of them are not valid names in this package; they
// may be in slurm.extra.
var slurmName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)

// decode reads a list of nodes. If slurmctld does not answer, the tools exit with 0, and the list is empty and has
// errors.
func decode(out []byte) ([]node, error) {
	var document struct {
		Nodes  *[]node `json:"nodes"`
		Errors []struct {
			Error       string `json:"error"`
			Description string `json:"description"`
		} `json:"errors"`
	}
	// As encoding/json does, it accepts doubled names and invalid UTF-8.
	err := json.Unmarshal(out, &document, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
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
		return nil, errors.New("the answer has no list of nodes")
	}
	for _, n := range *document.Nodes {
		if !slurmName.MatchString(n.Name) {
			return nil, fmt.Errorf("unexpected answer: a node with the name %.100q", n.Name)
		}
	}
	return *document.Nodes, nil
}

// latest is the last second of the year 9999, the latest time in RFC 3339 and so in our JSON.
const latest = 253402300799

func (n node) state() reconfigure.NodeState {
	s := reconfigure.NodeState{Node: n.Name, Reason: strings.TrimSpace(n.Reason), Address: n.Address}
	next, _ := reconfigure.ParseNodeFlags(append(n.Next, n.NextFlags...)...)
	s.Returns = next&reconfigure.NodeResume != 0
	s.Flags, s.Other = reconfigure.ParseNodeFlags(append(n.State, n.Flags...)...)
	if n.BootTime > 0 && n.BootTime <= latest {
		s.Boot = time.Unix(int64(n.BootTime), 0)
	}
	const working = reconfigure.NodeAllocated | reconfigure.NodeMixed | reconfigure.NodeCompleting
	s.Busy = n.AllocCPUs > 0 || s.HasAny(working)
	if !s.Busy && n.LastBusy > 0 && n.LastBusy <= latest {
		s.IdleSince = time.Unix(int64(n.LastBusy), 0)
	}
	return s
}
