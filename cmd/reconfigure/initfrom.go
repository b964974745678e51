package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure/client"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
)

// initFrom makes a site folder of a checkout in use, or shows how.
func initFrom(c *cli.Context, dir string) error {
	if err := site.CheckOwner(c.Path("from")); err != nil {
		return usagef(c, "%v", err)
	}
	s, err := site.Open(c.Path("from"))
	if err != nil {
		return err
	}
	if s.Cluster.Attached() {
		return usagef(c, "%s has control_node.existing: run `reconfigure detach` there, make the site folder by hand, and "+
			"run `reconfigure attach` in it", s.DeclarationFile())
	}
	plan, err := client.PlanFromCheckout(c.Context, s, dir)
	if errors.Is(err, client.ErrSiteExists) {
		return usagef(c, "%v", err)
	} else if err != nil {
		return err
	}
	done := c.Bool("yes")
	if done {
		if err := plan.Do(c.Context); err != nil {
			return fmt.Errorf("make %s of the checkout %s: %w", dir, s.Dir, err)
		}
	}
	moved := movedSite{plan, done}
	return show(c, moved, moved.write)
}

// movedSite is the result of init --from.
type movedSite struct {
	client.FromCheckout
	Done bool `json:"done"`
}

func (m movedSite) write(w io.Writer) error {
	var b strings.Builder
	for _, path := range m.Moves {
		fmt.Fprintf(&b, "move   %s to %s, with a link to it\n", filepath.Join(m.Checkout, path), filepath.Join(m.Dir, path))
	}
	if m.Stays != "" {
		fmt.Fprintf(&b, "keep   %s\n", m.Stays)
	}
	fmt.Fprintf(&b, "move   %s to %s, with a link to it\n", filepath.Join(m.Checkout, "group_vars/all.yml"),
		filepath.Join(m.Dir, "all.yml"))
	for _, c := range m.Copies {
		fmt.Fprintf(&b, "copy   %s to %s\n", filepath.Join(m.Checkout, c.From), filepath.Join(m.Dir, c.To))
	}
	if m.Done {
		fmt.Fprintf(&b, "\nThis is done. Next: `reconfigure --dir %s plan upgrade`, then `reconfigure --dir %[1]s deploy`, "+
			"which gives Slurm's keys the new folder. After that the checkout is not needed.\n", m.Dir)
	} else {
		b.WriteString("\nNothing is done. Repeat this with --yes to do it.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
