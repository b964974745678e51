package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/openstack"
)

func statusCommand() *cli.Command {
	return command(cli.Command{
		Name:  "status",
		Usage: "show each node as Slurm, the cloud, Terraform and the journal have it",
		Action: func(c *cli.Context) error {
			s, err := siteOf(c)
			if err != nil {
				return err
			}
			log, err := s.journal(c.Context)
			if err != nil {
				return err
			}
			defer log.Close()
			last, err := log.LastEvents(c.Context)
			if err != nil {
				return err
			}
			seen := s.look(c.Context, logger(c))
			seen.leader, seen.last = log.Leader(), last
			if c.Bool("json") {
				return json.NewEncoder(c.App.Writer).Encode(seen.report(s.cluster))
			}
			return seen.report(s.cluster).write(c.App.Writer, time.Now())
		},
	})
}

// sight is what the parties say, as far as they answer.
type sight struct {
	instances map[string]reconfigure.Instance
	desired   map[string]reconfigure.Spec
	servers   map[string][]openstack.Server
	states    map[string]reconfigure.NodeState
	last      map[string]reconfigure.Event
	leader    string
	silent    []string // who does not answer, and why
}

// look asks all parties at once; one that does not answer is said to be silent.
func (s site) look(ctx context.Context, logger *slog.Logger) sight {
	const patience = 20 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var (
		seen sight
		lock sync.Mutex
		wait sync.WaitGroup
	)
	ask := func(whom string, question func() error) {
		if err := question(); err != nil {
			lock.Lock()
			defer lock.Unlock()
			seen.silent = append(seen.silent, fmt.Sprintf("%s: %v", whom, err))
		}
	}
	wait.Go(func() {
		ask("the cloud", func() error {
			cloud, err := s.cloud(ctx)
			if err == nil {
				seen.servers, err = cloud.Servers(ctx)
			}
			return err
		})
	})
	wait.Go(func() {
		ask("Terraform", func() error {
			driver, err := s.terraform(ctx, logger)
			if err == nil {
				seen.desired, err = driver.Desired()
			}
			if err == nil {
				seen.instances, err = driver.Instances(ctx)
			}
			return err
		})
		ask("Slurm", func() error {
			control, ok := seen.instances[s.cluster.Control.Name]
			if !ok {
				return fmt.Errorf("there is no control node")
			}
			var err error
			seen.states, err = s.scheduler(control).States(ctx)
			return err
		})
	})
	wait.Wait()
	return seen
}

// statusReport is what `status` prints.
type statusReport struct {
	Cluster string       `json:"cluster"`
	Leader  string       `json:"leader,omitempty"`
	Silent  []string     `json:"silent,omitempty"`
	Nodes   []statusNode `json:"nodes"`
}

type statusNode struct {
	Node     string             `json:"node"`
	Group    string             `json:"group"`
	Kind     string             `json:"kind"` // control, persistent or cloud
	Slurm    []string           `json:"slurm,omitempty"`
	Reason   string             `json:"reason,omitempty"`
	Instance string             `json:"instance,omitempty"` // Nova's status
	Address  string             `json:"address,omitempty"`
	ImageID  string             `json:"image_id,omitempty"`
	Last     *reconfigure.Event `json:"last,omitempty"`
}

func (v sight) report(c reconfigure.Cluster) statusReport {
	r := statusReport{Cluster: c.Name, Leader: v.leader, Silent: v.silent}
	r.Nodes = append(r.Nodes, v.node(c.Control.Name, reconfigure.ControlGroup, "control"))
	for _, g := range c.Groups {
		persistent := g.Persistent()
		for node := range g.Nodes().All() {
			kind := "cloud"
			if persistent.Contains(node) {
				kind = "persistent"
			}
			r.Nodes = append(r.Nodes, v.node(node, g.Name, kind))
		}
	}
	return r
}

func (v sight) node(name, group, kind string) statusNode {
	n := statusNode{Node: name, Group: group, Kind: kind, ImageID: v.desired[name].ImageID, Address: v.instances[name].Address}
	if s, ok := v.states[name]; ok {
		n.Slurm, n.Reason = s.States, s.Reason
	}
	for _, server := range v.servers[name] {
		if n.Instance != "" {
			n.Instance += "," // two instances of one name are trouble: show both
		}
		n.Instance += server.Status
	}
	if e, ok := v.last[name]; ok {
		n.Last = &e
	}
	return n
}

func (r statusReport) write(w io.Writer, now time.Time) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NODE\tGROUP\tKIND\tSLURM\tINSTANCE\tADDRESS\tLAST\tREASON")
	var absent []string
	for _, n := range r.Nodes {
		if n.Kind == "cloud" && n.Instance == "" && n.Address == "" && n.Reason == "" {
			absent = append(absent, n.Node)
			continue
		}
		last := ""
		if n.Last != nil {
			last = fmt.Sprintf("%s %s %s ago", n.Last.Phase, n.Last.Level, now.Sub(n.Last.Time).Round(time.Second))
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", n.Node, n.Group, n.Kind, orDash(strings.Join(n.Slurm, "+")), orDash(n.Instance), orDash(n.Address), orDash(last), n.Reason)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(absent) > 0 {
		fmt.Fprintf(w, "no instance, as nothing needs them: %s\n", nodeset.Of(absent...))
	}
	if r.Leader != "" {
		fmt.Fprintf(w, "at work: %s\n", r.Leader)
	}
	for _, s := range r.Silent {
		fmt.Fprintf(w, "does not answer: %s\n", s)
	}
	return nil
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
