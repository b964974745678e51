package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure/client"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
)

func backupCommand() *cli.Command {
	return command(cli.Command{
		Name:  "backup",
		Usage: "write a backup of the cluster directory, while requests are carried out",
		Description: "FILE gets the journal, Terraform's states in local files, the declaration, the site's own files, the " +
			"keys and slurmctld's jobs, with mode 0600. It is complete or not there. If FILE is a folder, the backup is named " +
			"after the cluster and the time. A journal in PostgreSQL and states in a back end are not in it. " +
			"docs/guides/backup.md has more.",
		ArgsUsage: "FILE",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "recipient", Usage: "encrypt for this public `KEY` of age (age1…); may be repeated"},
			&cli.IntFlag{Name: "keep", Usage: "if FILE is a folder, remove all but the newest `N` backups of the cluster in it"},
		},
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return usagef(c, "backup needs one file or folder, but got %q", c.Args().Slice())
			}
			if c.Int("keep") < 0 {
				return usagef(c, "--keep is %d: give a number from 1 on, or 0 to keep all", c.Int("keep"))
			}
			s, err := siteOf(c)
			if err != nil {
				return err
			}
			done, err := client.Backup(c.Context, s, client.BackupOptions{
				To: c.Args().First(), Recipients: c.StringSlice("recipient"), Keep: c.Int("keep"),
			})
			if err != nil {
				return err
			}
			return show(c, done, func(w io.Writer) error { return writeBackedUp(w, done) })
		},
	})
}

func writeBackedUp(w io.Writer, done client.BackedUp) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s has %d files.\n", done.File, done.Files)
	if done.Database != "" {
		fmt.Fprintf(&b, "The journal is not in it: run `pg_dump --format=custom --file=FILE %s` too.\n", done.Database)
	}
	if !done.States {
		fmt.Fprintln(&b, "No state of Terraform is in it: there are none in local files.")
	}
	if done.NoSlurm != "" {
		fmt.Fprintf(&b, "Slurm's jobs are not in it, which a new control node would need: %s\n", done.NoSlurm)
	}
	for _, name := range done.Removed {
		fmt.Fprintf(&b, "%s was removed.\n", name)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func restoreCommand() *cli.Command {
	return command(cli.Command{
		Name:  "restore",
		Usage: "restore a backup into a cluster directory without a journal and states",
		Description: "Writes the files of the backup into --dir, after all checksums were compared. A pause begins, so " +
			"nothing is carried out before `reconfigure continue`: requests without an outcome are cancelled, since what " +
			"was done for them after the backup is unknown. docs/guides/disk-lost.md has all steps.",
		ArgsUsage: "FILE",
		Flags: []cli.Flag{
			&cli.PathFlag{Name: "identity", Usage: "the `FILE` with the secret key of age, for an encrypted backup"},
		},
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return usagef(c, "restore needs one file, but got %q", c.Args().Slice())
			}
			if err := site.CheckOwner(directory(c)); err != nil {
				return usagef(c, "%v", err)
			}
			done, err := client.Restore(c.Context, directory(c), c.Args().First(), c.Path("identity"))
			if err != nil {
				return notNow(c, err)
			}
			return show(c, done, func(w io.Writer) error { return writeRestored(w, done) })
		},
	})
}

func writeRestored(w io.Writer, r client.RestoredSite) error {
	var b strings.Builder
	m := r.Manifest
	fmt.Fprintf(&b, "%s has the cluster %s as of %s, from %s on %s.\n", r.Directory, m.Cluster,
		m.Time.UTC().Format(time.RFC3339), m.Directory, m.Host)
	if m.Schema == 0 {
		fmt.Fprintln(&b, "The backup has no journal.")
	} else {
		fmt.Fprintf(&b, "A pause has begun, and %d requests without an outcome were cancelled.\n", r.Cancelled)
	}
	fmt.Fprintf(&b, "Next: make sure that no other host works for this cluster; `reconfigure --dir %s reconcile`, then "+
		"`reconfigure --dir %[1]s continue` and `reconfigure --dir %[1]s deploy`\n", r.Directory)
	_, err := io.WriteString(w, b.String())
	return err
}
