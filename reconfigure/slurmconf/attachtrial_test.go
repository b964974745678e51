package slurmconf_test

import (
	"context"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/lab/needs"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/attach"
	"github.com/eiffel-hpc/eiffel/reconfigure/client"
	"github.com/eiffel-hpc/eiffel/reconfigure/slurmconf"
)

// TestAnAttachment plans an attachment to a slurmctld with the hostile configuration, while a job runs. The plan
// changes nothing. Then the test writes what the plan says: slurmctld reads it by the way that the plan says, asks for
// a new node, and reports the one that does not come. Afterwards the site has its files and its job as before.
func TestAnAttachment(t *testing.T) {
	paths := needs.Systemd(t, "../..")
	for _, release := range releases {
		t.Run(release.name, func(t *testing.T) {
			r := newRig(t, release, release.base(paths))
			r.clear()
			site := hostile(release.name)
			site["/etc/slurm/site/nodes.conf"] += longList()
			for _, name := range slices.Sorted(maps.Keys(site)) {
				r.put(name, site[name], "644")
			}
			r.on("sh", "-c", "echo CgroupPlugin=cgroup/v1 >/etc/slurm/cgroup.conf")
			if err := r.start(); err != nil {
				t.Fatal(err)
			}
			r.readsAsLoadDoes(site)
			job := r.on("sbatch", "--parsable", "--chdir=/tmp", "--output=/tmp/out", "--mem=10", "--nodelist=ctl",
				"--wrap=until [ -e /tmp/go ]; do sleep 0.2; done; srun true")
			r.until("the job runs", func() bool { return r.state(job) == "RUNNING" })

			before := r.sums()
			plan := r.plan()
			if diff := cmp.Diff(before, r.sums()); diff != "" {
				t.Errorf("the plan changes files (-before +after):\n%s", diff)
			}
			if plan.Report.Worst() == "error" || plan.Restart != (release.name == "22.05") {
				t.Fatalf("%+v", plan)
			}
			for _, w := range plan.Writes {
				text := w.Text
				if w.Line {
					text = attach.With(site[w.Path])
				}
				r.put(w.Path, text, "644")
			}
			for _, script := range []string{"resume", "suspend", "resume_fail", "reboot"} {
				r.put("/etc/slurm/eiffel/bin/"+script+".sh", "#!/bin/sh\necho \"$1\" >>/tmp/"+script+"\n", "755")
			}
			r.apply(plan.Restart)
			if got := r.state(job); got != "RUNNING" {
				t.Fatalf("after the attachment the job is %s: %s", got, r.log())
			}
			if again := r.plan(); len(again.Changes) > 0 || again.Report.Worst() == "error" {
				t.Errorf("after the attachment: %q, %+v", again.Changes, again.Report)
			}
			cloud := r.on("sbatch", "--parsable", "--chdir=/tmp", "--output=/tmp/none", "--partition=burst", "--wrap=true")
			r.until("slurmctld asks for a node", func() bool {
				out, err := r.command("cat", "/tmp/resume").Output()
				return err == nil && strings.TrimSpace(string(out)) == "small01"
			})
			r.until("slurmctld gives up the node after the partition's ResumeTimeout", func() bool {
				out, err := r.command("cat", "/tmp/resume_fail").Output()
				return err == nil && strings.TrimSpace(string(out)) == "small01"
			})
			r.on("scancel", cloud)

			r.put("/etc/slurm/slurm.conf", attach.Without(r.text("/etc/slurm/slurm.conf")), "644")
			r.on("rm", "-r", "/etc/slurm/eiffel", "/etc/slurm/eiffel.conf")
			r.apply(true)
			if diff := cmp.Diff(before, r.sums()); diff != "" {
				t.Errorf("the files (-before +after):\n%s", diff)
			}
			if got := r.state(job); got != "RUNNING" {
				t.Fatalf("after the attachment the job is %s: %s", got, r.log())
			}
			r.on("touch", "/tmp/go")
			r.until("the job has ended", func() bool { return r.state(job) == "COMPLETED" })
		})
	}
}

// longList returns a thousand partitions in four thousand lines.
func longList() string {
	var text strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&text, "# course %d\nPartitionName=c%03d \\\n\tNodes=n[1-2] \\\n  MaxTime=60\t# minutes\n", i/40, i)
	}
	return text.String()
}

// readsAsLoadDoes compares what slurmctld has read with Load.
func (r *rig) readsAsLoadDoes(files map[string]string) {
	r.Helper()
	c, err := slurmconf.Load("/etc/slurm/slurm.conf", readFrom(files))
	if err != nil {
		r.Fatal(err)
	}
	config := r.on("scontrol", "show", "config")
	for _, name := range []string{"KillWait", "InactiveLimit", "MinJobAge"} {
		want, _, _ := c.Setting(name)
		found := regexp.MustCompile(`(?m)^` + name + `\s*= (\d+)`).FindStringSubmatch(config)
		if found == nil || found[1] != want {
			r.Errorf("slurmctld has %s %q, and Load %s", name, found, want)
		}
	}
	var nodes []string
	for line := range strings.Lines(r.on("sinfo", "--noheader", "--Node", "--format=%N %c %m", "--partition=all")) {
		nodes = append(nodes, strings.TrimSpace(line))
	}
	var want []string
	for node := range c.Nodes().All() {
		want = append(want, fmt.Sprint(node, " ", c.Node(node)["cpus"], " ", c.Node(node)["realmemory"]))
	}
	if diff := cmp.Diff(want, nodes); diff != "" {
		r.Errorf("nodes (-Load +slurmctld):\n%s", diff)
	}
	got := r.on("sinfo", "--noheader", "--format=%P %D", "--partition=main")
	if got != "main* 3" && got != "main* 1\nmain* 2" {
		r.Errorf("partition main has %q", got)
	}
}

// plan plans an attachment of one group and one partition.
func (r *rig) plan() attach.Plan {
	r.Helper()
	cluster := reconfigure.Cluster{
		Name:    "burst",
		Control: reconfigure.Control{Existing: &reconfigure.ExistingControl{Host: name, SlurmConf: "/etc/slurm/slurm.conf"}},
		Groups: []reconfigure.NodeGroup{{Name: "small", Prefix: "small", Width: 2, Max: 2, Features: []string{"cloud"},
			Slurm: map[string]string{"cpus": "1", "realmemory": "500"}}},
		Partitions: []reconfigure.Partition{{Name: "burst", Groups: []string{"small"}}},
		Slurm: reconfigure.Timing{SuspendTime: time.Minute, SuspendTimeout: 5 * time.Second,
			ResumeTimeout: 5 * time.Second},
	}
	p, err := client.PlanAttachOf(r.Context(), attach.Facts{Cluster: cluster},
		func(_ context.Context, program string, args ...string) ([]byte, error) {
			return r.command(append([]string{program}, args...)...).Output()
		})
	if err != nil {
		r.Fatal(err)
	}
	return p
}

// apply makes slurmctld read its files: anew, or while it runs.
func (r *rig) apply(restart bool) {
	r.Helper()
	if restart {
		r.stop()
		if err := r.start(); err != nil {
			r.Fatal(err)
		}
		return
	}
	r.on("scontrol", "reconfigure")
	r.until("slurmctld has the new nodes", func() bool {
		return r.command("scontrol", "show", "node", "small01").Run() == nil
	})
}

func (r *rig) put(file, text, mode string) {
	r.Helper()
	cmd := r.command("sh", "-c", fmt.Sprintf("mkdir -p %s; cat >%s; chmod %s %s", path.Dir(file), file, mode, file))
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		r.Fatalf("write %s: %v: %s", file, err, out)
	}
}

func (r *rig) text(file string) string {
	r.Helper()
	out, err := r.command("cat", file).Output()
	if err != nil {
		r.Fatal(err)
	}
	return string(out)
}

// sums returns the names and checksums of all files in Slurm's folder.
func (r *rig) sums() string {
	r.Helper()
	return r.on("sh", "-c", "cd /etc/slurm && find . -type d | sort && find . -type f | sort | xargs sha256sum")
}

func (r *rig) state(job string) string {
	out, _ := r.command("squeue", "--noheader", "--states=all", "--format=%T", "--jobs="+job).Output()
	return strings.TrimSpace(string(out))
}
