package slurmconf_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure/slurmconf"
)

// hostile is a configuration in every form that slurmctld of a release reads. TestAnAttachment shows that slurmctld
// reads the same.
func hostile(release string) map[string]string {
	files := map[string]string{
		"/etc/slurm/slurm.conf": "# The site\r\n" + `clustername=RIG # in another case
SLURMCTLDHOST=ctl(127.0.0.1)
SlurmUser=slurm
	AuthType = auth/munge
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SlurmdParameters=config_overrides
PrivateData=cloud
KillWait=31
` + "include\tsite/limits.conf\t# a tab, and a comment\nINCLUDE /etc/slurm/site/nodes.conf   \n" +
			"Include site/of-%c.conf\n" +
			`KillWait=33
NodeName=DEFAULT CPUs=4 RealMemory=1000
NodeName=ctl \
	NodeAddr=127.0.0.1 \
   Features="a,b" # the comment of a continued line
PartitionName=main Nodes=ctl,\
n[1-2] Default=YES
partitionname=all nodes=ALL
`,
		"/etc/slurm/site/limits.conf": "KillWait=32\nInclude more.conf\n",
		"/etc/slurm/site/nodes.conf":  "NodeName=n[1-2] CPUs=2 RealMemory=500 State=CLOUD\n",
		"/etc/slurm/site/of-rig.conf": "MinJobAge=301\n",
	}
	more := "/etc/slurm/more.conf"
	if release == "22.05" {
		more = "/etc/slurm/site/more.conf" // beside the including file
	}
	files[more] = "InactiveLimit=60\n"
	return files
}

func readFrom(files map[string]string) func(string) (string, error) {
	return func(path string) (string, error) {
		text, there := files[path]
		if !there {
			return "", fmt.Errorf("read %s: %w", path, fs.ErrNotExist)
		}
		return text, nil
	}
}

func TestFilesAreReadWithTheirIncludes(t *testing.T) {
	for release, more := range map[string]string{"22.05": "/etc/slurm/site/more.conf", "24.11": "/etc/slurm/more.conf"} {
		t.Run(release, func(t *testing.T) { testHostile(t, release, more) })
	}
}

func testHostile(t *testing.T, release, more string) {
	c, err := slurmconf.Load("/etc/slurm/slurm.conf", readFrom(hostile(release)))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"KillWait": "33", "InactiveLimit": "60", "minjobage": "301", "authtype": "auth/munge", "ClusterName": "RIG",
		"WaitTime": "",
	} {
		if got, _, _ := c.Setting(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if _, at, _ := c.Setting("inactivelimit"); at.String() != more+", line 1" {
		t.Errorf("InactiveLimit is in %s", at)
	}
	if got := c.Nodes().String(); got != "ctl,n[1-2]" {
		t.Errorf("nodes %s", got)
	}
	want := map[string]string{"nodename": "ctl", "cpus": "4", "realmemory": "1000", "nodeaddr": "127.0.0.1",
		"features": "a,b"}
	if diff := cmp.Diff(want, c.Node("ctl")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	sections := c.Sections("PartitionName")
	if len(sections) != 2 || sections[0].Settings["nodes"] != "ctl,n[1-2]" || sections[1].Settings["nodes"] != "ALL" {
		t.Errorf("partitions %+v", sections)
	}
}

func TestWhatSlurmctldCannotReadIsNamed(t *testing.T) {
	for name, c := range map[string]struct{ file, text, want string }{
		"a missing file": {"/etc/slurm/site/limits.conf", "Include none.conf",
			"/etc/slurm/site/limits.conf, line 1: read /etc/slurm/site/none.conf: file does not exist"},
		"a line": {"/etc/slurm/more.conf", "\nInactiveLimit 60", "/etc/slurm/more.conf, line 2"},
		"a loop": {"/etc/slurm/more.conf", "Include more.conf", "does a file include itself?"},
		"two files": {"/etc/slurm/site/more.conf", "",
			"/etc/slurm/site/limits.conf, line 2: more.conf is /etc/slurm/more.conf or /etc/slurm/site/more.conf"},
		"a name that comes late": {"/etc/slurm/slurm.conf", "Include of-%c.conf\nClusterName=rig",
			"no line before has ClusterName"},
	} {
		files := hostile("24.11")
		files[c.file] = c.text
		_, err := slurmconf.Load("/etc/slurm/slurm.conf", readFrom(files))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if name == "a missing file" && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestChangesOfLines(t *testing.T) {
	load := func(text string) slurmconf.Conf {
		t.Helper()
		c, err := slurmconf.Load("slurm.conf", readFrom(map[string]string{"slurm.conf": text}))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	was := load("KillWait=30\nNodeName=a  CPUs=1\nMinJobAge=5 # five\n")
	will := load("MinJobAge=5\nNodeName=a CPUs=1\nKillWait=31\nNodeName=b CPUs=1")
	want := []string{"- KillWait=30", "+ KillWait=31", "+ NodeName=b CPUs=1"}
	if diff := cmp.Diff(want, was.Changes(will)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
