package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPlanAttach runs the command for a control node that is this host: a program in the place of ssh gives the remote
// command to a shell, and two others are Slurm's.
func TestPlanAttach(t *testing.T) {
	dir, bin := t.TempDir(), t.TempDir()
	conf := filepath.Join(bin, "slurm.conf")
	for name, text := range map[string]string{
		"ssh": "#!/bin/sh\nfor last; do :; done\nexec sh -c \"$last\"\n",
		"scontrol": "#!/bin/sh\ncase \"$*\" in\n" +
			"'show config') printf 'SLURM_VERSION = 24.11.5\\nSLURM_CONF = %s\\nClusterName = site\\n' \"$SLURM_CONF\" ;;\n" +
			"*nodes) printf 'NodeName=node1 State=IDLE\\n\\n' ;;\n*partitions) echo 'PartitionName=work State=UP' ;;\nesac\n",
		"squeue": "#!/bin/sh\nprintf '7|work|node1\\n8_[1-2]|work,other|\\n'\n",
	} {
		ok(t, os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755))
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	ok(t, os.WriteFile(conf, []byte("ClusterName=site\nSlurmctldParameters=enable_configless,idle_on_node_suspend\n"+
		"NodeName=node1 CPUs=1\nPartitionName=work Nodes=node1\n"), 0o644))
	ok(t, os.WriteFile(filepath.Join(dir, "all.yml"), fmt.Appendf(nil, `cluster_name: burst
cloud: openstack
control_host: {address: 192.0.2.1}
login_user: debian
control_node: {existing: localhost, slurm_conf: %s, cidrs: [192.0.2.0/24]}
node_groups:
  - {name: cloud, image: i, network: n, flavor: f, max_nodes: 4, slurm: {CPUs: 2, RealMemory: 2000}}
partitions: [{name: burst, groups: [cloud]}]
`, conf), 0o644))
	call := func(args ...string) (code int, stdout, stderr string) {
		var out, err bytes.Buffer
		code = run(t.Context(), append([]string{"reconfigure", "--dir", dir}, args...), nil, &out, &err)
		return code, out.String(), err.String()
	}
	before := listed(t, dir) + listed(t, bin)
	code, stdout, stderr := call("plan", "attach")
	if code != 0 || !strings.Contains(stdout, "NodeName=cloud[001-004] CPUs=2 RealMemory=2000 State=CLOUD\n") ||
		!strings.Contains(stdout, "`scontrol reconfigure` is enough") {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
	if code, stdout, stderr = call("--json", "plan", "attach"); code != 0 || !strings.Contains(stdout, `"restart":false`) {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
	ok(t, os.WriteFile(conf, []byte("ClusterName=site\nResumeProgram=/other\nNodeName=node1\n"+
		"PartitionName=work Nodes=node1\n"), 0o644))
	code, stdout, stderr = call("plan", "attach")
	if code != 11 || !strings.Contains(stdout, "line 2: ResumeProgram=/other") {
		t.Errorf("another ResumeProgram: exit code %d, %s%s", code, stdout, stderr)
	}
	for _, args := range [][]string{
		{"enlarge", "cloud", "--to", "1"}, {"shrink", "cloud", "--to", "0"}, {"resize"}, {"image", "create", "cloud001"},
	} {
		if code, _, stderr := call(args...); code != 2 || !strings.Contains(stderr, "all.yml has control_node.existing") {
			t.Errorf("%q: exit code %d, %s", args, code, stderr)
		}
	}
	if after := listed(t, dir) + listed(t, bin); after != before {
		t.Errorf("files before:\n%safter:\n%s", before, after)
	}
	ok(t, os.WriteFile(filepath.Join(dir, "all.yml"), []byte(smallDeclaration), 0o644))
	if code, _, stderr := call("plan", "attach"); code != 1 || !strings.Contains(stderr, "has no control_node.existing") {
		t.Errorf("a control node that is made: exit code %d, %s", code, stderr)
	}
}

// listed returns the names of all files below a folder.
func listed(t *testing.T, dir string) (names string) {
	t.Helper()
	ok(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		names += path + "\n"
		return err
	}))
	return names
}

const smallDeclaration = `cluster_name: made
cloud: openstack
control_host: {address: 192.0.2.1}
login_user: debian
control_node: {image: i, flavor: f, network: n}
node_groups: [{name: cloud, flavor: f, max_nodes: 4}]
`
