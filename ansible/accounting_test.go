package site_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/lab/image"
	"github.com/eiffel-hpc/eiffel/lab/needs"
	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// accounting is a cluster whose declaration has slurm.accounting_storage.
type accounting struct{ *machines }

// TestAccounting turns accounting on while a job runs: the playbooks install Debian's MariaDB and slurmdbd, and
// slurmctld registers the cluster. No job is lost when slurmdbd ends, when the control node reboots, or when accounting
// is turned off.
func TestAccounting(t *testing.T) {
	t.Parallel()
	files, err := image.Archive(needs.Tools(t, "..").Archive)
	if err != nil {
		t.Fatal(err)
	}
	a := accounting{newMachinesWith(t, 8, files)}
	declaration := filepath.Join(a.dir, "group_vars", "all.yml")
	// While a job runs, JobAcctGatherType must not change.
	off := strings.Replace(read(t, declaration), "extra: {", "extra: {JobAcctGatherType: jobacct_gather/linux, ", 1)
	write(t, declaration, off)
	a.boot("ctl", 10)
	a.boot("node01", 11)
	a.configure("ctl", "node01")
	a.idle()
	// The package lists of a new image are recent, and may lack the packages.
	a.on("ctl", "touch", "/var/lib/apt/lists", "/var/lib/apt/periodic/update-success-stamp")
	before := a.job("sleep 1000")
	a.until("the job runs", func() bool { return a.on("ctl", "squeue", "--noheader", "--format=%T") == "RUNNING" })

	write(t, declaration, strings.Replace(off, "  extra:", "  accounting_storage: slurmdbd\n  extra:", 1))
	a.everywhere()
	if state := a.on("ctl", "squeue", "--noheader", "--format=%i %T"); state != before+" RUNNING" {
		t.Fatalf("the job that ran when accounting was turned on is now %q", state)
	}
	if mode := a.on("ctl", "stat", "--format=%U %a", "/etc/slurm/slurmdbd.conf"); mode != "slurm 600" {
		t.Errorf("slurmdbd.conf has %s", mode)
	}
	a.on("node01", "test", "!", "-e", "/etc/slurm/slurmdbd.conf")
	a.on("ctl", "scancel", before)
	a.recorded(before, "CANCELLED by 0")
	first := a.job("true")
	a.recorded(first, "COMPLETED")

	daemons := a.on("ctl", "pgrep", "-x", "mariadbd|slurmdbd|slurmctld")
	if len(strings.Fields(daemons)) != 3 {
		t.Errorf("these daemons run: %s", daemons)
	}
	said := a.configure("ctl", "node01")
	if n := strings.Count(said, "changed=0 "); n != 2 {
		t.Errorf("a second run changed something:\n%s", said)
	}
	if diff := cmp.Diff(daemons, a.on("ctl", "pgrep", "-x", "mariadbd|slurmdbd|slurmctld")); diff != "" {
		t.Errorf("a second run restarted daemons (-before +after):\n%s", diff)
	}

	a.on("ctl", "service", "slurmdbd", "stop")
	a.until("slurmdbd has ended", func() bool { return a.host.Command("ctl", "pgrep", "-x", "slurmdbd").Run() != nil })
	meanwhile := a.job("true")
	a.until("the job has ended", func() bool { return a.on("ctl", "squeue", "--noheader") == "" })
	a.on("ctl", "service", "slurmdbd", "start")
	a.recorded(meanwhile, "COMPLETED")

	if err := a.host.Reboot(t.Context(), "ctl", false); err != nil {
		t.Fatal(err)
	}
	a.recorded(first, "COMPLETED")
	a.idle()
	a.recorded(a.job("true"), "COMPLETED")

	write(t, declaration, off)
	a.everywhere()
	if conf := a.on("ctl", "scontrol", "show", "config"); strings.Contains(conf, "accounting_storage/slurmdbd") {
		t.Errorf("accounting is not turned off:\n%s", conf)
	}
	const count = "SELECT COUNT(*) FROM slurm_acct_db.ansible_job_table"
	if jobs := a.on("ctl", "mariadb", "--batch", "--skip-column-names", "--execute", count); jobs != "4" {
		t.Errorf("after accounting was turned off the database has %s jobs", jobs)
	}
}

// everywhere runs the playbooks for all nodes, as after a change of slurm.conf.
func (a accounting) everywhere() {
	a.Helper()
	if failures, said := a.extend(reconfigure.Extent{Everywhere: true}); len(failures) > 0 {
		a.Fatalf("%v\n%s", failures, said)
	}
}

func (a accounting) idle() {
	a.Helper()
	a.until("node01 is idle", func() bool {
		out, err := a.host.Command("ctl", "sinfo", "--noheader", "--nodes=node01", "--format=%T").Output()
		return err == nil && strings.TrimSpace(string(out)) == "idle"
	})
}

// job submits a job and returns its id.
func (a accounting) job(command string) string {
	a.Helper()
	return a.on("ctl", "sbatch", "--parsable", "--chdir=/tmp", "--wrap="+command)
}

// recorded waits until a compute node learns from slurmdbd that the job ended in this state.
func (a accounting) recorded(job, state string) {
	a.Helper()
	var found []byte
	defer func() { a.Logf("job %s: %s", job, found) }()
	a.until("sacct shows job "+job+" as "+state, func() bool {
		var err error
		found, err = a.host.Command("node01", "sacct", "--noheader", "--parsable2", "--allocations", "--jobs="+job,
			"--format=Cluster,State").Output()
		return err == nil && strings.TrimSpace(string(found)) == "ansible|"+state
	})
}
