package attach_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	_ "github.com/eiffel-hpc/eiffel/lab/sameseed"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/attach"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

var update = flag.Bool("update", false, "rewrite the expected plans in testdata")

const slurmConf = "/etc/slurm/slurm.conf"

// own is a small slurm.conf of a site.
const own = `ClusterName=site
SlurmctldHost=head
SlurmctldParameters=enable_configless
NodeName=node[1-3] CPUs=8 RealMemory=16000
PartitionName=work Nodes=node[1-3] Default=YES
`

// facts returns those of a site with this slurm.conf, whose declaration has two node groups and a partition.
func facts(slurmConfText string) attach.Facts {
	return attach.Facts{
		Cluster: reconfigure.Cluster{
			Name: "burst",
			Control: reconfigure.Control{Existing: &reconfigure.ExistingControl{
				Host: "head", User: "admin", SlurmConf: slurmConf, CIDRs: []string{"192.0.2.0/24"}}},
			Groups: []reconfigure.NodeGroup{
				{Name: "small", Prefix: "small", Width: 2, Min: 1, Max: 4, Features: []string{"cloud"},
					Slurm: map[string]string{"weight": "10"}, Source: reconfigure.Source{Flavor: "m1.small"}},
				{Name: "gpu", Prefix: "gpu", Width: 1, Max: 2, Gres: "gpu:a100:4",
					Slurm: map[string]string{"cpus": "16", "realmemory": "60000"}},
			},
			Partitions: []reconfigure.Partition{{Name: "burst", Groups: []string{"small", "gpu"},
				Slurm: map[string]string{"maxtime": "1-0"}}},
			Slurm: reconfigure.Timing{SuspendTime: 10 * time.Minute, SuspendTimeout: 2 * time.Minute,
				ResumeTimeout: 15 * time.Minute},
		},
		Hardware: map[string]reconfigure.Hardware{"small": {CPUs: 2, RealMemory: 3700}},
		Firewall: true,
		Files:    map[string]string{slurmConf: slurmConfText},
		Settings: map[string]string{"SLURM_VERSION": "24.11.5", "SLURM_CONF": slurmConf, "SlurmUser": "slurm(64030)",
			"ClusterName": "site"},
		Nodes:      nodeset.Of("node1", "node2", "node3"),
		Partitions: []string{"work"},
	}
}

// TestPlans compares plans with the files in testdata.
func TestPlans(t *testing.T) {
	for name, site := range map[string]func() attach.Facts{
		"plain": func() attach.Facts { return facts(own) },
		"attached": func() attach.Facts {
			f := facts(attach.With(own))
			f.Files["/etc/slurm/eiffel.conf"] = "NodeName=small01 CPUs=1\nTreeWidth=65533\n"
			f.Nodes = f.Nodes.Union(nodeset.Of("small01"))
			for i := range 12 {
				f.Jobs = append(f.Jobs, attach.Job{ID: fmt.Sprint(i), Partitions: []string{"work"}, Nodes: nodeset.Of("small01")})
			}
			f.Jobs = append(f.Jobs, attach.Job{ID: "99", Partitions: []string{"work"}, Nodes: nodeset.Of("node1")})
			return f
		},
		"old-and-busy": func() attach.Facts {
			f := facts(strings.ReplaceAll(own, "SlurmctldParameters=enable_configless\n", "GresTypes=lic\n"))
			f.Settings["SLURM_VERSION"] = "22.05.8"
			f.Hardware = nil
			f.Jobs = []attach.Job{{ID: "7", Partitions: []string{"work"}, Nodes: nodeset.Of("node1")},
				{ID: "8", Partitions: []string{"work"}}}
			return f
		},
		"conflicts": func() attach.Facts {
			f := facts(own + `ResumeProgram=/opt/clouds/resume
SuspendProgram=/opt/clouds/suspend   # not ours
suspendtime = 300
ReturnToService=1
TreeWidth=2
ResumeRate=300
SuspendExcNodes=node[1-2]
Prolog=/opt/site/prolog
Epilog=/opt/site/epilog
PrologSlurmctld=/opt/site/ctld
JobSubmitPlugins=lua
SlurmctldHost=head2
GresTypes=lic
Include site.conf
`)
			f.Files["/etc/slurm/site.conf"] = "RebootProgram=/sbin/reboot\nNodeName=old Features=c\nNodeSet=clouds Feature=c\n" +
				"PartitionName=idle Nodes=clouds SuspendTime=60\nPartitionName=all Nodes=ALL\n"
			f.Nodes, f.Partitions = f.Nodes.Union(nodeset.Of("old")), []string{"work", "idle", "all"}
			return f
		},
		"theirs": func() attach.Facts {
			f := facts(own + `NodeName=DEFAULT State=CLOUD CPUs=2
NodeName=small0[1-4] Feature=x
NodeName=gpu1 State=UNKNOWN
PartitionName=DEFAULT SuspendTime=600
PartitionName=burst Nodes=small0[1-4],gpu[1-2] ResumeTimeout=60 SuspendTimeout=120
`)
			f.Nodes = f.Nodes.Union(nodeset.Of("small01", "small02", "small03", "small04", "gpu1"))
			f.Partitions = append(f.Partitions, "burst")
			return f
		},
		"without-partitions": func() attach.Facts {
			f := facts(own + "PartitionName=cloud Nodes=small0[1-4]\n")
			f.Cluster.Partitions = nil
			f.Partitions = append(f.Partitions, "cloud")
			return f
		},
		"excepted": func() attach.Facts {
			f := facts(own + `SuspendTime=300
SuspendExcNodes=node3,small01
SuspendExcParts=half
PartitionName=half Nodes=node[1-2] SuspendTime=60
NodeName=node4
`)
			f.Nodes, f.Partitions = f.Nodes.Union(nodeset.Of("node4")), []string{"work", "half"}
			return f
		},
		"edited": func() attach.Facts {
			f := facts(own + "NodeName=node4 CPUs=1\n")
			f.Nodes = f.Nodes.Union(nodeset.Of("node9"))
			f.Partitions = append(f.Partitions, "gone")
			f.Settings["SLURM_CONF"] = "/opt/slurm/etc/slurm.conf"
			f.Settings["SLURM_VERSION"] = "21.08.5"
			f.Cluster.Partitions[0].Default = true
			return f
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := attach.Compute(site())
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			if err := p.Write(&got); err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", golden, diff)
			}
		})
	}
}

// TestAnyFileComesBack adds the line to texts of all kinds, and removes it: each byte is as it was.
func TestAnyFileComesBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		pieces := rapid.SliceOf(rapid.SampledFrom([]string{"KillWait=30", "\n", "\r\n", "\\\n", "\t", " ", "# Include",
			"\xff", "Include " + attach.File + " ", "Include other.conf\n"})).Draw(rt, "pieces")
		text := strings.Join(pieces, "")
		with := attach.With(text)
		if attach.With(with) != with {
			rt.Fatalf("twice: %q", attach.With(with))
		}
		if got := attach.Without(with); got != text {
			rt.Fatalf("%q came back as %q", text, got)
		}
		if got := attach.Without(text); got != text {
			rt.Fatalf("%q became %q, though it has no line", text, got)
		}
	})
}

// TestAnAttachmentIsFinal attaches a large configuration, and plans it again: nothing is left to do.
func TestAnAttachmentIsFinal(t *testing.T) {
	var large strings.Builder
	text := strings.ReplaceAll(own, "SlurmctldParameters=enable_configless\n", "")
	large.WriteString(strings.TrimSuffix(text, "\n") + " \\\n\tMaxTime=1-0\r\n")
	names := []string{"node1", "node2", "node3"}
	for i := range 2000 {
		fmt.Fprintf(&large, "\tnodename = n%04d\\\n CPUs=8 # the %dth\nPARTITIONNAME=p%d Nodes=n%04d,\\\nnode1\n", i, i, i, i)
		names = append(names, fmt.Sprintf("n%04d", i))
	}
	f := facts(large.String())
	f.Nodes = nodeset.Of(names...)
	p, err := attach.Compute(f)
	if err != nil {
		t.Fatal(err)
	}
	if p.Nodes != 2003 || p.Partitions != 2001 || len(p.Changes) == 0 || p.Report.Worst() == "error" {
		t.Errorf("%d nodes, %d partitions, %d changes, %+v", p.Nodes, p.Partitions, len(p.Changes), p.Report)
	}
	for _, w := range p.Writes {
		f.Files[w.Path] = w.Text
		if w.Line {
			f.Files[w.Path] = attach.With(large.String())
		}
	}
	again, err := attach.Compute(f)
	if err != nil {
		t.Fatal(err)
	}
	if len(again.Changes) > 0 {
		t.Errorf("once more, it changes %q", again.Changes)
	}
	if diff := cmp.Diff(p.Writes, again.Writes); diff != "" {
		t.Errorf("once more, it writes (-first +second):\n%s", diff)
	}
}

// TestADetachmentIsRefused plans detachments with instances and with jobs.
func TestADetachmentIsRefused(t *testing.T) {
	const included = "/etc/slurm/eiffel.conf"
	for name, tc := range map[string]struct {
		instances nodeset.NodeSet
		jobs      []attach.Job
		finding   string
	}{
		"nothing is left": {},
		"an instance": {nodeset.Of("small01", "small02"), nil,
			"small[01-02]: there are instances"},
		"a job waits for the partition": {nodeset.NodeSet{}, []attach.Job{{ID: "7", Partitions: []string{"burst"}}},
			"1 job would end: 7"},
		"a job of the site": {nodeset.NodeSet{}, []attach.Job{{ID: "8", Partitions: []string{"work"},
			Nodes: nodeset.Of("node1")}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := facts(attach.With(own))
			f.Files[included] = "NodeName=small[01-04] CPUs=1 State=CLOUD\nPartitionName=burst Nodes=small[01-04]\n"
			f.Jobs = tc.jobs
			p, err := attach.Detached(f, tc.instances)
			if err != nil {
				t.Fatal(err)
			}
			var found []string
			for _, finding := range p.Report.Findings {
				found = append(found, finding.What)
			}
			if strings.Join(found, "; ") != tc.finding {
				t.Errorf("findings %q, not %q", found, tc.finding)
			}
			if p.Own != own || p.Text() != "" || !p.Attached || p.Restart || len(p.Changes) != 2 {
				t.Errorf("%+v", p)
			}
		})
	}
}
