package attach_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/generation"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
)

// join is a site's command: it copies the files of the control node, and fails for the nodes that are named in a file.
const join = `#!/usr/bin/python3
import json, os, subprocess, sys

task = json.load(sys.stdin)
here = os.path.dirname(os.path.abspath(sys.argv[0]))


def ssh(address, command, **options):
    return subprocess.run(["ssh", "-o", "BatchMode=yes", "-o", "UserKnownHostsFile=" + task["known_hosts"],
                           "-i", task["private_key_file"], task["login_user"] + "@" + address, command], **options)


files = "etc/hosts etc/munge/munge.key etc/slurm/slurm.conf etc/slurm/eiffel.conf etc/slurm/cgroup.conf etc/slurm/site"
tar = ssh(task["control_node"], "sudo tar -C / -c " + files, stdout=subprocess.PIPE, check=True).stdout
for node in task["nodes"]:
    with open(os.path.join(here, "refused")) as file:
        if node["name"] in file.read().split():
            result = {"node": node["name"], "status": "failed", "message": "the license server refuses it"}
            print(json.dumps(result), flush=True)
            continue
    ssh(node["address"], "sudo tar -C / -x && sudo mkdir -p /var/spool/slurmd.site && sudo service munge restart && "
        "sudo service slurmd restart", input=tar, stdout=sys.stderr, check=True)
    print(json.dumps({"node": node["name"], "status": "configured"}), flush=True)
`

// TestACommandOfTheSiteConfiguresTheNodes has nodes configured by a command. It fails for a node, whose job is requeued
// and then runs there. After that a reboot by Slurm makes the node anew.
func TestACommandOfTheSiteConfiguresTheNodes(t *testing.T) {
	generation.OnlyFull(t)
	before := lab.Sums(t, cluster.ControlNodeName)
	program, refused := filepath.Join(lab.Site, "join"), filepath.Join(lab.Site, "refused")
	for path, text := range map[string]string{program: join, refused: "node01\n"} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	lab.Redeclare(t, func(d *cluster.Declaration) { d.ControlNode.Configure = []string{program} })
	lab.Do(t, "attach")
	lab.Do(t, "deploy")

	job := lab.Job(t, "--partition=burst", "--nodelist=node01", harness.Until)
	lab.Eventually(t, harness.JobPatience, func() (bool, string) {
		restarts, err := lab.JobField(job, "Restarts")
		return restarts == "1", "the job has " + restarts + " restarts " + errorText(err)
	})
	if out := lab.Do(t, "explain", "node01"); !strings.Contains(out, "the license server refuses it") {
		t.Errorf("explain node01:\n%s", out)
	}
	if err := os.WriteFile(refused, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, harness.JobPatience, func() (bool, string) {
		lab.Hurry(t, job)
		state, err := lab.JobState(job)
		return state == "RUNNING", "job is " + state + " " + errorText(err)
	})
	lab.Reimage(t, "node01", job, "node01")
	lab.AwaitQuiet(t)
	lab.DestroyAndDetach(t, before)
}
