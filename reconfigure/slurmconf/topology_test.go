package slurmconf_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/needs"
)

// TestAJobGetsNodesOfOneZone has slurmctld choose two cloud nodes for a job, of nodes whose order alternates between
// two zones: with the setting of the playbooks both are in one zone.
func TestAJobGetsNodesOfOneZone(t *testing.T) {
	const rendered = "../../ansible/testdata/zones"
	topology, err := os.ReadFile(filepath.Join(rendered, "topology.conf"))
	if err != nil {
		t.Fatal(err)
	}
	conf, err := os.ReadFile(filepath.Join(rendered, "slurm.conf"))
	if err != nil {
		t.Fatal(err)
	}
	const setting = "TopologyPlugin=topology/tree"
	if !strings.Contains(string(conf), "\n"+setting+"\n") {
		t.Errorf("the slurm.conf of the playbooks lacks %s", setting)
	}
	const zones = "SwitchName=az1 Nodes=ctl,n1,n3\nSwitchName=az2 Nodes=n[2,4]\nSwitchName=zones Switches=az1,az2\n"
	if got, want := shape(string(topology)), shape(zones); got != want {
		t.Errorf("topology.conf of the playbooks is\n%s\nand the one that is tried\n%s", got, want)
	}
	paths := needs.Systemd(t, "../..")
	for _, release := range releases {
		t.Run(release.name, func(t *testing.T) {
			r := newRig(t, release, release.base(paths))
			for _, tried := range []struct{ setting, nodes string }{{"", "n[1-2]"}, {setting, "n[1,3]"}} {
				r.stop()
				r.clear()
				r.write(withZones(tried.setting))
				r.on("sh", "-c", "printf '"+strings.ReplaceAll(zones, "\n", `\n`)+"' >/etc/slurm/topology.conf")
				if err := r.start(); err != nil {
					t.Fatal(err)
				}
				job := r.on("sbatch", "--parsable", "--partition=cloud", "--nodes=2", "--wrap=true")
				var nodes string
				r.until("the job has nodes", func() bool {
					out, err := r.command("squeue", "--noheader", "--jobs="+job, "--format=%N").Output()
					nodes = strings.TrimSpace(string(out))
					return err == nil && nodes != ""
				})
				if nodes != tried.nodes {
					t.Errorf("with %q the job gets %s, not %s", tried.setting, nodes, tried.nodes)
				}
			}
		})
	}
}

// withZones returns a slurm.conf with a setting and four cloud nodes.
func withZones(setting string) string {
	return conf(nil, to) + setting + `
ResumeProgram=/usr/local/bin/ok
SuspendProgram=/usr/local/bin/ok
SuspendTime=600
NodeName=n[1-4] CPUs=4 RealMemory=1000 State=CLOUD
PartitionName=cloud Nodes=n[1-4]
`
}

// shape returns a topology.conf without its comments and the names of the nodes.
func shape(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		line, _, _ = strings.Cut(line, "Nodes=")
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.Join(lines, "\n")
}
