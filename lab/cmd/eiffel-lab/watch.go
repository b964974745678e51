package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// follow prints a row whenever the state of a job or of one of the nodes changes, until end reports that the row is the
// last. A row has the job's state, if there is a job, and for each node "STATE, INSTANCE".
func (d *demo) follow(ctx context.Context, end func(row []string) bool, job string, nodes ...string) error {
	const longest = 5 * time.Minute
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	d.row("", titles(job, nodes))
	var last []string
	for {
		now, err := d.states(job, nodes)
		if err == nil && !slices.Equal(now, last) {
			d.row(fmt.Sprintf("%.1f s", time.Since(d.begun).Seconds()), now)
			last = now
		}
		if err == nil && end(now) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("job %s and %v are not as expected: %v: %w", job, nodes, last, ctx.Err())
		case <-time.After(300 * time.Millisecond):
		}
	}
}

func titles(job string, nodes []string) []string {
	var row []string
	if job != "" {
		row = append(row, "JOB "+job)
	}
	for _, node := range nodes {
		row = append(row, strings.ToUpper(node))
	}
	return row
}

// row prints columns: a narrow one for a job, wide ones for nodes.
func (d *demo) row(at string, columns []string) {
	line := fmt.Sprintf("%8s  ", at)
	for _, column := range columns {
		width := 54
		if !strings.Contains(column, ",") && !strings.HasPrefix(column, "NODE") {
			width = 12
		}
		line += fmt.Sprintf("%-*s  ", width, column)
	}
	fmt.Fprintln(d.out, strings.TrimRight(line, " "))
}

// states returns the job's state, then each node's state in Slurm and in the cloud.
func (d *demo) states(job string, nodes []string) ([]string, error) {
	var row []string
	if job != "" {
		state, err := d.lab.JobState(job)
		if err != nil {
			return nil, err
		}
		row = append(row, state)
	}
	servers := map[string]string{}
	for _, s := range d.lab.Cloud.Servers() {
		servers[s.Name] = s.Status
	}
	for _, node := range nodes {
		state, err := d.lab.NodeState(node)
		if err != nil {
			return nil, err
		}
		instance, there := servers[node]
		if !there {
			instance = noInstance
		}
		row = append(row, state+", "+instance)
	}
	return row, nil
}

const noInstance = "no instance"

// poweredDown reports whether a node is an idle cloud node without an instance.
func poweredDown(node string) bool {
	return node == "IDLE+CLOUD+POWERED_DOWN, "+noInstance
}

// image returns the image that a node reports; "" while it does not answer.
func (d *demo) image(node string) string {
	release, err := d.lab.Command(node, "cat", "/etc/image-release").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(release))
}
